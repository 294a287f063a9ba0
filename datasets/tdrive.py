"""T-Drive: 10,357 taxis of Beijing, 2 to 8 February 2008, one file a taxi.

`python -m datasets.tdrive taxi_log_2008_by_id/ --out tdrive.parquet` reads it. A line is taxi, date and time,
longitude, latitude; the time is Beijing's. Source: the T-Drive user guide (Yuan, Zheng et al., Microsoft
Research Asia; ACM SIGSPATIAL 2010).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from datasets.tables.command import expand, run
from datasets.tables.fields import Layout
from datasets.tables.format_source import Source, command_of, read_source, source_schema
from datasets.tables.standard_rows import Part

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


main = command_of(tdrive, SCHEMA, "Read T-Drive files.", "Taxi files or folders of them.")

if __name__ == "__main__":
    run(main)
