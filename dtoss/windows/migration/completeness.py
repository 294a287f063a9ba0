"""From when on a set that began from the state of another one is whole, and when the other one has said its last word.

A set that begins beside another one is given the rows that the other one still knows of each object: all that may
change yet, and the last one before. So it does not begin with nothing.

- **known_from.** The other set has taken no row before its watermark less its ``late`` for some time, and it knows all
  that it has taken from there on. From the pane that begins then on the new set knows every row. A row that either of
  the two specs would have refused where the other took it moves that on: one between the two watermarks less ``late``,
  or one that was ahead of the clock where ``max_ahead`` differs.
- **since.** A window that ends at e holds rows from e less its length on. So from ``known_from`` and the longest length
  on all rows of all windows are there. A move needs the row before, up to ``max_gap`` earlier, and ``here`` one up to
  ``expire`` earlier. These are last rows of objects, which the other set knows for as long as its own windows need
  them. Where the new ones need them for longer, what is missing is added.
- **full_at.** Ends before ``since`` are the other set's. Rows may change them until they lie ``late`` behind its
  watermark; so long both sets count each batch.

With the same panes, longest length, ``witnesses``, ``delay``, ``late`` and ``max_ahead`` the watermark of the new set
is that of the other one from the beginning on: it judges each row as a set that had always run. Otherwise it is what
the new spec makes of the objects that are known. That is the one of a set that had always run as soon as both have the
same objects within the longest window, where as many as are wanted agree on the pane.
"""

from __future__ import annotations

from dataclasses import dataclass

from dtoss.errors import InputError
from dtoss.windows.backfill.affected_ends import reach_of
from dtoss.windows.durations import duration_text
from dtoss.windows.spec import LAST_TIME, Spec
from dtoss.windows.storage.window_document import Document
from dtoss.windows.trajectories.fold_horizon import memory_of
from dtoss.windows.watermark import IN_FUTURE


@dataclass(frozen=True)
class Whole:
    """When a set is whole, in microseconds since 1970; see the module."""

    known_from: int  # All rows from then on are counted in it
    since: int  # Its first end
    full_at: int  # The watermark of the set before at which no earlier end can change any more


def same_watermark(one: Spec, other: Spec) -> bool:
    """Return whether two specs judge the same rows alike, and have the same watermark after them."""
    return _judging(one) == _judging(other)


def _judging(spec: Spec) -> tuple[object, ...]:
    return spec.pane, spec.longest, spec.witnesses, spec.delay, spec.late, spec.max_ahead


def check_begins(name: str, before: Spec, spec: Spec) -> None:
    """Check that a set can begin from the state of another one."""
    if before.space != spec.space:
        raise InputError(
            f"windows {name} are of positions in {before.space.crs} ({before.space.metric}), and "
            f"{spec.space.crs} ({spec.space.metric}) is asked for: rows that were read mean other places; give another "
            "name (--name NAME)"
        )
    if reach_of(spec) == LAST_TIME > memory_of(before):
        raise InputError(
            f"here is asked for without --expire, and windows {name} have forgotten objects that were silent for "
            f"{duration_text(memory_of(before))}: give --expire, or another name (--name NAME) and all files"
        )


def whole_from(before: Spec, head: Document, spec: Spec, watermark: int, newest: int) -> Whole:
    """Return when a set is whole that begins from the state of another one.

    ``watermark``: with which it begins, in microseconds since 1970.

    Examples
    --------
    >>> from dtoss.commits.chain import Commit
    >>> from dtoss.windows.storage.window_folder import Home
    >>> from dtoss.geometry.space import space_of
    >>> from dtoss.windows.spec import spec_of
    >>> plane, second = space_of(None, "plane"), 1_000_000
    >>> old = spec_of("1min", "1min", "rows", "partition", plane, "a", late="5min")
    >>> new = spec_of("1min", "1min", "rows,speed", "partition", plane, "b", late="5min", max_gap="3min")
    >>> head = Document(Home("s", "w"), Commit(7, {}, None, "", ""), {}, 3600 * second, 3540 * second)
    >>> found = whole_from(old, head, new, 3600 * second, 3630 * second)
    >>> [time // second - 3600 for time in (found.known_from, found.since, found.full_at)]
    [-300, 60, 300]
    """
    assert head.watermark is not None
    known = head.watermark - before.late
    if not same_watermark(before, spec):
        known = max(known, watermark - spec.late)
    if before.max_ahead != spec.max_ahead:
        known = max(known, newest + 1)
        if head.commit.document["reasons_total"].get(IN_FUTURE):
            known = max(known, head.commit.document["batch"]["wall_us"] + max(before.max_ahead, spec.max_ahead))
    known = _up(known, spec.pane)
    missing = max(0, reach_of(spec) - memory_of(before))
    since = max(_up(known + missing + spec.lengths[-1], spec.slide), _up(watermark + 1, spec.slide))
    last = (since - 1) // before.slide * before.slide
    return Whole(known, since, max(since, last + before.late))


def _up(time: int, step: int) -> int:
    return -(-time // step) * step
