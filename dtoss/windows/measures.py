"""All measures of windows, a line each: what it is made of, its unit, and what the map calls it."""

from __future__ import annotations

from typing import NamedTuple

SPEED = ""
"""The unit of speeds: metres (units of a CRS in the plane) a second. They are null where nothing moved, counts 0."""


class Measure(NamedTuple):
    """A number of each key and window."""

    name: str
    title: str  # What the map calls it; empty where it shows it in a way of its own
    unit: str
    columns: tuple[str, ...]  # Of results, for each length but for `here`
    moves: bool = True  # Whether it needs the moves of objects
    percent: int | None = None  # Of the speeds of moves


_ALL = (
    Measure("rows", "rows", "rows", ("rows",), moves=False),
    Measure("objects", "different objects", "objects", ("objects",), moves=False),
    Measure("here", "objects here", "objects", ("here",), moves=False),
    Measure("arrivals", "arrivals", "moves", ("arrivals",)),
    Measure("departures", "departures", "moves", ("departures",)),
    Measure("flow", "", "moves", ()),
    Measure("speed", "mean speed", SPEED, ("distance_mm", "moving_us")),
    Measure("max_speed", "fastest move", SPEED, ("max_speed",)),
    Measure("p50_speed", "median speed", SPEED, ("p50_speed",), percent=50),
    Measure("p95_speed", "95 % of speeds are below", SPEED, ("p95_speed",), percent=95),
    Measure("p99_speed", "99 % of speeds are below", SPEED, ("p99_speed",), percent=99),
)
MEASURES = {measure.name: measure for measure in _ALL}
"""By their names, in the order in which results show them."""
PERCENTILES = {measure.name: measure.percent for measure in _ALL if measure.percent is not None}
"""Percents of those that are percentiles of speeds."""
SPEEDS = ("max_speed", *PERCENTILES)
"""Those that are kept as whole millimetres a second."""
