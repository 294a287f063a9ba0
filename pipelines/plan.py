"""Patterns in, a plan out: which server holds which partition, at the least cost found. Needs no Spark.

Also a script: ``python -m pipelines.plan PATTERNS --servers FILE --out FILE``, or by spark-submit, with the options of
``dtoss plan``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ceps
from ceps import Patterns, Plan, PlanDiff
from ceps.model.number_text import bytes_text, dollars, figure, how_many, per_cent
from ceps.model.patterns import WEEK
from ceps.model.problem import Progress
from ceps.offers.payment import LABELS
from ceps.plan.offer import Offer, safer_than
from ceps.plan.planning import KEEPS_APART
from ceps.plan.plans import DAYS_A_MONTH
from ceps.reporting.offer_rows import (
    PAYING,
    kinds,
    option_row,
    own_offer,
    payment_text,
    prices,
    range_sentence,
    risk_sentence,
    safer_sentence,
    saves,
)
from ceps.rollout.splits import split_advice
from dtoss.plain_numbers import is_whole, number_in
from pipelines.options.said_amounts import budget_of, share_of
from pipelines.plan_files import checksum, load_plan, load_servers, read_patterns, with_bytes

SHOWN = 40
"""Servers that the table shows at the most."""


MOST_SERVER = 2**53
"""The largest number of a server that a partition may be pinned to."""


def plan(
    patterns: str,
    servers: str,
    *,
    weekday: str | None = None,
    store: str | None = None,
    method: str = "fleet",
    previous: str | None = None,
    move_budget: str | None = None,
    pins: Sequence[str] = (),
    copies: int | None = None,
    spare: bool = False,
    progress: Progress | None = None,
    prove: float = 0.0,
    call_cost: float = 0.0,
    offer: str = "fixed",
    **options: Any,
) -> tuple[Plan, PlanDiff | None]:
    """Return the plan for a file of patterns, and what changes from the previous one.

    Parameters
    ----------
    patterns
        A file that ``dtoss patterns`` or :func:`ceps.write_patterns` wrote; the plan remembers it.
    servers
        A TOML file, or the name of a catalogue that comes along (``ceps.CATALOGUES``).
    weekday
        "monday" to "sunday", "mean" for the mean of all days, or "week", so that each weekday fits as it is; the week
        when None and the file knows weekdays.
    store
        Its current snapshot must have the patterns' pivots; bytes of partitions are taken from there.
    method
        As :func:`ceps.plan`, or "hourly" for that offer.
    previous
        The plan in force, a file.
    move_budget
        Bytes that may move for the sake of cost, such as 2e9, or a share of what is stored, such as 5%.
    pins
        Texts PARTITION=SERVER: the server of that number must hold the partition.
    copies
        Of each partition; those of the previous plan, or 1, when None.
    spare
        As :func:`ceps.plan`.
    progress
        Is told how far the search is.
    prove, call_cost
        As :func:`ceps.plan`.
    offer
        As :func:`ceps.rent`: "fixed", "hourly", "mixed" or "auto".
    options
        Utilisation, growth, seed, time_limit, risk, terms, zones, at_least and at_most_types of :func:`ceps.rent`.

    Raises
    ------
    InputError
        A file is missing or of no use, or patterns, plan and store are of different pivots.
    ValueError
        An argument is out of its bounds, or some partitions fit no server; the message names them.
    """
    began = monotonic()
    given = read_patterns(patterns, weekday)
    if store is not None:
        given = with_bytes(given, store)
    types = load_servers(servers)
    before = None if previous is None else load_plan(previous)
    copies = copies if copies is not None else before.copies if before is not None else 1
    if method == "hourly":
        method, offer = "fleet", "hourly"
    wanted: dict[str, Any] = {
        "method": method,
        "move_budget": budget_bytes(move_budget, given, copies),
        "pinned": pinned(pins, given) if pins else None,
        "spare": spare,
        "call_cost": call_cost,
        "previous": before,
        "progress": progress,
    }
    if offer in ("hourly", "mixed"):
        for name, value in (("--spare", spare), ("--pin", pins), ("--move-budget", move_budget),
                            ("--call-cost", call_cost)):  # fmt: skip
            if value:
                article = "an" if offer == "hourly" else "a"
                raise ValueError(f"{article} {offer} offer knows no {name}: ask for a fixed one, or leave it out")
    else:
        wanted |= {"prove": prove}
    week = read_patterns(patterns) if weekday in ("mean", "all") else given
    wanted["week"] = week if week.slots != given.slots else None
    made = ceps.rent(given, None, types, offer=offer, copies=copies, safer=True, **wanted, **options)
    source: dict[str, Any] = {"patterns": str(Path(patterns).absolute()), "patterns_sha256": checksum(patterns)}
    asked = ("risk", "zones", "at_least", "at_most_types")
    if method in KEEPS_APART and offer == "fixed" and not any((pins, call_cost, *map(options.get, asked))):
        limit = options.get("time_limit")
        advice = split_advice(given, made, None if limit is None else limit - (monotonic() - began))
        source |= {} if advice is None else {"advice": advice.to_dict()}
    made = replace(made, options={**made.options, **source}, extras={**made.extras, **grid_calls(given, made)})
    return made, None if before is None else ceps.diff(made, before)


def grid_calls(patterns: Patterns, made: Plan) -> dict[str, float]:
    """Return how many servers a request touches on the cheapest plain grid, by the name it has in a plan's extras.

    Nothing where the patterns do not say what requests read together, or have no places, or no grid holds them.
    """
    if patterns.reads is None or patterns.positions is None:
        return {}
    try:
        grid = ceps.plan(
            patterns, None, made.servers, 0, made.utilisation, "gp", copies=made.copies, growth=made.growth
        )
    except ceps.InfeasibleError:
        return {}
    return {"grid_servers_a_request": float(grid.extras["servers_a_request"])}


def budget_bytes(text: str | None, patterns: Patterns, copies: int) -> float | None:
    """Return a budget in bytes of a number or a percentage of all bytes.

    Examples
    --------
    >>> budget_bytes("5%", Patterns(loads=np.ones((2, 24)), sizes=np.array([300.0, 100.0])), 2)
    40.0
    """
    return None if text is None else budget_of(text, float(patterns.sizes.sum()) * copies)


GROWN = 10.0
"""The largest factor of growth that is taken as one without asking: 20 is more often meant as a percentage."""


def growth_factor(text: str) -> float:
    """Return the factor on all requests of a factor or of a percentage that comes on top.

    Examples
    --------
    >>> growth_factor("1.2"), growth_factor("20%"), growth_factor("-10 %"), growth_factor("1900%")
    (1.2, 1.2, 0.9, 20.0)
    """
    share = text.strip().endswith("%")
    try:
        value = number_in(text.strip().removesuffix("%").rstrip())
    except ValueError:
        raise ValueError(
            f"growth = {text!r}; it must be a factor such as 1.2, or a percentage such as 20%: 20 % more requests"
        ) from None
    if share:
        return float(f"{1 + value / 100:.12g}")
    if GROWN < value <= 1e9:
        raise ValueError(
            f"growth = {text}; as a factor that is {100 * (value - 1):,.6g} % more requests. For {text} % more write "
            f"{text}% or {1 + value / 100:g}; for {text} times as many write {100 * (value - 1):.6g}%"
        )
    return value


def risk_of(text: str | None) -> float | None:
    """Return a share of the requests of a text such as 0.1% or 0.001.

    Examples
    --------
    >>> risk_of("0.1%"), risk_of("0.001"), risk_of(None)
    (0.001, 0.001, None)
    """
    if text is None:
        return None
    with suppress(ValueError):
        value = share_of(text, "risk")
        if 0 < value < 1:
            return value
    raise ValueError(f"risk {text!r} is no share of the requests: write one such as 0.1%, or 0.001")


def pinned(pins: Sequence[str], patterns: Patterns) -> NDArray[np.int64]:
    """Return the server number of each partition, int64 (P,), -1 where none is named."""
    found = np.full(len(patterns), -1)
    row = {number: place for place, number in enumerate(patterns.partitions.tolist())}
    for text in pins:
        left, _, right = text.partition("=")
        if not (is_whole(left.strip()) and is_whole(right.strip()) and int(right) >= 0):
            raise ValueError(f"pin {text!r}: write PARTITION=SERVER, two numbers, such as 12=0")
        if int(left) not in row:
            raise ValueError(f"pin {text!r}: there is no partition {int(left)}; there are {len(patterns)}")
        place, server = row[int(left)], int(right)
        if server > MOST_SERVER:
            raise ValueError(f"pin {text!r}: the number of a server is at most {MOST_SERVER:,}")
        if found[place] not in (-1, server):
            raise ValueError(f"pin {text!r}: partition {int(left)} is pinned to server {found[place]} already")
        found[place] = server
    return found


def facts(made: Plan, changes: PlanDiff | None) -> dict[str, Any]:
    """Return what a program wants to know of a plan besides its file."""
    risk = made.risk or ceps.overload_risk(made)
    content: dict[str, Any] = {
        "method": made.method,
        "cost_per_day": made.cost_per_day,
        "cost_per_month": made.cost_per_month,
        "lower_bound": made.lower_bound,
        "gap": made.gap if np.isfinite(made.gap) else None,
        "servers": len(made),
        "least_servers": made.extras.get("least_servers"),
        "partitions": len(made.partitions),
        "utilisation": made.utilisation,
        "overload_risk": {
            "name": risk.name,
            "grade": risk.grade,
            "share": risk.overload,
            "worst_day": risk.worst_name,
            "worst": risk.worst,
        },
        "offers": [vars(one) for one in made.offers],
        "advice": made.options.get("advice"),
        "pivots_hash": made.pivots_hash,
        "servers_a_request": made.servers_a_request,
        "grid_servers_a_request": made.extras.get("grid_servers_a_request"),
    }
    if changes is not None:
        content["diff"] = {**vars(changes), "share_moved": changes.share_moved}
    return content


def server_rows(made: Plan) -> list[tuple[str, ...]]:
    """Return the rows of a table of servers, the header first and the sums last; at most :data:`SHOWN` servers."""
    rows: list[tuple[str, ...]] = [
        ("server", "type", "partitions", "bytes", "peak req/s", "busy at peak", "mean", "$ a day")
    ]
    hourly = made.types_by_hour
    dollars, whole = day_dollars(made)
    held = [len(made.members(k)) for k in range(len(made))]
    for k, number in enumerate(made.server_ids.tolist()[:SHOWN]):
        name = made.types[k].name
        if hourly is not None and len(set(hourly[k].tolist())) > 1:
            name = f"{name} at most"
        if k >= len(made) - made.spare:
            name = f"{name} (spare)"
        used = made.utilisation_by_slot[k]
        rows.append(
            (
                str(number),
                name,
                f"{held[k]:,}",
                bytes_text(made.bytes[k]),
                f"{figure(made.peaks[k])}",
                per_cent(used.max(initial=0.0)),
                per_cent(used.mean()),
                dollars[k],
            )
        )
    if len(made) > SHOWN:
        rest = sum((Decimal(text) for text in dollars[SHOWN:]), Decimal(0))
        rows.append(("...", f"and {len(made) - SHOWN:,} more", f"{sum(held[SHOWN:]):,}", *[""] * 4, str(rest)))
    rows.append(("all", how_many(len(made), "server"), f"{sum(held):,}", *[""] * 4, whole))
    return rows


def day_dollars(made: Plan) -> tuple[list[str], str]:
    """Return what each server costs a day, and all of them, in dollars of so many digits that the column adds up.

    Three digits, or as many as show each price as it is, six at the most. Beyond that the last servers carry what
    rounding leaves.
    """
    costs, whole = made.dollars_by_server.tolist(), made.cost_per_day
    for digits in range(3, 7):
        shown = [Decimal(f"{cost:.{digits}f}") for cost in costs]
        if sum(shown, Decimal(0)) == Decimal(f"{whole:.{digits}f}"):
            break
    step = Decimal(1).scaleb(-digits)
    left = int((Decimal(f"{whole:.{digits}f}") - sum(shown, Decimal(0))) / step)
    for k in range(abs(left)):
        shown[-1 - k % len(shown)] += step if left > 0 else -step
    return [str(cost) for cost in shown], f"{whole:.{digits}f}"


def summary(made: Plan, changes: PlanDiff | None) -> list[tuple[str, str]]:
    """Return what a user wants to know of a plan, as rows of two texts."""
    risk = made.risk or ceps.overload_risk(made)
    taken = own_offer(made)
    row = option_row(taken, None)
    period = "a week" if made.loads.shape[1] * made.slot_seconds == WEEK else "a day"
    dated = ", ".join(sorted({kind.date for kind in made.servers if kind.date}))
    held = f"{len(made.partitions):,}" + (f", {made.copies} copies each" if made.copies > 1 else "")
    rented = f"{how_many(len(made), 'server')}{kinds(row)}{payment_text(row)}"
    each_day = day_dollars(made)[1]
    rows = [
        ("rent", f"{rented}, resized hourly" if made.extras.get("resizes") else rented),
        ("cost", f"${made.cost_per_month:,.2f} a month, ${each_day} a day, {prices(row, dated)}"),
    ]
    if range_sentence(row):
        rows.append(("", range_sentence(row)))
    if taken.upfront:
        rows.append(("", f"of it {dollars(taken.upfront)} due at the start"))
    rows.append(("late", f"{risk_sentence(row)}: risk {risk.name}"))
    if risk.worst_name:
        rows.append(("", f"{per_cent(risk.overload)} of the requests of {period}, all days together"))
    safer = safer_than(made.offers, taken)
    if safer is not None:
        rows.append(("safer", safer_sentence(option_row(safer, None), row)))
    rows += saved_rows(made, taken)
    rows += [("bound", bound_text(made)), ("partitions", held)]
    if made.zones is not None:
        rows.append(("zones", f"{made.zones.max(initial=-1) + 1}: any one may be lost"))
    if made.servers_a_request is not None:
        rows.append(("calls", calls_text(made)))
    if "advice" in made.options:
        rows.append(("advice", made.options["advice"]["text"]))
    if changes is not None:
        rows += diff_rows(changes)
    return rows


def saved_rows(made: Plan, taken: Offer) -> list[tuple[str, str]]:
    """Return what placing saves beside a plain grid that is paid the same way, and what is saved by how it is paid."""
    grids = {one.pay: one.cost_per_day * DAYS_A_MONTH for one in made.offers if one.name == "grid"}
    listed = {one.pay: one.cost_per_day * DAYS_A_MONTH for one in made.offers if one.name == taken.name}
    placed = grids.get(taken.pay)
    before = grids if placed is not None else listed
    rows = []
    if placed is not None:
        rows.append(saves("placing", placed - made.cost_per_month, "against a plain grid paid the same way"))
    if taken.pay != "list" and {"list", taken.pay} <= before.keys():
        rows.append(saves(PAYING[taken.pay], before["list"] - before[taken.pay], "against the list price"))
    return [("" if number else "saved", text) for number, text in enumerate(rows)]


def calls_text(made: Plan) -> str:
    """Return how many servers a request touches, and on a plain grid where that is known."""
    grid = made.extras.get("grid_servers_a_request")
    return f"{made.servers_a_request:.2f} servers a request" + ("" if grid is None else f"; a plain grid {grid:.2f}")


def bound_text(made: Plan) -> str:
    """Return what no plan undercuts, in dollars or in servers where none costs anything, and how near the plan is.

    Examples
    --------
    >>> own = ceps.ServerType("own", 1000.0, np.inf, 0.0)
    >>> bound_text(ceps.plan(np.full((3, 24), 600.0), np.zeros(3), (own,), utilisation=1.0))
    'fewest servers: bound 2, the plan has 1 more'
    """
    if "least_servers" in made.extras and not made.cost_per_day:
        more = len(made) - int(made.extras["least_servers"])
        return f"fewest servers: bound {len(made) - more:,}, the plan has {f'{more:,}' if more else 'no'} more"
    if made.gap <= 1 + 1e-9:
        return f"${made.lower_bound:.3f} a day; the plan costs no more"
    if not made.lower_bound:
        return "none above $0 is known"
    looked = made.extras.get("proof_seconds")
    looking = f"; a cheaper plan was looked for {looked:g} s (--prove)" if looked else ""
    return f"${made.lower_bound:.3f} a day; the plan costs {per_cent(made.gap - 1)} more{looking}"


def offer_table(made: Plan) -> list[tuple[str, ...]]:
    """Return the rows of a table of offers, the header first, the recommended one marked; nothing of one alone."""
    if len(made.offers) < 2:
        return []
    rows: list[tuple[str, ...]] = [
        ("", "placement", "paid", "$ a month", "late on the worst day", "above its lower bound", "servers")
    ]
    for one in made.offers:
        ratio = one.cost_per_day / one.lower_bound - 1 if one.lower_bound else None
        late = "not modelled" if one.risk is None else per_cent(one.risk) + ("" if one.meets else ", too often")
        rows.append((
            "*" if one.recommended else "", one.label, LABELS[one.pay] + ("" if one.allowed else ", not allowed"),
            f"{one.cost_per_day * DAYS_A_MONTH:,.2f}", late,
            "" if ratio is None else per_cent(max(ratio, 0.0) if ratio > 1e-9 else 0.0), f"{one.servers:,}",
        ))  # fmt: skip
    return rows


def diff_rows(changes: PlanDiff) -> list[tuple[str, str]]:
    """Return what changes from one plan to the next, as rows of two texts."""

    def named(what: str, numbers: tuple[int, ...]) -> str:
        shown = ", ".join(map(str, numbers[:12])) + (", ..." if len(numbers) > 12 else "")
        return what + (f" ({shown})" if numbers else "")

    count = len(changes.partitions_moved)
    more = "more" if changes.dollars_per_day > 0 else "less"
    return [
        ("changes", f"${abs(changes.dollars_per_day):.3f} a day {more} than before"),
        ("", f"{bytes_text(changes.bytes_moved)} move, {per_cent(changes.share_moved)} of what is stored"),
        ("", how_many(count, "partition") + named(" moves" if count == 1 else " move", changes.partitions_moved)),
        ("", ", ".join((
            named(f"{len(changes.partitions_new):,} new", changes.partitions_new),
            named(f"{len(changes.partitions_gone):,} gone", changes.partitions_gone),
        ))),
        ("", "servers: " + ", ".join((
            named(f"{len(changes.servers_added):,} added", changes.servers_added),
            named(f"{len(changes.servers_removed):,} given back", changes.servers_removed),
            named(f"{len(changes.servers_resized):,} resized", changes.servers_resized),
        ))),
    ]  # fmt: skip


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("plan")
