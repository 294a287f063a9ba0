"""Options that several commands share, and how distances and secrets are given to all of them.

How a line goes on: names of a store's columns and snapshots, for shells that ask after a tab.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dtoss.errors import InputError
from dtoss.option import Option
from dtoss.plain_numbers import FINITE, is_number
from pipelines.options.said_amounts import names_of

if TYPE_CHECKING:
    from fractions import Fraction

    from dtoss.geometry.space import Space


UNITS = {"m": "1", "km": "1000", "ft": "0.3048", "mi": "1609.344", "nmi": "1852", "nm": "1852"}
"""Metres of each unit, exactly: foot and mile are the international ones, and nm is a nautical mile as nmi is."""
_SURVEY_FOOT = (1200, 3937)
"""Metres of a US survey foot, exactly; libraries round it."""
_FORM = re.compile(rf"({FINITE.pattern})\s*([^\W\d][^\d]*)", re.ASCII)
_KNOWN = "m, km, ft, mi, nmi"


@dataclass(frozen=True, slots=True)
class Length:
    """A distance as it was written: the text of its number, and a unit or none."""

    number: str
    unit: str | None = None

    def __str__(self) -> str:
        return f"{self.number}{self.unit or ''}"


def length_of(text: str) -> Length:
    """Return the length that a text such as ``300``, ``5km``, ``.5 mi`` or ``1e3ft`` means; case does not matter.

    Examples
    --------
    >>> length_of("5 KM")
    Length(number='5', unit='km')
    """
    said = text.strip()
    if is_number(said):
        return Length(said)
    found = _FORM.fullmatch(said)
    if found is None:
        raise ValueError(f"{text!r} is no distance: a number is wanted, with a unit or without, as in 300 or 5km")
    unit = found[2].strip().lower()
    if unit not in UNITS:
        from dtoss.names import did_you_mean

        raise ValueError(f"{text!r} has an unknown unit: {_KNOWN} are known{did_you_mean(unit, UNITS)}")
    if not math.isfinite(float(found[1]) * float(UNITS[unit])):
        raise ValueError(f"{text!r} is beyond 1.8e308 metres")
    return Length(found[1], unit)


def in_space(option: str, length: Length, space: Space) -> float:
    """Return a length as a number in the unit of a space: metres on the sphere, CRS units in the plane.

    What has a unit is converted exactly, and rounded once. A number without one stays as it is.

    ``length``: as it was written.
    """
    number = float(length.number)
    if length.unit is None or number == 0.0:
        return number
    from fractions import Fraction

    metres = Fraction(length.number) * Fraction(UNITS[length.unit])
    return float(metres if space.metric == "sphere" else metres / _metres_of_plane(option, length, space.crs))


def in_store(option: str, length: Length, store: str, snapshot: str | None) -> float:
    """Return a length as a number in the unit of a store; the store is read only where there is a unit."""
    if length.unit is None:
        return float(length.number)
    from dtoss.snapshots.manifest import space_of_manifest
    from dtoss.snapshots.store import Store

    place = Store(store)
    return in_space(option, length, space_of_manifest(place.manifest(snapshot or place.current())))


def _metres_of_plane(option: str, length: Length, crs: str) -> Fraction:
    """Return the metres of a plane's unit."""
    from fractions import Fraction

    from dtoss.geometry.space import NO_CRS

    if crs.lower() == NO_CRS:
        raise ValueError(
            f"{option} is {length}: the plane of this store has no CRS, so nothing says how long its unit is; "
            "leave the unit out, and give the number in units of the coordinates"
        )
    import pyproj

    units = {(axis.unit_name, axis.unit_conversion_factor) for axis in pyproj.CRS.from_user_input(crs).axis_info[:2]}
    (name, factor), *others = units
    if others or not factor > 0.0:
        raise ValueError(f"{option} is {length}: the axes of {crs} have no unit in common; leave the unit out")
    # of a foot or a metre the decimal digits are its definition; 17 digits of a binary number would be others
    return Fraction(*_SURVEY_FOOT) if name == "US survey foot" else Fraction(repr(factor))


_LAST_WORD = re.compile(r"[^\W\d]\w*\Z|\Z")


