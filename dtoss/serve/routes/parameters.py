"""Parameters that several routes share: their names, bounds and examples stand in the OpenAPI text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from litestar.params import QueryParameter

from dtoss.errors import InputError
from dtoss.geometry.space import FURTHEST, Space
from dtoss.serve.core.problems import Problem

LARGEST_DISTANCE = 1.7e308
"""The largest distance: what is larger is no number."""


def _text(longest: int, description: str) -> Any:
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


def distance(description: str, *, wanted: bool = True) -> Any:
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
