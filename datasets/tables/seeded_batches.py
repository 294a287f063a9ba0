"""Batches of bounded size, each with a random stream of its own, and the Parquet or CSV file they end in."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from datasets.tables.command import BadInput

BATCH_ROWS = 131_072
"""Rows of a generated batch and of a row group: 5 MB at five columns."""


def spans(rows: int) -> Iterator[tuple[int, int, int]]:
    """Yield ``(number, start, stop)`` of each batch of ``rows`` rows.

    Examples
    --------
    >>> list(spans(131_073))
    [(0, 0, 131072), (1, 131072, 131073)]
    """
    if rows < 0:
        raise BadInput(f"rows is {rows}: give 0 or more")
    for number, start in enumerate(range(0, rows, BATCH_ROWS)):
        yield number, start, min(start + BATCH_ROWS, rows)


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return the random stream of ``(seed, *key)``: independent of every other key, and of nothing else.

    Examples
    --------
    >>> bool(stream(1, 2).random() == stream(1, 2).random())
    True
    """
    if seed < 0:
        raise BadInput(f"seed is {seed}: give 0 or more")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str | Path) -> int:
    """Write the batches as row groups of `BATCH_ROWS` rows; return the number of rows.

    Holds one row group in memory. The file appears under its name when it is complete, so that a run that
    fails leaves none. No batch at all gives a legal file of 0 rows.
    """
    rows = 0
    with _whole(Path(path)) as part, pq.ParquetWriter(part, schema, compression="zstd") as writer:
        for table in _even(batches, schema):
            writer.write_table(table, row_group_size=BATCH_ROWS)
            rows += table.num_rows
    return rows


def write_csv(batches: Iterable[pa.RecordBatch], names: Sequence[str], path: str | Path) -> int:
    """Write the batches as CSV below the names of their columns, and return the number of rows."""
    rows = 0
    with _whole(Path(path)) as part, part.open("wb") as out:
        out.write(",".join(names).encode() + b"\n")
        for batch in batches:
            pa_csv.write_csv(batch, out, pa_csv.WriteOptions(include_header=False, quoting_style="none"))
            rows += batch.num_rows
    return rows


def _even(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting = schema.empty_table()
    for batch in batches:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch], schema)])
        start = 0
        while waiting.num_rows - start >= BATCH_ROWS:
            yield waiting.slice(start, BATCH_ROWS)
            start += BATCH_ROWS
        waiting = waiting.slice(start)
    if waiting.num_rows:
        yield waiting


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
