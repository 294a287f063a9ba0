"""What a commit says of workers: the layout, their indexes, what each has done; what a round has cost is a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import decoding, encode_parquet
from dtoss.commits.file_entry import write_entry
from dtoss.errors import StoreError
from dtoss.watch.processing.expiry_events import Endings
from dtoss.watch.processing.watch_commit import commit_batch
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import TaskResult
from dtoss.watch.sharding.routing_grid import RoutingGrid
from dtoss.watch.sharding.worker_task import WorkerResult
from dtoss.watch.watch_folder import LOAD, Home

LOAD_ABOUT = b"dtoss.load"
"""Where the metadata of a file of a round says what it is of."""
_COLUMNS = ("cell", "rows", "candidates", "matches", "seconds", "stored", "bytes")


@dataclass(frozen=True, eq=False)
class RoundLoad:
    """What a round has cost; cells without rows are left out."""

    grid: RoutingGrid
    cell: NDArray[np.int64]  # int64 (c,), rising
    rows: NDArray[np.int64]  # int64 (c,)
    candidates: NDArray[np.int64]  # int64 (c,)
    matches: NDArray[np.int64]  # int64 (c,)
    seconds: NDArray[np.float64]  # float64 (c,). Of the processor, as the model gives those of workers to their cells
    stored: NDArray[np.int64]  # int64 (c,). Subscriptions that touch the cell
    bytes: NDArray[np.float64]  # float64 (c,). Theirs
    # begin_us, end_us: the wall clock at the first batch, and at the end of the last, in microseconds since 1970
    begin_us: int
    end_us: int
    # Prices of a row, a candidate and a match in seconds, and the error of their fit
    model: tuple[float, float, float, float]


def write_load(home: Home, load: RoundLoad) -> dict[str, Any]:
    """Write what a round has cost as a file of Parquet, and return what a commit says of it."""
    table = pa.table({name: getattr(load, name) for name in _COLUMNS})
    about = {"grid": vars(load.grid), "begin_us": load.begin_us, "end_us": load.end_us, "model": list(load.model)}
    table = table.replace_schema_metadata({LOAD_ABOUT: json.dumps(about, sort_keys=True)})
    return write_entry(home.folder, encode_parquet(table), len(table), "parquet", LOAD)


def read_load(home: Home, name: str) -> RoundLoad:
    """Return what a round has cost, of its file."""
    path = home.folder.path(LOAD, name)
    data = home.folder.read(LOAD, name)
    if data is None:
        raise StoreError(f"{path} is missing: a commit lists it; restore it from a copy")
    with decoding(path):
        table = pq.read_table(pa.BufferReader(data))
        about = json.loads((table.schema.metadata or {})[LOAD_ABOUT])
        a, b, c, error = about["model"]
        return RoundLoad(
            RoutingGrid(**about["grid"]),
            table.column("cell").to_numpy(),
            table.column("rows").to_numpy(),
            table.column("candidates").to_numpy(),
            table.column("matches").to_numpy(),
            table.column("seconds").to_numpy(),
            table.column("stored").to_numpy(),
            table.column("bytes").to_numpy(),
            about["begin_us"],
            about["end_us"],
            (a, b, c, error),
        )


def commit_on_workers(
    plan: Plan,
    done: Sequence[TaskResult],
    worked: Sequence[WorkerResult],
    load: Mapping[str, Any] | None = None,
    offsets: Mapping[str, Any] | None = None,
    ended: Endings | None = None,
    forgotten: int = 0,
) -> Commit:
    """Commit a batch of which all tasks and workers are done, and return its commit.

    ``load``: the file of the round that ends with this batch; None where none does.
    """
    assert plan.routed is not None
    worked = sorted(worked, key=lambda one: one.worker)
    indexes = dict(plan.routed.indexes) | {one.key: one.entry for one in worked if one.key is not None and one.entry}
    routed = replace(plan.routed, indexes=indexes, ended=plan.routed.ended if load is None else load)
    workers = [
        {
            "worker": one.worker,
            "cells": len(one.cell),
            "rows": int(one.rows.sum()),
            "sent": one.sent,
            "candidates": int(one.candidates.sum()),
            "matches": int(one.matches.sum()),
            "seconds": round(one.seconds, 6),
        }
        for one in worked
    ]
    more = {"layout": routed.as_json(), "work": workers, "load": None if load is None else dict(load)}
    return commit_batch(plan, done, offsets, more, ended, forgotten)
