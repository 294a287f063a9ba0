"""What files of tables say of their columns: consecutive ones that say the same as one, read by who does the work."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.log.log_reader import META
from pipelines.engines.spark_rows import done_by_number
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 16
"""Files that are looked at at a time."""
MOST_HERE = 1000
"""Files whose footers this process reads also where Spark does the work."""
See = Callable[[fs.FileSystem, str], pa.Schema]


@dataclass(frozen=True)
class Alike:
    """Consecutive files that say the same of their columns: the numbers of the first and the last, and what."""

    first: int
    last: int
    schema: pa.Schema


def alike_files(places: Sequence[tuple[fs.FileSystem, str]], see: See, session: SparkSession | None) -> list[Alike]:
    """Return what files say, in their order; the first that cannot be read raises what ``see`` does.

    ``session``: whose tasks read where the files are many; this process does when None.
    """
    if session is None or len(places) <= MOST_HERE:
        runs, wrong = _seen(places, 0, len(places), see)
        parts = [(runs, wrong)]
    else:
        ends = np.linspace(0, len(places), 4 * cores(session) + 1).astype(int).tolist()
        parts = done_by_number(
            session, len(ends) - 1, lambda number: _seen(places, ends[number], ends[number + 1], see)
        )
    found: list[Alike] = []
    for runs, wrong in parts:
        for run in runs:
            _join(found, run)
        if wrong is not None:
            raise wrong
    return found


def _seen(
    places: Sequence[tuple[fs.FileSystem, str]], begin: int, end: int, see: See
) -> tuple[list[Alike], InputError | None]:
    """Return what some files say, as far as they can be read, and why no further."""
    found: list[Alike] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            for number, schema in enumerate(pool.map(lambda place: see(*place), places[begin:end]), begin):
                _join(found, Alike(number, number, schema))
        except InputError as error:
            return found, error
    return found, None


def _join(found: list[Alike], run: Alike) -> None:
    if found and run.schema.equals(found[-1].schema) and _about(run.schema) == _about(found[-1].schema):
        found[-1] = replace(found[-1], last=run.last)
    else:
        found.append(run)


def _about(schema: pa.Schema) -> tuple[Any, ...]:
    """Return what metadata say that files read together have to agree on."""
    said = schema.metadata or {}
    data = said.get(b"geo")
    return said.get(META), data if data is None else geo_facts(data) or data


def geo_facts(data: bytes) -> tuple[Any, ...] | None:
    """Return what the metadata of GeoParquet say but for the box, which is a file's own; None where damaged."""
    try:
        geo = json.loads(data)
        about = geo["columns"][geo["primary_column"]]
        return geo["primary_column"], about["encoding"], about.get("crs", "OGC:CRS84")
    except (ValueError, KeyError, TypeError):
        return None
