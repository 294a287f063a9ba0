"""Positions that keep arriving in, events of standing questions out: batch after batch, each exactly once.

Also a script for spark-submit: ``spark-submit pipelines/watch.py POSITIONS --store STORE``, with the options of
``dtoss watch``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dtoss.commits.offsets import Source
from dtoss.names import DEFAULT_NAME
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.store import Store, on_stderr
from dtoss.watch.processing.watch_plan import ledger_of
from dtoss.watch.watch_folder import Home
from dtoss.witnesses import USUAL_WITNESSES
from pipelines.loop.arriving_batches import Loop, Pace, Sources, go_round
from pipelines.loop.batch_report import Ran, Tally, take_lease
from pipelines.loop.odd_columns import REFUSE, check_ids, check_words
from pipelines.loop.queries import Batches, check_stream, make_way, start
from pipelines.loop.stopping import Stopping
from pipelines.options.streaming import WatchOptions
from pipelines.rows.position_frame import from_frame
from pipelines.watching.spreading import SpreadOptions
from pipelines.watching.typed_rows import KEEP, Lacking, types_wanted, with_attributes
from pipelines.watching.watch_batches import Rowwise, Watching, check_amounts, events_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from pipelines.rows.inputs import Inputs


@dataclass(frozen=True)
class Watched:
    """What a watch has done."""

    batches: int = 0  # That were committed, beats among them
    rows: int = 0
    events: int = 0
    stopped: bool = False  # Whether a signal has ended it


def watch_files(
    positions: str | Sequence[str],
    store: str,
    sessions: Callable[[], SparkSession | None],
    *,
    name: str = DEFAULT_NAME,
    every: float = 2.0,
    beat: float = 10.0,
    once: bool = False,
    columns: Columns | None = None,
    rows: Rowwise | None = None,
    schema: str = "union",
    expire: float | None = None,
    witnesses: str = USUAL_WITNESSES,
    clock: Callable[[], int] | None = None,
    max_ahead: float | None = 300.0,
    max_gap: float = 600.0,
    max_bad: float = 0.1,
    carry: tuple[str, ...] = (),
    most_rows: int | None = None,
    retain: float | None = None,
    stopping: Stopping | None = None,
    renew: Callable[[], None] | None = None,
    patient: bool | None = None,
    spread: SpreadOptions | None = None,
    on_odd_file: str = REFUSE,
    missing: str | None = None,
    say: Callable[[Ran], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Watched:
    """Hold files that arrive in a folder against the subscriptions of a watch, until a signal comes.

    The commit of a batch names the files that it has read, its events and the state after, so that all of them count in
    one step. A watch that was killed goes on where its commits are: there is no checkpoint beside them.

    Parameters
    ----------
    positions
        The folder in which files arrive, :func:`pipelines.loop.arriving.list_arrivals`; a file or a glob, too, or
        several of them.
    store
        Path or URI of the store.
    sessions
        Returns the session, or a new one where there is none; None where this process does the work. It is asked once
        there are rows.
    name
        Of the watch.
    every
        Seconds from look to look.
    beat
        Seconds after which subscriptions are adopted, and objects expire, without rows.
    once
        Read what there is, and end.
    columns
        Which columns mean what, and how text is written.
    rows
        What the rows are.
    schema
        Of Parquet files: "union" or "strict".
    expire
        Seconds of the watch's clock after which a silent object is gone; None for never.
    witnesses
        How many objects have to reach a time before it is the time: a share such as "1%", or a count such as "3".
    clock
        Returns the time in microseconds since 1970, such as :func:`pipelines.loop.batch_report.wall`. The clock of the
        watch follows it at a beat, and stands without rows when None.
    max_ahead
        Seconds beyond the wall clock from which on a row is set aside; None believes every time.
    max_gap
        Seconds between two rows of an object up to which there is a way from one to the other, which may cross a place.
    max_bad
        Share of bad rows above which a batch fails.
    carry
        Columns of the rows that events carry.
    most_rows
        Rows of a batch, about, of whole files; a file that has more is a batch of its own. None takes all there are.
    retain
        Seconds after which events are removed; None keeps them.
    stopping
        Whether somebody has asked to end; signals when None.
    renew
        Is called before Spark is started anew, after it has gone.
    patient
        A batch that fails for no reason of its rows is tried again, three times in a row; unless ``once`` when None.
    spread
        How rows are spread over workers; None lets each task judge its own.
    on_odd_file
        "refuse" sets a file that cannot be read in the types at hand aside, by name, and the others go on; "fail" ends
        the batch.
    missing
        What a column that conditions of subscriptions name, and a file lacks, is: "null"; "keep", the value that the
        object had before; "error", which makes an odd file of it; null with a warning when None.
    say
        Is told of each batch.
    warn
        Is told what looks wrong but is legal; stderr when None.

    Raises
    ------
    InputError
        If options do not go together, or the first batch cannot be made of its rows.
    StoreError
        If another process runs this watch (the message says which), or a file is damaged.
    ValueError
        If ``on_odd_file`` or ``missing`` is another word.
    BatchesFailed
        If three batches in a row have failed.
    """
    asked = WatchOptions(
        every=every, beat=beat, carry=tuple(carry), expire=expire, witnesses=witnesses, max_ahead=max_ahead,
        max_gap=max_gap, missing=missing, retain=retain,
    )  # fmt: skip
    home = Home(Store(store).absolute.path, name)
    watching = watching_of(home, asked, rows or Rowwise(), max_bad, clock, spread, say, warn)
    sources = Sources(positions, columns or Columns(), schema, most_rows, on_odd_file)
    return hold_files(watching, sources, Pace(every, beat, once, patient), sessions, stopping=stopping, renew=renew)


def watching_of(
    home: Home,
    asked: WatchOptions,
    rows: Rowwise,
    max_bad: float,
    clock: Callable[[], int] | None,
    spread: SpreadOptions | None,
    say: Callable[[Ran], None] | None,
    warn: Callable[[str], None] | None,
) -> Watching:
    """Return a watch that is ready to be run."""
    check_words(REFUSE, asked.missing)
    options = check_amounts(asked.expire, asked.max_ahead, max_bad, asked.witnesses or USUAL_WITNESSES, asked.max_gap)
    options = replace(options, carry=asked.carry, keep=asked.missing == KEEP)
    retain_us = None if asked.retain is None else round(asked.retain * 1e6)
    return Watching(
        home, options, rows, retain_us, say or (lambda told: None),
        warn or on_stderr, spread, clock, Lacking(asked.missing),
    )  # fmt: skip


def hold_files(
    watching: Watching,
    sources: Sources,
    pace: Pace,
    sessions: Callable[[], SparkSession | None],
    *,
    stopping: Stopping | None = None,
    renew: Callable[[], None] | None = None,
) -> Watched:
    """Hold files that arrive against the subscriptions of a watch, as :func:`watch_files`."""
    home, warn, asked = watching.home, watching.warn, sources.columns
    stopping = stopping or Stopping(grace=600.0)
    done, events = Tally(), 0

    def counted(ran: Ran | None) -> bool:
        nonlocal events
        events += 0 if ran is None else events_of(ran)
        return done.add(ran)

    def chosen(session: SparkSession | None, inputs: Inputs) -> tuple[Columns, Mapping[str, str]]:
        settings = watching.settings()
        if settings is None:
            watching.lacking.expect(inputs.names, inputs.files, inputs.columns)
            return asked, types_wanted(None, asked)
        names = _names_in(session, inputs, asked)
        watching.lacking.expect(list(settings.attributes), inputs.files, inputs.columns or [names] * len(inputs.files))
        return with_attributes(asked, settings, names), types_wanted(settings, asked)

    def fits(inputs: Inputs) -> None:
        settings = watching.settings()
        check_ids(inputs, asked.id, None if settings is None else settings.id_type, f"watch {home.name}")

    def by_bytes() -> bool:
        settings = watching.settings()
        return watching.rows.messages or (settings is not None and settings.time is None)

    loop = Loop(
        sources,
        pace,
        sessions,
        lambda: ledger_of(home),
        chosen,
        lambda session, read, source, check: counted(watching.batch(session, read, source, check=check)),
        lambda: counted(watching.beat()),
        stopping,
        warn,
        renew,
        others={"--text": watching.rows.text},
        check=watching.check,
        fits=fits,
        refuse=lambda source: counted(watching.beat(source)),
        stands=lambda: watching.settings() is not None,
        by_bytes=by_bytes,
    )
    lease = take_lease(home.folder, f"watch {home.name} of {home.store}", warn)
    try:
        with stopping.listening():
            stopped = go_round(loop)
            return Watched(done.batches, done.counts.get("rows", 0), events, stopped)
    finally:
        lease.release()


def _names_in(session: SparkSession | None, inputs: Inputs, columns: Columns) -> list[str]:
    """Return the names of the columns of files."""
    from pipelines.rows.delimited_frame import layout_in
    from pipelines.rows.read_files import names_in
    from pipelines.rows.row_sources import folder_values

    if inputs.schema is not None:
        return inputs.names
    if inputs.kind != "json" and inputs.places:
        return [*layout_in(inputs, columns).names, *folder_values(inputs.folders)]
    return names_in(session, inputs, columns)


def watch(
    frame: DataFrame,
    store: str,
    *,
    checkpoint: str | None = None,
    name: str = DEFAULT_NAME,
    every: float | None = 2.0,
    beat: float = 10.0,
    columns: Mapping[str, Any] | None = None,
    rows: Rowwise | None = None,
    expire: float | None = None,
    witnesses: str = USUAL_WITNESSES,
    clock: Callable[[], int] | None = None,
    max_ahead: float | None = 300.0,
    max_gap: float = 600.0,
    max_bad: float = 0.1,
    carry: tuple[str, ...] = (),
    retain: float | None = None,
    spread: SpreadOptions | None = None,
    say: Callable[[Ran], None] | None = None,
    warn: Callable[[str], None] | None = None,
    new_source: bool = False,
) -> StreamingQuery:
    """Start a query that holds the rows of a streaming DataFrame against the subscriptions of a watch, and return it.

    Each micro-batch is one commit, which names the query and the number of the batch: one that Spark gives again is
    skipped. Without rows Spark calls nobody, so a thread adopts subscriptions and lets objects expire at each beat.

    Parameters
    ----------
    frame
        A streaming DataFrame with columns of ids, positions and times.
    store
        Path or URI of the store.
    checkpoint
        The folder in which Spark keeps how far it has read; ``STORE/watch/NAME/checkpoint`` when None.
    name
        Of the watch.
    every
        Seconds from batch to batch; None reads what there is now, and ends.
    beat
        Seconds from beat to beat.
    columns
        Of :class:`dtoss.rows.input_columns.Columns`.
    rows, expire, witnesses, clock, max_ahead, max_gap, max_bad, carry, retain, spread, say, warn
        As :func:`watch_files`.
    new_source
        Take batches of a query that the watch does not know beside those of another; else that is an error, because a
        query without its checkpoint reads all of its source again.

    Raises
    ------
    InputError
        If the frame is not a stream, or options do not go together.
    StoreError
        If another process runs this watch.
    """
    check_stream(frame)
    Pace(1.0 if every is None else every, beat)  # which checks them
    warn = warn or on_stderr
    home = Home(Store(store).absolute.path, name)
    asked_for = WatchOptions(
        carry=tuple(carry), expire=expire, witnesses=witnesses, max_ahead=max_ahead, max_gap=max_gap, retain=retain
    )
    watching = watching_of(home, asked_for, rows or Rowwise(), max_bad, clock, spread, say, warn)
    watching.options = replace(watching.options, new_source=new_source)
    asked = Columns(**dict(columns or {}))
    make_way(home.path)
    lease = take_lease(home.folder, f"watch {home.name} of {home.store}", warn)

    def batch(rows: DataFrame, source: Source) -> None:
        settings = watching.settings()
        chosen = with_attributes(asked, settings, list(rows.columns))
        read = from_frame(rows, chosen, wanted=types_wanted(settings, chosen))
        watching.batch(rows.sparkSession, read, source)

    batches = Batches(home.path, batch, watching.beat, watching.end, warn)
    return start(frame, batches, lease, checkpoint, every, beat)


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("watch")
