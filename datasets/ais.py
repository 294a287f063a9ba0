"""Ships: AIS messages, decoded to CSV.

`python -m datasets.ais decoded.csv --out ships.parquet` reads two layouts, told apart by their header:

- decoded messages with `mmsi, x, y` and, in base station reports only, `year ... second`;
- positions with `oid, lon, lat, speed` and `t` in milliseconds since 1970.

ITU-R M.1371 writes "not available" as longitude 181, latitude 91, speed 102.3 knots, course 360 degrees,
year, month and day 0, hour 24, minute and second 60. Such positions are dropped and counted; the others
become null.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa

from datasets.tables.command import BadInput, expand, run
from datasets.tables.fields import header
from datasets.tables.format_source import Column, Source, command_of, read_source, source_schema
from datasets.tables.standard_rows import Part, number_rows

DECODED = Source(
    position=("x", "y"),
    uid="mmsi",
    date=("year", "month", "day", "hour", "minute", "second"),
    columns={
        "speed_kn": Column("sog", pa.float64(), missing=(102.30000305175781, 102.3)),
        "course": Column("cog", pa.float64(), missing=(360.0, 511.0)),
        "message": Column("id", pa.int16()),
    },
)
POSITIONS = Source(
    uid="oid",
    time=("t",),
    formats=("epoch-ms",),
    columns={
        "speed_kn": Column("speed", pa.float64(), missing=(102.3,)),
        "course": Column("course", pa.float64(), missing=(360.0,)),
    },
)
SCHEMA = source_schema(DECODED)


def ais(files: Iterable[str | Path]) -> Iterator[Part]:
    """Yield the rows of CSV files: id, uid (MMSI or oid), t, lon, lat, speed_kn, course, message.

    Raises
    ------
    BadInput
        A file that cannot be read, or whose header is neither layout's.
    """
    return number_rows(chain.from_iterable(map(_read, expand(files, "*.csv"))), SCHEMA)


def _read(path: Path) -> Iterator[Part]:
    source = _layout(path)
    for batch, counts in read_source([path], source):
        if source is POSITIONS:
            batch = batch.append_column("message", pa.nulls(batch.num_rows, pa.int16()))
        yield batch.drop_columns("id"), counts


def _layout(path: Path) -> Source:
    names = set(header(path, DECODED.layout))
    for source in (DECODED, POSITIONS):
        if {source.uid, *source.position} <= names:
            return source
    raise BadInput(f"{path}: neither mmsi, x, y nor oid, lon, lat among {', '.join(sorted(names))}")


main = command_of(ais, SCHEMA, "Read decoded AIS messages.", "CSV files of decoded AIS.")

if __name__ == "__main__":
    run(main)
