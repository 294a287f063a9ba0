"""Places in JSON lines: by Arrow where the values of a column are of one type, else line by line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import fs

from dtoss.errors import InputError
from pipelines.local_joins.text_values import number, whole_number
from pipelines.rows.inputs import PACKED
from pipelines.rows.paths import value_at

_BLOCK = 1 << 22
_ROWS = 1 << 16


def opened(filesystem: fs.FileSystem, file: str) -> BinaryIO:
    """Return the bytes of a file, unpacked where its name says that it is packed."""
    packed = "detect" if file.lower().endswith(PACKED) else None
    stream: BinaryIO = io.BufferedReader(filesystem.open_input_stream(file, compression=packed), _BLOCK)
    return stream


class _Written(str):
    """A number with a point as it is written."""


@dataclass(frozen=True)
class JsonLines:
    """Files of JSON lines, which may be read several times."""

    files: tuple[str, ...]  # On their file system
    filesystem: fs.FileSystem

    def quick(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a schema by Arrow's reader."""
        from pyarrow.json import ParseOptions, ReadOptions, open_json

        options = ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        for file in self.files:
            with opened(self.filesystem, file) as stream:
                if not stream.peek(1):  # type: ignore[attr-defined]
                    continue
                for batch in open_json(stream, ReadOptions(block_size=_BLOCK), options):
                    yield batch.select(schema.names)

    def objects(self) -> Iterator[dict[str, Any]]:
        """Yield the object of each line; an empty one where a line holds none."""
        for file in self.files:
            try:
                with opened(self.filesystem, file) as stream:
                    for line in stream:
                        text = line.decode("utf-8", "replace").removeprefix("\ufeff").strip()
                        if text:
                            yield from _objects(text)
            except (OSError, EOFError) as error:
                raise InputError(f"{file} cannot be read as json: {str(error).splitlines()[0]}") from None

    def columns(self) -> dict[str, str]:
        """Return the type that Spark takes for each column, by all values: bigint, double, string, boolean, another."""
        found: dict[str, set[str]] = {}
        for one in self.objects():
            for name, value in one.items():
                kinds = found.setdefault(name, set())
                # an empty text says nothing of the type, to Spark either
                if value not in (None, ""):
                    kinds.add(_kind(value))
        return {name: _together(kinds) for name, kinds in found.items()}

    def kinds(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return the type that Spark takes for each of some paths to fields; None where no value is there."""
        found: dict[str, set[str]] = {name: set() for name in names}
        for one in self.objects() if names else ():
            for name, kinds in found.items():
                if (value := value_at(one, name)) not in (None, ""):
                    kinds.add(_kind(value))
        return {name: _together(kinds) if kinds else None for name, kinds in found.items()}

    def slow(
        self, id_name: str, others: Sequence[str], kind: pa.DataType, *, pointed: bool = False
    ) -> Iterator[list[pa.Array]]:
        """Yield an id, as it is or as text, and coordinates, or what holds points, line by line."""
        objects = self.objects()
        text = not pa.types.is_integer(kind)
        while some := list(islice(objects, _ROWS)):
            ids = [_text(value_at(one, id_name)) if text else _whole(value_at(one, id_name)) for one in some]
            read, to = (_point, pa.string()) if pointed else (_number, pa.float64())
            yield [
                pa.array(ids, kind),
                *(pa.array([read(value_at(one, name)) for one in some], to) for name in others),
            ]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    try:
        value = json.loads(text, parse_float=_Written, parse_constant=_Written)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        yield from value
    else:
        yield value if isinstance(value, dict) else {}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint"
    if isinstance(value, _Written):
        return "double"
    return "string" if isinstance(value, str) else "struct" if isinstance(value, dict) else "array"


def _together(kinds: set[str]) -> str:
    """Return the type of a column with values of such types."""
    if kinds == {"bigint", "double"}:
        return "double"
    return next(iter(kinds)) if len(kinds) == 1 else "string"


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        return whole_number(value)
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _point(value: Any) -> str | None:
    """Return a point as WKT: of text as it is, of two numbers or more, as GeoJSON has them, the first two."""
    if isinstance(value, list) and len(value) >= 2 and all(_number(one) is not None for one in value):
        return f"POINT ({value[0]} {value[1]})"
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return float(value)
    return number(value) if isinstance(value, str) else None
