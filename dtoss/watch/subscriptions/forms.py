"""From columns as people write them to those of a draft, when it ends: wrong forms are named, no value is judged."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.geometry.space import AXES
from dtoss.names import did_you_mean
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, COMPLEMENT, EVERYWHERE, INSIDE, POLYGON, WANTS
from dtoss.watch.subscriptions.subscription_text import ids_of, json_text, metas_of, texts_of

Values: TypeAlias = Sequence[Any] | pa.Array
"""A column, as a list or as an array of Arrow; None and null are what is missing."""
Reasons: TypeAlias = dict[int, str]
"""Why a row is bad, by its number from 0: the first that was found."""

NESTED = (
    "id",
    "circle",
    "box",
    "polygon",
    "edges",
    "around",
    "where",
    "words",
    "events",
    "outside",
    "expires",
    "meta",
    "dwell",
    "margin",
    "near",
)
"""What a row may say of itself."""
TOLD_OF_STANDING = ("version", "counts", "unanswered")
"""What lists say of a subscription besides, and nothing is made of: a list may be subscribed to again."""
RADII = ("radius", "metres")
"""Names of the radius of a circle whose numbers are columns of their own."""
BOX_SIDES = ("west", "south", "east", "north")
FLAT = (*RADII, *BOX_SIDES, *dict.fromkeys(name for pair in AXES for name in pair))
"""Names of places whose numbers are columns of their own."""
_NUMBER, _NUMBERS = pa.float64(), pa.list_(pa.float64())
_REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)
_SHORTEST, _LONGEST = 1e-6, 1e9
"""Seconds or metres of a stay."""
_SHOWN = 100
"""Characters of a value that a reason shows."""


@dataclass(frozen=True)
class Draft:
    """Subscriptions whose values are not judged yet, (n,) each."""

    kind: NDArray[np.uint8]  # uint8. Of the place; that of a row that is bad means nothing
    # float64. x, y, radius, west, south, east and north, NaN where there is none
    numbers: dict[str, NDArray[np.float64]]
    # What stands for a polygon, as it was given; None where there is none, and as a whole where no row has one
    shapes: Sequence[Any] | None
    texts: dict[str, pa.Array]  # id, object, edges, where, words, meta and stay, as text of Arrow
    events: NDArray[np.uint8]  # uint8. Bits of :data:`dtoss.watch.subscription.WANTS`, and :data:`COMPLEMENT`
    expires: pa.Array  # int64 of Arrow, microseconds
    reasons: Reasons  # Of the rows whose form is wrong; what judges values adds to it


def draft_of(columns: Mapping[str, Values], count: int, reasons: Reasons) -> Draft:
    """Return the draft of columns of one length, of which each may be missing. Cost O(n).

    ``columns``: by name, of :data:`NESTED` and :data:`FLAT`; others are not looked at.
    """
    numbers = {name: np.full(count, np.nan) for name in ("x", "y", "radius", *BOX_SIDES)}
    objects: list[Any] | None = None
    given: dict[str, NDArray[np.bool_]] = {}
    if "circle" in columns:
        given["circle"] = _given(columns["circle"])
        _spread(columns["circle"], ("x", "y", "radius"), "circle", "[lon, lat, metres]", numbers, reasons)
    if "box" in columns:
        given["box"] = _given(columns["box"])
        _spread(columns["box"], BOX_SIDES, "box", "[west, south, east, north]", numbers, reasons)
    if "polygon" in columns:
        given["polygon"] = _given(columns["polygon"])
    if "around" in columns:
        given["around"] = _given(columns["around"])
        objects = _around(_listed(columns["around"]), numbers["radius"], reasons)
    _flat(columns, given, numbers, reasons)
    kind = _kinds(given, count, reasons)
    texts = {
        "id": ids_of(columns.get("id"), count, reasons),
        "object": texts_of(objects, count, "object", reasons),
        "edges": texts_of(columns.get("edges"), count, "edges", reasons),
        "where": texts_of(columns.get("where"), count, "where", reasons),
        "words": texts_of(columns.get("words"), count, "words", reasons),
        "meta": metas_of(columns.get("meta"), count, reasons),
        "stay": _stays(columns, count, reasons),
    }
    events = _events(columns.get("events"), count, reasons) | _outside(columns.get("outside"), count, reasons)
    expires = instants(columns.get("expires"), count, reasons)
    shapes = _listed(columns["polygon"]) if "polygon" in columns else None
    return Draft(kind, numbers, shapes, texts, events, expires, reasons)


def said(value: Any) -> str:
    """Return a value as a reason shows it, not too long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def unknown_names(names: Sequence[str]) -> str | None:
    """Return what to say of names that no row has; None where all are known."""
    known = (*NESTED, *FLAT)
    for name in names:
        if name not in known and name not in TOLD_OF_STANDING:
            near = did_you_mean(str(name), known) or "; what is to be given back with each event belongs into meta"
            return f"{said(name)} is nothing that a subscription has{near}"
    return None


