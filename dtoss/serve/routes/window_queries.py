"""``GET /windows``: what happened in each place over the last minutes, hours and days; moves between places.

``GET /windows/{name}/regions``: the places that windows count by, as GeoJSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias
from zlib import crc32

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.json_out import ARROW_TYPE, JSON_TYPE, headers_of
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, Ready, answer_of_now, is_known, not_modified, target_of, wants_arrow
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.routes.schemas import (
    FEATURE,
    FLAG,
    LONG,
    NATURAL,
    STRING,
    Schema,
    also,
    array,
    fields,
    maybe,
    open_ended,
    responses,
    told,
)
from dtoss.serve.state.worker_state import WorkerState
from dtoss.serve.windows.window_regions_geojson import Ground, features, regions_of
from dtoss.serve.windows.window_responses import (
    arrow_body,
    check_rows,
    end_text,
    facts,
    json_body,
    moment_of,
    version_of,
)
from dtoss.windows.durations import time_text
from dtoss.windows.query.window_query import Windows

_TIME: Schema = {**maybe(STRING), "description": "ISO 8601."}
_NUMBERED: Schema = {"type": "object", "additionalProperties": NATURAL}
_CHANGE = {**maybe(fields("ComingSet", set=NATURAL, since=STRING, full_at=STRING)), "description": "What takes over."}
WINDOWS_NAMES = told(
    "WindowsNames",
    windows=array(
        fields(
            "WindowsFacts", name=STRING, batch=NATURAL, watermark=_TIME, lengths=array(STRING), slide=STRING,
            pane=STRING, late=STRING, by=STRING, measures=array(STRING), counts=_NUMBERED, quarantined=_NUMBERED,
            set=NATURAL, since=_TIME, change=_CHANGE,
        )
    ),
)  # fmt: skip
WINDOW_ROW = open_ended(fields("WindowRow", key=LONG, end=STRING, revision=NATURAL, final=FLAG)) | {
    "description": "Of a place and an end; and a number of each measure, null where nothing was measured."
}
FLOW_ROW = open_ended(fields("FlowRow", ("from", "to", "moves"), **{"from": LONG, "to": LONG, "moves": NATURAL}))
_HEAD = {"windows": STRING, "batch": NATURAL, "watermark": _TIME, "window": STRING}
AT = also(told("Window", **_HEAD, end=_TIME, rows=array(WINDOW_ROW)), change=_CHANGE)
SERIES = also(told("WindowSeries", **_HEAD, key=LONG, rows=array(WINDOW_ROW)), change=_CHANGE)
FLOW_SAID = also(told("WindowFlow", **_HEAD, end=_TIME, rows=array(FLOW_ROW)), change=_CHANGE)
Name: TypeAlias = Annotated[str, PathParameter(max_length=64, description="Of the windows, such as fleet.")]
Window: TypeAlias = Annotated[
    str | None,
    QueryParameter(max_length=40, description="How long, such as 15min; the shortest length when left out."),
]
End: TypeAlias = Annotated[
    str | None,
    QueryParameter(max_length=40, description="When the window ends, such as 2026-01-31T12:00:00; the last one due."),
]
Key: TypeAlias = Annotated[
    str | None,
    QueryParameter(max_length=200, description="Of one place, such as 17, or its name; all when left out."),
]
Wide: TypeAlias = Annotated[bool, QueryParameter(description="All lengths side by side, as objects_5min, objects_1h.")]
Changed: TypeAlias = Annotated[
    bool, QueryParameter(description="Only places with other values than at the end before, or since or batch.")
]
Since: TypeAlias = Annotated[
    str | None, QueryParameter(max_length=40, description="With changed: the end that is compared with.")
]
Batch: TypeAlias = Annotated[
    int | None, QueryParameter(description="With changed: the batch that is compared with, as its answer was then.")
]
Format: TypeAlias = Annotated[
    Literal["json", "arrow"] | None,
    QueryParameter(title="AnswerFormat", description="What the header Accept says when left out."),
]

Make: TypeAlias = Callable[[Windows], tuple[dict[str, Any], pa.Table]]
"""From windows to what is said of an answer, and its rows."""


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the routes of windows."""
    opened = state.windows

    @get("/windows", opt={"responses": responses(WINDOWS_NAMES, kept=False)})
    async def all_of_them(request: Asker) -> ASGIResponse:
        """Return which windows the store has, how far they are, and what was counted and set aside."""
        served = state.serving.now

        def work(stop: Stop) -> bytes:
            found = []
            for name in opened.names():
                stop.check()
                found += [facts(windows) for windows in opened.begun(name)]
            return orjson.dumps({"snapshot": served.name, "windows": found})

        body = await state.pool.run(request, work)
        return answer_of_now(served, body)

    @get("/windows/{name:str}", opt={"responses": responses(AT, arrow=True)})
    async def at(
        request: Asker,
        name: Name,
        window: Window = None,
        end: End = None,
        key: Key = None,
        wide: Wide = False,
        changed: Changed = False,
        since: Since = None,
        batch: Batch = None,
        format: Format = None,
    ) -> ASGIResponse:
        """Return one window: a row for each place in which anything happened."""
        if wide and window is not None:
            raise Problem(400, f"wide is true and window is {window}: wide rows have all lengths", limit="window")
        if not changed and (since is not None or batch is not None):
            name_ = "batch" if since is None else "since"
            raise Problem(400, f"{name_} is given without changed=true, which is compared with it", limit=name_)

        def make(windows: Windows) -> tuple[dict[str, Any], pa.Table]:
            at = moment_of(end)
            windows = windows.of_end(at)
            length = window or windows.spec.names[0]
            if changed:
                rows = windows.changed(at, None if wide else length, since=moment_of(since), commit=batch)
            else:
                rows = windows.wide(at) if wide else windows.at(at, length)
            ends = rows["end"].slice(0, 1).to_pylist()
            if key is not None:
                rows = rows.filter(pc.equal(rows["key"], windows.names.key_of(key)))
            said = ",".join(windows.spec.names) if wide else length
            return {"window": said, "end": time_text(ends[0]) if ends else end_text(windows, end)}, rows

        return await answer(state, request, name, format, make)

    @get("/windows/{name:str}/series", opt={"responses": responses(SERIES, arrow=True)})
    async def series(
        request: Asker,
        name: Name,
        key: Annotated[str, QueryParameter(max_length=200, description="Of the place, such as 17, or its name.")],
        since: Annotated[str, QueryParameter(max_length=40, description="The first end, such as 2026-01-31T00:00:00.")],
        until: Annotated[
            str | None, QueryParameter(max_length=40, description="The last end; the watermark when left out.")
        ] = None,
        window: Window = None,
        format: Format = None,
    ) -> ASGIResponse:
        """Return one place over time: a row for each end."""

        def make(windows: Windows) -> tuple[dict[str, Any], pa.Table]:
            windows = windows.of_ends(moment_of(since), moment_of(until))
            length = window or windows.spec.names[0]
            rows = windows.series(key, length, moment_of(since), moment_of(until))
            return {"window": length, "key": windows.names.key_of(key)}, rows

        return await answer(state, request, name, format, make)

    @get("/windows/{name:str}/flow", opt={"responses": responses(FLOW_SAID, arrow=True)})
    async def flow(
        request: Asker, name: Name, window: Window = None, end: End = None, format: Format = None
    ) -> ASGIResponse:
        """Return how many moves there were between places in a window; -1 is in none of them."""

        def make(windows: Windows) -> tuple[dict[str, Any], pa.Table]:
            windows = windows.of_end(moment_of(end))
            length = window or windows.spec.names[0]
            rows = windows.flow(moment_of(end), length)
            return {"window": length, "end": end_text(windows, end)}, rows

        return await answer(state, request, name, format, make)

    return [all_of_them, at, series, flow, regions_handler(state)]


