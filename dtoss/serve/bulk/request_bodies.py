"""Bodies of requests, read within limits of bytes and time, and the places in them, JSON or Arrow, checked.

Lists of numbers in the JSON that a stranger sent.

Only lists of so many numbers each are read, some thousands at a time: the interpreter is held while they are, and the
loop waits for it.

Boxes and polygons in the bodies that a stranger sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from dtoss.arguments import distances
from dtoss.geometry.polygons import BY_VECTORS, arcs_meant
from dtoss.geometry.space import Space, as_positions
from dtoss.kinds.kind import Shapes
from dtoss.names import position_names
from dtoss.queries.covered import Shape, boxes_of, list_shapes, polygons_of
from dtoss.serve.answers.json_out import ARROW_TYPE
from dtoss.serve.answers.responses import Asker
from dtoss.serve.bulk.arrow_in import columns_in
from dtoss.serve.core.pool import ClientGone, Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits

LARGEST_TOGETHER = 8
"""Times the largest body: what all bodies in hand may take together."""


CORNER_BYTES = 400
"""Bytes of GeoJSON for each corner that is allowed, properties included: the interpreter is held while it is read."""


class Bound(NamedTuple):
    """How long bodies of a kind may be."""

    bytes: int
    limit: str  # From which that follows: the one to be told of, and its number
    number: int
    said: str  # What is read, and what to do


def of_bytes(limits: Limits, limit: str = "body_bytes") -> Bound:
    """Return the bound of bodies that a limit counts by bytes."""
    most = min(getattr(limits, limit), limits.body_bytes)
    name = limit if getattr(limits, limit) == most else "body_bytes"
    return Bound(most, name, most, f"at most {most:,} are read; send it in several requests")


def of_corners(limits: Limits) -> Bound:
    """Return the bound of bodies of GeoJSON, which may be as long as their corners want."""
    most = limits.corners * CORNER_BYTES
    if most > limits.body_bytes:
        return of_bytes(limits)
    return Bound(
        most,
        "corners",
        limits.corners,
        f"at most {limits.corners:,} corners are searched within, of {CORNER_BYTES} bytes each; simplify the polygons, "
        "or send fewer at a time",
    )


class Bodies:
    """The bodies that a worker reads and has read."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0

    @asynccontextmanager
    async def of(self, request: Asker, bound: Bound | None = None) -> AsyncIterator[bytearray]:
        """Give the body of a request, and count it as long as the ``with`` lasts."""
        bound = bound or of_bytes(self._limits)
        said = request.headers.get("content-length")
        if said is not None and said.isdigit() and int(said) > bound.bytes:
            raise _too_long(int(said), bound)
        body = bytearray()  # grows in place: to join pieces of 64 MB would hold up the loop
        try:
            try:
                async with asyncio.timeout(self._limits.idle_seconds):
                    more = True
                    while more:
                        message: Any = await request.receive()
                        if message["type"] == "http.disconnect":
                            raise ClientGone
                        chunk, more = message.get("body", b""), message.get("more_body", False)
                        self._held += len(chunk)
                        body += chunk
                        if len(body) > bound.bytes:
                            raise _too_long(len(body), bound)
                        self._check()
            except TimeoutError:
                raise Problem(
                    408,
                    f"the body did not come within {self._limits.idle_seconds:g} seconds: {len(body):,} bytes did",
                    limit="idle_seconds",
                    bound=self._limits.idle_seconds,
                ) from None
            yield body
        finally:
            self._held -= len(body)

    def _check(self) -> None:
        most = LARGEST_TOGETHER * self._limits.body_bytes
        if self._held > most:
            raise Problem(
                503,
                f"bodies of {self._held:,} bytes are in hand: at most {most:,} are held; ask again in a second",
                limit="body_bytes",
                value=self._held,
                bound=most,
                retry_after=1,
            )


def _too_long(size: int, bound: Bound) -> Problem:
    return Problem(
        413,
        f"the body has {size:,} bytes or more: {bound.said}",
        limit=bound.limit,
        value=None if bound.limit == "corners" else size,
        bound=bound.number,
    )


@dataclass(frozen=True, eq=False)
class Places:
    """Places that are asked about."""

    positions: NDArray[np.float64]  # float64 (m, 2), legal
    radius: NDArray[np.float64] | None  # float64 (m,), or None where the body has none

    def __len__(self) -> int:
        return len(self.positions)


AS_JSON = ("application/json", "application/x-www-form-urlencoded", "")
"""Types of bodies that are read as JSON: the second is what curl says of any body."""


