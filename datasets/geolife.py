"""GeoLife: people of Beijing and elsewhere, 2007 to 2012, one .plt file a trip.

`python -m datasets.geolife "Geolife Trajectories 1.3/Data" --out geolife.parquet` reads it. After six lines
without use, a line is latitude, longitude, 0, altitude in feet (-777: not valid), the date as days since
1899-12-30, and again as date and time in GMT. Source: the GeoLife GPS Trajectories user guide 1.3 (Microsoft
Research Asia).
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from datasets.tables.command import expand, run
from datasets.tables.fields import Layout
from datasets.tables.format_source import Column, Source, command_of, read_source, source_schema
from datasets.tables.standard_rows import Part


def _person(path: Path) -> int | None:
    found = re.search(r"(\d{3})[/\\_]Trajectory", path.as_posix())
    return int(found[1]) if found else None


SOURCE = Source(
    layout=Layout(names=("lat", "lon", "zero", "altitude", "days", "date", "time"), quote=None, skip=6),
    uid_of=_person,
    time=("date", "time"),
    formats=("iso",),
    since="2007-04-01",
    columns={"altitude_ft": Column("altitude", pa.float64(), missing=(-777.0,))},
)
SCHEMA = source_schema(SOURCE)


def geolife(files: Iterable[str | Path]) -> Iterator[Part]:
    """Yield the rows of .plt files or of folders of them: id, uid, t, lon, lat, altitude_ft.

    The uid is the person's folder (``Data/020/Trajectory/...``), null for a file that lies elsewhere.

    Raises
    ------
    BadInput
        A file that does not exist or cannot be read.
    """
    return read_source(expand(files, "*.plt"), SOURCE)


main = command_of(geolife, SCHEMA, "Read GeoLife files.", ".plt files or folders of them.")

if __name__ == "__main__":
    run(main)