def arrow_of(values: Values, kind: pa.DataType, why: Callable[[Any], str], reasons: Reasons) -> pa.Array:
    """Return a column as a type of Arrow; what is no such value is null, and named. Cost O(n).

    ``values``: numbers are not read from text, nor from truths.
    """
    if isinstance(values, pa.Array):
        try:
            if _fits(values.type, kind):
                return values.cast(kind)
        except pa.ArrowException:
            pass
        values = values.to_pylist()
    try:
        return _inferred(values, kind)
    except _REFUSED:
        kept = []
        for row, value in enumerate(values):
            try:
                _inferred([value], kind)
            except _REFUSED:
                reasons.setdefault(row, why(value))
                value = None
            kept.append(value)
        return pa.array(kept, kind)


def _inferred(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    found = pa.array(values)
    if not _fits(found.type, kind):
        raise TypeError(found.type)
    return found.cast(kind)


def _fits(have: pa.DataType, kind: pa.DataType) -> bool:
    if pa.types.is_null(have):
        return True
    if pa.types.is_list(kind):
        lists = pa.types.is_list(have) or pa.types.is_large_list(have) or pa.types.is_fixed_size_list(have)
        return lists and _fits(have.value_type, kind.value_type)
    return bool(pa.types.is_integer(have) or pa.types.is_floating(have) or pa.types.is_decimal(have))


def _given(values: Values) -> NDArray[np.bool_]:
    if isinstance(values, pa.Array):
        return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return np.fromiter((value is not None for value in values), np.bool_, len(values))


def _listed(values: Values) -> list[Any]:
    found: list[Any] = values.to_pylist() if isinstance(values, pa.Array) else list(values)
    return found


def _spread(
    values: Values,
    names: Sequence[str],
    what: str,
    wanted: str,
    numbers: dict[str, NDArray[np.float64]],
    reasons: Reasons,
) -> None:
    """Write lists of so many numbers into columns of their own."""

    def why(value: Any) -> str:
        return f"{what} is {said(value)}: {wanted} is wanted, all numbers"

    lists = arrow_of(values, _NUMBERS, why, reasons)
    long = np.asarray(pc.list_value_length(lists).fill_null(len(names)).to_numpy(zero_copy_only=False))
    for row in np.flatnonzero(long != len(names)).tolist():
        reasons.setdefault(row, why(values[row].as_py() if isinstance(values, pa.Array) else values[row]))
    rows = np.flatnonzero((long == len(names)) & _given(lists))
    flat = lists.take(pa.array(rows)).flatten().to_numpy(zero_copy_only=False).reshape(-1, len(names))
    for column, name in enumerate(names):
        numbers[name][rows] = flat[:, column]


def _around(values: list[Any], radius: NDArray[np.float64], reasons: Reasons) -> list[Any]:
    """Write the radii of what is around an object, and return the objects."""
    objects: list[Any] = [None] * len(values)
    far: list[Any] = [None] * len(values)
    wanted = '{"object": ID, "metres": NUMBER} is wanted'
    rows = []
    for row, value in enumerate(values):
        if value is None:
            continue
        rows.append(row)
        if not isinstance(value, Mapping) or set(value) not in ({"object", "metres"}, {"object", "radius"}):
            reasons.setdefault(row, f"around is {said(value)}: {wanted}")
            continue
        name = value["object"]
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer) or name == "":
            reasons.setdefault(row, f"object is {said(name)}: the id of an object, a text or a whole number, is wanted")
            continue
        objects[row] = str(name)
        far[row] = value.get("metres", value.get("radius"))
        if far[row] is None:
            reasons.setdefault(row, f"around is {said(value)}: {wanted}")
    found = arrow_of(far, _NUMBER, lambda value: f"metres of around is {said(value)}: a number is wanted", reasons)
    radius[rows] = found.to_numpy(zero_copy_only=False)[rows]
    return objects


