"""SNAP check-ins: Gowalla (2009 to 2010) and Brightkite (2008 to 2010), of people at places.

`python -m datasets.snap loc-gowalla_totalCheckins.txt.gz --out gowalla.parquet` reads them. A line is user,
time in UTC, latitude, longitude and place, apart by TAB. Source: snap.stanford.edu/data/loc-gowalla.html and
loc-brightkite.html (Cho, Myers, Leskovec, KDD 2011).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from datasets.tables.command import expand, run
from datasets.tables.fields import Layout
from datasets.tables.format_source import Column, Source, command_of, read_source, source_schema
from datasets.tables.standard_rows import Part

SOURCE = Source(
    layout=Layout(names=("user", "time", "lat", "lon", "place"), delimiter="\t", quote=None),
    uid="user",
    time=("time",),
    formats=("iso",),
    columns={"poi": Column("place")},
)
SCHEMA = source_schema(SOURCE)


def snap(files: Iterable[str | Path]) -> Iterator[Part]:
    """Yield the rows of check-in files: id, uid, t, lon, lat, poi (a string: Brightkite's are hexadecimal).

    Raises
    ------
    BadInput
        A file that does not exist or cannot be read.
    """
    return read_source(expand(files, "*totalCheckins*"), SOURCE)


main = command_of(snap, SCHEMA, "Read Gowalla or Brightkite check-ins as SNAP has them.", "Check-in files, .gz or not.")

if __name__ == "__main__":
    run(main)
