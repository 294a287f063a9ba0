"""An index into a store: one built in process becomes a snapshot as a rebuild makes it, one opened is copied."""

from __future__ import annotations

import time as stopwatch
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dtoss.arguments import whole_number
from dtoss.errors import InputError, StoreError, reason
from dtoss.names import not_carried, renamed_of_manifest
from dtoss.snapshots.manifest_fields import Columns, Shape, Wishes

if TYPE_CHECKING:
    from dtoss.building.border import Border
    from dtoss.building.stood import Cells
    from dtoss.partition import Partition
    from dtoss.snapshots.mapped_file import Source
    from dtoss.snapshots.store import Store

TIME = "t"
"""The column that is taken for the time where none is named, as a rebuild takes it."""


@dataclass(frozen=True)
class BuildRecord:
    """How an index was built in process: what a manifest says, and the index itself has no use for."""

    wishes: Wishes
    source: Columns
    renamed: dict[str, str]  # Attributes with reserved names, and what they are called
    areas: tuple[float, ...]  # Of the certified cells of each partition: square CRS units or steradians
    # Of a plane those that it had before rows were merged with it, from which others grow; None before that
    first_bounds: tuple[float, float, float, float] | None = None
    borders: tuple[Border, ...] | None = None  # The partitions' shares of the border set, once rows were merged
    cells: tuple[Cells | None, ...] | None = None  # Of the partitions that were built as rows were merged

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> BuildRecord:
        """Return that of a snapshot, as if this process had built it."""
        areas = tuple(entry["area"] for entry in sorted(manifest["partitions"], key=lambda entry: entry["number"]))
        source = Columns.of(manifest.get("source") or {})
        first = (manifest.get("policy") or {}).get("bounds")
        renamed = renamed_of_manifest(manifest)
        return cls(Wishes.of(manifest["parameters"]), source, renamed, areas, None if first is None else tuple(first))


@dataclass(frozen=True)
class SnapshotRecord:
    """Which snapshot an index was opened from."""

    store: Store
    manifest: dict[str, Any]
    held: Mapping[str, Source]  # Its files that are mapped already, by their names: they are there when it is gone

    @cached_property
    def as_built(self) -> BuildRecord:
        """What the manifest says of how it was built."""
        return BuildRecord.of(self.manifest)

    def __reduce__(self) -> tuple[type[SnapshotRecord], tuple[Any, ...]]:
        """Let another process find the files anew."""
        return SnapshotRecord, (self.store, self.manifest, {})


def save_index(
    index: Any,
    record: BuildRecord | SnapshotRecord | None,
    store: Any,
    time: str | None,
    keep: int | None,
    keep_for: float | None,
    lease: bool,
) -> str:
    """Make an index the current snapshot of a store, and return its name: :meth:`dtoss.Index.save`.

    ``record``: None where the index holds some of the partitions of another one.
    """
    from dtoss.snapshots.store import Store, on_stderr

    home = Store.at(store)
    if keep is not None:
        keep = whole_number("keep", keep, 1)
    if keep_for is not None and not 0.0 <= keep_for < np.inf:
        raise ValueError(f"keep_for is {keep_for!r}: seconds that are not negative are wanted")
    if record is None:
        raise InputError("the index holds some of the partitions of another one, and a store all: save that one")
    if len(index) == 0:
        raise InputError("the index is empty, and a store without objects answers nothing: nothing was saved")
    if isinstance(record, BuildRecord):
        make: Callable[[Store, str], dict[str, Any]] = _writing(index, record, time)
    elif time is None:
        make = partial(copy_snapshot, record)
    else:
        raise ValueError(f"time is {time!r}: an index that was opened from a store is copied with the times it has")
    try:
        with home.writer(on_stderr, lease) as lock:
            # what was left goes first: it may be what fills the disk
            home.clear(None, lock=lock)
            last = home.last()
            _check_forgotten(index, home)
            with home.fresh() as snapshot:
                home.finish(snapshot, make(home, snapshot), lock, last)
            home.tidy(keep, lock, keep_for=keep_for)
    except OSError as error:
        raise StoreError(f"{home.shown} cannot be written: {reason(error)}") from None
    return snapshot


