"""Writing a DataFrame as one file: Spark writes its parts, and they are put together as a stream."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_file(frame: DataFrame, path: str) -> int:
    """Write a DataFrame to one local file by its suffix (.parquet, .csv, .jsonl) and return how many rows it has.

    The file appears whole or not at all. Memory does not grow with the rows.
    """
    target = Path(path).absolute()
    scratch = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        frame.write.parquet(f"file://{scratch}")
        parts = sorted(scratch.glob("*.parquet"))
        whole = scratch / "whole"
        rows = _merge(parts, whole, target.suffix, frame)
        whole.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return rows


def _merge(parts: list[Path], whole: Path, suffix: str, frame: DataFrame) -> int:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = pq.read_schema(parts[0]) if parts else to_arrow_schema(frame.schema, timezone="UTC")
    rows = 0
    if suffix == ".parquet":
        with pq.ParquetWriter(whole, schema, compression="zstd") as writer:
            for part in parts:
                for batch in pq.ParquetFile(part).iter_batches():
                    writer.write_batch(batch)
                    rows += batch.num_rows
        return rows
    if suffix == ".csv":
        from pyarrow import csv

        options = csv.WriteOptions(quoting_style="needed")
        with csv.CSVWriter(whole, schema, write_options=options) as writer:
            for part in parts:
                for batch in pq.ParquetFile(part).iter_batches():
                    writer.write_batch(batch)
                    rows += batch.num_rows
        return rows
    with whole.open("w") as stream:
        for part in parts:
            for batch in pq.ParquetFile(part).iter_batches():
                table = pa.Table.from_batches([batch])
                stream.write(table.to_pandas().to_json(orient="records", lines=True, date_format="iso"))
                rows += batch.num_rows
    return rows
