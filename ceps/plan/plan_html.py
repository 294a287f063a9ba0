"""What a notebook shows of a plan: a small table, and a picture of how busy its servers are by the hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceps.model.number_text import how_many
from ceps.model.variation import WEEKDAYS
from ceps.reporting.kit.html_page import table

MOST_ROWS = 32
"""Servers in a picture; of more, the fullest."""
MOST_LISTED = 10
"""Servers in a table, the first ones."""
WEEK_HOURS, DAY_HOURS = 168, 24
_PERIODS = {WEEK_HOURS: "week", DAY_HOURS: "day"}


def plan_html(facts: Sequence[tuple[str, str]], servers: Sequence[Sequence[str]]) -> str:
    """Return two tables of HTML.

    ``facts``: what a fact of the plan is called, and what it is; ``servers``: of each server its number, type,
    partitions, peak in requests/s, and share of its capacity at the peak.
    """
    head = ("server", "type", "partitions", "requests/s at its peak", "of its capacity")
    caption = how_many(len(servers), "server")
    if len(servers) > MOST_LISTED:
        caption += f"; the first {MOST_LISTED}"
    listed = [tuple(map(_shortened, row)) for row in servers[:MOST_LISTED]]
    return table("ceps.Plan", ("", ""), facts, text=(1,)) + table(caption, head, listed, text=(1,))


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:40]}…{text[-39:]}"


def draw_servers(ax: Any, names: Sequence[str], busy: NDArray[np.float64]) -> Any:
    """Draw a row of shades for each server, a column for each hour, and return the Axes.

    ``ax``: matplotlib's Axes; a new figure's when None; ``busy``: float64 (N, hours), the largest share of its capacity
    that each server uses in each hour of a day or a week.
    """
    plots = pyplot()
    order = np.sort(np.argsort(-busy.max(axis=1, initial=0.0), kind="stable")[:MOST_ROWS])
    if ax is None:
        tall = 1.6 + 0.28 * max(len(order), 3)
        ax = plots.subplots(figsize=(9.0, tall), layout="constrained")[1]
    hours = busy.shape[1]
    period = _PERIODS.get(hours, "time")
    which = how_many(len(names), "server")
    if len(order) < len(names):
        which = f"the {len(order)} fullest of {which}"
    ax.set_title(f"How busy {which} {'is' if len(names) == 1 else 'are'} by the hour of the {period}", loc="left")
    ax.set_xlabel("day of the week" if hours == WEEK_HOURS else f"hour of the {period}")
    colours = plots.get_cmap("Blues").with_extremes(over="#c4302b")
    shown = busy[order] if len(order) else np.zeros((1, hours))
    image = ax.imshow(
        shown, cmap=colours, vmin=0.0, vmax=1.0, aspect="auto", extent=(0, hours, len(shown) - 0.5, -0.5),
        interpolation="nearest",
    )  # fmt: skip
    ax.set_yticks(range(len(order)), [_label(names[row]) for row in order.tolist()])
    if hours == WEEK_HOURS:
        ax.set_xticks(np.arange(7) * DAY_HOURS + DAY_HOURS / 2, [name[:3] for name in WEEKDAYS])
    else:
        ax.set_xticks(np.arange(0, hours + 1, max(hours // 8, 1)))
    over = bool((busy > 1 + 1e-9).any())
    bar = ax.figure.colorbar(image, ax=ax, extend="max" if over else "neither", format=_per_cent, pad=0.02)
    bar.set_label("share of capacity" + (", red above it" if over else ""))
    return ax


def draw_requests(
    ax: Any,
    names: Sequence[str],
    loads: NDArray[np.float64],
    capacity: NDArray[np.float64],
    slot_seconds: int,
) -> Any:
    """Draw the requests of all servers on top of one another, below what is rented, and return the Axes.

    ``ax``: matplotlib's Axes; a new figure's when None; ``loads``, ``capacity``: float64 (N, T), requests/s on each
    server by slot, and what it can answer.
    """
    plots = pyplot()
    if ax is None:
        ax = plots.subplots(figsize=(9.0, 4.5), layout="constrained")[1]
    slots = loads.shape[1]
    edges = np.arange(slots + 1) * slot_seconds / 3600
    few = plots.get_cmap("tab10").N
    below = np.zeros(slots)
    for number, (name, load) in enumerate(zip(names, loads, strict=True)):
        colour = plots.get_cmap("tab10")(number % few)
        # beyond ten servers a colour stands for many of them: a legend would name one
        label = _label(name) if len(names) <= few else None
        ax.stairs(below + load, edges, baseline=below, fill=True, color=colour, alpha=0.85, label=label)
        below = below + load
    ax.stairs(capacity.sum(axis=0), edges, baseline=None, color="black", linewidth=2, label="capacity rented")
    hours = edges[-1]
    period = _PERIODS.get(round(hours), "time")
    ax.set_title(f"Requests to {how_many(len(names), 'server')} by the hour of the {period}", loc="left")
    ax.set_ylabel("requests/s")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlim(0, hours)
    ax.set_ylim(bottom=0)
    if period == "week":
        ax.set_xlabel("day of the week")
        ax.set_xticks(np.arange(7) * DAY_HOURS + DAY_HOURS / 2, [name[:3] for name in WEEKDAYS])
    else:
        ax.set_xlabel(f"hour of the {period}")
        ax.set_xticks(np.arange(0, hours + 1, max(hours // 8, 1)))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return ax


def pyplot() -> Any:
    """Return matplotlib's pyplot."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ImportError(f"plan.plot() needs {error.name}: pip install 'dtoss[plot]'") from None
    return pyplot


def _per_cent(value: float, _: object = None) -> str:
    return f"{100 * value:.0f} %"


def _label(name: str) -> str:
    # a dollar sign begins what matplotlib reads as mathematics, and a leading underscore hides a name from a legend
    text = name if len(name) <= 40 else f"{name[:20]}…{name[-19:]}"
    return text.replace("$", r"\$")
