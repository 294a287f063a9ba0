"""Files of the past as a stream: rows are written as files when their time comes, by a clock that runs faster.

`python -m datasets.replay cabs.parquet --to arriving --speed 3600` lets an hour pass in a second: every 2
seconds (`--every`) a file with the rows of the 2 hours that went by. `--late-share 0.1 --late-by 60min` keeps a
tenth of them back, each by up to an hour of theirs. The same rows and options give the same files.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray

from datasets.tables.command import BadInput, expand, run, say
from datasets.tables.seeded_batches import stream, write_parquet
from dtoss.export.targets import check_folder
from pipelines.options.said_amounts import seconds_of, share_of

_PACKED = (".gz", ".bz2", ".zst")
_JSON = (".json", ".jsonl", ".ndjson")
_SECOND = 1e6
_LAST = 2**62
"""Microseconds since 1970 up to which a time is taken."""


def read_tables(files: Sequence[Path]) -> pa.Table:
    """Return the rows of all files, in their order; held in memory."""
    tables = []
    for file in files:
        try:
            tables.append(_read(file))
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(f"{file}: {str(error).splitlines()[0]}") from error
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadInput(f"the files do not go together: {str(error).splitlines()[0]}") from error


def _read(file: Path) -> pa.Table:
    name = file.with_suffix("") if file.suffix in _PACKED else file
    if name.suffix == ".parquet":
        return pq.read_table(file, partitioning=None)
    if name.suffix not in (".csv", *_JSON):
        raise BadInput(f"{file} is none of .parquet, .csv, .json, .jsonl and .ndjson: convert it first")
    with pa.input_stream(str(file)) as stream:
        return pa_csv.read_csv(stream) if name.suffix == ".csv" else pa_json.read_json(stream)


def microseconds(table: pa.Table, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a column of times in microseconds since 1970, 0 where there is none, and whether there is one.

    ``name``: A column of timestamps, dates, or numbers: seconds since 1970.
    """
    if name not in table.column_names:
        raise BadInput(
            f"there is no column {name!r} of times, but {', '.join(table.column_names)}: name it with --time"
        )
    column, kind = table[name], table.schema.field(name).type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        times = column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        there = pc.is_valid(times).to_numpy()
        return pc.fill_null(times, 0).to_numpy(), there
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise BadInput(f"column {name!r} is of type {kind}: times are timestamps, dates or seconds since 1970")
    seconds = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy()
    there = np.abs(seconds) < _LAST / _SECOND
    return np.round(np.where(there, seconds, 0.0) * _SECOND).astype(np.int64), there


NAME = "replay-{:08d}.parquet"
FEWEST_US = 1000.0
"""Microseconds of the rows' time that a file spans at least."""
TOLD = 10.0
"""Seconds from line to line on stderr."""
INTERRUPTED = 128


@dataclass(frozen=True)
class Piece:
    """The rows of one file.

    Attributes
    ----------
    number
        Of the file: it is due at the end of the span of that number, counted from 0.
    rows
        int64, in the order in which they arrive.
    late
        How many of them were kept back.
    """

    number: int
    rows: NDArray[np.int64]
    late: int