def _check_forgotten(index: Any, home: Store) -> None:
    """Check that the index holds nobody who was forgotten in the store, as objects cannot be taken out of it."""
    from dtoss.erasure.forgotten import forgotten_in
    from dtoss.partition import numbers

    if (known := forgotten_in(home.path)) is None:
        return
    owned = (partition.ids[: partition.owned_objects] for partition in index.parts.all())
    gone = sum(int(known.mask(ids if isinstance(ids, pa.Array) else numbers(ids)).sum()) for ids in owned)
    if gone:
        raise InputError(f"{gone:,} objects are forgotten in {home.shown} (dtoss forget): build the index without them")


# -- built in process -------------------------------------------------------------------------------------------------


def _writing(index: Any, record: BuildRecord, time: str | None) -> Callable[[Store, str], dict[str, Any]]:
    """Return what writes an index that was built in process; what no store can hold is an error before that."""
    carried = index.parts[0].attributes
    types_of(carried)
    own = index.parts[0].times is not None
    if own and time is not None:
        raise ValueError(f"time is {time!r}: the objects have times already, those of {record.source.time!r}")
    time = TIME if time is None and not own and TIME in carried else time
    called = None if time is None else record.renamed.get(time, time)
    if called is not None:
        if called not in carried:
            raise ValueError(f"time: {not_carried(called, carried)}")
        _check_times(index, called)
        time = next((name for name, fresh in record.renamed.items() if fresh == called), called)
    elif own:
        time = record.source.time or TIME

    def write(home: Store, snapshot: str) -> dict[str, Any]:
        return write_snapshot(home, snapshot, index, record, _as_stored(index, called), time)

    return write


def _check_times(index: Any, name: str) -> None:
    from dtoss.snapshots.column_types import stored_type, type_name
    from dtoss.snapshots.manifest_fields import is_time_type

    way = "time= names another column, and columns= of dtoss.build leaves this one out"
    kind = stored_type(index.parts[0].attributes[name].type)
    if not is_time_type(type_name(kind)):
        raise InputError(f"column {name!r} is {type_name(kind)}: times are timestamps, dates or numbers; {way}")
    columns = [partition.attributes[name].slice(0, partition.owned_objects) for partition in index.parts.all()]
    missing = sum(column.null_count for column in columns)
    if pa.types.is_floating(kind):
        missing = sum(int(np.isnan(column.to_numpy(zero_copy_only=False)).sum()) for column in columns)
    if missing:
        raise InputError(f"column {name!r} holds no time for {missing:,} objects; {way}")


def _as_stored(index: Any, time: str | None) -> Iterator[Partition]:
    """Yield the partitions with their columns in the types of a store, one of them as the times too."""
    from dtoss.snapshots.column_types import stored_column

    for partition in index.parts.all():
        attributes = {name: stored_column(column) for name, column in partition.attributes.items()}
        yield replace(partition, attributes=attributes, times=partition.times if time is None else attributes[time])


def types_of(attributes: Mapping[str, pa.Array]) -> dict[str, str]:
    """Return what a manifest calls the types of columns."""
    from dtoss.snapshots.column_types import stored_type, type_name

    types = {}
    for name, column in attributes.items():
        try:
            types[name] = type_name(stored_type(column.type))
        except TypeError:
            raise InputError(
                f"column {name!r} is {column.type}, which no store can hold: cast it, or leave it out (columns=)"
            ) from None
    return types


