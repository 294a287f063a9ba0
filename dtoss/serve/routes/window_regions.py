"""``GET /windows/{name}/regions``: the places that windows count by, as GeoJSON."""

from __future__ import annotations

from zlib import crc32

import orjson
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.json_out import headers_of
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, Ready, is_known, not_modified, target_of
from dtoss.serve.core.pool import Stop
from dtoss.serve.routes.schemas import FEATURE, FLAG, STRING, array, responses, told
from dtoss.serve.routes.window_queries import End, Name
from dtoss.serve.state.worker_state import WorkerState
from dtoss.serve.windows.window_regions_geojson import Ground, features, regions_of
from dtoss.serve.windows.window_responses import moment_of
from dtoss.windows.query.window_query import Windows

REGIONS = told(
    "WindowRegions", type={"type": "string", "enum": ["FeatureCollection"]}, windows=STRING, by=STRING, digest=STRING,
    drawable=FLAG, features=array(FEATURE),
)  # fmt: skip


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the route of regions."""
    opened = state.windows

    def ground_of(served: ServedSnapshot, windows: Windows) -> Ground | None:
        """Return where regions are drawn on the map of a snapshot; None where they have no place on it."""
        space, index = windows.spec.space, served.index
        frame = state.showing.frame_of(space)
        if frame is None or (space.dimension == 2 and space.crs != index.crs):
            return None
        return Ground(frame, index.bounds if space.dimension == 2 else None)

    @get("/windows/{name:str}/regions", opt={"responses": responses(REGIONS)})
    async def regions(request: Asker, name: Name, end: End = None) -> ASGIResponse:
        """Return the places that windows count by, as GeoJSON on the map: key and name of each, and a place in it.

        Of cells of H3 they are those in which anything happened in the longest window that ended then, or now.
        """
        served, target = state.serving.now, target_of(request)

        def work(stop: Stop) -> tuple[bytes, bytes | None]:
            windows = opened.find(name)
            ground, digest = ground_of(served, windows), windows.spec.keys
            cells = windows.head.commit.sha256 if windows.spec.by.startswith("h3:") else ""
            of = f"{'' if ground is None else ground.text} {cells}".encode()
            tag = b'"%s-keys-%s-%08x"' % (name.encode(), digest.encode(), crc32(target, crc32(of)))
            if is_known(request, tag):
                return tag, None
            stop.check()

            def body() -> bytes:
                found = [] if ground is None else features(regions_of(windows, ground, moment_of(end)), windows)
                return orjson.dumps(
                    {
                        "type": "FeatureCollection",
                        "snapshot": served.name,
                        "windows": name,
                        "by": windows.spec.by,
                        "digest": digest,
                        "drawable": ground is not None,
                        "features": found,
                    }
                )

            return tag, opened.body(tag, served.name, body)

        tag, body = await state.pool.run(request, work)
        if body is None:
            return not_modified(served, tag)
        return Ready(body, headers_of(served, len(body), tag))

    return [regions]
