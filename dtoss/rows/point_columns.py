"""Points in columns of bytes and text as coordinates: well-known binary, the same in hexadecimal digits, and WKT."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.errors import InputError

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_WKT = (
    r"(?i)^\s*(?:SRID\s*=\s*[0-9]+\s*;)?\s*POINT\s*(?:Z|M|ZM)?\s*\(\s*"
    rf"(?P<x>{_NUMBER})\s+(?P<y>{_NUMBER})(?:\s+{_NUMBER}){{0,2}}\s*\)\s*$"
)
_HEX = r"^\s*0[01](?:[0-9A-Fa-f]{2}){20,}\s*$"


def points(column: pa.Array) -> pa.Array:
    """Return the x and y of points as an Arrow struct array; null where a value is null, empty or no point.

    ``column``: bytes, which are well-known binary; text, which is WKT or well-known binary in hexadecimal digits, with
    an SRID or without; structs of x and y; or lists of two and more.
    """
    kind = column.type
    types = pa.types
    if types.is_dictionary(kind):
        return points(column.dictionary_decode())
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return wkb_points(column)
    if types.is_fixed_size_binary(kind):
        return wkb_points(column.cast(pa.binary()))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _text_points(column.cast(pa.string()))
    if types.is_struct(kind) and kind.get_field_index("x") >= 0 and kind.get_field_index("y") >= 0:
        return _pairs(*(pc.struct_field(column, name) for name in ("x", "y")))
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        if not types.is_fixed_size_list(kind):
            column = pc.if_else(pc.greater_equal(pc.list_value_length(column), 2), column, None)
        return _pairs(*(pc.list_element(column, at) for at in (0, 1)))
    raise InputError(f"points are of type {kind}: WKB, WKT, a struct of x and y, or pairs are wanted")


def _pairs(x: pa.Array, y: pa.Array) -> pa.Array:
    x, y = x.cast(pa.float64()), y.cast(pa.float64())
    if not x.null_count and not y.null_count:
        return pa.StructArray.from_arrays([x, y], ["x", "y"])
    return pa.StructArray.from_arrays([x, y], ["x", "y"], mask=pc.or_(x.is_null(), y.is_null()))


def _text_points(texts: pa.Array) -> pa.Array:
    found = pc.extract_regex(texts, _WKT)
    read = _pairs(*(pc.struct_field(found, axis) for axis in ("x", "y")))
    hexadecimal = pc.fill_null(pc.match_substring_regex(texts, _HEX), False)
    if not pc.any(hexadecimal).as_py():
        return read
    digits = pc.if_else(hexadecimal, pc.utf8_trim_whitespace(texts), None).to_pylist()
    decoded = wkb_points(pa.array([None if one is None else bytes.fromhex(one) for one in digits], pa.binary()))
    return pc.if_else(hexadecimal, decoded, read)


def wkb_points(geometries: pa.Array) -> pa.Array:
    """Return the x and y of WKB points as an Arrow struct array; null where a value is null, empty or not a point."""
    data = geometries.cast(pa.large_binary())
    n = len(data)
    lengths = pc.fill_null(pc.binary_length(data), 0).to_numpy(zero_copy_only=False)
    _, offset_buffer, bytes_buffer = data.buffers()
    starts = np.frombuffer(offset_buffer, np.int64)[data.offset : data.offset + n]
    raw = np.frombuffer(bytes_buffer or b"", np.uint8)
    x, y = np.full(n, np.nan), np.full(n, np.nan)
    ok = np.zeros(n, np.bool_)
    for first, order in ((1, "<"), (0, ">")):
        candidate = np.flatnonzero(lengths >= 21)
        candidate = candidate[raw[starts[candidate]] == first]
        if len(candidate) == 0:
            continue
        head = raw[starts[candidate][:, None] + np.arange(1, 5)].copy().view(f"{order}u4").ravel()
        # the type may carry flags or thousands for Z, M and an SRID of 4 bytes
        point = (head & 0xFFFF) % 1000 == 1
        skip = np.where(head & 0x20000000, 9, 5)
        long_enough = lengths[candidate] >= skip + 16
        rows, at = candidate[point & long_enough], (starts[candidate] + skip)[point & long_enough]
        values = raw[at[:, None] + np.arange(16)].copy().view(f"{order}f8")
        x[rows], y[rows] = values[:, 0], values[:, 1]
        ok[rows] = True
    empty = np.isnan(x) | np.isnan(y)
    mask = pa.array(~ok | empty)
    return pa.StructArray.from_arrays([pa.array(x), pa.array(y)], ["x", "y"], mask=mask)
