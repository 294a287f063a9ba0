"""A moving fleet: taxis that drive, wait and gather round the hotspots of real cities, over time.

`python -m datasets.fleet --taxis 10000 --steps 60 --out fleet.parquet --city Beijing` writes an hour of
updates; `--at 3600` one row for each taxi at that moment; `--cycles 5 --out DIR` a file of those for each of
five cycles. A file that is called ``.csv`` is one as people have it: name, lon, lat, seen, status.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from datasets.cities.taxis import Fleet, Floats, Ints, make_fleet, phase, where
from datasets.tables.command import BadInput, run, say
from datasets.tables.seeded_batches import spans, write_csv, write_parquet
from dtoss.export.targets import check_file, check_folder

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("uid", pa.int64()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("occupied", pa.int8()),
    ]
)
TEXT_COLUMNS = ["name", "lon", "lat", "seen", "status"]
"""The columns of a file of CSV."""


def fleet_updates(fleet: Fleet, rows: int, period: float = 60.0, start: datetime = START) -> Iterator[pa.RecordBatch]:
    """Yield the first ``rows`` updates: every taxi once a period, at a phase of its own, period after period.

    Parameters
    ----------
    fleet
        From `datasets.cities.taxis.make_fleet`.
    rows
        Number of updates; steps * fleet.taxis for whole periods. ids are 0 .. rows - 1.
    period
        Seconds between two updates of one taxi, above 0.
    start
        The first period's beginning, with a time zone.

    Raises
    ------
    BadInput
        A period that is not above 0, rows of a fleet without taxis, a start without a time zone.
    """
    if not (0 < period < float("inf")):
        raise BadInput(f"period is {period:g} seconds: give more than 0")
    if rows and not fleet.taxis:
        raise BadInput("a fleet of 0 taxis has no updates; give --taxis 1 or more")
    for _, first, stop in spans(rows):
        row = np.arange(first, stop)
        step, uid = np.divmod(row, max(fleet.taxis, 1))
        seconds = np.round((step + phase(fleet, uid)) * period * 1e6) / 1e6
        yield _batch(fleet, row, uid, seconds, start)


def fleet_at(fleet: Fleet, seconds: float, start: datetime = START) -> Iterator[pa.RecordBatch]:
    """Yield one row for each taxi at one moment; ``id`` is ``uid``.

    Parameters
    ----------
    fleet
        From `datasets.cities.taxis.make_fleet`.
    seconds
        Time since ``start``, 0 or more. Any moment costs the same.
    start
        With a time zone.

    Raises
    ------
    BadInput
        A negative or infinite time, a start without a time zone.
    """
    if not (0 <= seconds < float("inf")):
        raise BadInput(f"the time is {seconds:g} seconds: give 0 or more")
    for _, first, stop in spans(fleet.taxis):
        uid = np.arange(first, stop)
        yield _batch(fleet, uid, uid, np.full(len(uid), float(seconds)), start)


def _batch(fleet: Fleet, row: Ints, uid: Ints, seconds: Floats, start: datetime) -> pa.RecordBatch:
    if start.tzinfo is None:
        raise BadInput(f"start {start} has no time zone; add Z or an offset")
    state = where(fleet, uid, seconds)
    begin = np.datetime64(start.astimezone(UTC).replace(tzinfo=None), "us")
    t = begin + np.round(seconds * 1e6).astype("timedelta64[us]")
    columns = [row, uid, pa.array(t).cast(SCHEMA.field("t").type), state.lon, state.lat, state.occupied]
    return pa.record_batch(columns, schema=SCHEMA)


def rows_of_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as a fleet's own file has them: a name, a place of six decimals, a time in text, a word."""
    names = pc.binary_join_element_wise("taxi", pc.utf8_lpad(batch["uid"].cast(pa.string()), 5, "0"), "-")
    place = [pc.round(batch[axis], 6) for axis in ("lon", "lat")]
    seen = pc.strftime(pc.round_temporal(batch["t"], unit="second").cast(pa.timestamp("s", "UTC")), "%Y-%m-%d %H:%M:%S")
    status = pc.if_else(pc.equal(batch["occupied"], 1), "busy", "free")
    return pa.record_batch([names, *place, seen, status], names=TEXT_COLUMNS)


def main(
    out: Annotated[Path, typer.Option(help="Parquet or CSV file to write; a folder with --cycles.")],
    taxis: Annotated[int, typer.Option(help="Number of taxis.")] = 1_000,
    steps: Annotated[int | None, typer.Option(help="Updates of each taxi; default 60.")] = None,
    rows: Annotated[int | None, typer.Option(help="Number of updates in all, instead of --steps.")] = None,
    at: Annotated[float | None, typer.Option(help="One row for each taxi, this many seconds in.")] = None,
    cycles: Annotated[int | None, typer.Option(help="One row for each taxi, in one file a period.")] = None,
    period: Annotated[float, typer.Option(help="Seconds between two updates of a taxi.")] = 60.0,
    city: Annotated[list[str] | None, typer.Option(help="'Paris' or 'Paris, US'; repeat it.")] = None,
    cities: Annotated[int | None, typer.Option(help="The world's largest cities, so many.")] = None,
    hotspots: Annotated[int, typer.Option(help="Hotspots a city.")] = 40,
    start: Annotated[str, typer.Option(help="ISO 8601 with a zone.")] = START.isoformat(),
    seed: Annotated[int, typer.Option(help="0 or more; the same seed gives the same bytes.")] = 0,
) -> None:
    """Write the updates of a fleet, or its positions at one moment or in successive cycles."""
    if sum(option is not None for option in (steps, rows, at, cycles)) > 1:
        raise BadInput("--steps, --rows, --at and --cycles exclude each other; give one")
    if city and cities is not None:
        raise BadInput("--city and --cities exclude each other; give one")
    if cycles is None:
        check_file("--out", str(out))
    else:
        check_folder("--out", str(out))
    try:
        begin = datetime.fromisoformat(start)
    except ValueError as error:
        raise BadInput(f"--start {start!r} is not ISO 8601; write 2026-01-01T00:00:00Z") from error
    fleet = make_fleet(taxis, cities if cities is not None else city or ("Beijing",), seed, hotspots)
    if cycles is not None:
        out.mkdir(parents=True, exist_ok=True)
        for cycle in range(cycles):
            file = out / f"cycle-{cycle:05d}.parquet"
            write_parquet(fleet_at(fleet, cycle * period, begin), SCHEMA, file)
        say(f"fleet: {cycles:,} cycles of {taxis:,} taxis -> {out}")
        return
    if at is not None:
        batches = fleet_at(fleet, at, begin)
    else:
        updates = rows if rows is not None else taxis * (60 if steps is None else steps)
        batches = fleet_updates(fleet, updates, period, begin)
    text = out.suffix == ".csv"
    written = write_csv(map(rows_of_text, batches), TEXT_COLUMNS, out) if text else write_parquet(batches, SCHEMA, out)
    say(f"fleet: {written:,} rows of {taxis:,} taxis -> {out}")


if __name__ == "__main__":
    run(main)
