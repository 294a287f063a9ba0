"""The driver of a Spark with little memory, over a rebuild and two cycles: a script, see :func:`main`."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.rows.input_columns import Columns
from pipelines.cycle import cycle
from pipelines.cycles.spread import NOTHING
from pipelines.rebuild import rebuild
from pipelines.rows.read_files import read_positions
from pipelines.spark.session import spark_session
from tests.dtoss.snapshots.small_stores import silent

FEW = {"spark.sql.shuffle.partitions": "8", "spark.ui.enabled": "false"}
RULES = {"clock": "data", "pivots": "keep", "in_place_until": 1e9, "deleted": "gone", "here": NOTHING, "warn": silent}


def write(folder: Path, ids: np.ndarray, t: int, files: int) -> None:
    """Write rows of some objects, one in fifty of them deleted after the first time, shared among files."""
    folder.mkdir()
    rng = np.random.default_rng(t)
    for number, some in enumerate(np.array_split(ids, files)):
        lon, lat = rng.uniform(-60, 60, (2, len(some)))
        gone = (some % 50 == t) & (t > 0)
        table = pa.table({"id": some, "lon": lon, "lat": lat, "t": t + rng.integers(0, 3, len(some)), "gone": gone})
        pq.write_table(table, folder / f"{number:05d}.parquet")


def main(path: str, objects: int, files: int, partitions: int) -> None:
    """Print the peak memory of this process, bytes, when Spark has begun, after a rebuild, and after two cycles."""
    folder, peaks = Path(path), []
    ids = np.random.default_rng(0).permutation(objects)
    for t, some in ((0, ids), (1, ids[: objects // 2]), (2, ids[objects // 4 :])):
        write(folder / str(t), some, t, files)
    del ids, some

    def told() -> None:
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)

    session = spark_session("local[2]", driver_memory="512m", name="memory", settings=FEW)
    told()
    named = Columns(id="id", time="t", deleted="gone")
    first = read_positions(session, [str(folder / "0")], Columns(id="id", time="t", attributes=()))
    rebuild(first, str(folder / "store"), partitions=partitions, warn=silent)
    told()
    for t in (1, 2):
        manifest = cycle(read_positions(session, [str(folder / str(t))], named), str(folder / "store"), **RULES)
        told()
    session.stop()
    print(json.dumps({"peaks": peaks, "cycle": manifest["cycle"]}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
