"""What the rows of a history are: their space, the types of ids, times and attributes; fixed but for new attributes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import Space, same_crs
from dtoss.ids import STORED
from dtoss.names import RESERVED, unused_name

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
