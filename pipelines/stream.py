"""A stream of updates in, snapshot after snapshot out: a cycle for each micro-batch of Structured Streaming."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError
from dtoss.history.append_frame import OF_STREAM, Key, check_stream
from dtoss.rows.input_columns import columns_of
from dtoss.snapshots.read_file import ledger_of
from dtoss.snapshots.store import Store, on_stderr
from pipelines.cycle import cycle
from pipelines.history import append, options_of_cycle
from pipelines.history_tasks.scans import home_of
from pipelines.loop.known_sources import current_manifest
from pipelines.loop.queries import QUERY
from pipelines.options.snapshot_options import SnapshotOptions
from pipelines.rows.position_frame import Positions, from_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


def stream(
    frame: DataFrame,
    store: str,
    *,
    checkpoint: str,
    every: float | None = 60.0,
    columns: Mapping[str, Any] | None = None,
    say: Callable[[dict[str, Any]], None] | None = None,
    warn: Callable[[str], None] | None = None,
    history: str | None = None,
    new_source: bool = False,
    **options: Any,
) -> StreamingQuery:
    """Start a query that merges the rows of a streaming DataFrame with a store, and return it.

    Each micro-batch is a cycle. Spark gives a batch again, with the same number, where it does not know that it was
    done. The store keeps the number of the last batch of each query, in the same commit as what became of it, and one
    that is not newer is skipped. So each batch counts once. A rollback of the store does not turn the checkpoint back:
    what batches after that snapshot have brought is to be sent again, or read with a new checkpoint.

    Parameters
    ----------
    frame
        A streaming DataFrame with the columns that the store was built of; a row is the whole object.
    store
        Path or URI of the store. Where it has no snapshot, the first batch makes one.
    checkpoint
        The folder in which Spark keeps how far it has read; one for each query.
    every
        Seconds from batch to batch; None reads what there is now, and ends.
    columns
        Of :class:`dtoss.rows.input_columns.Columns`, what is not as the store's last rebuild had it.
    say
        Is told of every cycle: its manifest.
    warn
        Is told what looks wrong but is legal; stderr when None.
    history
        Path or URI of a history of positions, to which each batch is appended before it is merged, once; None for none.
    new_source
        The history may have batches of another query that led to this store: this one reads another source. Else that
        is an error, because a query without its checkpoint reads all of its source again.
    **options
        Other arguments of :func:`pipelines.cycle.cycle`. With ``expire``, objects go in the cycles that batches make:
        where nothing arrives, nothing goes.

    Raises
    ------
    InputError
        If the frame is not a stream.

    Notes
    -----
    A cycle that fails ends the query with its error, ``StreamingQuery.exception``; started again on its checkpoint, the
    query begins with that batch.
    """
    if not frame.isStreaming:
        raise InputError("the frame is not a stream: read it with spark.readStream, or give it to cycle")
    past = None if history is None else _Past(history, new_source)
    merge = partial(
        _merge, Store(str(store)).absolute, columns or {}, say or (lambda manifest: None), warn or on_stderr, past
    )
    writer = frame.writeStream.foreachBatch(lambda batch, number: merge(options, batch, number))
    writer = writer.option("checkpointLocation", checkpoint)
    if every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(every * 1000)} milliseconds").start()


@dataclass(frozen=True)
class _Past:
    """The history that a stream fills."""

    history: str
    new_source: bool


def _append(
    past: _Past, home: Store, positions: Positions, query: str, number: int, options: Mapping[str, Any]
) -> None:
    """Append a batch to the history, unless it is there."""
    if not past.new_source:
        check_stream(home_of(past.history).head(), query, home.path)
    key = Key(f"{query}:{number}", OF_STREAM, home.path, number)
    append(positions, past.history, batch=[key], **options)


def _merge(
    home: Store,
    asked: Mapping[str, Any],
    say: Callable[[dict[str, Any]], None],
    warn: Callable[[str], None],
    past: _Past | None,
    options: Mapping[str, Any],
    batch: DataFrame,
    number: int,
) -> None:
    """Make a cycle of a batch, unless the store has it."""
    query = batch.sparkSession.sparkContext.getLocalProperty(QUERY)
    if query is None:
        raise InputError(f"batch {number} says no query ({QUERY}): this Spark is not one of those that are known")
    manifest = current_manifest(home)
    if ledger_of(home, manifest).has_batch(query, number):
        return

    def read(ledger: Ledger) -> Ledger:
        return ledger.with_batch(query, number)

    columns = columns_of(manifest, asked)
    batch = batch.persist()  # a source may be asked once only
    try:
        if past is not None:
            likewise = options_of_cycle(manifest, SnapshotOptions.of(**options))
            _append(past, home, from_frame(batch, columns), query, number, likewise)
        made = cycle(from_frame(batch, columns), home.path, deleted=columns.deleted, ledger=read, warn=warn, **options)
    finally:
        batch.unpersist()
    say(made)


if __name__ == "__main__":
    from pipelines.command.main import refuse_script

    refuse_script("stream is a function of Python; pipelines/ticks/run.py and dtoss run merge files that arrive")
