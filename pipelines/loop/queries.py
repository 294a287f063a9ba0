"""Streaming queries whose batches are commits of ours: how one starts, who holds its lease, and until when.

What a streaming query has planned to read, as its checkpoint says: whether a batch is the one of before.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoss.commits.chain import path_in
from dtoss.commits.lease import Writer
from dtoss.commits.offsets import Source
from dtoss.errors import DtossError, InputError
from dtoss.snapshots.store_location import folder_of
from pipelines.spark.session import cause_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

QUERY = "sql.streaming.queryId"
"""The local property of Spark's that says which query a batch is of; it stays the same on the same checkpoint."""
_held: dict[str, tuple[StreamingQuery, threading.Thread]] = {}
"""The last query of each path in this process, and the thread that holds its lease."""


@dataclass(frozen=True)
class Batches:
    """What takes the batches of a query, and commits them."""

    path: str  # Of what they are committed to
    batch: Callable[[DataFrame, Source], object]  # Commits the rows of a source
    # Is called where no rows have come for a beat, and no batch is being made: without rows Spark calls nobody
    beat: Callable[[], object]
    end: Callable[[], None]  # Is called once the query has ended: lets the batch in hand end, and no other begin
    warn: Callable[[str], None]  # Is told of beats that fail


def check_stream(frame: DataFrame) -> None:
    """Check that a frame is a stream."""
    if not frame.isStreaming:
        raise InputError("the frame is not a stream: read it with spark.readStream")


def make_way(path: str) -> None:
    """Wait until a query of this process that has ended has let go of the lease of a path."""
    query, thread = _held.get(path, (None, None))
    if query is not None and thread is not None and not query.isActive:
        thread.join()


def start(
    frame: DataFrame,
    batches: Batches,
    lease: Writer,
    checkpoint: str | None,
    every: float | None,
    beat: float,
    clock: Callable[[], float] = time.monotonic,
) -> StreamingQuery:
    """Start a query, and hold a lease until it has ended.

    ``lease``: is let go of once the query has ended, or at once where it does not start; ``checkpoint``: the folder in
    which Spark keeps how far it has read; ``checkpoint`` in the path of the batches when None; ``every``: seconds from
    batch to batch; None reads what there is now, and ends; ``beat``: seconds from the end of the last batch, or from
    the last beat, to the next beat; ``clock``: says how late it is, and never goes back.
    """
    busy = _Busy(clock, clock())

    def batch(rows: DataFrame, number: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY)
        if query is None:
            raise InputError(f"batch {number} says no query ({QUERY}): this Spark is not one of those that are known")
        with busy.batch():
            batches.batch(rows, Source(query=query, batch=number, plan=planned_hash(kept, number)))

    kept = checkpoint or path_in(batches.path, "checkpoint")
    try:
        writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", kept)
        trigger: dict[str, Any] = {"availableNow": True}
        if every is not None:
            trigger = {"processingTime": f"{round(every * 1000)} milliseconds"}
        query = writer.trigger(**trigger).start()
    except BaseException:
        lease.release()
        raise
    thread = threading.Thread(
        target=partial(_until_it_ends, query, batches, lease, beat, busy), name="dtoss-query", daemon=True
    )
    _held[batches.path] = query, thread
    thread.start()
    return query


@dataclass
class _Busy:
    """Since when a query has had no rows and no beat, by a clock that never goes back; never while it has a batch."""

    clock: Callable[[], float]
    since: float

    @contextmanager
    def batch(self) -> Iterator[None]:
        """While inside, and right after, there are rows."""
        self.since = math.inf
        try:
            yield
        finally:
            self.since = self.clock()


def _until_it_ends(query: StreamingQuery, batches: Batches, lease: Writer, beat: float, busy: _Busy) -> None:
    """Beat until the query has ended, and its last batch with it; then let go of the lease."""
    try:
        while not query.awaitTermination(1):
            if busy.clock() - busy.since >= beat:
                busy.since = busy.clock()
                try:
                    batches.beat()
                except Exception as error:  # whatever it is, the query goes on, and holds the lease
                    batches.warn(f"a beat has failed: {cause_text(error)}")
    except Exception:
        return  # the query tells of its own error
    finally:
        batches.end()  # Spark does not wait for the function that it has given its last batch
        lease.release()


OFFSETS = "offsets"
"""The folder of a checkpoint in which Spark writes what a batch will read, before it reads anything."""


def planned_hash(checkpoint: str, batch: int) -> str:
    """Return the hash of what a batch of a query reads; "" where this process cannot read it.

    Spark gives the last batch once more when it does not know how that has ended, from the same plan. A batch of the
    same number and another plan is of a checkpoint that was put back to an older one.
    """
    try:
        data = folder_of(checkpoint.removeprefix("file://")).read(OFFSETS, str(batch))
    except (DtossError, OSError, ValueError):
        return ""
    return "" if data is None else hashlib.sha256(data).hexdigest()
