"""Tiles of the ground under the map, of the file that ``--basemap`` names: ``GET /basemap/{z}/{x}/{y}``."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.responses import Asker, Ready
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.map.pmtiles import CONTENT_OF_KIND, DEEPEST_GROUND, unzip
from dtoss.serve.map.static_files import SAFE, takes_gzip
from dtoss.serve.routes.schemas import sent_as
from dtoss.serve.routes.tiles import check_tile
from dtoss.serve.state.worker_state import WorkerState

GROUND_SECONDS = 3_600
"""For which a browser keeps a tile: another file may be served by the same paths then."""


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the route of tiles; none where no file of them is served."""
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
