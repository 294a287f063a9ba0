"""Types of columns as snapshots have them: those that Spark has too, and the names that manifests give them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dtoss.partition import numbers

_STORED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.null(): pa.string(),
}
_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values of an Arrow type are stored, which is the one that Spark has for them.

    Examples
    --------
    >>> stored_type(pa.uint8()), stored_type(pa.timestamp("ns", "Europe/Berlin"))
    (DataType(int16), TimestampType(timestamp[us, tz=UTC]))
    """
    if isinstance(kind, pa.BaseExtensionType):
        return stored_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return stored_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, stored_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return list_of(stored_type(kind.value_type))
    return _STORED.get(kind, kind)


def stored_column(column: pa.Array) -> pa.Array:
    """Return a column as snapshots have it: of its :func:`stored_type`; moments are cut to microseconds.

    Examples
    --------
    >>> stored_column(pa.array(["a", None]).dictionary_encode()).to_pylist()
    ['a', None]
    """
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        import pyarrow.compute as pc

        column = pc.floor_temporal(column, unit="microsecond")
    kind = stored_type(column.type)
    if str(column.type) == str(kind):  # which says names within lists too
        return column
    # taken, as a cast may leave bytes where there is no value
    return column.cast(kind).take(numbers(np.arange(len(column))))


def type_name(kind: pa.DataType) -> str:
    """Return what a manifest calls a type of a column: Spark's word for it; a TypeError where it has none.

    Examples
    --------
    >>> type_name(pa.list_(pa.decimal128(9, 2))), type_name(pa.timestamp("us"))
    ('array<decimal(9,2)>', 'timestamp_ntz')
    """
    if (name := _NAMES.get(kind)) is not None:
        return name
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"
    raise TypeError(f"type {kind} has no name in a manifest")


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def type_named(name: str) -> pa.DataType:
    """Return the type of a name that a manifest has.

    Examples
    --------
    >>> type_named("struct<a:array<decimal(9,2)>,b:timestamp>")
    StructType(struct<a: list<element: decimal128(9, 2)>, b: timestamp[us, tz=UTC]>)
    """
    for kind, known in _NAMES.items():
        if known == name:
            return kind
    word, _, inner = name.partition("<")
    inner = inner.removesuffix(">")
    if word == "array":
        return list_of(type_named(inner))
    if word == "map":
        return pa.map_(*map(type_named, _split(inner)))
    if word == "struct":
        return pa.struct([(field.partition(":")[0], type_named(field.partition(":")[2])) for field in _split(inner)])
    if name.startswith("decimal("):
        precision, scale = name[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if name in ("timestamp", "timestamp_ntz"):
        return pa.timestamp("us", "UTC" if name == "timestamp" else None)
    raise TypeError(f"no column of a snapshot has a type called {name!r}")


def list_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of lists, whose values are called as Spark calls them."""
    return pa.list_(pa.field("element", kind))


def _split(text: str) -> list[str]:
    """Return the parts of a text at commas that stand in no brackets."""
    parts, deep = [""], 0
    for letter in text:
        deep += (letter in "<(") - (letter in ">)")
        if letter == "," and deep == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]
