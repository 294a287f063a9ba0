"""Several tables in one file: a line of JSON that says where each begins, and Arrow's own files one after another."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from dtoss.commits.columnar_files import decoding

_MARK = b"dtossW01"
_LINE = 8
_ALIGNED = 64
"""Tables begin at multiples of so many bytes, so that what is mapped is aligned."""


def bundle_tables(tables: Mapping[str, pa.Table]) -> pa.Buffer:
    """Return the bytes of a file of tables, in the order of their names."""
    parts = {name: _written(tables[name]) for name in sorted(tables)}
    places: dict[str, list[int]] = {}
    end = 0
    for name, part in parts.items():
        places[name] = [end, part.size]
        end += _padded(part.size)
    line = json.dumps(places, separators=(",", ":")).encode()
    head = _MARK + len(line).to_bytes(_LINE, "little") + line
    sink = pa.BufferOutputStream()
    sink.write(head + bytes(_padded(len(head)) - len(head)))
    for part in parts.values():
        sink.write(part)
        sink.write(bytes(_padded(part.size) - part.size))
    return sink.getvalue()


def unbundle_tables(data: pa.Buffer, path: str) -> dict[str, pa.Table]:
    """Return the tables of a file by name, as views of its bytes."""
    with decoding(path):
        first = data.slice(0, len(_MARK) + _LINE).to_pybytes()
        if first[: len(_MARK)] != _MARK:
            raise ValueError("it does not begin as a file of tables")
        length = int.from_bytes(first[len(_MARK) :], "little")
        places = json.loads(data.slice(len(first), length).to_pybytes())
        begin = _padded(len(first) + length)
        found = {}
        for name, (at, size) in places.items():
            reader = pa.ipc.open_file(pa.BufferReader(data.slice(begin + at, size)))
            found[name] = reader.read_all()
        return found


def _written(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table.combine_chunks())
    return sink.getvalue()


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
