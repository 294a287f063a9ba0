"""What stands: a snapshot and rows of the log merged with it, by the rule of cycles; and the newest of these."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss import merge_rows as merging
from dtoss.commits.chain import Commit
from dtoss.erasure.forgotten import ForgottenIds, forgotten_in
from dtoss.errors import DtossError, InputError, StoreError
from dtoss.index import Index
from dtoss.mapped_index import Verify
from dtoss.merge_rows import ATTRIBUTE, Counts, record_of, verdicts_of
from dtoss.names import near_name, position_names
from dtoss.opening import open_index
from dtoss.partition import numbers, values_of
from dtoss.rows.store_clock import Scale
from dtoss.save_index import TIME
from dtoss.snapshots.read_file import tombstones_of
from dtoss.snapshots.retention import snapshot_of
from dtoss.snapshots.store import Store

NEWER, UNCHANGED, LATE, UNUSABLE = 1, 0, -1, -2
"""What becomes of a row: it counts, says what stands, is older than that, or a cycle would set it aside."""


@dataclass(frozen=True)
class TooOld:
    """From when on deletions are remembered."""

    scale: Scale
    since: float

    def __call__(self, times: pa.Array) -> NDArray[np.bool_]:
        """Return which times are before that, bool (n,)."""
        return self.scale.numbers(times) < self.since


@dataclass(frozen=True)
class Standing:
    """What stands at a sequence number of the log; nothing of it is ever changed."""

    index: Index  # With times
    tombstones: pa.Table | None  # The deletions that are remembered: id and t, sorted by id; None where there were none
    base: str  # The snapshot that it stands upon, and the number of the commit that made it current
    commit: int
    seq: int  # All rows of the log up to this one are in, but those of ids that are forgotten
    too_old: TooOld | None = None  # None where the snapshot remembers all deletions
    forgotten: ForgottenIds | None = None  # Ids of which nothing is to be known


def standing_of(store: Store, head: Commit | None = None, verify: Verify = "touch") -> Standing:
    """Return what a snapshot says, with the deletions that it remembers, at sequence number 0.

    ``head``: the commit that made the snapshot current; the store's last one when None.
    """
    head = head or store.head()
    name = None if head is None else snapshot_of(head)
    if head is None or name is None:
        raise StoreError(f"{store.shown} has no commit that names a snapshot: rebuild")
    manifest = store.manifest(name)
    if manifest.get("time") is None:
        raise InputError(
            f"snapshot {name} of {store.shown} has no times, which say what of an object is the latest: rebuild once "
            "with --time COLUMN"
        )
    since = (manifest.get("tombstones") or {}).get("since")
    return Standing(
        open_index(store, name, verify=verify, lazy=False),
        tombstones_of(store, manifest),
        name,
        head.number,
        0,
        None if since is None else TooOld(Scale.of(manifest), since),
        forgotten_in(store.path),
    )


def merge_rows(standing: Standing, rows: pa.Table, seq: int, threads: int = 1) -> tuple[Standing, Counts]:
    """Return what stands once rows of the log up to ``seq`` are merged too, and what became of them.

    Partitions that no row touches are the same objects; others have no levels. Cost as
    :func:`dtoss.merge_rows.merge_rows`.
    """
    if seq < standing.seq:
        raise ValueError(f"seq is {seq}: rows up to {standing.seq} are merged already")
    found, usable = _rows_of(standing, rows)
    if not usable.all():
        found = found.filter(numbers(usable))
    merged = merging.merge_rows(
        standing.index, found, standing.tombstones, threads, forgotten=standing.too_old, levels=False
    )
    counts = replace(merged.counts, unusable=len(rows) - len(found))
    return replace(standing, index=merged.index, tombstones=merged.tombstones, seq=seq), counts


def judge(standing: Standing, rows: pa.Table) -> NDArray[np.int8]:
    """Return what would become of each row if it came alone, int8 (n,): NEWER, UNCHANGED, LATE or UNUSABLE.

    Cost O(n log n).
    """
    found, usable = _rows_of(standing, rows)
    order = np.full(len(rows), UNUSABLE, np.int8)
    good = found.filter(numbers(usable))
    order[usable] = verdicts_of(standing.index, good, standing.tombstones, forgotten=standing.too_old).order
    return order


def _rows_of(standing: Standing, rows: pa.Table) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Return rows of the log as :mod:`dtoss.merge_rows` wants them, and which of them a cycle would use, bool (n,)."""
    index, partition, record = standing.index, standing.index.parts[0], record_of(standing.index)
    source, called = record.source, {fresh: name for name, fresh in record.renamed.items()}
    assert partition.times is not None  # who opens a snapshot has seen to it
    axes = position_names(index.space.geographic)
    wanted = {
        "id": (source.id or "id", pa.large_string() if index.string_ids else pa.int64()),
        "t": (source.time or TIME, partition.times.type),
        "deleted": ("deleted", pa.bool_()),
        "x": (source.x or axes[0], pa.float64()),
        "y": (source.y or axes[1], pa.float64()),
    }
    wanted |= {ATTRIBUTE + name: (called.get(name, name), one.type) for name, one in partition.attributes.items()}
    columns = {}
    for name, (column, kind) in wanted.items():
        if column not in rows.column_names:
            near = near_name(column, rows.column_names)
            raise InputError(f"rows have no column {column!r}{'' if near is None else f', but {near!r}'}")
        columns[name] = rows.column(column).cast(kind)
    goes = columns["deleted"]
    for name in ("x", "y"):
        # a row that deletes is nowhere
        columns[name] = pc.if_else(goes, None, columns[name])
    found = pa.table(columns).combine_chunks()
    usable = values_of(goes) | _legal(index, found)
    if index.string_ids:
        usable &= values_of(pc.greater(pc.binary_length(found.column("id")), 0))
    if pa.types.is_floating(partition.times.type):
        usable &= np.isfinite(values_of(found.column("t")))
    if standing.forgotten is not None:
        usable &= ~standing.forgotten.mask(found.column("id").combine_chunks())
    return found, usable