def write_snapshot(
    home: Store,
    snapshot: str,
    index: Any,
    record: BuildRecord,
    partitions: Iterable[Partition],
    time: str | None,
    counts: Mapping[str, int] | None = None,
    entry_of: Callable[[Partition, float], dict[str, Any]] | None = None,
    borders: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the files of an index that was built in process, and return the manifest that a rebuild would write.

    ``partitions``: those of the index as they are to be stored; ``time``: the column of the input that their times are
    from; ``counts``: of the rows, where they are more than the objects; ``entry_of``: sees to the file of a partition,
    whose area is given too, and returns its entry; None writes it; ``borders``: the entry of the border table's file;
    None writes it.
    """
    from dtoss.snapshots.manifest import make_manifest, write_borders, write_partition
    from dtoss.snapshots.manifest_fields import MOMENTS
    from dtoss.snapshots.structure import time_type

    began = stopwatch.perf_counter()
    entry_of = entry_of or partial(write_partition, home, snapshot)
    entries: list[dict[str, Any]] = []
    kind, types = None, {}
    for partition, area in zip(partitions, record.areas, strict=True):
        entries.append(entry_of(partition, area))
        kind = None if partition.times is None else time_type(partition.times.type)
        types = types_of(partition.attributes)
    borders = borders or write_borders(home, snapshot, index.border)
    bounds = None if index.bounds is None else np.array(index.bounds)
    manifest = make_manifest(
        snapshot,
        datetime.now(UTC).isoformat(timespec="seconds"),
        index.space,
        index.partitioning,
        index.reach,
        bounds,
        entries,
        borders,
        id_type="string" if index.string_ids else "int64",
        columns=types,
        time=None if kind is None else {"column": time, "type": kind, "unit": None if kind in MOMENTS else "s"},
        source=replace(record.source, time=time).facts(),
        policy=Shape.of(entries).facts(bounds),
        parameters={**record.wishes.facts(), "max_bad": 0.0, "on_duplicate": "error", "timed": kind is not None},
        counts={"read": len(index), "kept": len(index), "duplicates": 0, "quarantined": {}, **(counts or {})},
        timings={"write": round(stopwatch.perf_counter() - began, 3)},
    )
    return manifest | {"quarantine": [], "renamed": record.renamed, "input": {"box": _box(index), "times": None}}


def _box(index: Any) -> list[float] | None:
    """Return the least and the greatest coordinates of the objects, None where there is none."""
    if len(index) == 0:
        return None
    owned = [partition.positions[: partition.owned_objects] for partition in index.parts.all()]
    # an axis after the other takes a tenth of the time of both
    axes = [[places[:, axis] for places in owned if len(places)] for axis in (0, 1)]
    low, high = ([float(edge([edge(some) for some in axis])) for axis in axes] for edge in (np.min, np.max))
    return [*low, *high]


# -- opened from a store ----------------------------------------------------------------------------------------------


def copy_snapshot(record: SnapshotRecord, home: Store, snapshot: str) -> dict[str, Any]:
    """Copy the files of a snapshot into one of another store, and return its manifest: what is true of both.

    A file that is damaged or gone is an error.
    """
    from dtoss.snapshots.lineage import entries_of
    from dtoss.snapshots.read_file import check_sum

    began, manifest = stopwatch.perf_counter(), record.manifest
    if manifest.get("quarantine"):
        home.folder.make("snapshots", snapshot, "quarantine")
    for entry in entries_of(manifest):
        source = record.held.get(entry["file"])
        source = source or record.store.source(manifest["snapshot"], entry["file"], entry["bytes"])
        check_sum(source, entry)
        home.write(snapshot, entry["file"], source.data)
    # how the snapshot came about is no news of this store
    copied = {name: value for name, value in manifest.items() if name not in ("parent", "cycle")}
    return copied | {
        "snapshot": snapshot,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "cycle": None,
        "counts": {name: count for name, count in manifest["counts"].items() if name != "erased"},
        "timings": {"copy": round(stopwatch.perf_counter() - began, 3)},
    }
