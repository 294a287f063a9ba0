"""T-Drive: 10,357 taxis of Beijing, 2 to 8 February 2008, one file a taxi.

`python -m datasets.tdrive taxi_log_2008_by_id/ --out tdrive.parquet` reads it. A line is taxi, date and time,
longitude, latitude; the time is Beijing's. Source: the T-Drive user guide (Yuan, Zheng et al., Microsoft
Research Asia; ACM SIGSPATIAL 2010).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from datasets.tables.command import Out, expand, run
from datasets.tables.fields import Layout
from datasets.tables.format_source import Source, read_source, source_schema
from datasets.tables.standard_rows import Part, save

SOURCE = Source(
    layout=Layout(names=("taxi", "time", "lon", "lat"), quote=None),
    uid="taxi",
    time=("time",),
    formats=("iso",),
    zone="Asia/Shanghai",
)
SCHEMA = source_schema(SOURCE)


def tdrive(files: Iterable[str | Path]) -> Iterator[Part]:
    """Yield the rows of taxi files or of folders of ``*.txt``: id, uid, t, lon, lat.

    Raises
    ------
    BadInput
        A file that does not exist or cannot be read.
    """
    return read_source(expand(files, "*.txt"), SOURCE)


def main(
    files: Annotated[list[str], typer.Argument(help="Taxi files or folders of them.")],
    out: Out,
) -> None:
    """Read T-Drive files."""
    save(tdrive(files), SCHEMA, out, "tdrive")


if __name__ == "__main__":
    run(main)
