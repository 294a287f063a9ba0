"""Rows of a server's access log, read in this process: the same are good as where Spark reads them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.rows.input_columns import REASON
from pipelines.rows.access_rows import Asks, access_columns, requests_of
from pipelines.rows.position_frame import screen_positions
from pipelines.rows.read_files import positions_of_table

KEPT = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("k", pa.int32()),
        ("radius", pa.float64()),
        ("weight", pa.int64()),
    ]
)
"""Good rows as live patterns keep them: a place and not a partition, and the weight in whole millionths."""
_ASKS = Asks(weight="weight", k="k", radius="radius")


@dataclass(frozen=True)
class LogRows:
    """Rows of some files."""

    good: pa.Table  # Those that count, in the columns of :data:`KEPT`
    bad: dict[str, int]  # How many were set aside, by reason


def read_log_file(filesystem: fs.FileSystem, file: str, names: tuple[str, str]) -> pa.Table:
    """Return a file of a log: t, the coordinates as x and y, k, radius and weight, as numbers."""
    columns = {"t": "t", names[0]: "x", names[1]: "y", "k": "k", "radius": "radius", "weight": "weight"}
    try:
        with filesystem.open_input_file(file) as stream, pq.ParquetFile(stream) as parquet:
            missing = [name for name in columns if name not in parquet.schema_arrow.names]
            if missing:
                raise InputError(
                    f"{file} has no column {missing[0]}: it is no file of an access log of this store; move it away"
                )
            found = parquet.read(list(columns))
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{file} is damaged, and its requests cannot be counted: {str(error).splitlines()[0]}; restore it or move "
            "it away"
        ) from None
    arrays = []
    for name, inner in columns.items():
        column = found.column(name)
        is_time = pa.types.is_timestamp(column.type)
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if not (is_time if inner == "t" else number):
            what = "timestamps are" if inner == "t" else "numbers are"
            raise InputError(f"column {name} of {file} is {column.type}: {what} wanted; move the file away")
        kind = pa.timestamp("us", "UTC") if is_time else pa.float64()
        if is_time and column.type.tz is None:
            column = column.cast(pa.timestamp("us"), safe=False)
        arrays.append(column.cast(kind, safe=False))
    return pa.table(arrays, names=list(columns.values()))


def screened_rows(table: pa.Table, space: Space) -> LogRows:
    """Return which rows of files count, and why others do not, as :func:`pipelines.patterns.patterns` judges them."""
    positions = positions_of_table(table, access_columns(_ASKS, x="x", y="y", time="t"))
    frame = screen_positions(positions, space).frame
    kept: list[pa.RecordBatch] = []
    bad: Counter[str] = Counter()
    for batch in frame.all_rows().table(frame.schema).to_batches():
        requests = requests_of(_ASKS, None, batch)
        reasons = requests.column(REASON)
        bad.update(reasons.drop_null().to_pylist())
        columns = [batch.column("t"), *(requests.column(name) for name in KEPT.names[1:])]
        good = pa.record_batch(columns, names=KEPT.names).filter(reasons.is_null())
        kept.append(good.cast(KEPT))
    return LogRows(pa.Table.from_batches(kept, KEPT).combine_chunks(), dict(bad))
