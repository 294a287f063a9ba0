"""Whole files of rows that other programs have made: Parquet, CSV and JSON lines, as one table."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from numpy.typing import NDArray

from datasets.tables.command import BadInput

__all__ = ["microseconds", "read_tables"]

_PACKED = (".gz", ".bz2", ".zst")
_JSON = (".json", ".jsonl", ".ndjson")
_SECOND = 1e6
_LAST = 2**62
"""Microseconds since 1970 up to which a time is taken."""


def read_tables(files: Sequence[Path]) -> pa.Table:
    """Return the rows of all files, in their order; held in memory."""
    tables = []
    for file in files:
        try:
            tables.append(_read(file))
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(f"{file}: {str(error).splitlines()[0]}") from error
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadInput(f"the files do not go together: {str(error).splitlines()[0]}") from error


def _read(file: Path) -> pa.Table:
    name = file.with_suffix("") if file.suffix in _PACKED else file
    if name.suffix == ".parquet":
        return pq.read_table(file, partitioning=None)
    if name.suffix not in (".csv", *_JSON):
        raise BadInput(f"{file} is none of .parquet, .csv, .json, .jsonl and .ndjson: convert it first")
    with pa.input_stream(str(file)) as stream:
        return pa_csv.read_csv(stream) if name.suffix == ".csv" else pa_json.read_json(stream)


def microseconds(table: pa.Table, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a column of times in microseconds since 1970, 0 where there is none, and whether there is one.

    ``name``: A column of timestamps, dates, or numbers: seconds since 1970.
    """
    if name not in table.column_names:
        raise BadInput(
            f"there is no column {name!r} of times, but {', '.join(table.column_names)}: name it with --time"
        )
    column, kind = table[name], table.schema.field(name).type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        times = column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        there = pc.is_valid(times).to_numpy()
        return pc.fill_null(times, 0).to_numpy(), there
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise BadInput(f"column {name!r} is of type {kind}: times are timestamps, dates or seconds since 1970")
    seconds = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy()
    there = np.abs(seconds) < _LAST / _SECOND
    return np.round(np.where(there, seconds, 0.0) * _SECOND).astype(np.int64), there
