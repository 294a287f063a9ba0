"""Positions in, windows out: batch after batch of files or of a stream, each row counted exactly once.

Also a script for spark-submit: ``spark-submit pipelines/windows.py run POSITIONS --store STORE --name NAME``, with the
options of ``dtoss windows``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dtoss.commits.offsets import Source
from dtoss.geometry.space import Space
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.store import Store, on_stderr
from dtoss.windows.storage.window_document import Home
from pipelines.loop.arriving_batches import Loop, Pace, Sources, go_round
from pipelines.loop.batch_report import Ran, Tally
from pipelines.loop.odd_columns import check_ids
from pipelines.loop.queries import Batches, check_stream, make_way, start
from pipelines.loop.stopping import Stopping
from pipelines.rows.position_frame import Positions, from_frame
from pipelines.watching.typed_rows import types_wanted
from pipelines.windowing.begin_windows import Which, lease_windows, stands_for
from pipelines.windowing.running_sets import How, retained_of, running_of
from pipelines.windowing.window_batches import Moving

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from pipelines.rows.inputs import Inputs


@dataclass(frozen=True)
class Summary:
    """What a run has done."""

    batches: int
    counts: Mapping[str, int]  # Of these, by name
    stopped: bool = False  # Whether a signal has ended it


def count_files(
    which: Which,
    sources: Sources,
    pace: Pace,
    how: How,
    sessions: Callable[[], SparkSession | None],
    *,
    stopping: Stopping | None = None,
    renew: Callable[[], None] | None = None,
) -> Summary:
    """Count the rows of files that arrive in windows, until a signal comes.

    The commit of a batch names the files that it has read, results, and the state after, so that all of them count in
    one step. A run that was killed goes on where its commits are: there is no checkpoint beside them.

    ``sessions``: returns the session, or a new one where there is none; None where this process does the work. It is
    asked once there are rows; ``stopping``: whether somebody has asked to end, signals when None; ``renew``: is called
    before Spark is started anew, after it has gone.

    BatchesFailed if three batches in a row have failed, InputError if the first one cannot be made of its rows.
    """
    home, warn = which.home, how.warn
    stands = stands_for(home, which.wanted, which.space, which.replacing)
    retained_of(how.retain, stands.spec)
    stopping = stopping or Stopping(grace=600.0)
    sources = replace(sources, columns=replace(sources.columns, attributes="none"))
    asked = sources.columns
    done = Tally()
    lease = lease_windows(home, warn)
    try:
        running = running_of(home, stands, how)
        for note in stands.asked.notes:
            warn(note)

        def chosen(session: SparkSession | None, inputs: Inputs) -> tuple[Columns, Mapping[str, str]]:
            return asked, types_wanted(running.settings(), asked)

        def batch(session: SparkSession | None, read: Positions, source: Source, check: Callable[[], None]) -> bool:
            return done.add(running.batch(session, read, source, check))

        def fits(inputs: Inputs) -> None:
            settings = running.settings()
            check_ids(inputs, asked.id, None if settings is None else settings.id_type, f"windows {home.name}")

        with stopping.listening():
            loop = Loop(
                sources,
                pace,
                sessions,
                running.ledger,
                chosen,
                batch,
                lambda: done.add(running.beat()),
                stopping,
                warn,
                renew,
                first=running.first,
                check=running.check,
                fits=fits,
                refuse=lambda source: done.add(running.note(source)),
                stands=lambda: running.settings() is not None,
            )
            stopped = go_round(loop)
            return Summary(done.batches, done.counts, stopped)
    finally:
        lease.release()


def windows(
    frame: DataFrame,
    store: str,
    name: str,
    wanted: Mapping[str, Any] | None = None,
    *,
    checkpoint: str | None = None,
    space: Space | None = None,
    every: float | None = 10.0,
    columns: Mapping[str, Any] | None = None,
    wrap: bool = False,
    unit: str | None = None,
    max_bad: float = 0.1,
    say: Callable[[Ran], None] | None = None,
    warn: Callable[[str], None] | None = None,
    new_source: bool = False,
    moving: Moving | None = None,
    retain: str | None = None,
    clock: Callable[[], int] | None = None,
    replacing: bool = False,
) -> StreamingQuery:
    """Start a query that counts the rows of a streaming DataFrame in windows, and return it.

    Each micro-batch is one commit, which names the query and the number of the batch: one that Spark gives again is
    skipped.

    Parameters
    ----------
    frame
        A streaming DataFrame with columns of ids, positions and times.
    store
        Path or URI of the store.
    name
        Of the windows.
    wanted
        Arguments of :func:`dtoss.windows.spec.spec_of` but the space and the keys; None where the windows are there and
        stay as they are.
    checkpoint
        The folder in which Spark keeps how far it has read; ``STORE/windows/NAME/checkpoint`` when None.
    space
        Of the positions; None takes the store's, or degrees.
    every
        Seconds from batch to batch; None reads what there is now, and ends.
    columns
        Of :class:`dtoss.rows.input_columns.Columns`.
    wrap
        Take 360 from longitudes above 180.
    unit
        Of times that are numbers: "ms", or seconds when None.
    max_bad
        Share of bad rows above which a batch fails.
    say
        Is told of each batch.
    warn
        Is told what looks wrong but is legal; stderr when None.
    new_source
        Take batches of a query that the windows do not know beside those of another; else that is an error, because a
        query without its checkpoint reads all of its source again.
    moving
        How groups of objects are placed on workers, :func:`pipelines.windowing.window_batches.moving_of`.
    retain
        Such as 7d: results of ends that are longer behind the watermark are removed; None keeps all.
    clock
        Returns the time in microseconds since 1970, such as :func:`pipelines.loop.batch_report.wall`. Where a look
        finds no rows the watermark follows it, less the delay; it stands when None.
    replacing
        Let a set of another spec, or of other pivots, take over without a gap; else these are an error.

    Raises
    ------
    InputError
        If the frame is not a stream, or options do not go together.
    StoreError
        If another process runs these windows.
    """
    check_stream(frame)
    warn = warn or on_stderr
    home = Home(Store(store).absolute.path, name)
    stands = stands_for(home, wanted, space, replacing)
    retained_of(retain, stands.spec)
    asked = replace(Columns(**dict(columns or {})), attributes="none")
    make_way(home.path)
    lease = lease_windows(home, warn)
    try:
        how = How(max_bad, new_source, retain, wrap, unit, say or (lambda _: None), warn, moving, clock)
        running = running_of(home, stands, how)

        def batch(rows: DataFrame, source: Source) -> None:
            read = from_frame(rows, asked, wanted=types_wanted(running.settings(), asked))
            running.batch(rows.sparkSession, read, source)

    except BaseException:
        lease.release()
        raise
    batches = Batches(home.path, batch, running.beat, running.end, warn)
    # a batch begins up to a trigger after the last one has begun: sooner nobody knows that none comes
    return start(frame, batches, lease, checkpoint, every, 2.0 * (every or 0.5))


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("windows")