def _legal(index: Index, rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows are at a place where an object may be, bool (n,)."""
    x, y = (rows.column(name) for name in ("x", "y"))
    places = np.stack([values_of(axis.fill_null(np.nan)) for axis in (x, y)], axis=1)
    legal = index.space.legal(places) & ~index.space.too_near(places)
    given = record_of(index).wishes.bounds
    if given is not None and index.bounds is not None:
        low, high = np.asarray(given, np.float64).reshape(2, 2)
        legal &= ((places >= low) & (places <= high)).all(axis=1)
    return legal


NEWEST_SECONDS = 0.5
"""Between two looks for a generation: to open one takes as long as to add some hundred rows."""


class Newest:
    """What stood at the last look."""

    def __init__(self, home: Store) -> None:
        self._home = home
        self._standing: Standing | None = None

    def look(self) -> None:
        """Open the newest generation, unless it is open."""
        head = self._home.head()
        if head is None or (self._standing is not None and self._standing.commit == head.number):
            return
        standing = standing_of(self._home, head, verify=False)
        for nobody in (0, ""):
            _ = nobody in standing.index  # who looks for an id opens the files
        self._standing = standing

    def judge(self, rows: pa.Table) -> tuple[int, int]:
        """Return how many rows are late, and how many say what stood."""
        if self._standing is None:
            return 0, 0
        found = judge(self._standing, rows)
        return int((found == LATE).sum()), int((found == UNCHANGED).sum())


def follow_newest(newest: Newest, stop: threading.Event, seconds: float = NEWEST_SECONDS) -> None:
    """Look for generations until told to stop."""
    while True:
        with suppress(DtossError, OSError):  # it goes just now: the next look finds what follows
            newest.look()
        if stop.wait(seconds):
            return
