"""The highest rate that keeps a limit: by doubling and halving in short windows, then held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log10

from dtoss.errors import InputError
from pipelines.calibration.senders import Window

FIRST = 250.0
"""Requests/s that are tried first."""
LEAST = 0.5
"""Requests/s below which nothing is tried."""
NEAR = 1.04
"""The search ends where what is held and what is not are so near."""
HOLDS = 6
"""Rates that are tried for the whole time, each a little lower than the last."""
STEP = 0.95
"""By how much, at first; each step is as much longer."""
LATE = 0.1
"""Share of the limit by which senders may come late to 1 % of the requests."""
AGAIN = 3
"""How often a window is measured that was missed because the senders were late."""
ON_TIME = 0.001
"""Seconds that are never late: a system wakes nobody more exactly when others are busy."""
SPARE = 0.1
"""Share of the time in which a sender has nothing to do, at the least: else the server waits for it."""
REFUSED = (400, 401, 403, 404, 405, 413, 414, 429, 431)
"""Statuses that say that such requests are not answered, however few there are."""

Measure = Callable[[float, float], Window]
"""Measures at a rate for so many seconds."""


@dataclass(frozen=True)
class Held:
    """The highest rate that was held."""

    window: Window  # What was seen, for the whole time
    tried: tuple[Window, ...]  # All that was measured, in turn


def highest(
    measure: Measure, limit: float, seconds: float, quick: float, say: Callable[[Window], None] = lambda window: None
) -> Held:
    """Return the highest rate at which 99 % of the requests are answered within a limit.

    ``limit``: seconds that 99 % of requests may take; ``seconds``: for how long the rate has to be held; ``quick``:
    seconds of the windows by which it is looked for.
    """
    tried: list[Window] = []

    def kept(rate: float, span: float) -> bool:
        for _ in range(AGAIN):
            window = measure(rate, span)
            tried.append(window)
            say(window)
            _check(window)
            if window.p99 <= limit or not late(window, limit):
                break
        return window.p99 <= limit

    low, high = 0.0, FIRST
    while kept(high, quick):
        low, high = high, 2 * high
    while low == 0.0:
        if high / 2 < LEAST:
            least = min(window.p99 for window in tried)
            _refuse(tried, limit)
            raise InputError(
                f"p99 was {1000 * least:.3g} ms at best, the limit is {1000 * limit:g} ms: raise it (--p99)"
            )
        if kept(high / 2, quick):
            low = high / 2
        else:
            high /= 2
    while high / low > NEAR:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if kept(middle, quick) else (low, middle)
    for attempt in range(HOLDS):
        rate = rounded_down(low * STEP ** (attempt * (attempt + 1) / 2))
        if kept(rate, seconds):
            _refuse(tried, limit)
            return Held(tried[-1], tuple(tried))
    _refuse(tried, limit)
    raise InputError(
        f"{rate:g} requests/s were not kept for {seconds:g} s, though more were for {quick:g} s: is something else "
        "busy on these machines?"
    )


def late(window: Window, limit: float) -> bool:
    """Return whether the senders came so late, or had so much to do, that what was measured is their slowness."""
    return window.lag > max(LATE * limit, ON_TIME) or window.spare < SPARE


def rounded_down(rate: float) -> float:
    """Return a rate with three digits, not above it.

    Examples
    --------
    >>> rounded_down(12_399.0), rounded_down(0.98765), rounded_down(250.0)
    (12300.0, 0.987, 250.0)
    """
    unit = 10.0 ** (floor(log10(rate)) - 2)
    return round(floor(rate / unit * (1 + 1e-12)) * unit, 12)


def _check(window: Window) -> None:
    for status in REFUSED:
        if window.statuses[status] > 0.01 * window.statuses.total():
            why = "; without a rate limit (--rate) it may answer more" if status == 429 else ""
            raise InputError(
                f"the server answers {window.statuses[status]:,} requests with {status}, not with 200{why}"
            )


def _refuse(tried: Sequence[Window], limit: float) -> None:
    """Refuse a figure whose bound is that the senders were late, and not that the server was slow."""
    last = {window.rate: window for window in tried}
    missed = [window for window in last.values() if window.p99 > limit]
    lowest = min(missed, key=lambda window: window.rate, default=None)
    if lowest is not None and late(lowest, limit):
        raise InputError(
            f"the senders were the slow ones: at {lowest.rate:,.0f} requests/s the busiest had "
            f"{lowest.spare:.0%} of its time to spare, and requests were sent up to {1000 * lowest.lag:.3g} ms late "
            "(p99); the server may answer more: ask from another machine, or by more --processes"
        )