def is_arrow(request: Asker) -> bool:
    """Return whether a body is an Arrow stream."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind == ARROW_TYPE.decode():
        return True
    if kind in AS_JSON or kind.endswith("+json"):
        return False
    raise Problem(
        415,
        f"the body is of type {kind[:100]!r}: application/json or {ARROW_TYPE.decode()} is read",
        limit="content-type",
        value=kind[:100],
        bound=["application/json", ARROW_TYPE.decode()],
    )


def places_in(
    body: bytes | bytearray, arrow: bool, space: Space, most: int, stop: Stop, radius: bool = False
) -> Places:
    """Return the places of a body."""
    names = position_names(space.geographic)
    if arrow:
        columns = columns_in(body, names, ("radius",) if radius else (), most, stop.check)
        positions = np.stack([columns[name] for name in names], axis=1)
        radii = columns.get("radius")
    else:
        positions, radii = lists_in(body, "positions", 2, most, stop.check, radius)
    positions = as_positions(positions, space)
    if radii is not None:
        radii = distances("radius", radii, len(positions))
        if len(endless := np.flatnonzero(radii == np.inf)):
            raise ValueError(f"radius row {int(endless[0])} is inf: a finite number is wanted")
    return Places(positions, radii)


PIECE_BYTES = 1 << 15
_SPACE = b" \t\r\n"
_ROW = re.compile(r" - at `\$\[(\d+)\]")
"""Where a message says in which list of a piece something is wrong."""


class Members(msgspec.Struct, forbid_unknown_fields=True):
    """The members of a body, not read yet."""

    positions: msgspec.Raw = msgspec.Raw()
    boxes: msgspec.Raw = msgspec.Raw()
    radius: msgspec.Raw = msgspec.Raw()


def lists_in(
    body: bytes | bytearray,
    name: str,
    width: int,
    most: int,
    check: Callable[[], None],
    radius: bool = False,
    piece_bytes: int = PIECE_BYTES,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the lists of numbers of a body, (n, width), and its radii (n,), if there are any and they may be.

    ``body``: ``{"positions": [[1, 2], ...], "radius": [3, ...]}``, or boxes; ``most``: lists at the most; ``check``: is
    called now and then.
    """
    if (lists := body.count(b"[") - 1) > most + 1:
        raise too_many(lists - 1, most)
    try:
        members = msgspec.json.decode(body, type=Members)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _wrong(f"{_first_line(error)}; send {_example(name, width, radius)}") from None
    values = bytes(getattr(members, name))
    others = [other for other in ("positions", "boxes") if other != name and bytes(getattr(members, other))]
    if not values or others:
        raise _wrong(f"{name} are missing; send {_example(name, width, radius)}")
    if bytes(members.radius) and not radius:
        raise _wrong(f"it has a radius, which is not asked for; send {_example(name, width, radius)}")
    found = _rows(values, name, width, check, piece_bytes)
    if len(found) > most:
        raise too_many(len(found), most)
    if bytes(members.radius).count(b",") > most:
        raise _wrong(f"there are more than {most:,} radii: send one, or one for each place")
    radii = _radii(bytes(members.radius), len(found)) if bytes(members.radius) else None
    return found, radii


def too_many(number: int, most: int) -> Problem:
    """Return what to say of too many places."""
    return Problem(
        413,
        f"there are {number:,} places: at most {most:,} go into a request; send them in several",
        limit="bulk_queries",
        value=number,
        bound=most,
    )


def _rows(values: bytes, name: str, width: int, check: Callable[[], None], piece_bytes: int) -> NDArray[np.float64]:
    """Return the lists in a list, of valid JSON: it is cut behind a ``]``, where it can only be cut between two."""
    inner = values.strip(_SPACE)
    if inner[:1] != b"[":
        raise _wrong(f"{name} are no list; send {_example(name, width)}")
    decoder = msgspec.json.Decoder(list[tuple[(float,) * width]])  # type: ignore[misc]
    inner = inner[1:-1].strip(_SPACE)
    pieces: list[NDArray[np.float64]] = [np.zeros((0, width))]
    at = rows = 0
    while at < len(inner):
        check()
        end = inner.find(b"]", at + piece_bytes) + 1 or len(inner)
        try:
            found = decoder.decode(b"[" + inner[at:end] + b"]")
        except (msgspec.DecodeError, RecursionError) as error:
            text = _first_line(error)
            row = rows + (int(told[1]) if (told := _ROW.search(text)) else 0)
            raise _wrong(f"{name} row {row}: {_ROW.split(text)[0]}; send {_example(name, width)}") from None
        pieces.append(np.array(found, dtype=np.float64).reshape(-1, width))
        rows += len(found)
        at = end
        while at < len(inner) and inner[at : at + 1] in (b" ", b"\t", b"\r", b"\n"):
            at += 1
        if at < len(inner):
            if inner[at : at + 1] != b",":
                raise _wrong(f"{name} from row {rows} on are no lists of {width} numbers")
            at += 1
            if not inner[at:].strip(_SPACE):
                raise _wrong(f"{name} end with a comma")
    return np.concatenate(pieces)


