"""Targets of frequent questions, read in a microsecond; whatever is unusual in one is left to the framework."""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import NamedTuple
from urllib.parse import unquote_plus

from dtoss.geometry.space import FURTHEST, Space
from dtoss.kinds.searches import DEFAULT_K
from dtoss.plain_numbers import FINITE
from dtoss.serve.requests.request_batches import HOT_KNN, HOT_RANGE, MOST, Target

_PLAIN = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?").fullmatch
"""Of plain numbers: what is written otherwise means the same to the framework, or nothing."""
_JSON = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?").fullmatch
_NUMBERS = re.compile(rb"(?<![^&])(lon|lat|x|y|radius|max_distance|west|south|east|north|xmin|ymin|xmax|ymax)=([^&]*)")
"""The parameters that are numbers, whole ones aside."""
_SMALL = re.compile(rb"[1-9][0-9]?").fullmatch


class Reading(NamedTuple):
    """What the targets of a store look like."""

    first: bytes  # Names of the coordinates
    second: bytes  # Names of the coordinates
    furthest_x: float
    furthest_y: float
    most: int
    condition_length: int  # Characters of a condition
    line_bytes: int  # Bytes of a target


def reading_of(space: Space, most_k: int, condition_length: int, line_bytes: int) -> Reading | None:
    """Return how targets are read; None where positions have to be transformed first, which takes its time."""
    if space.to_lonlat:
        return None
    most = min(most_k, MOST)
    if space.geographic:
        return Reading(b"lon", b"lat", 180.0, 90.0, most, condition_length, line_bytes)
    return Reading(b"x", b"y", FURTHEST, FURTHEST, most, condition_length, line_bytes)


def read_target(url: bytes, reading: Reading) -> Target | None:
    """Return the question in a target, None where anything about it is unusual.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> reading = reading_of(space_of(), 1_000, 1_000, 8_192)
    >>> read_target(b"/knn?lon=2.5&lat=-7&k=3", reading)
    Target(kind=0, x=2.5, y=-7.0, k=3, radius=inf, where=None)
    >>> read_target(b"/knn?lon=2.5&lat=nan", reading), read_target(b"/range?lon=1&lat=1", reading)
    (None, None)
    """
    path, _, query = url.partition(b"?")
    if path == b"/knn":
        kind = HOT_KNN
    elif path == b"/range":
        kind = HOT_RANGE
    else:
        return None
    if len(url) > reading.line_bytes:
        return None
    x = y = radius = None
    k, where = None, None
    try:
        for pair in query.split(b"&"):
            name, _, value = pair.partition(b"=")
            if name == reading.first and x is None:
                x = _number(value)
            elif name == reading.second and y is None:
                y = _number(value)
            elif name == b"k" and kind == HOT_KNN and k is None and _SMALL(value):
                k = int(value)
            elif name == (b"max_distance" if kind == HOT_KNN else b"radius") and radius is None:
                radius = _number(value)
            elif name == b"where" and where is None:
                where = unquote_plus(value.decode("latin-1"))
            else:
                return None
    except ValueError:
        return None
    if x is None or y is None or not (abs(x) <= reading.furthest_x and abs(y) <= reading.furthest_y):
        return None
    if radius is None:
        if kind == HOT_RANGE:
            return None
        radius = inf
    elif not 0.0 <= radius < inf:
        return None
    if where is not None and not 0 < len(where) <= reading.condition_length:
        return None
    if kind == HOT_RANGE:
        return Target(kind, x, y, 0, radius, where)
    k = DEFAULT_K if k is None else k
    return Target(kind, x, y, k, radius, where) if 0 < k <= reading.most else None


def with_plain_numbers(query: bytes) -> bytes:
    """Return a query in which numbers are written as the framework takes them, all that commands take among them.

    Examples
    --------
    >>> with_plain_numbers(b"lon=.5&lat=-5.&radius=1e3&k=.5"), with_plain_numbers(b"lon=1_0&lat=%2B5")
    (b'lon=0.5&lat=-5.0&radius=1e3&k=.5', b'lon=1_0&lat=5.0')
    """
    return _NUMBERS.sub(_rewritten, query)


def _rewritten(found: re.Match[bytes]) -> bytes:
    name, text = found[1], unquote_plus(found[2].decode("latin-1"))
    if FINITE.fullmatch(text) is None or _JSON(found[2]) or not isfinite(number := float(text)):
        return found[0]
    return b"%b=%b" % (name, repr(number).replace("+", "").encode())


def _number(value: bytes) -> float:
    if _PLAIN(value) is None:
        raise ValueError(value)
    return float(value)
