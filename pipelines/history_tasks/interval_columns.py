"""Which columns of queries say the interval of each, as the numbers by which a history stores its times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dtoss.arguments import distances
from dtoss.errors import InputError
from dtoss.history.schema import Schema
from dtoss.history.time_scale import MICROSECONDS, interval_of
from pipelines.rows.place_columns import exactly

if TYPE_CHECKING:
    from pyspark.sql import Column

_INSTANT = (0.0, 0.0)


@dataclass(frozen=True)
class Interval:
    """Which columns of the queries say the interval of each."""

    time: str | None
    before: float
    after: float
    between: tuple[str | None, str | None] | None

    def names(self) -> list[str]:
        """Return the columns that are needed."""
        for name, seconds in (("before", self.before), ("after", self.after)):
            distances(name, seconds, 1)
        if self.between is None:
            return [self.time or "t"]
        if self.time is not None or (self.before, self.after) != _INSTANT:
            raise ValueError("time, before and after do not go with between, which names both ends")
        if isinstance(self.between, str) or len(self.between) != 2:
            raise ValueError(f"between is {self.between!r}: the names of two columns are wanted, None where no end is")
        return [name for name in self.between if name is not None]

    def ends(self, schema: Schema, kinds: Mapping[str, Any]) -> tuple[Column, Column]:
        """Return the first and the last time of each query, as times are stored."""
        from pyspark.sql import functions as F

        if self.between is not None:
            kind = "double" if schema.t_type == "double" else "bigint"
            extremes = interval_of(None, schema.t_type)
            first, last = (
                F.lit(extreme).cast(kind) if name is None else _moment(name, kinds[name], schema, up=side == 0)
                for side, (name, extreme) in enumerate(zip(self.between, extremes, strict=True))
            )
            return first, last
        name = self.time or "t"
        scale = MICROSECONDS if schema.t_type == "timestamp" else 1
        if schema.t_type == "double" or (schema.t_type == "int64" and not _whole(kinds[name])):
            moment = _moment(name, kinds[name], replace(schema, t_type="double"), up=False)
            first, last = moment - F.lit(float(self.before)), moment + F.lit(float(self.after))
            return (first, last) if schema.t_type == "double" else (F.ceil(first), F.floor(last))
        moment = _moment(name, kinds[name], schema, up=False)
        # an interval that leaves 64 bits has no hits
        steps = [F.lit(min(int(seconds * scale), 1 << 62)).cast("bigint") for seconds in (self.before, self.after)]
        return F.try_subtract(moment, steps[0]), F.try_add(moment, steps[1])


def _whole(kind: Any) -> bool:
    from pyspark.sql import types as T

    return isinstance(kind, T.IntegralType)


def _moment(name: str, kind: Any, schema: Schema, *, up: bool) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    column = exactly(name)
    if schema.t_type == "timestamp":
        if not isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
            raise InputError(f"column {name!r} is {kind.simpleString()}, times of the history are timestamps: cast it")
        return F.unix_micros(column.cast("timestamp"))
    if not isinstance(kind, T.NumericType):
        raise InputError(f"column {name!r} is {kind.simpleString()}, times of the history are numbers: cast it")
    if schema.t_type == "double":
        return column.cast("double")
    return column.cast("bigint") if _whole(kind) else (F.ceil(column) if up else F.floor(column))
