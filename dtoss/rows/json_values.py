"""Objects of JSON, a line each or in one value, as rows of columns with the types and values that Spark gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.delimited.record_batches import CORRUPT
from dtoss.errors import InputError
from dtoss.rows.raw_json import DEEPEST_JSON, LenientReader, NoJson, Written, plain_of, rewritten, text_of

Kind = Any
"""The type of a value: None of none, a word of _SIMPLE, digits of a decimal, {name: kind}, or [kind] of a list."""
_SIMPLE = {"boolean": pa.bool_(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
BATCH_ROWS, _QUICK = 1 << 16, 1000
"""Rows of a batch, and characters of a line that Python's reader is given: no number there is too long."""
_LONG, _DIGITS = 20, 38
"""Digits of a decimal that holds all whole numbers of 64 bits, and of the longest."""
_NAMED = {"NaN": "nan", "+INF": "inf", "+Infinity": "inf", "Infinity": "inf", "-INF": "-inf", "-Infinity": "-inf"}
_UNSURE = (b"NaN", b"Inf", b"\\ud", b"\\uD", b"\x00")
"""What Arrow reads in another way."""
_LONG_WHOLE, _LONG_PART = 19, 300
"""Digits of a whole number that may not be one of 64 bits; a number of more than a thousand has such a third."""
_NEGATIVE_ZERO = re.compile(rb"-0(?<=[:,[\s]-0)[^.eE0-9]")
"""A whole zero has no sign to Spark."""
_LOOKED_AT = 1 << 18
"""Bytes that are looked through at a time."""


class _Misfit(ValueError):
    """A value that its column does not take, with what of it does."""

    def __init__(self, part: Any = None) -> None:
        super().__init__()
        self.part = part


class _Unwritten(ValueError):
    """How a value was written is needed, and not known."""


def kinds_of_block(block: bytes, name: str, *, multiline: bool = False, arrow: bool = True) -> dict[str, Kind]:
    """Return the kinds of columns that the lines of a block say, or with ``multiline`` the block as one value.

    Where a line is no object, ``_corrupt_record`` is among them. ``name``: of what the block is a part; ``arrow``:
    whether Arrow may read it, which takes milliseconds of a line and less of many. Raises InputError for a name that
    stands twice in one.
    """
    table = None if multiline or not arrow else _by_arrow(block, None)
    if table is not None:
        return {one: _kind_of(table[one]) for one in table.column_names}
    found: dict[str, Kind] = {}
    corrupt = False
    for record in _records(block, multiline):
        try:
            root = _kind(_values(record, name, multiline)[1])
        except NoJson:
            root = "string"
        while isinstance(root, list):
            root = root[0]
        if isinstance(root, dict):
            found = _merge(found, root)
        corrupt |= root is not None and not isinstance(root, dict)
    if corrupt:
        found.setdefault(CORRUPT, "string")
    return found


def schema_of_kinds(seen: Sequence[dict[str, Kind]]) -> pa.Schema:
    """Return the columns of all that was seen. Raises InputError for what Spark refuses too."""
    kind = _type_of(merge_kinds(seen), "")
    schema = pa.schema([] if kind is None else list(kind))
    if CORRUPT in schema.names and schema.field(CORRUPT).type != pa.string():
        raise InputError(f"the column {CORRUPT!r} is of another type than text: name it otherwise")
    return schema


def merge_kinds(seen: Iterable[dict[str, Kind]]) -> dict[str, Kind]:
    """Return the kinds of columns that take the values of all."""
    found: dict[str, Kind] = {}
    for kinds in seen:
        found = _merge(found, kinds)
    return found


