"""What the rows of a history are: space, types of ids, times and attributes; and moments as people write them."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import Space, same_crs
from dtoss.ids import STORED
from dtoss.names import RESERVED, unused_name
from dtoss.plain_numbers import is_number, is_whole

IdType: TypeAlias = Literal["int64", "string"]
TimeType: TypeAlias = Literal["timestamp", "int64", "double"]
TIME_TYPES: dict[str, pa.DataType] = {
    "timestamp": pa.timestamp("us", "UTC"),
    "int64": pa.int64(),
    "double": pa.float64(),
}
OWN = ("id", "t", "x", "y", "deleted")
"""The columns of every table of rows, before the attributes."""
TAKEN = frozenset({*RESERVED, "t", "deleted"})
"""Names that no attribute of a history has."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What the rows of a history are."""

    space: Space
    id_type: IdType  # "int64" or "string"
    t_type: TimeType  # "timestamp" (microseconds, UTC), "int64" or "double"
    # The types of the attributes by their stored names, none of which is one of :data:`TAKEN`
    attributes: Mapping[str, pa.DataType] = field(default_factory=dict)

    @property
    def arrow(self) -> pa.Schema:
        """The columns of a table of rows: id, t, x, y, deleted, and the attributes."""
        own = [STORED[self.id_type], TIME_TYPES[self.t_type], pa.float64(), pa.float64(), pa.bool_()]
        return pa.schema([*zip(OWN, own, strict=True), *self.attributes.items()])

    @property
    def position_names(self) -> tuple[str, str]:
        """How the coordinates are called in answers."""
        return ("lon", "lat") if self.space.geographic else ("x", "y")

    def as_json(self) -> dict[str, Any]:
        """Return what a version's document holds of it."""
        kept = pa.schema(list(self.attributes.items())).serialize()
        return {
            **asdict(self.space),
            "id": self.id_type,
            "t": self.t_type,
            "attributes": {name: str(kind) for name, kind in self.attributes.items()},
            "arrow": base64.b64encode(kept).decode(),
        }

    @classmethod
    def of(cls, said: Any) -> Schema:
        """Return the schema that :meth:`as_json` has made."""
        try:
            if said["id"] not in get_args(IdType) or said["t"] not in get_args(TimeType):
                raise ValueError("types of ids and times")
            kept = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["arrow"])))
            space = Space(said["crs"], said["metric"], bool(said["to_lonlat"]))
            return cls(space, said["id"], said["t"], {column.name: column.type for column in kept})
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowInvalid) as error:
            raise StoreError(f"the schema of the history is damaged: {error}") from None

    def merged(self, other: Schema) -> Schema:
        """Return this schema with the attributes of rows that are new; rows before had nulls there."""
        if self.space != other.space and (
            self.space.metric != other.space.metric
            or self.space.to_lonlat != other.space.to_lonlat
            or not same_crs(self.space.crs, other.space.crs)
        ):
            raise InputError(
                f"the rows are of crs {other.space.crs} ({other.space.metric}), the history is of "
                f"{self.space.crs} ({self.space.metric}): transform them first, or begin another history"
            )
        for what, ours, theirs in (("ids", self.id_type, other.id_type), ("times", self.t_type, other.t_type)):
            if ours != theirs:
                raise InputError(f"{what} of the rows are {theirs}, those of the history {ours}: cast them first")
        for name, kind in other.attributes.items():
            if name in self.attributes and self.attributes[name] != kind:
                raise InputError(
                    f"column {name!r} of the rows is {kind}, in the history {self.attributes[name]}: cast it first"
                )
        return replace(self, attributes={**self.attributes, **other.attributes})


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return as what type values of a type are kept: text as large strings, dictionaries as their values."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_null(kind):
        return pa.large_string()
    return kind


def attribute_names(names: list[str]) -> dict[str, str]:
    """Return as what each attribute is stored: one with a taken name gets underscores behind.

    Examples
    --------
    >>> attribute_names(["speed", "t", "Lon"])
    {'speed': 'speed', 't': 't_', 'Lon': 'Lon_'}
    """
    free = {name: name for name in names}
    taken = {*TAKEN, *(name.lower() for name in names)}
    for name in sorted(name for name in names if name.lower() in TAKEN):
        free[name] = unused_name(name, taken)
        taken.add(free[name].lower())
    return free


