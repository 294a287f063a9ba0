"""Parameters that several routes share, as the OpenAPI text has them, and the cursors of pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from zlib import crc32

import orjson
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.errors import InputError
from dtoss.geometry.space import FURTHEST, Space
from dtoss.kinds.kind import About, Kind, Tells
from dtoss.serve.answers.responses import Asker
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits


class Cursor(NamedTuple):
    """Where a page begins."""

    snapshot: str  # That the pages before were of
    question: int  # A checksum of what is asked, without its page
    after: int  # Hits on the pages before
    distance: float  # Of the last of them
    id: Any  # Of the last of them


def question_sum(*parts: object) -> int:
    """Return a checksum of what is asked.

    Examples
    --------
    >>> question_sum(2.5, 48.0, None) == question_sum(2.5, 48.0, None), question_sum(2.5) == question_sum(2)
    (True, False)
    """
    return crc32(repr(parts).encode())


def write_cursor(cursor: Cursor) -> str:
    """Return a cursor as text for a URL.

    Examples
    --------
    >>> read_cursor(write_cursor(Cursor("a", 7, 100, 0.1, 5)))
    Cursor(snapshot='a', question=7, after=100, distance=0.1, id=5)
    """
    return base64.urlsafe_b64encode(orjson.dumps(list(cursor))).rstrip(b"=").decode()


def unknown_cursor(text: str | None = None) -> Problem:
    """Return what is said of a cursor that no page ended with."""
    value = None if text is None else text[:100]
    return Problem(400, "cursor is not one that this server gave: begin again without it", limit="cursor", value=value)


def check_question(begin: Cursor | None, question: int) -> None:
    """Refuse a cursor of another question."""
    if begin is not None and begin.question != question:
        raise Problem(400, "cursor belongs to another question: begin again without it", limit="cursor")


def read_cursor(text: str) -> Cursor:
    """Return the cursor in a text."""
    wrong = unknown_cursor(text)
    try:
        parts = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, orjson.JSONDecodeError):
        raise wrong from None
    kinds: tuple[Any, ...] = (str, int, int, float, (int, str))
    if not isinstance(parts, list) or len(parts) != len(kinds):
        raise wrong
    if not all(isinstance(part, kind) and not isinstance(part, bool) for part, kind in zip(parts, kinds, strict=True)):
        raise wrong
    cursor = Cursor(*parts)
    if cursor.after < 1:
        raise wrong
    return cursor


def first_of_page(cursor: str | None, snapshot: str | None) -> Cursor | None:
    """Return where a page begins, None at the beginning; the snapshot that is asked for has to be the cursor's."""
    begin = None if cursor is None else read_cursor(cursor)
    if begin is not None and snapshot not in (None, begin.snapshot):
        raise Problem(400, f"cursor is of snapshot {begin.snapshot}: leave snapshot out", limit="snapshot")
    return begin


LARGEST_DISTANCE = 1.7e308
"""The largest distance: what is larger is no number."""


def _text(longest: int, description: str) -> QueryParameter:
    return QueryParameter(max_length=longest, description=description)


Snapshot: TypeAlias = Annotated[str | None, _text(100, "Answer from this snapshot; 410 where it is not open any more.")]
Having: TypeAlias = Annotated[str | None, _text(10_000, "A condition on the hits, such as speed > 10.")]
Where: TypeAlias = Annotated[
    str | None, _text(10_000, "Search only objects that satisfy this condition, such as occupied = 0.")
]
Carry: TypeAlias = Annotated[str, _text(2_000, "Attributes to return, separated by commas.")]
Ids: TypeAlias = Annotated[
    Literal["number", "string"],
    QueryParameter(
        title="IdsAs", description="string: ids as text, for readers that lose digits of numbers above 2^53."
    ),
]


SAID_OF_OBJECTS = {"where": (Where, None), "having": (Having, None), "columns": (Carry, "")}
"""What a question may say of objects: types and defaults."""


