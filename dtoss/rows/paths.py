"""Names of columns and paths to fields of structs, such as ``vehicle.position.longitude``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa

from dtoss.errors import InputError
from dtoss.names import did_you_mean

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
