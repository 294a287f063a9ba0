"""Vector tiles of a snapshot: ``GET /tiles/{snapshot}/{layer}/{z}/{x}/{y}.mvt``, a layer each by its name.

Tiles of the ground under them, of the file that ``--basemap`` names: ``GET /basemap/{z}/{x}/{y}``.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.open_snapshots import ServedSnapshot, Serving
from dtoss.serve.answers.responses import Asker, Ready
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.map.pmtiles import CONTENT_OF_KIND, DEEPEST_GROUND, unzip
from dtoss.serve.map.static_files import SAFE, takes_gzip
from dtoss.serve.rights.sight import Sight, check_whole, sight_of, token_of
from dtoss.serve.routes.parameters import Where, check_condition, told
from dtoss.serve.routes.schemas import sent_as
from dtoss.serve.state.worker_state import WorkerState
from dtoss.serve.tiles.tiling import DEEPEST_TILE

MVT_TYPE = b"application/vnd.mapbox-vector-tile"
TURN_SECONDS = 0.05
TILE_ROW = r"^[0-9]{1,6}\.mvt(?!\n)$"
"""Of JSON Schema; in Python a line feed may stand after the place that ``$`` matches."""
ZIP_LEVEL = 4
"""Of compression: a third of a millisecond a tile."""
TILE = sent_as(MVT_TYPE.decode(), "A Mapbox Vector Tile; no bytes if it is empty.")


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the route of tiles."""
    serving, limits = state.serving, state.settings.limits
    # what needs a token is kept by the browser that has one, and nobody in between
    kept = b"public" if state.settings.token_file is None else b"private"
    vary = b"accept-encoding" if state.settings.token_file is None else b"accept-encoding, authorization"
    headers = [
        (b"content-type", MVT_TYPE),
        (b"cache-control", kept + b", max-age=31536000, immutable"),
        (b"vary", vary),
    ]
    # what a token may see changes while a browser has its tiles
    of_some = [(b"content-type", MVT_TYPE), (b"cache-control", b"no-store"), (b"vary", vary)]

    looking = 0

    async def looked_for(name: str) -> ServedSnapshot:
        """Return an open snapshot; so many requests at a time wait for one as for a thread."""
        nonlocal looking
        looking += 1
        try:
            return await open_by_now(serving, name, state.paces.elsewhere if looking <= limits.pool_queue else 0.0)
        finally:
            looking -= 1

    @get("/tiles/{snapshot:str}/{layer:str}/{z:int}/{x:int}/{row:str}", opt={"responses": TILE})
    async def tile(
        request: Asker,
        snapshot: Annotated[str, PathParameter(max_length=100, description="Whose; its tiles never change.")],
        layer: Annotated[str, PathParameter(max_length=100, description="Such as objects.")],
        z: Annotated[int, PathParameter(ge=0, le=DEEPEST_TILE, description="Zoom.")],
        x: Annotated[int, PathParameter(ge=0, lt=2**DEEPEST_TILE, description="From the west.")],
        row: Annotated[str, PathParameter(pattern=TILE_ROW, description="From the north, and .mvt.")],
        by: Annotated[str | None, QueryParameter(max_length=500, description="Attribute that gives classes.")] = None,
        where: Where = None,
    ) -> ASGIResponse:
        """Return a tile of a layer: objects, regions or cells of a snapshot, for maps."""
        check_condition(where, limits.condition_length)
        y = int(row.removesuffix(".mvt"))
        check_tile(z, x, y)
        make = layer_of(layer)
        token = token_of(request)
        if layer != OF_OBJECTS:
            check_whole(token, f"the layer {layer}")
        served = await looked_for(snapshot)
        sight = sight_of(state, request, served)
        zipped = takes_gzip(request.headers.get("accept-encoding", ""))

        def work(stop: Stop) -> bytes:
            with told():
                body = make(served, TileRequest(z, x, y, by or None, where or None, sight))
            return gzipped(body) if zipped and body else body

        body = await state.pool.run(request, work)
        length = (b"content-length", b"%d" % len(body))
        kept_so = of_some if token.narrowed else headers
        return Ready(body, [*kept_so, length, *([(b"content-encoding", b"gzip")] if zipped and body else [])])

    return [tile, *ground_handlers(state)]


def check_tile(z: int, x: int, y: int) -> None:
    """Refuse a tile beyond those of its zoom."""
    if max(x, y) >= 2**z:
        raise Problem(
            404, f"there is no tile {x}, {y} at zoom {z}: 0 to {2**z - 1}", limit="y", value=max(x, y), bound=2**z
        )


