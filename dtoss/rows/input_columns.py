"""What columns of an input mean, how its text is written, and why a row is set aside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from dtoss.delimited.records import BEHIND_QUOTE, UNDECODED, UNENDED
from dtoss.geometry.space import NO_CRS
from dtoss.names import types_in_input
from dtoss.rows.paths import check_found
from dtoss.snapshots.source_columns import Columns as Columns
from dtoss.text import text_types, time_patterns

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
        guess = "" if columns.id_type or kinds.get(columns.id) != text_types.MOSTLY else ", as nine in ten are"
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
    fields of :class:`dtoss.snapshots.source_columns.Columns` that are otherwise; None stands for what is not.
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