def columns_to_come(ctx: Any, incomplete: str) -> list[str]:
    """Return how a list of columns may go on: each name that objects of ``--store`` carry, behind the last comma."""
    before, comma, begun = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in _columns(ctx, True) if name.startswith(begun) and name not in taken]


def condition_to_come(ctx: Any, incomplete: str) -> list[str]:
    """Return how a condition may go on: each name of a column, in the place of the last word."""
    found = _LAST_WORD.search(incomplete)
    begun = found[0] if found else ""
    return [
        f"{incomplete.removesuffix(begun)}{name}" for name in ["id", *_columns(ctx, False)] if name.startswith(begun)
    ]


def snapshot_to_come(ctx: Any, incomplete: str) -> list[str]:
    """Return the names of a store's snapshots that begin so."""
    from dtoss.snapshots.store import Store

    try:
        return [name for name in Store(_store(ctx)).snapshots() if name.startswith(incomplete)]
    except Exception:  # whoever presses tab is told nothing, and is to go on typing
        return []


def _columns(ctx: Any, positions: bool) -> list[str]:
    from dtoss.names import columns_of_manifest, position_names
    from dtoss.snapshots.store import Store

    try:
        store = Store(_store(ctx))
        manifest = store.manifest(ctx.params.get("snapshot") or store.current())
        geographic = manifest["metric"] == "sphere" and not manifest["to_lonlat"]
        return [*columns_of_manifest(manifest), *(position_names(geographic) if positions else ())]
    except Exception:
        return []


def _store(ctx: Any) -> Any:
    return ctx.params["store"]


Store = Annotated[str, Option("Path or URI of the store.", name="--store")]
TokenFile = Annotated[
    str | None,
    Option("Holds the token that --url wants; DTOSS_TOKEN may, too.", "FILE", name="--token-file"),
]
Snapshot = Annotated[
    str | None,
    Option("Name of a snapshot; the current one if not given.", more={"autocompletion": snapshot_to_come}),
]
Json = Annotated[bool, Option("Print JSON instead of CSV or a table.", name="--json")]
GeoJson = Annotated[
    bool,
    Option("Print GeoJSON points: WGS 84 in degrees, a store of another CRS is transformed.", name="--geojson"),
]
Limit = Annotated[int | None, Option("Print only the first so many rows.", "N", name="--limit")]
Radius = Annotated[
    Length,
    Option(
        "5km, 300m, 2mi, 500ft, 1nmi; a number alone is metres, or CRS units in the plane; the disc is closed.",
        "LENGTH",
        name="--radius",
        more={"parser": length_of},
    ),
]
MaxDistance = Annotated[
    Length | None,
    Option(
        "At most so far away: 5km, 300m, 2mi, 500ft, 1nmi; a number alone is metres, or CRS units in the plane.",
        "LENGTH",
        name="--max-distance",
        more={"parser": length_of},
    ),
]
At = Annotated[tuple[float, float] | None, Option("One place: LON LAT, or X Y.", "LON LAT")]
Check = Annotated[
    bool | Literal["touch"] | None,
    Option(
        "Compare checksums: of each file when it is first read, or of all at once; joins and exports touch, "
        "other questions do not if it is not given.",
        name="--verify",
        written=Literal["no", "touch", "all"],
        parse={"no": False, "touch": "touch", "all": True}.__getitem__,
    ),
]
Where = Annotated[
    str | None,
    Option(
        "Search only objects that satisfy this: \"occupied = 0 and kind in ('taxi')\".",
        "EXPR",
        more={"autocompletion": condition_to_come},
    ),
]
Having = Annotated[
    str | None,
    Option("Of the hits, those that satisfy this.", "EXPR", more={"autocompletion": condition_to_come}),
]
Carry = Annotated[
    tuple[str, ...],
    Option(
        "Attributes to return, separated by commas.",
        name="--columns",
        parse=names_of,
        more={"autocompletion": columns_to_come},
    ),
]


def read_secret(file: str | None, variable: str) -> str | None:
    """Return what a file holds, or a variable of the environment; None where neither says anything."""
    if file is None:
        return os.environ.get(variable) or None
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InputError(f"--secret-file {file} is no text in UTF-8") from None
    except OSError as error:
        raise InputError(f"--secret-file {file} cannot be read: {error.strerror or error}") from None
