"""Names of attributes: those that answers need for themselves get an underscore behind, everywhere by one rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

RESERVED = (
    "query", "query_id", "id", "distance", "rank", "lon", "lat", "x", "y", "partition", "geometry", "bbox",
)  # fmt: skip
"""Names of our own columns: in hits, in joins, of an object by its id, and in exported files."""
DEFAULT_NAME = "default"
"""The name of a watch where none is said."""


def position_names(geographic: bool) -> tuple[str, str]:
    """Return how the two coordinates of an object are called: lon and lat in degrees, or x and y."""
    return ("lon", "lat") if geographic else ("x", "y")


def free_names(names: Iterable[str]) -> dict[str, str]:
    """Return as what each attribute is stored, asked for and returned: its own name unless that is reserved.

    A reserved name, in any case, because Spark and most SQL do not tell ``Lon`` from ``lon``, gets as many underscores
    behind as are needed to differ from every other name. Applied to its own result it changes nothing; the order of the
    names does not matter.

    Examples
    --------
    >>> free_names(["lon", "speed", "lon_", "Rank"])
    {'lon': 'lon__', 'speed': 'speed', 'lon_': 'lon_', 'Rank': 'Rank_'}
    """
    given = list(names)
    free = {name: name for name in given}
    taken = {*RESERVED, *(name.lower() for name in given)}
    for name in sorted(name for name in free if name.lower() in RESERVED):
        free[name] = unused_name(name, taken)
        taken.add(free[name].lower())
    return free


def unused_name(name: str, taken: Iterable[str]) -> str:
    """Return a name with as many underscores behind as are needed to differ, in any case, from all that are taken.

    Examples
    --------
    >>> unused_name("_x", ["_y", "_X"]), unused_name("_y", ["_x"])
    ('_x_', '_y')
    """
    others = {other.lower() for other in taken}
    while name.lower() in others:
        name += "_"
    return name


def renames(names: Iterable[str]) -> dict[str, str]:
    """Return what :func:`free_names` calls otherwise, by the names that were given."""
    return {name: fresh for name, fresh in free_names(names).items() if fresh != name}


def columns_of_manifest(manifest: dict[str, Any]) -> dict[str, str]:
    """Return the Spark types of a snapshot's attributes by their names."""
    names = free_names(manifest["columns"])
    return {names[name]: kind for name, kind in manifest["columns"].items()}


def renamed_of_manifest(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return which attributes of the input are called otherwise, and how: those with reserved names."""
    said: dict[str, str] = manifest.get("renamed") or renames(manifest["columns"])
    return said


def types_in_input(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the Spark types of a snapshot's attributes by what they are called in the input."""
    called = {stored: name for name, stored in renamed_of_manifest(manifest).items()}
    return {called.get(name, name): kind for name, kind in manifest["columns"].items()}


def said_renamed(names: Mapping[str, str]) -> str:
    """Return the renamed attributes as text.

    Examples
    --------
    >>> said_renamed({"lon": "lon_", "id": "id_"})
    'id as id_, lon as lon_'
    """
    return ", ".join(f"{name} as {names[name]}" for name in sorted(names))


ALIKE = 0.7
"""How alike two names are, by the ratio of difflib, from which on one may be meant by the other."""
LONGEST_NAMED = 100
"""Characters of a name, above which none is looked for."""


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that may be meant by one that is not known, None where none is near.

    The same name in another case comes first; else the most alike, whatever the case.

    Examples
    --------
    >>> near_name("KIND", ["kind_of", "Kind"]), near_name("ocupied", ["occupied", "speed"])
    ('Kind', 'occupied')
    >>> near_name("colour", ["occupied", "speed"]) is None
    True
    """
    from difflib import get_close_matches  # loaded where something is wrong, and only there

    if len(name) > LONGEST_NAMED:
        return None
    folded: dict[str, str] = {}
    for other in known:
        folded.setdefault(other.casefold(), other)
    near = get_close_matches(name.casefold(), folded, n=1, cutoff=ALIKE)
    return folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names the known name that may be meant; nothing where none is near.

    Examples
    --------
    >>> did_you_mean("sped", ["occupied", "speed"]), did_you_mean("colour", ["speed"])
    ('; did you mean speed?', '')
    """
    near = near_name(name, known)
    return "" if near is None else f"; did you mean {near}?"


def not_carried(name: str, carried: Iterable[str]) -> str:
    """Return what to say of a column that objects do not carry; it names those they do, and the one that may be meant.

    Examples
    --------
    >>> not_carried("lon", ["lon_", "speed"])
    "column 'lon' is not carried by the objects; they carry lon_, speed; an attribute lon is called lon_ here"
    """
    known = list(carried)
    for other in known:
        if name.lower() in RESERVED and other.rstrip("_").lower() == name.lower():
            hint = f"; an attribute {name} is called {other} here"
            break
    else:
        hint = did_you_mean(name, known)
    return f"column {name!r} is not carried by the objects; they carry {', '.join(known) or 'none'}{hint}"
