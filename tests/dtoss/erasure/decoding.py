"""Every byte of every file of a folder, decoded: which texts and whole numbers stand in it, however it is packed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.buckets import hashes_of
from dtoss.history.row_blocks import id_words
from dtoss.windows.storage.bundle import unbundle_tables

BUNDLE = b"dtossW01"


def found_in(root, ids) -> list[str]:
    """Return where in the files of a folder an id stands: as text, as a whole number, or as a hash that has no key."""
    traces = Traces(ids)
    return [
        f"{file.relative_to(root)}: {what}"
        for file in sorted(Path(root).rglob("*"))
        if file.is_file()
        for what in {*traces.in_name(str(file.relative_to(root))), *traces.in_file(file)}
    ]


class Traces:
    """What an id leaves: its text, its bytes, its number; the first eight bytes and the hash that files have of one."""

    def __init__(self, ids: Iterable[str | int]) -> None:
        self.ids = list(ids)
        self.texts = {str(one) for one in self.ids}
        whole = {one for one in self.ids if isinstance(one, int)}
        columns = [pa.array([one], pa.large_string() if isinstance(one, str) else pa.int64()) for one in self.ids]
        self.numbers = whole | {int(hashes_of(one)[0]) for one in columns} | {int(id_words(one)[0]) for one in columns}
        self.raw = [one.encode(code) for one in self.texts for code in ("utf-8", "utf-16-le")]
        self.raw += [number.to_bytes(8, "little", signed=True) for number in self.numbers]

    def in_name(self, name: str) -> Iterator[str]:
        if any(one in name for one in self.texts):
            yield "its name"

    def in_file(self, file: Path) -> Iterator[str]:
        yield from self.in_bytes(file.read_bytes())

    def in_bytes(self, data: bytes) -> Iterator[str]:
        if any(one in data for one in self.raw):
            yield "raw bytes"
        if data[:4] == b"PAR1":
            yield from self.in_parquet(data)
        elif data[:6] == b"ARROW1":
            yield from self.in_tables(pa.ipc.open_file(data).read_all())
        elif data[:8] == BUNDLE:
            for table in unbundle_tables(pa.py_buffer(data), "a file of tables").values():
                yield from self.in_tables(table)
        elif data[:4] == b"\xff\xff\xff\xff":
            with suppress(pa.ArrowInvalid, OSError):
                yield from self.in_tables(pa.ipc.open_stream(data).read_all())
        elif data[:4] == b"\x28\xb5\x2f\xfd":
            yield from self.in_bytes(pa.input_stream(pa.BufferReader(data), compression="zstd").read())
        elif data[:1] in (b"{", b"["):
            for line in data.splitlines() if data.count(b"\n{") else [data]:
                with suppress(ValueError):
                    yield from self.in_value(json.loads(line))

    def in_parquet(self, data: bytes) -> Iterator[str]:
        parquet = pq.ParquetFile(pa.BufferReader(data))
        footer = parquet.metadata
        for key, value in (footer.metadata or {}).items():
            yield from self.in_value(key.decode(errors="replace"))
            yield from self.in_value(value.decode(errors="replace"))
        for group in range(footer.num_row_groups):
            for column in range(footer.num_columns):
                statistics = footer.row_group(group).column(column).statistics
                if statistics is not None and statistics.has_min_max:
                    for edge in (statistics.min, statistics.max):
                        yield from (f"statistics: {what}" for what in self.in_value(edge))
        yield from self.in_tables(parquet.read())
        # pages of dictionaries may have values that no row has
        texts = [one.name for one in parquet.schema_arrow if pa.types.is_string(one.type)]
        yield from self.in_tables(pq.read_table(pa.BufferReader(data), read_dictionary=texts))

    def in_tables(self, table: pa.Table) -> Iterator[str]:
        for where in (table.schema.metadata or {}, *(one.metadata or {} for one in table.schema)):
            for key, value in where.items():
                yield from self.in_bytes(value)
                yield from self.in_value(key.decode(errors="replace"))
                yield from self.in_value(value.decode(errors="replace"))
        for name, column in zip(table.column_names, table.columns, strict=True):
            for chunk in column.chunks:
                yield from (f"column {name}: {what}" for what in self.in_array(chunk))

    def in_array(self, array: pa.Array) -> Iterator[str]:
        kind = array.type
        if isinstance(array, pa.DictionaryArray):
            yield from self.in_array(array.dictionary)
        elif pa.types.is_struct(kind):
            for child in array.flatten():
                yield from self.in_array(child)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            yield from self.in_array(array.values)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            for one in pc.unique(array).drop_null().to_pylist():
                yield from self.in_value(one)
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            for one in array.drop_null().to_pylist():
                yield from self.in_bytes(one)
        elif pa.types.is_integer(kind):
            held = pc.is_in(array.cast(pa.int64(), safe=False), value_set=pa.array(sorted(self.numbers), pa.int64()))
            if pc.any(held).as_py():
                yield "a whole number"
        elif pa.types.is_floating(kind):
            numbers = np.array([float(one) for one in self.ids if isinstance(one, int)])
            if np.isin(array.drop_null().to_numpy(), numbers).any():
                yield "a number"

    def in_value(self, value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, one in value.items():
                yield from self.in_value(key)
                yield from self.in_value(one)
        elif isinstance(value, list):
            for one in value:
                yield from self.in_value(one)
        elif isinstance(value, bytes):
            yield from self.in_bytes(value)
        elif isinstance(value, bool) or value is None:
            return
        elif isinstance(value, int | float):
            if value in self.numbers:
                yield "a number of JSON"
        elif isinstance(value, str):
            if any(one in value for one in self.texts):
                yield "a text"
            if len(value) > 16:
                with suppress(ValueError):
                    yield from self.in_bytes(base64.b64decode(value, validate=True))
            if value[:1] in ("{", "["):
                with suppress(ValueError):
                    yield from self.in_value(json.loads(value))
