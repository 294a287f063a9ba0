"""Filters that Spark hands to the data source: which of them mean the same here, and what satisfies them.

Spark compares NaN as the largest number and equal to itself, Arrow as nothing at all. A filter is taken only where its
meaning is known to be the same, nulls and NaN included; Spark keeps the others and applies them itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from dtoss.conditions.matching_objects import schema_of
from dtoss.conditions.parse import Condition, parse_condition
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.names import position_names
from dtoss.partition import Partition
from dtoss.queries.covered import boxes_of
from dtoss.queries.gather import COORDINATE

_WHOLE = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
_FLOATING = {"float": pa.float32(), "double": pa.float64()}
TYPES: dict[str, pa.DataType] = _WHOLE | _FLOATING | {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip
"""Of Spark's types, those whose values are compared here, and what they are in Arrow."""
_COMPARED: dict[type, Callable[..., Any]] = {
    EqualTo: pc.equal,
    EqualNullSafe: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}
_TEXT: dict[type, Callable[..., Any]] = {
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}


def taken(condition: Filter, types: Mapping[str, str]) -> bool:
    """Return whether a filter on columns of these Spark types means the same here."""
    if isinstance(condition, Not):
        # Spark pushes no double negation, nor one of what is never null but these
        return not isinstance(condition.child, Not) and taken(condition.child, types)
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(path) != 1 or path[0] not in types:
        return False
    kind = types[path[0]]
    if isinstance(condition, (IsNull, IsNotNull)):
        return True
    if kind not in TYPES:
        return False
    if isinstance(condition, In):
        # of many numbers Spark tells 0.0 from -0.0, of few it does not
        return kind not in _FLOATING and all(_is_value(value, kind) for value in condition.value)
    if type(condition) in _COMPARED:
        return _is_value(condition.value, kind)
    return type(condition) in _TEXT and kind == "string" and isinstance(condition.value, str)


def _is_value(value: Any, kind: str) -> bool:
    """Return whether a value is one of a type, exactly, and is compared alike by Spark and Arrow."""
    if kind in _WHOLE:
        bound = 1 << (_WHOLE[kind].bit_width - 1)
        return type(value) is int and -bound <= value < bound
    if kind in _FLOATING:
        if type(value) not in (int, float) or math.isnan(value):
            return False
        return bool(pa.scalar(float(value), _FLOATING[kind]).as_py() == value)
    if kind == "timestamp":
        return type(value) is datetime and value.tzinfo is not None
    return type(value) is {"string": str, "boolean": bool, "date": date}[kind]


def satisfying(conditions: Sequence[Filter], column: Callable[[str], pa.Array]) -> pa.Array | None:
    """Return which rows satisfy all conditions, true, false or null, by the columns' values.

    None without conditions.
    """
    found = None
    for condition in conditions:
        mask = _mask(condition, column)
        found = mask if found is None else pc.and_kleene(found, mask)
    return found


def _mask(condition: Any, column: Callable[[str], pa.Array]) -> pa.Array:
    if isinstance(condition, Not):
        return pc.invert(_mask(condition.child, column))
    values = column(condition.attribute[0])
    if isinstance(condition, IsNull):
        return pc.is_null(values)
    if isinstance(condition, IsNotNull):
        return pc.is_valid(values)
    if isinstance(condition, In):
        among = pc.is_in(values, value_set=pa.array(list(condition.value), values.type))
        return pc.if_else(pc.is_valid(values), among, pa.scalar(None, pa.bool_()))
    if kernel := _TEXT.get(type(condition)):
        return kernel(values, pattern=condition.value)
    value = float(condition.value) if pa.types.is_floating(values.type) else condition.value
    mask = _COMPARED[type(condition)](values, pa.scalar(value, values.type))
    if isinstance(condition, (GreaterThan, GreaterThanOrEqual)) and pa.types.is_floating(values.type):
        mask = pc.or_kleene(mask, pc.is_nan(values))
    return pc.fill_null(mask, False) if isinstance(condition, EqualNullSafe) else mask


def check_condition(text: str, partition: Partition, space: Space) -> None:
    """Check a condition on objects such as those of a partition; it may name their positions too."""
    _parse(text, _types(partition, space))


def asked_for(
    where: str | None, box: tuple[float, ...] | None, partition: Partition, space: Space, rows: slice
) -> NDArray[np.bool_] | None:
    """Return which of some objects are in a box and satisfy a condition; None where there is neither.

    ``where``: the condition, or None; ``box``: as in :meth:`dtoss.Index.box`, or None.
    """
    mask = None
    if box is not None:
        ((shape,),) = boxes_of(box, space)
        positions = partition.positions[rows]
        # boxes compare positions as they were read, and look at no vectors
        mask = shape.holds(positions, positions)
    if where is None:
        return mask
    condition = _parse(where, _types(partition, space))
    try:
        found = condition.matches(lambda name: column_of(partition, name, rows), rows.stop - rows.start)
    except ValueError as error:
        raise InputError(f"option {error}") from None
    return found if mask is None else mask & found


def column_of(partition: Partition, name: str, rows: slice) -> pa.Array:
    """Return the values of some objects as they are in the file: of an attribute, the id or a coordinate."""
    if name in partition.attributes:
        return partition.attributes[name].slice(rows.start, rows.stop - rows.start)
    if name == "id":
        ids = partition.ids
        return ids.slice(rows.start, rows.stop - rows.start) if isinstance(ids, pa.Array) else pa.array(ids[rows])
    return pa.array(np.ascontiguousarray(partition.positions[rows, COORDINATE[name]]))


def _types(partition: Partition, space: Space) -> tuple[tuple[str, pa.DataType], ...]:
    places = dict.fromkeys(position_names(space.geographic), pa.float64())
    return tuple((schema_of(partition) | places).items())


@lru_cache(maxsize=16)
def _parse(text: str, types: tuple[tuple[str, pa.DataType], ...]) -> Condition:
    try:
        return parse_condition(text, dict(types))
    except ValueError as error:
        raise InputError(f"option {error}") from None
