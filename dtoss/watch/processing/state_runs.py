"""Runs of the state that are open: looked up, searched for what is over, and made one.

Looks up objects in a run of the state, whose rows are by bucket and key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS, bucket_of
from dtoss.column_rows import take_rows
from dtoss.commits.columnar_files import decoding
from dtoss.commits.file_entry import map_entry
from dtoss.compiled.kernel import kernel
from dtoss.watch.index.large_and_small import NEVER_DUE
from dtoss.watch.processing.last_rows import RUN_OFFSETS, STAY_TYPE, STAYS_COLUMN, Before, Run, concatenated, keys_of
from dtoss.watch.watch_folder import STATE, Home

_OPEN = 256


@dataclass(frozen=True)
class OpenRun:
    """A run whose file is mapped."""

    key: NDArray[np.int64]  # int64 (rows,), by bucket and key
    t: NDArray[np.int64]  # int64 (rows,), by bucket and key
    ids: pa.Array  # (rows,)
    gone: NDArray[np.bool_]  # bool (rows,)
    offsets: NDArray[np.int64]  # int64 (buckets + 1,). Bucket b has the rows ``offsets[b]:offsets[b + 1]``
    columns: Mapping[str, pa.Array]  # All, by the names in the file

    def taken(self, rows: NDArray[np.int64]) -> Before:
        """Return some rows."""
        at = pa.array(rows)
        positions = np.stack([self.columns[axis].to_numpy()[rows] for axis in ("x", "y")], axis=1)
        return Before(
            self.key[rows],
            self.ids.take(at),
            self.t[rows],
            positions,
            self.columns["changes"].to_numpy()[rows],
            self.gone[rows],
            {name[2:]: column.take(at) for name, column in self.columns.items() if name.startswith("a:")},
            self.columns[STAYS_COLUMN].take(at) if STAYS_COLUMN in self.columns else pa.nulls(len(rows), STAY_TYPE),
        )

    @property
    def due(self) -> NDArray[np.int64]:
        """When something of a stay is full, int64 (rows,), the greatest number for never."""
        if STAYS_COLUMN not in self.columns:
            return np.full(len(self.t), NEVER_DUE)
        stays = self.columns[STAYS_COLUMN]
        due = pc.if_else(stays.is_valid(), stays.field("due"), NEVER_DUE)
        return np.asarray(due.to_numpy(zero_copy_only=False))

    def bucket_of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bucket of some rows, int64 (n,)."""
        return np.searchsorted(self.offsets, rows, "right") - 1

    def found(self, asked: Asked, live: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the row of each object, int64 (n,), -1 where there is none in the buckets that are live."""
        found = np.full(len(asked.key), -1, np.int64)
        open_ = np.flatnonzero(live[asked.bucket])
        at = np.empty(len(open_), np.int64)
        first_of_keys(self.key, self.offsets, asked.bucket[open_], asked.key[open_], at)
        open_, at = open_[at >= 0], at[at >= 0]
        if pa.types.is_integer(self.ids.type):
            found[open_] = at
            return found
        while len(open_):  # texts of one hash follow one another
            equal = np.asarray(pc.equal(self.ids.take(pa.array(at)), asked.ids.take(pa.array(open_))))
            found[open_[equal]] = at[equal]
            open_, at = open_[~equal], at[~equal] + 1
            alike = at < self.offsets[asked.bucket[open_] + 1]
            alike[alike] = self.key[at[alike]] == asked.key[open_[alike]]
            open_, at = open_[alike], at[alike]
        return found


@dataclass(frozen=True)
class Asked:
    """Objects that are looked for."""

    bucket: NDArray[np.int64]  # int64 (n,)
    key: NDArray[np.int64]  # int64 (n,)
    ids: pa.Array  # (n,)

    @classmethod
    def of(cls, ids: pa.Array) -> Asked:
        """Return objects by their ids."""
        return cls(bucket_of(ids), keys_of(ids), ids)

    take = take_rows


_opened: dict[tuple[Home, str], OpenRun] = {}


def open_run(home: Home, name: str) -> OpenRun:
    """Return a run by the name of its file, mapped; it stays open as long as commits name it."""
    found = _opened.get((home, name))
    if found is None:
        while len(_opened) >= _OPEN:
            _opened.pop(next(iter(_opened)), None)
        found = _opened[home, name] = _open(home, name)
    return found


def _close_others(home: Home, runs: Sequence[Run]) -> None:
    """Close runs that are named no more: a file that is removed has its room on the disk until then."""
    names = {run.name for run in runs}
    for key in [key for key in _opened if key[0] == home and key[1] not in names]:
        _opened.pop(key, None)


def _open(home: Home, name: str) -> OpenRun:
    data = map_entry(home.folder, STATE, name, "restore it from a copy")
    with decoding(home.folder.path(STATE, name)):
        batch = pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)
        offsets = np.frombuffer((batch.schema.metadata or {})[RUN_OFFSETS], np.int64)
        if len(offsets) != BUCKETS + 1 or offsets[-1] != batch.num_rows:
            raise ValueError("its buckets do not cover it")
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        gone = columns["gone"].to_numpy(zero_copy_only=False)
        return OpenRun(columns["key"].to_numpy(), columns["t"].to_numpy(), columns["id"], gone, offsets, columns)


@dataclass(frozen=True)
class Layer:
    """A run, and the buckets of it that count for a task."""

    number: int  # Of the run in the commit, oldest first
    run: OpenRun
    live: NDArray[np.bool_]  # bool (buckets,)

    @property
    def size(self) -> int:
        """How many rows count."""
        return int(np.diff(self.run.offsets)[self.live].sum())

    def rows(self) -> NDArray[np.bool_]:
        """Return which rows count, bool (rows,)."""
        return np.repeat(self.live, np.diff(self.run.offsets))


def layers_of(home: Home, runs: Sequence[Run], buckets: NDArray[np.int64]) -> tuple[Layer, ...]:
    """Return the runs that have some of a task's buckets, oldest first."""
    _close_others(home, runs)
    mine = np.zeros(BUCKETS, np.bool_)
    mine[buckets] = True
    found = []
    for number, run in enumerate(runs):
        live = np.zeros(BUCKETS, np.bool_)
        live[run.buckets] = True
        live &= mine
        if live.any():
            found.append(Layer(number, open_run(home, run.name), live))
    return tuple(found)


def newest(layers: Sequence[Layer], asked: Asked) -> list[Before]:
    """Return the newest row of each object, run by run; O(objects log rows) for each run."""
    found = []
    for layer in reversed(layers):
        if len(asked.key) == 0:
            break
        at = layer.run.found(asked, layer.live)
        found.append(layer.run.taken(at[at >= 0]))
        asked = asked.take(np.flatnonzero(at < 0))
    return found


def ids_until(layers: Sequence[Layer], limit: int, kind: pa.DataType, *, due: bool = False) -> pa.Array:
    """Return the ids of objects whose newest row is not later than a time; all times are looked at.

    ``due``: instead, of which something of a stay is full by then.
    """
    late = [pa.array([], kind)]
    for number, layer in enumerate(layers):
        rows = np.flatnonzero((layer.run.due if due else layer.run.t) <= limit)
        if len(rows) == 0:
            continue
        bucket = layer.run.bucket_of_rows(rows)
        counts = layer.live[bucket] & ~layer.run.gone[rows]
        rows, bucket = rows[counts], bucket[counts]
        asked = Asked(bucket, layer.run.key[rows], layer.run.ids.take(pa.array(rows)))
        for newer in layers[number + 1 :]:
            asked = asked.take(np.flatnonzero(newer.run.found(asked, newer.live) < 0))
        late.append(asked.ids)
    return pa.concat_arrays(late)


def merged(
    layers: Sequence[Layer],
    asked: Asked,
    fresh: Before,
    kinds: Mapping[str, pa.DataType],
    whole: bool,
) -> tuple[NDArray[np.int64], Before]:
    """Return the buckets and rows of runs and of what came, of each object the newest.

    ``layers``: the runs, oldest first; ``kinds``: the columns that are kept.
    """
    newer, parts = [asked], [fresh]
    for layer in reversed(layers):
        stands = layer.rows()
        for one in newer:
            at = layer.run.found(one, layer.live)
            stands[at[at >= 0]] = False
        rows = np.flatnonzero(stands)
        taken = layer.run.taken(rows)
        newer.append(Asked(layer.run.bucket_of_rows(rows), taken.key, taken.ids))
        parts.append(taken)
    rows_of_all = concatenated(parts, kinds, fresh.ids.type)
    bucket = np.concatenate([one.bucket for one in newer])
    if whole and rows_of_all.gone.any():
        there = np.flatnonzero(~rows_of_all.gone)
        return bucket[there], rows_of_all.take(there)
    return bucket, rows_of_all


_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel(f"void({_READ}, {_READ}, {_READ}, {_READ}, int64[::1])")
def first_of_keys(keys, offsets, buckets, wanted, out):
    """Write the first row of each key in its bucket.

    ``keys``: int64 (rows,). Of the run; ``offsets``: int64 (buckets + 1,). Bucket b has the rows ``offsets[b]:offsets[b
    + 1]``; ``buckets``, ``wanted``: int64 (n,). The bucket and the key of each object that is looked for; ``out``:
    int64 (n,). -1 where the key is not in the bucket.
    """
    for i in range(wanted.size):
        low, high = offsets[buckets[i]], offsets[buckets[i] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low if low < end and keys[low] == wanted[i] else -1
