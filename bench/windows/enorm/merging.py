"""Which partial results make a window, at least cost (section 6.1, Figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.windows.enorm.spans import Span, Window

Weigh = Callable[[Span], int | None]
"""What taking a piece costs: its keys. None where there is no such piece."""


def pieces(span: Span, given: Sequence[Window], weigh: Weigh, own: Sequence[Window] = ()) -> list[Span] | None:
    """Return the pieces that make a span at least cost, then fewest, in order; None where none fit.

    Parameters
    ----------
    span : the window's instance.
    given : what comes from upstream. An instance without rows is no piece, and costs nothing.
    weigh : the cost of a piece.
    own : windows that were completed here, and may be pieces where they are known.
    """
    begin, end = span
    best: dict[int, tuple[int, int, int, Span]] = {begin: (0, 0, begin, span)}
    waiting = {begin}
    while waiting:
        at = min(waiting)
        waiting.remove(at)
        if at == end:
            return _walked(best, begin, end)
        cost, count, *_ = best[at]
        for window in {*given, *own}:
            there = (at, at + window.length)
            if there[1] > end or not window.begins(at) or (there == span and window not in given):
                continue
            weight = weigh(there)
            if weight is None and window not in given:
                continue
            offered = (cost + (weight or 0), count + 1, at, there)
            if there[1] not in best or offered[:2] < best[there[1]][:2]:
                best[there[1]] = offered
                waiting.add(there[1])
    return None


def _walked(best: dict[int, tuple[int, int, int, Span]], begin: int, end: int) -> list[Span]:
    taken = []
    while end != begin:
        *_, end, piece = best[end]
        taken.append(piece)
    return taken[::-1]


def merges(windows: Sequence[Window], pane: Window, upto: int, efficient: bool = True) -> int:
    """Return how many pieces go into all instances that end in the first ``upto``, where every pane has rows.

    Naive (Figure 8) makes each window of panes; efficient (Figure 7) also of shorter windows that are complete.
    """
    spans = {span for one in windows for span in one.touching(0, upto) if span[0] >= 0 and span[1] <= upto}
    known = set(pane.touching(0, upto))
    total = 0
    for span in sorted(spans, key=lambda one: (one[1], one[1] - one[0])):
        if efficient:
            found = pieces(span, [pane], lambda one: 1 if one in known else None, windows)
            assert found is not None
            total += len(found)
            known.add(span)
        else:
            total += (span[1] - span[0]) // pane.length
    return total


def merges_an_end(windows: Sequence[Window], pane: Window, efficient: bool = True) -> int:
    """Return how many pieces go into the instances of one end, once all windows are full."""
    cycle = max(window.length for window in windows)
    step = max(window.frequency for window in windows)
    before = merges(windows, pane, 2 * cycle, efficient)
    return merges(windows, pane, 2 * cycle + step, efficient) - before


def running_sums(windows: Sequence[Window]) -> int:
    """Return what sliding needs an end: the pane that enters and the one that leaves, of each window."""
    return 2 * len(windows)
