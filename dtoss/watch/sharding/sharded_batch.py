"""A batch on workers without Spark, the words that its rows say in each cell, and what its commit says of workers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import decoding, encode_parquet
from dtoss.commits.file_entry import write_entry
from dtoss.errors import StoreError
from dtoss.watch.processing.watch_commit import Endings, commit_batch
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import JudgedRows, TaskResult, WordCounts, judge
from dtoss.watch.sharding.layout_files import open_routing, read_batch, write_batch
from dtoss.watch.sharding.routing_grid import RoutingGrid, cells_of
from dtoss.watch.sharding.worker_task import WorkerResult, answer_rows, merge_events, sent_to_workers, told_by_task
from dtoss.watch.watch_folder import LAYOUTS, LOAD, Home
from dtoss.watch.watch_settings import Rows
from dtoss.watch.words.messages import Vocabulary, messages_of, vocabulary_of


def run_judged(
    plan: Plan, parts: Sequence[tuple[int, NDArray[np.int64], Rows]]
) -> tuple[list[TaskResult], list[WorkerResult]]:
    """Return what tasks, of their numbers, buckets and rows, and workers have done."""
    assert plan.routed is not None
    done: list[tuple[TaskResult, float]] = []
    sent = [list[tuple[int, pa.Table]]() for _ in range(plan.routed.workers)]
    told: dict[int, list[pa.Table]] = {}
    for task, buckets, rows in parts:
        begun = time.perf_counter()
        judged = judge(plan, task, buckets, rows)
        for worker, batch in sent_to_workers(plan, judged):
            sent[worker].append((task, pa.Table.from_batches([batch])))
        if (told_here := told_by_task(plan, judged)) is not None:
            told[task] = [told_here]
        done.append((replace(judged.done, said=said_by(plan, judged)), time.perf_counter() - begun))
    worked: list[WorkerResult] = []
    for worker, some in enumerate(sent):
        if not some:
            continue
        one, events = answer_rows(plan, worker, some)
        worked.append(one)
        for task, table in events.items():
            told.setdefault(task, []).append(table)
    return [merge_events(plan, one, told.get(one.task, []), seconds) for one, seconds in done], worked


_OPEN = 4


def write_words(home: Home, words: pa.Array) -> dict[str, Any]:
    """Write the words that are counted as a file of layouts, and return what a commit says of it.

    ``words``: large_string (v,). Folded, each once.
    """
    return write_batch(home, pa.record_batch({"word": words.cast(pa.large_string())}), "words-")


@lru_cache(maxsize=_OPEN)
def open_words(home: Home, name: str) -> tuple[pa.Array, Vocabulary]:
    """Return the words of :func:`write_words`, as texts and to be found in texts; the last few are kept."""
    batch = read_batch(home, name)
    if batch.schema.names != ["word"]:
        raise StoreError(f"{home.asked.path(LAYOUTS, name)} is damaged: it has no words")
    return batch.column("word"), vocabulary_of(batch.column("word"))


def said_by(plan: Plan, judged: JudgedRows) -> WordCounts | None:
    """Return how many rows of a task say each word in each cell; None where that is not asked for.

    ``judged``: the rows of the task; those before do not count.
    """
    assert plan.routed is not None
    rows = judged.rows
    words: Mapping[str, Any] | None = plan.routed.words
    if words is None or rows.text is None or len(rows) == 0:
        return None
    texts, vocabulary = open_words(plan.home, words["name"])
    arrives = np.arange(len(rows)) if judged.tracks is None else np.flatnonzero(~judged.tracks.before)
    grid = open_routing(plan.home, plan.routed.layout["name"]).grid
    cell = cells_of(grid, plan.settings.space, rows.positions[arrives])
    held = messages_of(vocabulary, rows.text.take(pa.array(arrives)))
    count = max(len(texts), 1)
    key = np.repeat(cell, np.diff(held.first)) * count + held.words
    key, told = np.unique(key, return_counts=True)
    return WordCounts(key // count, key % count, told.astype(np.int64))


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
