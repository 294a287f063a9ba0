"""Ids of objects: which types they may have, and the two that they are kept as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from dtoss.partition import Ids

LARGEST = 2**63 - 1
"""The largest whole number that is an id."""
STORED: dict[str, pa.DataType] = {"int64": pa.int64(), "string": pa.large_string()}
"""The types that ids are kept as, by what :func:`id_kind` calls them."""


def id_kind(kind: pa.DataType) -> str:
    """Return as what ids of a type are kept: "int64" or "string".

    Whole numbers of any width and sign are ids, of uint64 those up to :data:`LARGEST`.

    Examples
    --------
    >>> id_kind(pa.uint64()), id_kind(pa.dictionary(pa.int32(), pa.string()))
    ('int64', 'string')
    """
    if pa.types.is_dictionary(kind):
        return id_kind(kind.value_type)
    if pa.types.is_integer(kind):
        return "int64"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    raise ValueError(f"ids are of type {kind}: integers or strings are wanted, cast them first")


def too_large(value: Any) -> str:
    """Return what to say of a whole number that is no id."""
    return f"id {value} does not fit in a signed 64-bit integer (from {-LARGEST - 1} to {LARGEST}): use strings"


def as_ids(ids: ArrayLike | pa.Array) -> Ids:
    """Return ids as int64 or large strings.

    ``ids``: (n,) as an array of numpy, Arrow or pandas, or a sequence.
    """
    array = _arrow(ids)
    if isinstance(array, np.ndarray):
        return array
    if len(array) == 0 and (pa.types.is_null(array.type) or pa.types.is_floating(array.type)):
        return np.zeros(0, np.int64)  # what libraries make of an empty list
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        raise ValueError(f"{array.null_count} ids are missing: every object needs one")
    if id_kind(array.type) == "string":
        return array.cast(pa.large_string())
    if pa.types.is_uint64(array.type) and len(array) and pc.max(array).as_py() > LARGEST:
        raise ValueError(too_large(pc.max(array)))
    return np.ascontiguousarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False))


def as_list(ids: Any) -> Any:
    """Return ids as an array or a list of them; one by itself is a list of one, text too."""
    if isinstance(ids, (str, bytes, int, np.integer)):
        return [ids]
    if isinstance(ids, pa.ChunkedArray):
        return ids.combine_chunks()
    return ids if hasattr(ids, "__array__") else list(ids)


def stored_ids(ids: Any, kind: str, whose: str) -> pa.Array:
    """Return ids that somebody names as an Arrow array of the type of those that are stored, (m,).

    ``ids``: as :func:`as_ids`, any iterable, or one by itself; ``kind``: of the stored ones: "int64" or "string";
    ``whose``: they are, for the error: "this history".
    """
    why = ""
    try:
        found = as_ids(as_list(ids))
        if not len(found):
            return pa.array([], STORED[kind])
        if isinstance(found, np.ndarray) == (kind == "int64"):
            return pa.array(found) if isinstance(found, np.ndarray) else found
    except TypeError:
        pass  # neither one nor several
    except ValueError as error:
        why = f" ({error})"
    wanted = "whole numbers" if kind == "int64" else "text"
    raise ValueError(f"ids are {_short(ids)}: those of {whose} are {kind}, {wanted}{why}")


def _short(ids: Any) -> str:
    said = " ".join(repr(ids).split())
    return said if len(said) <= 100 else said[:99] + "…"


def _arrow(ids: Any) -> NDArray[np.int64] | Any:
    """Return ids as int64, or as an Arrow array of whatever type they are."""
    if isinstance(ids, pa.ChunkedArray):
        return ids.combine_chunks()
    if isinstance(ids, pa.Array):
        return ids
    if isinstance(ids, np.ma.MaskedArray) and (missing := int(np.sum(np.ma.getmaskarray(ids)))):
        raise ValueError(f"{missing} ids are missing: every object needs one")
    try:
        if hasattr(ids, "__array__") and not isinstance(ids, np.ndarray):
            column = pa.array(ids)
            return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if not isinstance(ids, np.ndarray):
            # numpy alone would make text or floating point numbers of whole ones
            ids = np.asarray(ids, dtype=object)
        if ids.ndim != 1:
            raise ValueError(f"ids have shape {ids.shape}: (n,) is wanted")
        if ids.dtype.kind == "i" or (ids.dtype.kind == "u" and int(ids.max(initial=0)) <= LARGEST):
            return np.ascontiguousarray(ids.astype(np.int64))
        return pa.array(ids.tolist() if ids.dtype.kind in "uUO" else ids)
    except OverflowError:
        raise ValueError(too_large(next(value for value in ids.tolist() if not _fits(value)))) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise ValueError("ids are a mixture: all integers or all strings are wanted") from None


def _fits(value: Any) -> bool:
    return not isinstance(value, int) or -LARGEST - 1 <= value <= LARGEST


def check_distinct(ids: Ids, way: str = "") -> None:
    """Check that ids differ; ``way``: what to do about it, for the message. Cost O(n log n)."""
    values = ids.to_numpy(zero_copy_only=False) if isinstance(ids, pa.Array) else ids
    ordered = np.sort(values)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]]) if len(ordered) else ordered
    if len(repeated):
        some = ", ".join(str(value) for value in repeated[:3])
        raise ValueError(f"{len(repeated)} ids stand more than once, {some} among them: ids must be distinct{way}")
