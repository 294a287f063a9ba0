"""Which objects of a partition a scan asks for: those in its box that satisfy its condition."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.conditions.matching_objects import schema_of
from dtoss.conditions.parse import Condition, parse_condition
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.names import position_names
from dtoss.partition import Partition
from dtoss.queries.covered import boxes_of
from dtoss.queries.gather import COORDINATE


def check_condition(text: str, partition: Partition, space: Space) -> None:
    """Check a condition on objects such as those of a partition; it may name their positions too."""
    _parsed(text, _types(partition, space))


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
    condition = _parsed(where, _types(partition, space))
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
def _parsed(text: str, types: tuple[tuple[str, pa.DataType], ...]) -> Condition:
    try:
        return parse_condition(text, dict(types))
    except ValueError as error:
        raise InputError(f"option {error}") from None