def numbers_of(kind: Kind[Any], limits: Limits, *, many: bool = False) -> dict[str, tuple[Any, Any]]:
    """Return the types and bounds of what a kind of question takes, by name; ``many``: of several places."""
    found: dict[str, tuple[Any, Any]] = {}
    for one in (one for one in kind.parameters if not one.in_body):
        if one.whole:
            most = None if one.limit is None else getattr(limits, one.limit)
            said = f"{one.says}."
            found[one.name] = int, QueryParameter(default=one.default, ge=1, le=most, description=said)
        else:
            wanted, each = one.wanted and not (many and one.each), ", of all places" if many and one.each else ""
            found[one.name] = float if wanted else float | None, distance(one.says + each, wanted=wanted)
    found |= {name: SAID_OF_OBJECTS[name] for name in kind.takes}
    return found


def ends_of(kind: Kind[Any]) -> dict[str, tuple[Any, Any]]:
    """Return what each question ends with: how ids come, where there are any, and which snapshot answers."""
    counted = QueryParameter(default=False, description="Only how many objects there are, and no list.")
    found: dict[str, tuple[Any, Any]] = {} if kind.tells == Tells.COUNT else {"ids": (Ids, "number")}
    return found | ({} if kind.about == About.PLACES else {"count": (bool, counted)}) | {"snapshot": (Snapshot, None)}


def takes(
    handler: Callable[..., Any], name: str, says: str, parameters: dict[str, tuple[Any, Any]]
) -> Callable[..., Any]:
    """Return a handler of named parameters, with the request first, as the framework reads it."""
    made = {"request": (Asker, Parameter.empty)} | parameters
    listed = [
        Parameter(one, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for one, (kind, default) in made.items()
    ]
    handler.__signature__ = Signature(listed, return_annotation=ASGIResponse)  # type: ignore[attr-defined]
    handler.__annotations__ = {one: kind for one, (kind, _) in made.items()} | {"return": ASGIResponse}
    handler.__name__, handler.__doc__ = name, says
    return handler


class Coordinates(NamedTuple):
    """The parameters of a place."""

    x: Any
    y: Any


def coordinates(space: Space) -> Coordinates:
    """Return the parameters of a place by the names that a space's coordinates have."""
    if space.geographic:
        return Coordinates(
            QueryParameter(name="lon", ge=-180, le=180, description="Degrees east, such as 2.3522."),
            QueryParameter(name="lat", ge=-90, le=90, description="Degrees north, such as 48.8566."),
        )
    return Coordinates(
        *(
            QueryParameter(name=name, ge=-FURTHEST, le=FURTHEST, description="In units of the CRS, such as 250.0.")
            for name in ("x", "y")
        )
    )


def sides(geographic: bool) -> dict[str, tuple[Any, Any]]:
    """Return the parameters of a box, named as the space's coordinates are."""
    x, y = ((-180, 180), (-90, 90)) if geographic else ((-1e90, 1e90), (-1e90, 1e90))
    names = ("west", "south", "east", "north") if geographic else ("xmin", "ymin", "xmax", "ymax")
    unit = "Degrees" if geographic else "Units of the CRS"
    return {
        side: (float, QueryParameter(name=name, ge=low, le=high, description=f"{unit}; the box is closed."))
        for side, name, (low, high) in zip(("west", "south", "east", "north"), names, (x, y, x, y), strict=True)
    }


def distance(description: str, *, wanted: bool = True) -> QueryParameter:
    """Return a parameter that is a distance."""
    unit = "metres, or units of the CRS"
    told_so = f"{description}: {unit}."
    if wanted:
        return QueryParameter(ge=0, le=LARGEST_DISTANCE, description=told_so)
    # the framework tells of no bound that is 0 where there may be nothing
    return QueryParameter(ge=0, le=LARGEST_DISTANCE, description=told_so, default=None, schema_extra={"minimum": 0.0})


def names_of(columns: str) -> list[str]:
    """Return the names in a text that separates them by commas.

    Examples
    --------
    >>> names_of("occupied, speed"), names_of("")
    (['occupied', 'speed'], [])
    """
    return [name.strip() for name in columns.split(",") if name.strip()]


def check_condition(text: str | None, longest: int, name: str = "where") -> None:
    """Refuse a condition that is too long to be read."""
    if text is not None and len(text) > longest:
        raise Problem(
            400,
            f"{name} has {len(text):,} characters: at most {longest:,} are allowed",
            limit=name,
            value=len(text),
            bound=longest,
        )


@contextmanager
def told() -> Iterator[None]:
    """Make problems of what an index says about a question."""
    try:
        yield
    except (ValueError, InputError) as error:
        raise Problem(400, str(error)) from None
