"""What runs on the workers of a full rebuild: sending objects to partitions, building these, fixing their borders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.buckets import hashes_of
from dtoss.building.border import Border, fix, join_shares
from dtoss.building.construct import BuiltPartition, construct
from dtoss.geometry.space import Space
from dtoss.history.row_blocks import latest
from dtoss.names import free_names
from dtoss.partition import numbers as arrow_of
from dtoss.partition import values_of
from dtoss.partitioning.assign import assign
from dtoss.partitioning.regions import Regions
from dtoss.rows.input_columns import attribute_name
from dtoss.snapshots.manifest import write_borders, write_partition
from dtoss.snapshots.partition_file import decode_border, encode_border
from dtoss.snapshots.store import Store
from pipelines.engines.rows import one_value
from pipelines.rows.parcels import (
    BYTES_PACKED,
    KEYS,
    gather_batches,
    keys_repeat,
    pack_keys,
    pack_rows,
    rows_of,
    slices,
)

REQUESTS_AT_ONCE = 32
"""To an object store that are under way at the same time."""
T = TypeVar("T")


@dataclass(frozen=True)
class BuildPlan:
    """What the workers need to know to make a snapshot."""

    store: Store
    snapshot: str
    space: Space
    regions: Regions
    reach: NDArray[np.float64]
    bounds: NDArray[np.float64] | None
    attributes: tuple[str, ...]


def sender(
    plan: BuildPlan,
    carried: list[str],
    tasks: int,
    *,
    keep_latest: bool = False,
    check: bool = False,
    packed: int = BYTES_PACKED,
) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that sends each object to its partition and its copies to those that must know it.

    ``packed``: about how many bytes are sent at a time.
    """

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if keep_latest:
            kept = list(batches)
            if not kept:
                return
            table = latest(pa.Table.from_batches(kept), ["x", "y", *carried])
            batches = iter(table.to_batches(max_chunksize=100_000))
        for rows in gather_batches(batches):
            places = np.stack([values_of(rows.column(name)) for name in ("x", "y")], axis=1)
            sent = assign(plan.space.vectors(places), plan.regions, plan.reach)
            row = np.concatenate([np.arange(len(rows)), sent.row])
            partition = np.concatenate([sent.home, sent.partition])
            names = ["id", "x", "y", *(["t"] if "t" in rows.schema.names else []), *carried]
            columns = [*(rows.column(name) for name in names), arrow_of(sent.home)]
            known = pa.record_batch(columns, names=[*names, "home"])
            for some in slices(len(row), known.nbytes / max(len(rows), 1), packed):
                yield pack_rows(known, row[some], partition[some], tasks)
            if check:
                ids = rows.column("id")
                yield pack_keys(values_of(ids) if pa.types.is_integer(ids.type) else hashes_of(ids), tasks)

    return send


def builder(plan: BuildPlan, tasks: int) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that builds all partitions that came to a task, writes their files, and gives their entries.

    Where a key of an id stands more than once among those that came, ``{"repeated": true}`` is all that it gives.
    """

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parcels: dict[int, list[pa.Buffer]] = {}
        for batch in batches:
            for number, parcel in zip(values_of(batch.column(1)).tolist(), batch.column(2), strict=True):
                parcels.setdefault(number, []).append(parcel.as_buffer())
        if keys_repeat(parcels.pop(KEYS, [])):
            yield _entry({"repeated": True})
            return
        numbers = sorted(parcels)
        if len({number % tasks for number in numbers}) > 1:
            raise RuntimeError(f"partitions {numbers} came to one task of {tasks}: the shuffle lost its order")
        shares = []
        for number in numbers:
            entry, share = build_one(plan, number, rows_of(parcels.pop(number)))
            shares.append(share)
            yield _entry(entry | {"border": share_of(numbers)})
        if shares:
            write_share(plan, numbers, shares)

    return build


def _entry(entry: dict[str, Any]) -> pa.RecordBatch:
    return one_value("entry", json.dumps(entry))


def build_one(plan: BuildPlan, number: int, rows: pa.Table) -> tuple[dict[str, Any], Border]:
    """Build a partition, write its file, and return its entry and its share of the border set."""
    ids = rows.column("id").combine_chunks()
    strings = pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)
    carried = [name for name in rows.column_names if name not in ("id", "x", "y", "t", "home")]
    free = free_names(map(attribute_name, carried))
    built = construct(
        number,
        ids.cast(pa.large_string()) if strings else values_of(ids).astype(np.int64),
        np.stack([values_of(rows.column(name)) for name in ("x", "y")], axis=1).astype(np.float64),
        values_of(rows.column("home")).astype(np.int32),
        plan.space,
        plan.regions,
        float(plan.reach[number]),
        plan.bounds,
        times=rows.column("t").combine_chunks() if "t" in rows.column_names else None,
        attributes={free[attribute_name(name)]: rows.column(name).combine_chunks() for name in carried},
    )
    return write_built(plan, built)


def write_built(plan: BuildPlan, built: BuiltPartition) -> tuple[dict[str, Any], Border]:
    """Write a partition's file, and return its entry and its share of the border set."""
    return write_partition(plan.store, plan.snapshot, built.partition, built.area), built.border


def share_of(numbers: Sequence[int]) -> str:
    """Return the name of the file with the shares of the border set of a task's partitions."""
    return f"border-{min(numbers):05d}.arrow"


def write_share(plan: BuildPlan, numbers: Sequence[int], shares: Sequence[Border]) -> None:
    """Write the shares of the border set of a task's partitions, in one file: each is a request or more to read."""
    plan.store.write(plan.snapshot, share_of(numbers), encode_border(join_shares(shares)))


def discard(plan: BuildPlan, entries: list[dict[str, Any]]) -> None:
    """Remove the files of partitions that will be built once more, from other rows."""
    remove_files(plan, sorted({entry[name] for entry in entries for name in ("file", "border")}))


def remove_files(plan: BuildPlan, names: Sequence[str]) -> None:
    """Remove files of the snapshot that is built."""
    _of_each(plan, names, lambda name: plan.store.remove(plan.snapshot, name))


def fixer(plan: BuildPlan, names: list[str]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that makes the border table of the shares in some files, which are all there are."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield _entry(fix_borders(plan, names))

    return run


def fix_borders(plan: BuildPlan, names: Sequence[str]) -> dict[str, Any]:
    """Write the border table of the shares in some files, remove these, and return its entry."""
    table = fix(_of_each(plan, names, lambda name: _share_of_border(plan, name)), plan.bounds)
    entry = write_borders(plan.store, plan.snapshot, table)
    remove_files(plan, names)
    return entry


def _share_of_border(plan: BuildPlan, name: str) -> Border:
    source = plan.store.source(plan.snapshot, name)
    share = decode_border(source.data, source.path)
    assert isinstance(share, Border)
    return share


def _of_each(plan: BuildPlan, names: Sequence[str], work: Callable[[str], T]) -> list[T]:
    """Return what work makes of each file, in their order; an object store is asked for many at the same time."""
    if plan.store.local:
        return [work(name) for name in names]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        return list(pool.map(work, names))
