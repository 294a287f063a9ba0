"""What columns of an input mean, the paths to them, how its text is written, and why a row is set aside."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from dtoss.delimited.records import BEHIND_QUOTE, UNDECODED, UNENDED
from dtoss.errors import InputError
from dtoss.geometry.space import NO_CRS
from dtoss.names import did_you_mean, types_in_input
from dtoss.snapshots.manifest_fields import Columns as Columns
from dtoss.text import text_values, time_patterns

REASON = "_reason"


RAW = "_raw"


NOT_WHOLE = "id is not an integer as the others are"


NO_POINT = "geometry is no point"


NO_NUMBER = "position is not a number"


TOO_LARGE = "id does not fit in 64 bits"


AHEAD_OF_NOW = "time is ahead of now"


UNMARKED = "mark of a deletion is neither true nor false"


OUT_OF_BOUNDS = "position outside the bounds"


UNREADABLE_TIME = "time cannot be read"


MISTYPED = "value is of another type than the column"


DELETED = "deleted"
"""The column that says whether a row deletes its object."""


REASONS = (
    UNDECODED,
    UNENDED,
    BEHIND_QUOTE,
    "unreadable line",
    "no id",
    NOT_WHOLE,
    TOO_LARGE,
    "no time",
    UNREADABLE_TIME,
    AHEAD_OF_NOW,
    UNMARKED,
    "no position",
    NO_POINT,
    NO_NUMBER,
    "position is NaN",
    MISTYPED,
    "position is infinite",
    "longitude out of range",
    "latitude out of range",
    "position out of range",
    OUT_OF_BOUNDS,
)
"""Why a row is set aside, in the order in which reasons are looked for."""


DEFAULTS = Columns()
"""What is taken where nothing is said."""


def attribute_column(name: str) -> str:
    """Return an attribute's column inside the job: one may be called ``x``, and Spark parses dots and backticks."""
    return f"a:{quote(name, safe='').replace('.', '%2E')}"


def attribute_name(column: str) -> str:
    """Return the name of an attribute from its column inside the job."""
    return unquote(column.removeprefix("a:"))


def attribute_names(wanted: Sequence[str] | str) -> list[str]:
    """Return the names of attributes that are asked for; none where they are not named one by one."""
    if wanted in ("none", "all"):
        return []
    return [name.strip() for name in wanted.split(",")] if isinstance(wanted, str) else list(wanted)


def attributes_of(
    wanted: Sequence[str] | str, found: Sequence[str], roles: set[str], there: Collection[str]
) -> list[str]:
    """Return the columns that become attributes; ``roles``: those that mean something else; ``there``: with paths."""
    if wanted == "all":
        return [name for name in found if name not in roles and not name.startswith("_")]
    names = attribute_names(wanted)
    for name in names:
        if name not in there:
            check_found(name, "--columns", found)
    return list(dict.fromkeys(names))


def taken_said(
    columns: Columns,
    axes: tuple[str, str],
    time: str | None,
    whole: bool,
    types: Mapping[str, str],
    kinds: Mapping[str, str],
) -> dict[str, str]:
    """Return what was taken for what, as a reader is told it."""
    taken = {}
    if columns.id is not None:
        guess = "" if columns.id_type or kinds.get(columns.id) != text_values.MOSTLY else ", as nine in ten are"
        way = f"{guess} (--id-type text keeps all)" if guess else ""
        taken["id"] = f"{columns.id}, {'whole numbers' if whole else 'text'}{way}"
    taken["position"] = columns.geometry or ", ".join(axes)
    if time is not None:
        taken["time"] = (
            f"{time}, {time_patterns.say_time(types[time], kinds.get(time), columns.time_format, columns.zone)}"
        )
    return taken


def columns_of(manifest: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> Columns:
    """Return which columns of updates mean what, and how text is written.

    ``manifest``: of a snapshot, which says how the rows were that it was made of; None where there is none; ``asked``:
    fields of :class:`dtoss.snapshots.manifest_fields.Columns` that are otherwise; None stands for what is not.
    """
    stored = dict((manifest or {}).get("source") or {})
    if manifest is not None and manifest.get("crs") == NO_CRS:
        stored["crs"] = NO_CRS  # numbers on a plane are taken as they are
    said = {name: value for name, value in asked.items() if value is not None}
    if "geometry" in said or {"x", "y"} & set(said):
        # the other way to say where positions are holds no more
        stored |= dict.fromkeys(("x", "y") if "geometry" in said else ("geometry",))
    return Columns.of(stored | said)


def types_of(manifest: dict[str, Any] | None, columns: Columns) -> dict[str, str]:
    """Return the Spark types that a snapshot has of the columns of an input, by their names there.

    Text and JSON say them only by their values, and those of a few rows may look like others.

    ``manifest``: of the snapshot; None where there is none.
    """
    if manifest is None:
        return {}
    types = types_in_input(manifest)
    time = manifest.get("time")
    if time is not None:
        types[columns.time or time["column"]] = time["type"]
    if columns.id is not None:
        types[columns.id] = "string" if manifest["id_type"] == "string" else "bigint"
    return types


_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
_DEEPEST = 8
"""Structs within structs that a message looks through."""


class Unfitting(InputError):
    """Rows do not fit what is asked of them: they are wrong, or the options are."""


@lru_cache(maxsize=256)
def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a path; a part that holds dots stands in backticks.

    Examples
    --------
    >>> parts_of("vehicle.position"), parts_of("`a.b`.c"), parts_of("lon")
    (('vehicle', 'position'), ('a.b', 'c'), ('lon',))
    """
    found, at = [], 0
    while match := _PART.match(name, at):
        found.append(match[1].replace("``", "`") if match[2] is None else match[2])
        at = match.end()
        if at == len(name):
            return tuple(found)
        if name[at] != ".":
            break
        at += 1
    # what is no path is the name of a column, if anything
    return (name,)


def type_at(schema: pa.Schema, name: str) -> pa.DataType | None:
    """Return the type of a column, or of a field that a path leads to; None where there is none."""
    if name in schema.names:
        return schema.field(name).type
    first, *others = parts_of(name)
    if first not in schema.names:
        return None
    kind = schema.field(first).type
    for part in others:
        if not pa.types.is_struct(kind) or (at := kind.get_field_index(part)) < 0:
            return None
        kind = kind.field(at).type
    return kind


def leaves(schema: pa.Schema) -> list[str]:
    """Return the names of columns, and the paths to what is in their structs."""
    return [path for field in schema for path in _below(_quoted(field.name), field.type, _DEEPEST)]


def _below(path: str, kind: pa.DataType, deep: int) -> Iterator[str]:
    if not pa.types.is_struct(kind) or deep == 0:
        yield path
        return
    for field in kind:
        yield from _below(f"{path}.{_quoted(field.name)}", field.type, deep - 1)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`" if "." in name or "`" in name else name


def check_found(name: str | None, option: str, found: Sequence[str], nested: Sequence[str] = ()) -> None:
    """Check that a column is among those found. ``name``: of the column; None is none."""
    if name is not None and name not in found:
        there = ", ".join(found) or "none: is there a header line, and are these rows of the format that the name says?"
        inner = [path for path in nested if path not in found]
        fields = f"; fields of structs are named by their path, as {inner[0]}" if inner else ""
        meant = did_you_mean(name, [*found, *inner])
        raise Unfitting(f"there is no column {name!r} ({option} NAME); the columns are {there}{fields}{meant}")