def _radii(values: bytes, count: int) -> NDArray[np.float64]:
    """Return radii: one for all, or as many as there are places."""
    if values.strip(_SPACE)[:1] != b"[":
        values = b"[" + values + b"]"
    try:
        found = msgspec.json.decode(values, type=list[float])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _wrong(f"radius: {_first_line(error)}") from None
    if len(found) not in (1, count):
        raise _wrong(f"there are {len(found):,} radii and {count:,} places: send one, or one for each")
    return np.broadcast_to(np.array(found, dtype=np.float64), (count,)) if len(found) == 1 else np.array(found)


def _example(name: str, width: int, radius: bool = False) -> str:
    numbers = ", ".join(str(float(i + 1)) for i in range(width))
    more = ', "radius": [3.0, ...]' if radius else ""
    return f'{{"{name}": [[{numbers}], ...]{more}}}'


def _wrong(text: str) -> Problem:
    return Problem(400, f"the body is not read here: {text}", limit="body")


def _first_line(error: Any) -> str:
    return (str(error).splitlines() or ["it is nested too deeply"])[0]


ARCS = 100
"""Great-circle arcs for each corner that is allowed: straight edges of thousands of kilometres are thousands each."""
LISTS = 3
"""Brackets for each corner that is allowed: a ring has at least three of them, and stands in two lists."""
SHAPES = 256
"""Boxes that are covered with discs before it is asked whether anybody still waits: that is work in Python."""


def read_shapes(shapes: Shapes, space: Space, limits: Limits, stop: Stop) -> tuple[list[list[Shape]], int]:
    """Return the shapes of a question, and how many corners they have."""
    text, edges = shapes.text, BY_VECTORS if shapes.by_vectors else None
    if shapes.form == "box":
        return boxes_of(orjson.loads(text), space), 1
    if shapes.form == "within":
        shape, corners = geojson_in(text, limits.corners)
        arcs = 0.0 if edges else sum(arcs_meant(one, space) for one in list_shapes(shape))
        if arcs > (most := ARCS * limits.corners):
            raise Problem(
                413,
                f"the straight edges of the shapes are {arcs:,.0f} arcs of great circles: at most {most:,} are "
                'searched within; ask for fewer long edges, or say "edges": "spherical"',
                limit="corners",
                value=int(arcs),
                bound=most,
            )
        return polygons_of(shape, space, edges), corners
    found, _ = lists_in(text, "boxes", 4, limits.bulk_queries, stop.check)
    boxes: list[list[Shape]] = []
    for at in range(0, len(found), SHAPES):
        stop.check()
        try:
            boxes += boxes_of(found[at : at + SHAPES], space)
        except ValueError as error:
            raise ValueError(f"of the boxes from {at} on: {error}" if at else str(error)) from None
    return boxes, 1


def geojson_in(body: bytes | bytearray, corners: int) -> tuple[Any, int]:
    """Return the shape of a body, or a list of shapes, and how many corners there are."""
    if (lists := body.count(b"[")) > LISTS * corners:
        raise _too_many(lists // LISTS, corners)
    try:
        shape = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the body is not JSON: {str(error).splitlines()[0]}", limit="body") from None
    shapes = shape if isinstance(shape, list) else [shape]
    if not all(isinstance(one, Mapping) for one in shapes):
        raise Problem(
            400,
            "the body is no GeoJSON: Polygon, MultiPolygon, Feature, FeatureCollection or a list of them is wanted",
            limit="body",
        )
    found = sum(map(_corners, shapes))
    if found > corners:
        raise _too_many(found, corners)
    return shape, found


def _corners(shape: Any) -> int:
    """Return how many corners there are in a shape, as far as it is one."""
    found = 0
    waiting = [shape]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [one.get("geometry"), one.get("coordinates"), one.get("features")]
        elif isinstance(one, list):
            if one and not isinstance(one[0], (list, Mapping)):
                found += 1
            else:
                waiting += one
    return found


def _too_many(found: int, most: int) -> Problem:
    return Problem(
        413,
        f"the shapes have {found:,} corners or more: at most {most:,} are searched within; simplify them",
        limit="corners",
        value=found,
        bound=most,
    )
