"""What forks the Python workers of a local Spark, with all imported that tasks need: once, and not by each worker.

Spark's own imports nothing before it forks, so each worker took a second of a processor until its first row, half of it
for sources of pyspark, of an archive beside which nothing compiled is kept.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.machinery import PathFinder

from pipelines.spark.garbage import leave_out_what_stays

PRELOADED = ("pandas", "pyspark.worker", "pipelines.rebuild", "pipelines.join", "dtoss.answer_rows", "dtoss.engine")


def without_archives(path: list[str]) -> list[str]:
    """Return where modules are looked for without archives, where pyspark is installed in one of the other places."""
    places = [one for one in path if not one.endswith(".zip")]
    return path if PathFinder.find_spec("pyspark", places) is None else places


def main() -> None:
    """Fork a worker for each that Java asks for, until it ends."""
    sys.path[:] = without_archives(sys.path)
    for name in PRELOADED:
        import_module(name)
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()
    leave_out_what_stays()
    manager()


if __name__ == "__main__":
    main()