def pieces(
    t: NDArray[np.int64], span: float, late_share: float = 0.0, late_by: float = 0.0, seed: int = 0
) -> Iterator[Piece]:
    """Yield what each file holds, by time; spans in which nothing arrives have none.

    Parameters
    ----------
    t
        int64 (n,). Microseconds.
    span
        Microseconds of that time from file to file, 1,000 or more.
    late_share
        Share of the rows, drawn at random, that arrive later than their time.
    late_by
        Microseconds by which they do at most; how long is drawn evenly.
    seed
        0 or more; which rows are late depends on it, and on nothing but the rows' times.

    Raises
    ------
    BadInput
        A span below 1,000, a share that is none, a negative delay or seed.

    Examples
    --------
    >>> [(piece.number, piece.rows.tolist()) for piece in pieces(np.array([5_000, 0, 900]), span=1_000)]
    [(0, [1, 2]), (5, [0])]
    """
    if not (FEWEST_US <= span < np.inf):
        raise BadInput(f"a file would span {span / 1e6:g} s of the rows' time: let --every times --speed be 0.001 s")
    if not (0 <= late_share <= 1 and 0 <= late_by < np.inf):
        raise BadInput(f"late are {late_share:g} of the rows, by {late_by / 1e6:g} s: give 0 to 1, and 0 s or more")
    rng = stream(seed)
    order = np.argsort(t, kind="stable")
    sorted_t = t[order]
    is_late = rng.random(len(t)) < late_share
    arrival = (sorted_t - sorted_t[:1]) + np.where(is_late, (1.0 - rng.random(len(t))) * late_by, 0.0)
    by_arrival = np.argsort(arrival, kind="stable")
    number = (arrival[by_arrival] // span).astype(np.int64)
    for some in np.split(np.arange(len(t)), np.flatnonzero(np.diff(number)) + 1):
        if len(some):
            rows = by_arrival[some]
            yield Piece(int(number[some[0]]), order[rows], int(is_late[rows].sum()))


def main(
    files: Annotated[list[str], typer.Argument(help="Parquet, CSV or JSON lines, or folders of Parquet.")],
    to: Annotated[Path, typer.Option("--to", help="Folder in which files appear.")],
    speed: Annotated[float, typer.Option(help="Seconds of the rows' time in a second.")] = 1.0,
    every: Annotated[str, typer.Option(help="Time from file to file.", metavar="TIME")] = "2s",
    late_share: Annotated[str, typer.Option(help="Share of the rows that is kept back: 0.1 or 10%.")] = "0",
    late_by: Annotated[str, typer.Option(help="By how much of their time at most.", metavar="TIME")] = "60min",
    seed: Annotated[int, typer.Option(help="0 or more: which rows are late, and how much.")] = 0,
    time_column: Annotated[str, typer.Option("--time", help="The column of times.", metavar="COLUMN")] = "t",
) -> None:
    """Write rows of the past as files, as they would have arrived."""
    try:
        beat, behind, share = seconds_of(every), seconds_of(late_by), share_of(late_share, "--late-share")
    except ValueError as error:
        raise BadInput(str(error)) from error
    if not (0 < speed < float("inf")) or beat <= 0:
        raise BadInput(f"the speed is {speed:g} and a file comes every {beat:g} s: give more than 0")
    check_folder("--to", str(to))
    if to.is_dir() and any(to.glob(NAME.format(0).replace("0" * 8, "*"))):
        raise BadInput(f"--to {to} holds files of an earlier replay: remove them, or name another folder")
    table = read_tables(expand(files, "*.parquet"))
    t, there = microseconds(table, time_column)
    if not there.all():
        say(f"replay: {int((~there).sum()):,} of {len(t):,} rows have no time and are left out")
    table, t = table.filter(pa.array(there)), t[there]
    to.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    _write(table, t, list(pieces(t, beat * speed * 1e6, share, behind * 1e6, seed)), to, beat, speed)


def _write(table: pa.Table, t: NDArray[np.int64], planned: list[Piece], to: Path, beat: float, speed: float) -> None:
    """Write each file when it is due, and tell how far it is."""
    began = told = time.monotonic()
    written = late = 0
    for count, piece in enumerate(planned, 1):
        due = began + (piece.number + 1) * beat
        while (left := due - time.monotonic()) > 0:
            time.sleep(min(left, TOLD))
        rows = table.take(pa.array(piece.rows))
        write_parquet(rows.to_batches(), rows.schema, to / NAME.format(piece.number))
        written, late = written + len(piece.rows), late + piece.late
        if time.monotonic() - told >= TOLD:
            told = time.monotonic()
            now = datetime.fromtimestamp((int(t.min()) + (piece.number + 1) * beat * speed * 1e6) / 1e6, UTC)
            say(f"replay: {now:%F %T}, file {count:,} of {len(planned):,}, {written:,} of {len(t):,} rows")
    say(f"replay: {written:,} rows, {late:,} of them late, in {len(planned):,} files -> {to}")


def _end(number: int, _frame: FrameType | None) -> None:
    """End the program: what is written is whole, what is half written goes."""
    say("replay: interrupted; what came so far stays, and each file is whole")
    sys.exit(INTERRUPTED + number)


if __name__ == "__main__":
    run(main)
