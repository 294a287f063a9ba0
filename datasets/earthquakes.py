"""Earthquakes as the USGS publishes them.

`python -m datasets.earthquakes all_month.csv --out earthquakes.parquet` reads them. Source: the CSV feeds and
searches of earthquake.usgs.gov, public domain; depth in kilometres, times in UTC.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from datasets.tables.command import expand, run
from datasets.tables.format_source import Column, Source, command_of, read_source, source_schema
from datasets.tables.standard_rows import Part

SOURCE = Source(
    position=("longitude", "latitude"),
    id="id",
    id_type=pa.string(),
    time=("time",),
    formats=("iso",),
    columns={
        "depth_km": Column("depth", pa.float64()),
        "mag": Column("mag", pa.float64()),
        "text": Column("place"),
    },
)
SCHEMA = source_schema(SOURCE)


def earthquakes(files: Iterable[str | Path]) -> Iterator[Part]:
    """Yield the rows of USGS files: id (the USGS's, a string), t, lon, lat, depth_km, mag, text (the place).

    Raises
    ------
    BadInput
        A file that does not exist or cannot be read, or lacks a column.
    """
    return read_source(expand(files, "*.csv"), SOURCE)


main = command_of(earthquakes, SCHEMA, "Read earthquakes of the USGS.", "CSV files of the USGS.")

if __name__ == "__main__":
    run(main)
