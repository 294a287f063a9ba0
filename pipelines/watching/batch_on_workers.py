"""A batch on workers: three stages and one action. Rows go between them as pieces of Arrow, one for many rows.

Tasks judge the rows of their buckets and send them to the workers of their cells; each worker is a task of the second
stage; what they tell goes back to the task that the rows came from, which writes it in the order of its rows.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from dtoss.arrow_stream import rows_of_stream, stream_of
from dtoss.commits.offsets import Source
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import TaskResult, judge
from dtoss.watch.sharding.sent_rows import sent_to_workers
from dtoss.watch.sharding.sharded_batch import run_judged
from dtoss.watch.sharding.words_by_cell import said_by
from dtoss.watch.sharding.worker_task import WorkerResult, answer_rows, crosses_of, merge_events
from pipelines.engines.rows import Batches, NumberedWork, Rows, Work, one_value
from pipelines.watching.tasks import buckets_of, key_of, rows_in

_PIECES = pa.schema(
    [("to", pa.int32()), ("kind", pa.int32()), ("who", pa.int32()), ("part", pa.int32()), ("piece", pa.binary())]
)
_SPARK_PIECES = "to int, kind int, who int, part int, piece binary"
_MADE = "done binary"
_ROWS, _DONE, _EVENTS, _WORKED = range(4)
_OWN = -1
"""Who tells what a task has told itself."""
_PIECE_ROWS = 1 << 18
"""Rows, or events, of a piece: two gigabytes are the most that a value of Spark's may have."""
_Piece = tuple[int, int, int, int, bytes]


def run_on_workers(rows: Rows | None, plan: Plan, tasks: int) -> tuple[list[TaskResult], list[WorkerResult]]:
    """Return what the tasks and the workers of a batch have done.

    ``rows``: of :func:`pipelines.watching.typed_rows.fit_rows`, with what they were read as; None where there are none.
    """
    done: list[TaskResult] = []
    worked: list[WorkerResult] = []
    if rows is not None:
        for piece in _told(rows, replace(plan, after=None, source=Source()), tasks):
            made = pickle.loads(piece)
            (worked if isinstance(made, WorkerResult) else done).append(made)
    ran = {one.task for one in done}
    # a task of no rows may never have begun: objects of its buckets expire all the same
    rest = [(task, buckets_of(task, tasks), plan.settings.no_rows) for task in range(tasks) if task not in ran]
    more_done, more_worked = run_judged(plan, rest)
    return done + more_done, worked + more_worked


def _told(rows: Rows, plan: Plan, tasks: int) -> list[bytes]:
    assert plan.routed is not None
    workers = plan.routed.workers
    sent = rows.exchange_by_bucket(tasks, key_of(plan)).map_numbered(_judging(plan, tasks, workers), _SPARK_PIECES)
    told = sent.exchange(workers, "to").map(_answering(plan, tasks), _SPARK_PIECES)
    return told.exchange(tasks, "to").map(_gathering(plan), _MADE).values()


def _judging(plan: Plan, tasks: int, workers: int) -> NumberedWork:
    def run(task: int, batches: Batches) -> Batches:
        begun = time.perf_counter()
        kept = list(batches)
        rows, raw, bad = rows_in(pa.Table.from_batches(kept) if kept else pa.table({}), plan.settings)
        judged = judge(plan, task, buckets_of(task, tasks), rows, raw, bad)
        for worker, batch in sent_to_workers(plan, judged):
            yield from _cut(worker, _ROWS, task, pa.Table.from_batches([batch]))
        if (crosses := crosses_of(plan, judged)) is not None:
            yield from _cut(task % workers, _EVENTS, task, crosses)
        known = replace(judged.done, said=said_by(plan, judged))
        done = pickle.dumps((known, time.perf_counter() - begun))
        yield _batch((task % workers, _DONE, task, 0, done))

    return run


def _answering(plan: Plan, tasks: int) -> Work:
    def run(batches: Batches) -> Batches:
        sent = []
        for to, kind, who, part, piece in _pieces(batches):
            if kind == _DONE:
                yield _batch((who, _DONE, who, 0, piece))
            elif kind == _EVENTS:
                yield _batch((who, _EVENTS, _OWN, part, piece))
            else:
                sent.append(((who, part), rows_of_stream(piece)))
                worker = to
        if sent:
            parts = [(who, table) for (who, _), table in sorted(sent, key=lambda one: one[0])]
            worked, events = answer_rows(plan, worker, parts)
            for task, table in sorted(events.items()):
                yield from _cut(task, _EVENTS, worker, table)
            yield _batch((worker % tasks, _WORKED, worker, 0, pickle.dumps(worked)))

    return run


def _gathering(plan: Plan) -> Work:
    def run(batches: Batches) -> Batches:
        begun = time.perf_counter()
        judged, events = [], []
        for piece in _pieces(batches):
            if piece[1] == _EVENTS:
                events.append(piece[2:])
            elif piece[1] == _DONE:
                judged.append(pickle.loads(piece[4]))
            else:
                yield one_value("done", piece[4])
        for done, seconds in judged:  # one: a partition is a task
            tables = [rows_of_stream(piece) for _, _, piece in sorted(events, key=lambda one: one[:2])]
            made = merge_events(plan, done, tables)
            made = replace(made, seconds=seconds + time.perf_counter() - begun)
            yield one_value("done", pickle.dumps(made))

    return run


def _batch(piece: _Piece) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value], one.type) for value, one in zip(piece, _PIECES, strict=True)], _PIECES)


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[_Piece]:
    for batch in batches:
        for row in range(batch.num_rows):
            to, kind, who, part, piece = (column[row].as_py() for column in batch.columns)
            yield to, kind, who, part, piece


def _cut(to: int, kind: int, who: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield a table in pieces, numbered in their order."""
    for part, begin in enumerate(range(0, len(table), _PIECE_ROWS)):
        yield _batch((to, kind, who, part, stream_of(table.slice(begin, _PIECE_ROWS))))
