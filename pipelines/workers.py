"""What runs on the workers of a rebuild: sending objects to partitions, building these, fixing their borders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.assign import assign
from dtoss.border import Border, decode_border, encode_border, fix
from dtoss.construct import construct
from dtoss.regions import Regions
from dtoss.snapshot import write_borders, write_partition
from dtoss.space import Space
from dtoss.store import Store
from pipelines.latest import latest
from pipelines.positions import attribute_name


@dataclass(frozen=True)
class Plan:
    """What the workers need to know to make a snapshot."""

    store: Store
    snapshot: str
    space: Space
    regions: Regions
    reach: NDArray[np.float64]
    bounds: NDArray[np.float64] | None
    attributes: tuple[str, ...]


def sender(plan: Plan, carried: list[str], keep_latest: bool) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that sends each object to its partition and its copies to those that must know it."""

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if keep_latest:
            kept = list(batches)
            if not kept:
                return
            table = latest(pa.Table.from_batches(kept), ["x", "y", *carried])
            batches = iter(table.to_batches(max_chunksize=100_000))
        for batch in batches:
            places = np.stack([batch.column(name).to_numpy() for name in ("x", "y")], axis=1)
            sent = assign(plan.space.vectors(places), plan.regions, plan.reach)
            columns = [batch.column(name) for name in ("id", "x", "y", *carried)]
            names = ["id", "x", "y", *carried, "pid", "home"]
            yield pa.record_batch([*columns, pa.array(sent.home), pa.array(sent.home)], names=names)
            if len(sent.row):
                rows = pa.array(sent.row)
                copies = [column.take(rows) for column in columns]
                yield pa.record_batch([*copies, pa.array(sent.partition), pa.array(sent.home[sent.row])], names=names)

    return send


def builder(plan: Plan, tasks: int) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that builds all partitions that came to a task and writes their files."""

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = list(batches)
        if not kept:
            return
        table = pa.Table.from_batches(kept).combine_chunks()
        del kept
        pid = table.column("pid").to_numpy()
        numbers = np.unique(pid)
        if len(np.unique(numbers % tasks)) != 1:
            raise RuntimeError(f"partitions {numbers.tolist()} came to one task of {tasks}: the shuffle lost its order")
        for number in numbers.tolist():
            rows = table.take(pa.array(np.flatnonzero(pid == number)))
            entry = build_one(plan, number, rows)
            yield pa.record_batch([pa.array([json.dumps(entry)])], names=["entry"])

    return build


def build_one(plan: Plan, number: int, rows: pa.Table) -> dict[str, Any]:
    """Build a partition, write its file and its share of the border set, and return its entry."""
    ids = rows.column("id").combine_chunks()
    strings = pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)
    built = construct(
        number,
        ids.cast(pa.large_string()) if strings else ids.to_numpy(zero_copy_only=False).astype(np.int64),
        np.stack([rows.column(name).to_numpy() for name in ("x", "y")], axis=1).astype(np.float64),
        rows.column("home").to_numpy().astype(np.int32),
        plan.space,
        plan.regions,
        float(plan.reach[number]),
        plan.bounds,
        attributes={
            attribute_name(name): rows.column(name).combine_chunks()
            for name in rows.column_names
            if name not in ("id", "x", "y", "pid", "home")
        },
    )
    entry = write_partition(plan.store, plan.snapshot, built)
    share = f"border-{number:05d}.arrow"
    plan.store.write(plan.snapshot, share, encode_border(built.border))
    return entry | {"border": share}


def fixer(plan: Plan) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that makes the border table of all partitions' shares."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                names = json.loads(text)
                shares = [_share(plan, name) for name in names]
                entry = write_borders(plan.store, plan.snapshot, fix(shares, plan.bounds))
                for name in names:
                    plan.store.remove(plan.snapshot, name)
                yield pa.record_batch([pa.array([json.dumps(entry)])], names=["entry"])

    return run


def _share(plan: Plan, name: str) -> Border:
    share = decode_border(plan.store.source(plan.snapshot, name), plan.store.file("snapshots", plan.snapshot, name))
    assert isinstance(share, Border)
    return share
