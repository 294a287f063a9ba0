"""What a city's people ask: places and times of questions over days, for `dtoss patterns`.

`python -m datasets.requests --rows 100000 --days 14 --city 'San Francisco' --out asked.csv` writes two weeks of them:
in the centre most ask at noon, at its edge in the evening, and at weekends fewer do.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from datasets.cities.geonames import EARTH_RADIUS
from datasets.cities.taxis import REACH, Fleet, make_fleet, where
from datasets.fleet import START
from datasets.tables.command import BadInput, run, say
from datasets.tables.seeded_batches import spans, stream, write_csv, write_parquet
from dtoss.export.targets import check_file

SCHEMA = pa.schema(
    [("id", pa.int64()), ("t", pa.timestamp("us", tz="UTC")), ("lon", pa.float64()), ("lat", pa.float64())]
)
DAY = 86_400.0
NOON, EVENING = 12.0, 20.0
"""Hours of the sun's time at which most ask: in the centre, and REACH metres from it."""
SPREAD = 3.0
"""Standard deviation of the hour, in hours."""
WEEKEND = 0.6
"""Questions of a Saturday or Sunday for one of a working day."""
PEOPLE = 5_000
"""Whose places the questions are asked at."""


def requests(fleet: Fleet, rows: int, days: int, start: datetime = START) -> Iterator[pa.RecordBatch]:
    """Yield questions of so many whole days, in no order: when, and the place.

    Parameters
    ----------
    fleet
        From `datasets.cities.taxis.make_fleet`: where its taxis are is where people ask.
    rows, days
        How many questions, 0 or more, over how many days, 1 or more.
    start
        The first day's beginning, with a time zone.

    Raises
    ------
    BadInput
        No day, a fleet without taxis, a start without a time zone.
    """
    if days < 1 or not fleet.taxis or start.tzinfo is None:
        raise BadInput(f"days is {days}, taxis {fleet.taxis}, start {start}: 1 or more of both, and a time zone")
    first = start.astimezone(UTC)
    weight = np.array([WEEKEND if (first.weekday() + day) % 7 >= 5 else 1.0 for day in range(days)])
    centre = np.radians([fleet.lon[0, 0], fleet.lat[0, 0]])
    begin = np.datetime64(first.replace(tzinfo=None), "us")
    for number, low, high in spans(rows):
        who, when, which = stream(fleet.seed, 3, number).random((high - low, 3)).T
        at = where(fleet, (who * fleet.taxis).astype(np.int64), when * days * DAY)
        east = (np.radians(at.lon) - centre[0]) * np.cos(centre[1])
        metres = EARTH_RADIUS * np.hypot(east, np.radians(at.lat) - centre[1])
        off = SPREAD * stream(fleet.seed, 4, number).standard_normal(high - low)
        hour = NOON + (EVENING - NOON) * np.minimum(metres / REACH, 1.0) + off - at.lon / 15.0
        day = np.minimum(np.searchsorted(np.cumsum(weight), which * weight.sum(), side="right"), days - 1)
        t = begin + np.round((day * DAY + hour % 24.0 * 3600.0) * 1e6).astype("timedelta64[us]")
        moments = pa.array(t).cast(SCHEMA.field("t").type)
        yield pa.record_batch([np.arange(low, high), moments, at.lon, at.lat], schema=SCHEMA)


def main(
    out: Annotated[Path, typer.Option(help="Parquet or CSV file to write.")],
    rows: Annotated[int, typer.Option(help="Number of questions.")] = 100_000,
    days: Annotated[int, typer.Option(help="Number of days.")] = 14,
    city: Annotated[list[str] | None, typer.Option(help="'Paris' or 'Paris, US'; repeat it.")] = None,
    start: Annotated[str, typer.Option(help="ISO 8601 with a zone.")] = START.isoformat(),
    seed: Annotated[int, typer.Option(help="0 or more; the same seed gives the same bytes.")] = 0,
) -> None:
    """Write what people ask in some days: when, and where."""
    check_file("--out", str(out))
    try:
        begin = datetime.fromisoformat(start)
    except ValueError as error:
        raise BadInput(f"--start {start!r} is not ISO 8601; write 2026-01-01T00:00:00Z") from error
    batches = requests(make_fleet(PEOPLE, city or ("Beijing",), seed), rows, days, begin)
    written = write_csv(batches, SCHEMA.names, out) if out.suffix == ".csv" else write_parquet(batches, SCHEMA, out)
    say(f"requests: {written:,} rows of {days:,} days -> {out}")


if __name__ == "__main__":
    run(main)