async def open_by_now(serving: Serving, name: str, seconds: float) -> ServedSnapshot:
    """Return an open snapshot; others are waited for, as another worker may serve them already."""
    until = time.monotonic() + seconds
    while not is_open(serving, name) and time.monotonic() < until:
        await asyncio.sleep(TURN_SECONDS)
    return serving.named(name)


def is_open(serving: Serving, name: str) -> bool:
    """Return whether a snapshot is open."""
    return serving.open_one(name) is not None


def gzipped(body: bytes) -> bytes:
    """Return bytes as gzip, the same for the same bytes."""
    made = zlib.compressobj(ZIP_LEVEL, zlib.DEFLATED, 31)
    return made.compress(body) + made.flush()


@dataclass(frozen=True)
class TileRequest:
    """What is wanted of a tile."""

    z: int
    x: int
    y: int
    by: str | None = None  # An attribute whose classes are shown
    where: str | None = None  # A condition on the objects
    sight: Sight | None = None  # What is seen of the snapshot; None for all


MakeTile: TypeAlias = Callable[[ServedSnapshot, TileRequest], bytes]


def objects(served: ServedSnapshot, wanted: TileRequest) -> bytes:
    """Return a tile of objects."""
    sight, tiles = wanted.sight, served.tiles
    asked = wanted.where if sight is None else sight.condition(wanted.where)
    known = served.index.column_names if sight is None else sight.columns
    if wanted.by is not None and wanted.by not in known:
        raise ValueError(f"by is {wanted.by!r}: there is {', '.join(known) or 'no attribute'}")
    if sight is not None and (own := sight.own()) is not None:
        tiles, asked = served.narrow_tiles(own), asked if wanted.where else None
    where = None if asked is None else served.conditions.get(asked)
    return tiles.objects(wanted.z, wanted.x, wanted.y, wanted.by, where)


OF_OBJECTS = "objects"
"""The layer that shows objects, and nothing that is made of all of them."""
LAYERS: dict[str, MakeTile] = {
    OF_OBJECTS: objects,
    "regions": lambda served, wanted: served.tiles.shapes.regions(wanted.z, wanted.x, wanted.y),
    "cells": lambda served, wanted: served.tiles.shapes.cells(wanted.z, wanted.x, wanted.y),
    "uncertified": lambda served, wanted: served.tiles.shapes.uncertified(wanted.z, wanted.x, wanted.y),
}


def layer_of(name: str) -> MakeTile:
    """Return what makes tiles of a layer."""
    if (made := LAYERS.get(name)) is None:
        raise Problem(404, f"there is no layer {name!r}: {', '.join(LAYERS)}", limit="layer", value=name)
    return made


GROUND_SECONDS = 3_600
"""For which a browser keeps a tile: another file may be served by the same paths then."""


def ground_handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the route of tiles of the ground; none where no file of them is served."""
    basemap = state.showing.files.basemap
    if basemap is None or basemap.archive is None:
        return []
    archive = basemap.archive
    kept = b"public" if state.settings.token_file is None else b"private"
    headers = [
        (b"content-type", CONTENT_OF_KIND[archive.kind].encode()),
        (b"cache-control", b"%s, max-age=%d" % (kept, GROUND_SECONDS)),
        (b"vary", b"accept-encoding" if state.settings.token_file is None else b"accept-encoding, authorization"),
        *SAFE,
    ]

    @get(
        "/basemap/{z:int}/{x:int}/{y:int}",
        opt={"responses": sent_as(CONTENT_OF_KIND[archive.kind], "A tile; no bytes where there is none.")},
    )
    async def ground(
        request: Asker,
        z: Annotated[int, PathParameter(ge=0, le=DEEPEST_GROUND, description="Zoom.")],
        x: Annotated[int, PathParameter(ge=0, lt=2**DEEPEST_GROUND, description="From the west.")],
        y: Annotated[int, PathParameter(ge=0, lt=2**DEEPEST_GROUND, description="From the north.")],
    ) -> ASGIResponse:
        """Return a tile of the ground under the map."""
        check_tile(z, x, y)
        passed_on = archive.zipped and takes_gzip(request.headers.get("accept-encoding", ""))

        def work(stop: Stop) -> bytes:
            try:
                found = archive.tile(z, x, y)
                return unzip(found) if archive.zipped and found and not passed_on else found
            except (OSError, ValueError) as error:
                raise Problem(500, f"the file of --basemap cannot be shown here: {error}") from None

        body = await state.pool.run(request, work)
        length = (b"content-length", b"%d" % len(body))
        return Ready(body, [*headers, length, *([(b"content-encoding", b"gzip")] if passed_on and body else [])])

    return [ground]