def batches_of_block(
    block: bytes,
    schema: pa.Schema,
    name: str,
    *,
    multiline: bool = False,
    anew: bool = False,
    most: int = BATCH_ROWS,
    arrow: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a block in the columns of :func:`schema_of_kinds`, null where a value is of another type.

    What is no object, or not wholly of these types, stands in ``_corrupt_record`` if there is that column. ``anew``:
    values that are text in their column are written anew, and not as they stand.
    """
    decimals = any(pa.types.is_decimal(kind) for kind in _leaves(pa.struct(list(schema))))
    table = None if multiline or decimals or not arrow else _by_arrow(block, schema)
    if table is not None:
        yield from table.to_batches(most)
        return
    rows: list[dict[str, Any]] = []
    for record in _records(block, multiline):
        rows += _rows(record, schema, name, multiline, anew)
        if len(rows) >= most:
            yield _batch(rows, schema)
            rows = []
    if rows:
        yield _batch(rows, schema)


def _batch(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.array([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema)


def _records(block: bytes, whole: bool) -> list[bytes]:
    """Return what is to be a value each; blank ones are none."""
    return [one for one in ([block] if whole else block.splitlines()) if one.strip(b" \t\r\n")]


def _by_arrow(block: bytes, schema: pa.Schema | None) -> pa.Table | None:
    """Return the rows of lines as Arrow reads them, in types of its own or of a schema; None where Spark might not."""
    from pyarrow.json import ParseOptions, ReadOptions, read_json

    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    block = block.rstrip(b"\n")
    lines = block.count(b"\n") + 1
    # an object a line: none goes on behind a line that ends with one, when the next begins with one
    if block[:1] != b"{" or block[-1:] != b"}" or block.count(b"}\n{") != lines - 1 or b"\r" in block:
        return None
    if any(one in block for one in _UNSURE) or _is_odd(block, schema is None):
        return None
    if _levels(block, lines) > DEEPEST_JSON:
        return None
    fields = None if schema is None else pa.schema([field for field in schema if field.name != CORRUPT])
    options = ParseOptions(explicit_schema=fields, unexpected_field_behavior="infer" if fields is None else "ignore")
    try:
        block.decode()
        read = ReadOptions(use_threads=False, block_size=len(block) + 1)
        table = read_json(pa.BufferReader(block), read, options)
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if len(table) != lines:
        return None
    if schema is None:
        return table
    columns = [pa.nulls(lines, pa.string()) if name == CORRUPT else table[name] for name in schema.names]
    return pa.table(columns, schema=schema)


def _is_odd(block: bytes, whole: bool) -> bool:
    """Return whether a block has a number that Arrow reads in another way; ``whole``: or takes for another type."""
    if not whole and _NEGATIVE_ZERO.search(block):
        return True
    most = _LONG_WHOLE if whole else _LONG_PART
    found = np.frombuffer(block, np.uint8)
    for at in range(0, len(found), _LOOKED_AT):
        some = found[max(at - most - 1, 0) : at + _LOOKED_AT]
        others = np.flatnonzero((some - np.uint8(ord("0"))) > 9)  # all but digits: what is less than 0 wraps
        if len(others) == 0 or others[0] > most:
            return True
        before = others[:-1][np.diff(others) > most]
        if (some[before] != ord(".")).any() if whole else len(before):
            return True
    return False


def _levels(block: bytes, lines: int) -> int:
    """Return how many levels a line of a block has at most, or more: Arrow dies of too many."""
    if block.count(b"{") == lines and b"[" not in block:
        return 1
    found = np.frombuffer(block, np.uint8)
    opens, ends = np.flatnonzero((found == ord("{")) | (found == ord("["))), np.flatnonzero(found == ord("\n"))
    return int(np.diff(np.searchsorted(opens, ends), prepend=0, append=len(opens)).max())


def _kind_of(values: pa.Array | pa.ChunkedArray) -> Kind:
    """Return the kind of values that Arrow has read; texts that may be times are texts, and empty ones say nothing."""
    kind = values.type
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_struct(kind):
        return {field.name: _kind_of(values.field(i)) for i, field in enumerate(kind)}
    if pa.types.is_list(kind):
        return [_kind_of(values.values)]
    if pa.types.is_null(kind):
        return None
    if pa.types.is_string(kind):
        return "string" if pc.any(pc.greater(pc.binary_length(values), 0)).as_py() else None
    return next((name for name, one in _SIMPLE.items() if one == kind), "string")


def _values(record: bytes, name: str, written: bool) -> tuple[str, Any]:
    """Return the text of a record and its value; with ``written`` all but texts is a :class:`Written`.

    Raises NoJson where there is none, and InputError for what only Spark reads.
    """
    if b"\x00" in record[:4] or record[:2] in (b"\xfe\xff", b"\xff\xfe"):
        raise InputError(f"{name} is not written in UTF-8, or holds zero bytes: JSON is read in UTF-8")
    text = record.decode(errors="surrogateescape").removeprefix("\ufeff")
    quick = not written and len(text) <= _QUICK and text.count("[") + text.count("{") <= DEEPEST_JSON
    if quick and "\\ud" not in text and "\\uD" not in text and text.isprintable():
        try:
            return text, json.loads(text, object_pairs_hook=_object)
        except ValueError:
            pass
    reader = LenientReader(text)
    value = reader.read()
    if reader.twice is not None:
        raise InputError(f"{name} holds the name {reader.twice!r} twice in an object: name one otherwise")
    return text, value if written else plain_of(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _kind(value: Any) -> Kind:
    """Return the kind of a value; an empty text says nothing of it."""
    value = value.value if isinstance(value, Written) else value
    if value is None or value == "":
        return None
    if isinstance(value, dict):
        return {name: _kind(one) for name, one in value.items()}
    if isinstance(value, list):
        inner: Kind = None
        for one in value:
            inner = _merge(inner, _kind(one))
        return [inner]
    if isinstance(value, (bool, str)):
        return "boolean" if isinstance(value, bool) else "string"
    if isinstance(value, float):
        return "double"
    if -(2**63) <= value < 2**63:
        return "bigint"
    digits = len(str(abs(value)))
    return digits if digits <= _DIGITS else "double"


def _merge(one: Kind, other: Kind) -> Kind:
    """Return the kind that takes the values of two; what goes together with nothing else is text."""
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, dict) and isinstance(other, dict):
        found = dict(one)
        for name, kind in other.items():
            found[name] = _merge(found.get(name), kind)
        return found
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0], other[0])]
    if isinstance(one, (dict, list)) or isinstance(other, (dict, list)) or {"string", "boolean"} & {one, other}:
        return "string"
    if "double" in (one, other):
        return "double"
    return max(_LONG if kind == "bigint" else kind for kind in (one, other))


def _type_of(kind: Kind, path: str) -> pa.DataType | None:
    """Return the type of a kind, with names in the order of Java; None for objects that never hold anything."""
    if isinstance(kind, dict):
        fields, seen = [], set()
        for name in sorted(kind, key=lambda name: name.encode("utf-16-be", "surrogatepass")):
            inner = _type_of(kind[name], f"{path}{name}.") if name else None
            if inner is None:
                continue
            if name.lower() in seen:
                raise InputError(f"the column {path + name.lower()!r} is there twice, as names differ by case alone")
            seen.add(name.lower())
            fields.append(pa.field(name, inner))
        return pa.struct(fields) if fields else None
    if isinstance(kind, list):
        element = _type_of(kind[0], path)
        return None if element is None else pa.list_(element)
    if isinstance(kind, int):
        return pa.decimal128(kind, 0)
    return _SIMPLE["string" if kind is None else kind]


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(field.type)
    elif pa.types.is_list(kind):
        yield from _leaves(kind.value_type)
    else:
        yield kind


def _rows(record: bytes, schema: pa.Schema, name: str, written: bool, anew: bool) -> list[dict[str, Any]]:
    """Return the rows of a record: several where it is a list of objects."""
    kind = pa.struct([field for field in schema if field.name != CORRUPT])
    try:
        value = _values(record, name, written)[1]
        try:
            return _roots(value, kind, anew)
        except _Unwritten:
            return _roots(_values(record, name, True)[1], kind, anew)
    except NoJson:
        return [{CORRUPT: text_of(record)}]
    except _Misfit as misfit:
        return [{**row, CORRUPT: text_of(record)} for row in misfit.part or [{}]]


def _roots(value: Any, kind: pa.DataType, anew: bool) -> list[dict[str, Any]]:
    value = value.value if isinstance(value, Written) else value
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one.value if isinstance(one, Written) else one, dict) for one in values):
        raise _Misfit
    found, fits = [], True
    for one in values:
        try:
            found.append(_fit(one, kind, anew))
        except _Misfit as misfit:
            found.append(misfit.part)
            fits = False
    if not fits:
        raise _Misfit(found)
    return found


def _fit(value: Any, kind: pa.DataType, anew: bool) -> Any:
    """Return a value as one of a type; raises _Misfit, with what fits of an object or of objects in a list."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        if isinstance(value, str):
            return value
        if not isinstance(value, Written):
            raise _Unwritten
        return rewritten(value) if anew else value.text
    value = value.value if isinstance(value, Written) else value
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return _parts({f.name: (value[f.name], f.type) for f in kind if f.name in value}, anew)
    if pa.types.is_list(kind) and isinstance(value, list):
        found, fits = [], True
        for one in value:
            try:
                found.append(_fit(one, kind.value_type, anew))
            except _Misfit as misfit:
                if misfit.part is None:
                    raise
                found.append(misfit.part)
                fits = False
        if not fits:
            raise _Misfit(found)
        return found
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    if isinstance(value, str) and pa.types.is_floating(kind) and value in _NAMED:
        return float(_NAMED[value])
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number(value, kind)
    raise _Misfit


def _parts(values: dict[str, tuple[Any, pa.DataType]], anew: bool) -> dict[str, Any]:
    """Return the fields of an object as their types."""
    found, fits = {}, True
    for name, (value, kind) in values.items():
        try:
            found[name] = _fit(value, kind, anew)
        except _Misfit as misfit:
            found[name] = misfit.part
            fits = False
    if not fits:
        raise _Misfit(found)
    return found


def _number(value: float, kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    if isinstance(value, int) and pa.types.is_integer(kind) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, int) and pa.types.is_decimal(kind) and len(str(abs(value))) <= kind.precision:
        return Decimal(value)
    raise _Misfit
