"""Uber pick-ups in New York, April to September 2014.

`python -m datasets.uber uber-raw-data-apr14.csv --out uber.parquet` reads them. Columns Date/Time, Lat, Lon,
Base; the time is New York's, to the minute. Source: the Taxi & Limousine Commission's answer to
FiveThirtyEight (github.com/fivethirtyeight/uber-tlc-foil-response).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from datasets.tables.command import expand, run
from datasets.tables.format_source import Column, Source, command_of, read_source, source_schema
from datasets.tables.standard_rows import Part

SOURCE = Source(
    position=("Lon", "Lat"),
    time=("Date/Time",),
    formats=("%m/%d/%Y %H:%M:%S",),
    zone="America/New_York",
    columns={"base": Column("Base")},
)
SCHEMA = source_schema(SOURCE)


def uber(files: Iterable[str | Path]) -> Iterator[Part]:
    """Yield the rows of monthly files: id, t, lon, lat, base. Each row is a pick-up; there is no uid.

    Raises
    ------
    BadInput
        A file that cannot be read, or without positions (those of 2015 have zones instead).
    """
    return read_source(expand(files, "uber-raw-data-*14*.csv"), SOURCE)


main = command_of(uber, SCHEMA, "Read Uber's pick-ups of 2014.", "Monthly files of 2014, or a folder of them.")

if __name__ == "__main__":
    run(main)
