"""The second step of a batch: patches into panes, and results, as rows, of ends that are due or have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.windows.aggregation.pane_cells import Cells, Incoming, Numbers, incoming_of, replace_cells, sorted_cells
from dtoss.windows.aggregation.pane_state import Columns, PaneState, closed_with
from dtoss.windows.aggregation.slots import Slots, different
from dtoss.windows.aggregation.sweep import Snapshot, Sweep
from dtoss.windows.patches import Patches
from dtoss.windows.spec import Spec

ROWS = 1 << 15
"""Ends times keys of a piece of results: what bounds memory."""
_NUMBERS = 1 << 21
"""Numbers in a piece of results: memory that is taken, filled and given back again is cheap up to some megabytes."""


@dataclass(frozen=True)
class GroupsStep:
    """What came of a batch for some groups."""

    results: pa.Table  # By end and key, of :attr:`Columns.results`: ends newly due, and due ones that have changed
    after: PaneState  # The state, folded to the horizon of the new watermark
    rows: int  # How many rows of results there are, also where they were handed on piece by piece
    revised: int  # How many of them are new revisions of ends that were due before


def groups_step(
    spec: Spec,
    before: PaneState,
    patches: Patches | Incoming,
    watermark_before: int | None,
    watermark_after: int | None,
    *,
    piece: int = ROWS,
    into: Callable[[pa.Table], object] | None = None,
    told_after: int | None = None,
) -> GroupsStep:
    """Return the results of a batch for some groups, and their state after it.

    ``patches``: of these groups only, of all tasks; ``watermark_before``, ``watermark_after``: microseconds; None
    before the first row. It does not go back; ``piece``: rows (ends times keys) that are held at once; at least one end
    is; ``into``: what each piece of the results is handed to, in order; they are not in the answer then;
    ``told_after``: of a first batch: only ends after this time, in microseconds, have results; None tells all.

    A newly due end costs what enters and leaves, and a row for each key: O(entries + ends (keys + 1)) for each length,
    however long it is. Ends that were due already are swept twice, before and after the patches, and only for the keys
    that these are about.
    """
    if watermark_before is not None and (watermark_after is None or watermark_after < watermark_before):
        raise ValueError(f"the watermark goes back from {watermark_before} to {watermark_after}")
    columns = Columns(spec)
    piece = min(piece, _NUMBERS // max(1, len(columns.measured)) + 1)
    incoming = patches if isinstance(patches, Incoming) else incoming_of(spec, patches)
    state = before.with_patches(incoming)
    if watermark_after is None:
        return GroupsStep(columns.results.empty_table(), state, 0, 0)
    final_until = watermark_after - spec.late
    base = before.base
    if base is None:
        base = _pane_of(spec, final_until if watermark_before is None else watermark_before - spec.late)
        if watermark_before is None and state.least_open is not None:
            base = min(base, state.least_open)
        state = replace(state, base=base)
    old = replace(before, base=base)
    pieces: list[pa.Table] = []
    out = pieces.append if into is None else into
    counts = [0, 0]
    revisions = before.revisions
    if watermark_before is not None:
        revised: list[Cells] = [revisions]
        for table in _revisions(columns, old, state, incoming, watermark_before, final_until, piece):
            end, key, number = (table.column(name).to_numpy() for name in ("end", "key", "revision"))
            revised.append(sorted_cells(end, key[:, None], number[:, None]))
            counts = [counts[0] + len(table), counts[1] + len(table)]
            out(table)
        for more in revised[1:]:
            revisions = replace_cells(revisions, more)
    sweep = Sweep(columns, state, Slots(_keys_of(state)), _pane_of(spec, watermark_after))
    base = max(base, _pane_of(spec, final_until))
    snapshot: list[Snapshot] = []
    since = told_after if watermark_before is None else watermark_before
    for table in _due(columns, sweep, state, since, watermark_after, base, piece, snapshot):
        counts[0] += len(table)
        out(table)
    results = pa.concat_tables(pieces) if pieces else columns.results.empty_table()
    return GroupsStep(results, _folded(columns, state, sweep, snapshot[0], base, revisions), *counts)


def _pane_of(spec: Spec, microseconds: int) -> int:
    return microseconds // spec.pane


def _keys_of(state: PaneState) -> Numbers:
    cells = (state.sums, state.bins.open, state.queues, state.maxima, state.bin_counts)
    return different([state.keys, *(one.labels[:, 0] for one in cells)])


def _ends_after(spec: Spec, after: int, until: int) -> tuple[int, int]:
    """Return the first end after a time and how many there are until another, both in microseconds."""
    first = (after // spec.slide + 1) * spec.slide
    return first, max(0, (until - first) // spec.slide + 1)


def _revisions(
    columns: Columns,
    old: PaneState,
    new: PaneState,
    incoming: Incoming,
    watermark: int,
    final_until: int,
    piece: int,
) -> Iterator[pa.Table]:
    """Yield what has changed of ends that were due: the rows of keys whose values are others than before."""
    spec = columns.spec
    due = _pane_of(spec, watermark)
    keys = different(incoming.keys_before(due))
    if len(keys) == 0 or incoming.first is None:
        return
    slots = Slots(keys)
    first, count = _ends_after(spec, incoming.first * spec.pane, watermark)
    were, are = Sweep(columns, old, slots, due), Sweep(columns, new, slots, due)
    stride, most = spec.slide // spec.pane, max(1, piece // len(keys))
    for begin in range(0, count, most):
        ends = first + spec.slide * np.arange(begin, min(begin + most, count))
        pane = int(ends[0]) // spec.pane
        block = are.block(pane, stride, len(ends))
        changed = (block != were.block(pane, stride, len(ends))).any(axis=0)
        if changed.any():
            revisions = told_before(new.revisions, ends, keys)[changed] + 1
            yield table_of(columns, block, changed, ends, keys, revisions, final_until)


def _due(
    columns: Columns,
    sweep: Sweep,
    state: PaneState,
    since: int | None,
    watermark_after: int,
    base: int,
    piece: int,
    snapshot: list[Snapshot],
) -> Iterator[pa.Table]:
    """Yield the results of ends newly due; the snapshot is taken where the sweep comes to the new base."""
    spec = columns.spec
    assert state.base is not None
    after = state.base * spec.pane if since is None else since
    first, count = _ends_after(spec, after, watermark_after)
    stride, keys = spec.slide // spec.pane, sweep.keys.keys
    most = max(1, piece // max(1, len(keys)))
    sweep.moved(min(base, first // spec.pane))
    at = 0
    while at < count and len(keys):
        end = first + at * spec.slide
        if not snapshot and end > base * spec.pane:
            sweep.moved(base)
            snapshot.append(sweep.snapshot())
        last = count if snapshot else min(count, (base * spec.pane - first) // spec.slide + 1)
        ends = end + spec.slide * np.arange(min(most, last - at))
        block = sweep.block(end // spec.pane, stride, len(ends))
        there = rows_of(columns, block)
        if there.any():
            yield table_of(
                columns, block, there, ends, keys, np.zeros(int(there.sum()), np.int64), watermark_after - spec.late
            )
        at += len(ends)
        if not there[-1].any():
            # nothing is left of what came: on to the next that comes
            coming = sweep.next_entry()
            skipped = count if coming is None else (coming * spec.pane - first) // spec.slide + 1
            at = max(at, min(skipped, last))
    if not snapshot:
        sweep.moved(base)
        snapshot.append(sweep.snapshot())


def _folded(
    columns: Columns, state: PaneState, sweep: Sweep, taken: Snapshot, base: int, revisions: Cells
) -> PaneState:
    """Return the state with its base moved on: what comes before it is in running sums and queues only."""
    assert state.base is not None
    since = base - columns.spec.longest
    standing = taken.running.any(axis=0)
    closing = state.sums.between(since, base).columns(range(len(columns.sliding)))
    later = int(np.searchsorted(revisions.pane, base * columns.spec.pane, "right"))
    return PaneState(
        base,
        sweep.keys.keys[standing],
        np.ascontiguousarray(taken.running[:, standing]),
        closed_with(state.closed_sums, closing, since),
        state.sums.between(base, _LATEST),
        state.flow.folded(base, since),
        state.bins.folded(base, since),
        taken.bin_counts,
        taken.queues,
        state.maxima.between(base, _LATEST),
        revisions.take(slice(later, None)),
    )


_LATEST = 1 << 62


def rows_of(columns: Columns, block: Numbers) -> NDArray[np.bool_]:
    """Return which ends and keys of a block have any value, bool (ends, keys)."""
    flat = block.reshape(len(block), block.shape[1] * block.shape[2])
    there, plain = np.zeros(flat.shape[1], np.bool_), len(flat) - columns.speeds
    empty = np.arange(len(there))
    for row in (*reversed(range(plain)), *range(plain, len(flat))):  # sums of the longest first
        some = flat[row].take(empty) != (0 if row < plain else -1)
        there[empty[some]] = True
        empty = empty[~some]
        if len(empty) == 0:
            break
    return there.reshape(block.shape[1:])


def table_of(
    columns: Columns,
    block: Numbers,
    there: NDArray[np.bool_],
    ends: Numbers,
    keys: Numbers,
    revisions: Numbers,
    final_until: int,
) -> pa.Table:
    """Return rows of a block as a table, by end and key.

    ``block``: int64 (columns, ends, keys); ``there``: bool (ends, keys). The rows; ``ends``, ``keys``: microseconds of
    the ends, and the keys; ``revisions``: int64 (rows,); ``final_until``: the latest end that does not change any more,
    in microseconds.
    """
    flat, rows = block.reshape(len(block), there.size), np.flatnonzero(there)
    if len(rows) < there.size:
        flat = flat.take(rows, axis=1)
    end = ends.repeat(len(keys)).take(rows)
    made: dict[str, pa.Array] = {
        "end": pa.array(end),
        "key": pa.array(np.tile(keys, len(ends)).take(rows)),
        "revision": pa.array(revisions),
        "final": pa.array(end <= final_until),
    }
    made |= dict(zip(columns.measured, _arrays(flat, columns.speeds), strict=True))
    return pa.table([made[field.name] for field in columns.results], schema=columns.results)


def _arrays(values: Numbers, speeds: int) -> list[pa.Array]:
    """Return rows of numbers as arrays over the same memory; the last ``speeds`` of them are null where below 0."""
    held, wide = pa.py_buffer(values), values.shape[1] * values.itemsize
    bits = np.packbits(values[len(values) - speeds :] >= 0, axis=1, bitorder="little")
    valid = [None] * (len(values) - speeds) + [pa.py_buffer(row) for row in bits]
    return [
        pa.Array.from_buffers(pa.int64(), values.shape[1], [mask, held.slice(i * wide, wide)])
        for i, mask in enumerate(valid)
    ]


def put_in_order(columns: Columns, values: Mapping[str, Numbers], keys: Numbers) -> pa.Table:
    """Return values of one end by key, without an end: as answers to questions have them."""
    made = {"key": pa.array(keys)}
    for field in columns.results:
        if field.name in values:
            column = values[field.name]
            made[field.name] = pa.array(column, mask=column < 0) if columns.is_speed(field.name) else pa.array(column)
    return pa.table(made)


def told_before(revisions: Cells, ends: Numbers, keys: Numbers) -> Numbers:
    """Return the last revision of each end and key, int64 (ends, keys); 0 where nothing was revised.

    ``ends``: int64, in microseconds; ``keys``: int64, rising.
    """
    found = np.zeros((len(ends), len(keys)), np.int64)
    at_end, at_key = Slots(ends).of(revisions.pane), Slots(keys).of(revisions.labels[:, 0])
    mine = (at_end >= 0) & (at_key >= 0)
    found[at_end[mine], at_key[mine]] = revisions.values[mine, 0]
    return found