async def answer(state: WorkerState, request: Asker, name: str, format_: str | None, make: Make) -> Ready:
    """Return the answer of one commit, which its ETag names, or that the client's own is still right."""
    arrow = format_ == "arrow" or (format_ is None and wants_arrow(request))
    served, target, opened = state.serving.now, target_of(request), state.windows

    def work(stop: Stop) -> tuple[bytes, bytes | None]:
        windows = opened.find(name)
        tag = b'"%s-%s-%08x"' % (name.encode(), version_of(windows).encode(), crc32(target, arrow))
        if is_known(request, tag):
            return tag, None

        def body() -> bytes:
            head, rows = make(windows)
            write = arrow_body if arrow else json_body
            return write(served.name, windows, head, check_rows(rows, state.settings.limits.hits))

        made = opened.body(tag, served.name, body)
        if not arrow:
            opened.remember(target, windows, tag)
        return tag, made

    tag, body = await state.pool.run(request, work)
    if body is None:
        return not_modified(served, tag)
    return Ready(body, headers_of(served, len(body), tag, ARROW_TYPE if arrow else JSON_TYPE))


WINDOW_REGIONS = told(
    "WindowRegions", type={"type": "string", "enum": ["FeatureCollection"]}, windows=STRING, by=STRING, digest=STRING,
    drawable=FLAG, features=array(FEATURE),
)  # fmt: skip


def regions_handler(state: WorkerState) -> HTTPRouteHandler:
    """Return the route of regions."""
    opened = state.windows

    def ground_of(served: ServedSnapshot, windows: Windows) -> Ground | None:
        """Return where regions are drawn on the map of a snapshot; None where they have no place on it."""
        space, index = windows.spec.space, served.index
        frame = state.showing.frame_of(space)
        if frame is None or (space.dimension == 2 and space.crs != index.crs):
            return None
        return Ground(frame, index.bounds if space.dimension == 2 else None)

    @get("/windows/{name:str}/regions", opt={"responses": responses(WINDOW_REGIONS)})
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

    return regions
