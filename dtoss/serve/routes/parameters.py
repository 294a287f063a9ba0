"""Parameters that several routes share: their names, bounds and examples stand in the OpenAPI text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Literal, TypeAlias

from fastapi import Query

from dtoss.errors import InputError
from dtoss.geometry.space import FURTHEST, Space
from dtoss.serve.problems import Problem

Lon: TypeAlias = Annotated[
    float, Query(ge=-180, le=180, allow_inf_nan=False, description="Degrees east.", examples=[2.3522])
]
Lat: TypeAlias = Annotated[
    float, Query(ge=-90, le=90, allow_inf_nan=False, description="Degrees north.", examples=[48.8566])
]
X: TypeAlias = Annotated[
    float, Query(ge=-FURTHEST, le=FURTHEST, allow_inf_nan=False, description="In units of the CRS.", examples=[500.0])
]
Y: TypeAlias = Annotated[
    float, Query(ge=-FURTHEST, le=FURTHEST, allow_inf_nan=False, description="In units of the CRS.", examples=[250.0])
]
Snapshot: TypeAlias = Annotated[
    str | None,
    Query(max_length=100, description="Answer from this snapshot; 410 where it is not open any more."),
]
Having: TypeAlias = Annotated[
    str | None, Query(max_length=10_000, description="A condition on the hits.", examples=["speed > 10"])
]
Where: TypeAlias = Annotated[
    str | None,
    Query(max_length=10_000, description="Search only objects that satisfy this condition.", examples=["occupied = 0"]),
]
Carry: TypeAlias = Annotated[
    str, Query(max_length=2_000, description="Attributes to return, separated by commas.", examples=["occupied"])
]
Ids: TypeAlias = Annotated[
    Literal["number", "string"],
    Query(description="string: ids as text, for readers that lose digits of numbers above 2^53."),
]
Place: TypeAlias = tuple[float, float]


def place_by_names(space: Space) -> Callable[..., Place]:
    """Return what reads a place by the names that a space's coordinates have."""

    def lon_lat(lon: Lon, lat: Lat) -> Place:
        return lon, lat

    def x_y(x: X, y: Y) -> Place:
        return x, y

    return lon_lat if space.geographic else x_y


def names_of(columns: str) -> list[str]:
    """Return the names in a text that separates them by commas.

    Examples
    --------
    >>> names_of("occupied, speed"), names_of("")
    (['occupied', 'speed'], [])
    """
    return [name.strip() for name in columns.split(",") if name.strip()]


def check_condition(text: str | None, longest: int, name: str = "where") -> None:
    """Refuse a condition that is too long to be read.

    Raises
    ------
    Problem
        400 if it is.
    """
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
    """Make problems of what an index says about a question.

    Raises
    ------
    Problem
        400 for a ValueError.
    """
    try:
        yield
    except (ValueError, InputError) as error:
        raise Problem(400, str(error)) from None
