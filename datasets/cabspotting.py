"""Cabspotting: the taxis of San Francisco, May 2008, one file a cab.

`python -m datasets.cabspotting cabspottingdata/ --out cabspotting.parquet` reads it. A line is latitude,
longitude, occupancy (1 with a fare) and UNIX time, apart by blanks; the cab is in the name of the file,
`new_abboip.txt`. Source: CRAWDAD epfl/mobility (Piorkowski, Sarafijanovic-Djukic, Grossglauser, COMSNETS
2009).
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from datasets.tables.command import expand, run
from datasets.tables.fields import Layout
from datasets.tables.format_source import Column, Source, command_of, read_source, source_schema
from datasets.tables.standard_rows import Part


def _cab(path: Path) -> str:
    found = re.search(r"new_([a-z]+)", path.name)
    return found[1] if found else path.stem


SOURCE = Source(
    layout=Layout(names=("lat", "lon", "occupied", "time"), delimiter=" ", quote=None),
    uid_of=_cab,
    uid_type=pa.string(),
    time=("time",),
    formats=("epoch-s",),
    columns={"occupied": Column("occupied", pa.int8())},
)
SCHEMA = source_schema(SOURCE)


def cabspotting(files: Iterable[str | Path]) -> Iterator[Part]:
    """Yield the rows of cab files, or of folders of ``new_*.txt``: id, uid (string), t, lon, lat, occupied.

    Raises
    ------
    BadInput
        A file that does not exist or cannot be read.
    """
    return read_source(expand(files, "new_*.txt"), SOURCE)


main = command_of(cabspotting, SCHEMA, "Read Cabspotting files.", "Cab files or folders of them.")

if __name__ == "__main__":
    run(main)