def _flat(
    columns: Mapping[str, Values],
    given: dict[str, NDArray[np.bool_]],
    numbers: dict[str, NDArray[np.float64]],
    reasons: Reasons,
) -> None:
    """Add the circles and boxes whose numbers are columns of their own."""
    axes = next((pair for pair in AXES if pair[0] in columns and pair[1] in columns), None)
    reach = next((name for name in RADII if name in columns), None)
    circle = [*(axes or ()), *([] if reach is None else [reach])]
    lonely = [name for name in (*RADII, *dict.fromkeys(n for pair in AXES for n in pair)) if name in columns]
    if circle and axes is not None and reach is not None:
        _together(columns, circle, ("x", "y", "radius"), "circle", given, numbers, reasons)
    elif lonely:
        missing = "radius" if axes is not None else "lon and lat, or x and y"
        for row in np.flatnonzero(np.any([_given(columns[name]) for name in lonely], axis=0)).tolist():
            reasons.setdefault(row, f"there is {', '.join(lonely)}, and no {missing}: a circle has lon, lat and radius")
    if sides := [name for name in BOX_SIDES if name in columns]:
        whole = {name: columns.get(name, [None] * len(numbers[name])) for name in BOX_SIDES} if sides else {}
        _together(whole, BOX_SIDES, BOX_SIDES, "box", given, numbers, reasons)


def _together(
    columns: Mapping[str, Values],
    names: Sequence[str],
    into: Sequence[str],
    what: str,
    given: dict[str, NDArray[np.bool_]],
    numbers: dict[str, NDArray[np.float64]],
    reasons: Reasons,
) -> None:
    there: NDArray[np.bool_] = np.stack([_given(columns[name]) for name in names])
    some = np.asarray(there.any(axis=0), np.bool_)
    for row in np.flatnonzero(some & ~there.all(axis=0)).tolist():
        lacking = [name for name, has in zip(names, there[:, row].tolist(), strict=True) if not has]
        reasons.setdefault(row, f"the {what} has no {' and no '.join(lacking)}")
    for name, target in zip(names, into, strict=True):

        def why(value: Any, name: str = name) -> str:
            return f"{name} is {said(value)}: a number is wanted"

        found = arrow_of(columns[name], _NUMBER, why, reasons).to_numpy(zero_copy_only=False)
        numbers[target] = np.where(some, found, numbers[target])
    if what not in given:
        given[what] = some
        return
    for row in np.flatnonzero(given[what] & some).tolist():
        reasons.setdefault(row, f"there are two places, {what} and {', '.join(names)}: one is wanted")
    given[what] = np.logical_or(given[what], some)


def _kinds(given: dict[str, NDArray[np.bool_]], count: int, reasons: Reasons) -> NDArray[np.uint8]:
    kinds = {"circle": CIRCLE, "box": BOX, "polygon": POLYGON, "around": AROUND}
    kind = np.full(count, EVERYWHERE, np.uint8)
    places = np.zeros(count, np.int64)
    for name, there in given.items():
        kind[there] = kinds[name]
        places += there
    for row in np.flatnonzero(places > 1).tolist():
        both = [name for name, there in given.items() if there[row]]
        reasons.setdefault(row, f"there are {' and '.join(both)}: one place is wanted")
    return kind


def _events(values: Values | None, count: int, reasons: Reasons) -> NDArray[np.uint8]:
    """Return the bits of the events that are wanted: inside where none are said."""
    bits = np.full(count, INSIDE, np.uint8)
    if values is None:
        return bits
    known: dict[Any, int | None] = {}
    for row, value in enumerate(_listed(values)):
        if value is None:
            continue
        names = value.replace(",", " ").split() if isinstance(value, str) else value
        try:
            key = tuple(names)
            found = known[key] if key in known else known.setdefault(key, _bits(key))
        except TypeError:
            found = None
        if found is None:
            reasons.setdefault(
                row, f"events is {said(value)}: some of inside, enter, leave, cross and dwell are wanted"
            )
        else:
            bits[row] = found
    return bits


_STAYS = {
    "dwell": {"seconds": "NUMBER"},
    "margin": {"metres": "NUMBER", "seconds": "NUMBER"},
    "near": {"metres": "NUMBER", "where": "CONDITION"},
}
"""What is said of objects' stays and of pairs, and by what."""