def time_type_of(kind: pa.DataType) -> TimeType:
    """Return as what times of a type are kept."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "timestamp"
    if pa.types.is_integer(kind):
        return "int64"
    if pa.types.is_floating(kind):
        return "double"
    raise InputError(f"times are of type {kind}: timestamps or numbers are wanted, cast them first")


MICROSECONDS = 1_000_000
"""Of a second."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = -(1 << 63), (1 << 63) - 1


def interval_of(between: Sequence[Any] | None, t_type: TimeType) -> tuple[int | float, int | float]:
    """Return the first and the last time of an interval as they are stored, both within; open ends are the extremes.

    ``between``: two moments, None or "-" where there is no end; None for all times.

    Examples
    --------
    >>> interval_of(["1970-01-01T00:00:01", "-"], "timestamp") == (1_000_000, 2**63 - 1)
    True
    >>> interval_of([0.5, "7.5"], "int64"), interval_of(None, "double")
    ((1, 7), (-inf, inf))
    """
    extremes = (-math.inf, math.inf) if t_type == "double" else (_EARLIEST, _LATEST)
    if between is None:
        return extremes
    if isinstance(between, str) or not hasattr(between, "__len__") or len(between) != 2:
        raise InputError(f"between is {between!r}: a first and a last time are wanted, either may be '-'")
    first, last = (
        extremes[side] if _no_end(value) else moment_of(value, t_type, "between", up=side == 0)
        for side, value in enumerate(between)
    )
    if first > last:
        raise InputError(f"between is {between[0]} to {between[1]}: the first is after the last, exchange them")
    return first, last


def _no_end(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip() == "-")


def moment_of(value: Any, t_type: TimeType, name: str = "time", *, up: bool = False) -> int | float:
    """Return a moment as it is stored.

    ``value``: A date or time, UTC where it has no zone; ISO 8601; or, where times are numbers, a number. ISO 8601
    beside numbers means seconds since 1970; ``name``: what it is called in errors.

    Examples
    --------
    >>> moment_of("2008-05-20T00:00:00+02:00", "timestamp"), moment_of("2008-05-20", "int64"), moment_of(1, "double")
    (1211234400000000, 1211241600, 1.0)
    """
    number = None if t_type == "timestamp" else _number(value)
    if number is None:
        when = _when(value)
        if when is None:
            kind = "a time such as 2026-01-31T12:00:00 (UTC where it names no zone)"
            wanted = kind if t_type == "timestamp" else f"a number, as the times of the history are, or {kind}"
            raise InputError(f"{name} is {value!r}: {wanted} is wanted")
        microseconds = (when - _EPOCH) // timedelta(microseconds=1)
        if t_type == "timestamp":
            return microseconds
        number = microseconds // MICROSECONDS if microseconds % MICROSECONDS == 0 else microseconds / MICROSECONDS
    if t_type == "double":
        return float(number)
    whole = math.ceil(number) if up else math.floor(number)
    return min(max(whole, _EARLIEST), _LATEST)


def seconds_before(moment: int | float, seconds: float, t_type: TimeType) -> int | float:
    """Return the moment so many seconds before another one, as it is stored; rounded up, to what is within.

    Examples
    --------
    >>> seconds_before(10_000_000, 2.5, "timestamp"), seconds_before(10, 2.5, "int64")
    (7500000, 8)
    """
    if t_type == "double":
        return moment - seconds
    scale = MICROSECONDS if t_type == "timestamp" else 1
    if not math.isfinite(seconds):
        return _EARLIEST
    return max(int(moment) - math.floor(seconds * scale), _EARLIEST)


def _number(value: Any) -> int | float | None:
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return None if math.isnan(value) or math.isinf(value) else float(value)
    if not isinstance(value, str):
        return None
    said = value.strip()
    return int(said) if is_whole(said) else _number(float(said)) if is_number(said) else None


def _when(value: Any) -> datetime | None:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value
