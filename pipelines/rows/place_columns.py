"""Columns of a user's DataFrame as the places of queries: coordinates of any type, and which are no position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dtoss.errors import InputError
from dtoss.geometry.space import FURTHEST, Space
from dtoss.partition import numbers as arrow_of
from dtoss.text.text_values import LOOSE

if TYPE_CHECKING:
    from pyspark.sql import Column


def exactly(name: str) -> Column:
    """Return the column of a name, whatever characters are in it."""
    from pyspark.sql import functions as F

    return F.col(f"`{name.replace('`', '``')}`")


def number(value: Column) -> Column:
    """Return the number in a text, null where there is none."""
    from pyspark.sql import functions as F

    return F.when(value.rlike(LOOSE), value.try_cast("double"))


def coordinate(name: str, kind: Any) -> Column:
    """Return a column of some type as double, null where a text is not a number."""
    from pyspark.sql import types as T

    if isinstance(kind, T.NumericType):
        return exactly(name).cast("double")
    if isinstance(kind, T.StringType):
        return number(exactly(name))
    raise InputError(f"column {name!r} is {kind.simpleString()}: coordinates are numbers")


def out_of_range(x: Column, y: Column, space: Space) -> Column:
    """Return where numbers are not a legal position in a space."""
    from pyspark.sql import functions as F

    if space.geographic:
        return (F.abs(x) > 180.0) | (F.abs(y) > 90.0)
    outside = (F.abs(x) > FURTHEST) | (F.abs(y) > FURTHEST)
    return outside | ~_transformable(space)(x, y) if space.to_lonlat else outside


def _transformable(space: Space) -> Any:
    """Return the function that says which positions in a projected CRS are places on the sphere."""
    from pyspark.sql.functions import arrow_udf

    def inside(x: pa.Array, y: pa.Array) -> pa.Array:
        places = np.stack([a.fill_null(0.0).to_numpy(zero_copy_only=False) for a in (x, y)], axis=1)
        # what is larger than it may be has a reason of its own
        places[~(np.abs(places) <= FURTHEST).all(axis=1)] = 0.0
        return arrow_of(space.legal(places))

    return arrow_udf(inside, "boolean")