def _stays(columns: Mapping[str, Values], count: int, reasons: Reasons) -> pa.Array:
    """Return what is said of stays and pairs as JSON, null where it is nothing."""
    found: list[dict[str, dict[str, Any]]] = [{} for _ in range(count)]
    for name, known in _STAYS.items():
        for row, value in enumerate(_listed(columns.get(name, ()))):
            if isinstance(value, Mapping) and value:  # a struct of Arrow has all members, all null where it is missing
                value = {key: one for key, one in value.items() if one is not None} or None
            if value is None:
                continue
            good = isinstance(value, Mapping) and value and set(value) <= set(known)
            if not (good and all(_is_said(at, one) for at, one in value.items())):
                wanted = ", ".join(f'"{at}": {what}' for at, what in known.items())
                reasons.setdefault(row, f"{name} is {said(value)}: {{{wanted}}} is wanted, numbers above 0 up to 1e9")
                continue
            found[row][name] = {at: value[at] if at == "where" else float(value[at]) for at in known if at in value}
    return pa.array([json_text(one) if one else None for one in found], pa.string())


def _is_said(name: str, value: Any) -> bool:
    return isinstance(value, str) if name == "where" else _is_span(value)


def _is_span(value: Any) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and bool(_SHORTEST <= value <= _LONGEST)


def _outside(values: Values | None, count: int, reasons: Reasons) -> NDArray[np.uint8]:
    """Return the bit of what is asked about all that is outside of its place, 0 for others."""
    bits = np.zeros(count, np.uint8)
    for row, value in enumerate([] if values is None else _listed(values)):
        if value is not None and not isinstance(value, bool):
            reasons.setdefault(row, f"outside is {said(value)}: true or false is wanted")
        elif value:
            bits[row] = COMPLEMENT
    return bits


def _bits(names: tuple[Any, ...]) -> int | None:
    if not names or any(name not in WANTS for name in names):
        return None
    return sum({WANTS[name] for name in names})


MICROSECONDS_OF_SECOND = 1_000_000
_LAST = (1 << 63) - 1
_BEGIN = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TICK = datetime.timedelta(microseconds=1)


def instants(values: Sequence[Any] | pa.Array | None, count: int, reasons: dict[int, str]) -> pa.Array:
    """Return moments as int64 microseconds, null where there is none; what is no moment is named. Cost O(n).

    ``values``: numbers are seconds since 1970, texts ISO 8601, both and times without a zone in UTC. None where there
    is no such column.
    """
    if values is None:
        return pa.nulls(count, pa.int64())
    if isinstance(values, pa.Array):
        if pa.types.is_timestamp(values.type):
            try:
                return pc.cast(values, pa.timestamp("us", values.type.tz), safe=values.type.unit != "ns").cast(
                    pa.int64()
                )
            except pa.ArrowException:
                pass
        values = values.to_pylist()
    kept: list[int | None] = []
    for row, value in enumerate(values):
        found = None if value is None else instant_of(value)
        if value is not None and found is None:
            reasons.setdefault(
                row, f"expires is {str(value)[:100]!r}: seconds since 1970, or a time such as 2030-01-31T12:00:00Z, "
                "are wanted"
            )  # fmt: skip
        kept.append(found)
    return pa.array(kept, pa.int64())


def instant_said(text: str) -> int | None:
    """Return the moment that a user writes, in microseconds since 1970; None where it is none.

    Examples
    --------
    >>> instant_said("1970-01-01T00:00:02"), instant_said("90"), instant_said("soon")
    (2000000, 90000000, None)
    """
    found = instant_of(text)
    if found is not None:
        return found
    try:
        return instant_of(float(text))
    except ValueError:
        return None


def instant_of(value: Any) -> int | None:
    """Return a moment in microseconds since 1970, None where a value is none.

    Examples
    --------
    >>> instant_of(1.5), instant_of("1970-01-01T00:00:02"), instant_of("soon")
    (1500000, 2000000, None)
    """
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        found = int(value) * MICROSECONDS_OF_SECOND
    elif isinstance(value, float | np.floating):
        ticks = float(value) * MICROSECONDS_OF_SECOND
        if not math.isfinite(ticks):
            return None
        found = round(ticks)
    else:
        when = value
        if isinstance(value, str):
            try:
                when = datetime.datetime.fromisoformat(value.strip())
            except ValueError:
                return None
        elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            when = datetime.datetime(value.year, value.month, value.day)
        if not isinstance(when, datetime.datetime):
            return None
        found = ((when if when.tzinfo else when.replace(tzinfo=datetime.UTC)) - _BEGIN) // _TICK
    return found if -_LAST <= found <= _LAST else None
