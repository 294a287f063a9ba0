"""Writing rows as one file: batch by batch, or from a DataFrame, of which Spark writes the parts."""

from __future__ import annotations

import json
import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from dtoss.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUP = 1 << 18
"""Rows that make a row group of Parquet at least; fewer wait for more."""
Write = Callable[[pa.RecordBatch], None]


@contextmanager
def open_writer(path: str, schema: pa.Schema) -> Iterator[Write]:
    """Return a context in which a function writes batches to one local file by its suffix: .parquet, .csv or .jsonl.

    The file appears whole when the context is left, or not at all where it is left by an error. Memory does not grow
    with the rows.
    """
    target = Path(path).absolute()
    scratch = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        with _failing(path):
            stream = scratch.open("wb")
        with stream:
            write, end = {".parquet": _parquet, ".csv": _csv}.get(target.suffix, _json_lines)(stream, schema)

            def failing(batch: pa.RecordBatch) -> None:
                with _failing(path):
                    write(batch)

            try:
                yield failing
            except BaseException:
                with suppress(OSError, ValueError, pa.ArrowException):
                    end()  # else it would be ended by whoever collects it, into a file that is closed
                raise
            with _failing(path):
                end()
        with _failing(path):
            scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def _failing(path: str) -> Iterator[None]:
    """Turn what a file system refuses into one line."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
        raise InputError(f"{path} cannot be written: {why}") from None


def _parquet(stream: BinaryIO, schema: pa.Schema) -> tuple[Write, Callable[[], None]]:
    import pyarrow.parquet as pq

    writer = pq.ParquetWriter(stream, schema, compression="zstd")
    waiting: list[pa.RecordBatch] = []

    def group() -> None:
        writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=4 * GROUP)
        waiting.clear()

    def write(batch: pa.RecordBatch) -> None:
        waiting.append(batch)
        if sum(map(len, waiting)) >= GROUP:
            group()

    def end() -> None:
        if waiting:
            group()
        writer.close()

    return write, end


def _csv(stream: BinaryIO, schema: pa.Schema) -> tuple[Write, Callable[[], None]]:
    from pyarrow import csv

    writer = csv.CSVWriter(stream, schema, write_options=csv.WriteOptions(quoting_style="needed"))
    return writer.write_batch, writer.close


def _json_lines(stream: BinaryIO, schema: pa.Schema) -> tuple[Write, Callable[[], None]]:
    heads = [json.dumps(name, ensure_ascii=False) for name in schema.names]

    def write(batch: pa.RecordBatch) -> None:
        if not len(batch):
            return
        import pyarrow.compute as pc

        parts: list[Any] = []
        for place, (head, column) in enumerate(zip(heads, batch.columns, strict=True)):
            parts += [("," if place else "{") + head + ":", _json_texts(column)]
        stream.write(_bytes_of(pc.binary_join_element_wise(*parts, "}\n", "")))

    return write, lambda: None


def _bytes_of(texts: pa.Array) -> memoryview:
    """Return the bytes of texts without nulls, one behind the other."""
    _, offsets, data = texts.buffers()
    wide = pa.types.is_large_string(texts.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)
    return memoryview(data)[int(ends[texts.offset]) : int(ends[texts.offset + len(texts)])]


def _json_texts(column: pa.Array) -> pa.Array:
    """Return the values of a column as JSON."""
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        texts = pc.if_else(pc.is_finite(column), column, None).cast(pa.string())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        coded = column.dictionary_encode()
        said = [json.dumps(text, ensure_ascii=False) for text in coded.dictionary.to_pylist()]
        texts = pa.array(said, pa.string()).take(coded.indices)
    elif pa.types.is_timestamp(kind):
        texts = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
        texts = pc.binary_join_element_wise('"', texts, '"', "")
    else:
        texts = pa.array([json.dumps(_plain(value), default=str) for value in column.to_pylist()], pa.string())
    return texts.fill_null("null")


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_file(frame: DataFrame, path: str) -> int:
    """Write a DataFrame to one local file by its suffix (.parquet, .csv, .jsonl) and return how many rows it has.

    The file appears whole or not at all. Memory does not grow with the rows.
    """
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import to_arrow_schema

    target = Path(path).absolute()
    scratch = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    rows = 0
    try:
        frame.write.parquet(f"file://{scratch}")
        parts = sorted(scratch.glob("*.parquet"))
        schema = pq.read_schema(parts[0]) if parts else to_arrow_schema(frame.schema, timezone="UTC")
        with open_writer(path, schema) as write:
            for part in parts:
                for batch in pq.ParquetFile(part).iter_batches():
                    write(batch)
                    rows += batch.num_rows
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return rows
