"""What a watch is asked and tells as features, as far as a token sees them: places by their ids, events in order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.export.clip import boundary_of
from dtoss.geometry.space import Space
from dtoss.serve.auth.tokens import Token
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Sizes
from dtoss.serve.events.event_reader import (
    FROM_BEGINNING,
    EventFilter,
    beginning_of,
    cursor_in,
    pieces_of,
    wanted_behind,
)
from dtoss.serve.map.subscriptions_in_view import Fences, SubscriptionPlaces
from dtoss.serve.ogc.collections import ZONE_SHAPES, Collection, Page, feature
from dtoss.serve.ogc.pages_by_id import DEGREES, DRAWN_AT_ONCE, Box, as_json, reach_into
from dtoss.serve.requests.served_watch import home_of
from dtoss.serve.rights.sight import condition_as_asked, own_of
from dtoss.serve.state.worker_state import WorkerState
from dtoss.tiles.map_frame import Frame
from dtoss.watch.events.event_lines import line_column
from dtoss.watch.events.readers import Cursor
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.subscription import COMPLEMENT, WANTS
from dtoss.watch.watch_folder import Home

if TYPE_CHECKING:
    import shapely


_ZOOM = 20.0
"""At which places are drawn: edges are off by centimetres."""
_TURN = 360.0
_ROUND_BYTES = 8_000
"""Of what stands for a circle, about."""


def zones_page(
    fences: Fences,
    clock: int | None,
    frame: Frame,
    box: Box | None,
    after: str | None,
    limit: int,
    most: int,
    stop: Stop,
) -> Page:
    """Return the places of subscriptions behind an id, which meet a box; without one also those that have no place.

    ``most``: bytes of a page, about: one with longer zones has fewer of them.
    """
    parts, rows, ids = [], [], []
    for number, ((placed, _), here) in enumerate(zip(fences.parts, fences.alive(clock), strict=True)):
        some = np.flatnonzero(here)
        if box is not None:
            west, south, east, north = box
            view = (west, south, east + (_TURN if west > east else 0.0), north)
            some = np.intersect1d(some, placed.meeting(frame, view))
        rows.append(some)
        parts.append(np.full(len(some), number))
        ids.append(placed.table.column("id").combine_chunks().take(pa.array(some)))
    columns = {"id": pa.concat_arrays([pa.array([], pa.string()), *ids])}
    columns |= {name: np.concatenate([np.zeros(0, np.int64), *each]) for name, each in (("part", parts), ("row", rows))}
    left = pa.table(columns)
    matched = len(left) if box is None else None
    found: list[dict[str, Any]] = []
    size = 0
    while True:
        stop.check()
        left = left if after is None else left.filter(pc.greater(left.column("id"), after))
        if not len(left) and len(found) <= limit:
            return Page(found, matched, None)
        if len(found) > limit or (found and size >= most):
            return Page(found[:limit], matched, found[limit - 1]["id"] if len(found) > limit else after)
        some = left.take(pc.select_k_unstable(left, min(limit + 1, DRAWN_AT_ONCE), [("id", "ascending")]))
        part, row = (some.column(name).to_numpy() for name in ("part", "row"))
        made: list[Any] = [None] * len(some)
        for number, (placed, _) in enumerate(fences.parts):
            mine = np.flatnonzero(part == number)
            size += int(placed.corners(row[mine]).sum()) + len(mine) * _ROUND_BYTES
            for at, one in zip(mine.tolist(), zone_features(placed, row[mine], frame, box), strict=True):
                made[at] = one
        found += [one for one in made if one is not None]
        after = some.column("id")[-1].as_py()


def zone_features(
    placed: SubscriptionPlaces, rows: NDArray[np.int64], frame: Frame, box: Box | None = None
) -> list[dict[str, Any] | None]:
    """Return subscriptions as features; None for those that do not meet a box."""
    there = np.isin(rows, placed.owner)
    shapes = np.full(len(rows), None, object)
    shapes[there] = [_shape(one) for one in placed.drawn(rows[there], frame, _ZOOM, 0.0)]
    kept = np.ones(len(rows), np.bool_) if box is None else reach_into(shapes, boundary_of(box, DEGREES))
    said = placed.table.select(["id", "events", "where", "words", "radius", "object", "meta"]).take(pa.array(rows))
    made: list[dict[str, Any] | None] = []
    for one, shape, keeps in zip(said.to_pylist(), as_json(shapes), kept.tolist(), strict=True):
        events = one.pop("events")
        wants = [name for name, bit in WANTS.items() if events & bit]
        told = {**one, "wants": ",".join(wants), "outside": bool(events & COMPLEMENT)}
        made.append(feature(told.pop("id"), shape, told) if keeps else None)
    return made


def _shape(drawn: dict[str, Any]) -> shapely.Geometry:
    """Return a place that was drawn as a geometry of shapely, cut at the antimeridian."""
    import shapely

    if "at" in drawn:
        return shapely.Point(drawn["at"])
    whole = shapely.from_geojson(orjson.dumps({"type": "MultiPolygon", "coordinates": drawn["fill"]}))
    west, _, east, _ = whole.bounds
    if west >= -_TURN / 2 and east <= _TURN / 2:
        return whole
    degrees = shapely.box(-_TURN / 2, -90.0, _TURN / 2, 90.0)
    turned = [shapely.transform(whole, lambda at, by=turn: np.add(at, [by, 0.0])) for turn in (-_TURN, 0.0, _TURN)]
    return shapely.union_all([shapely.intersection(one, degrees) for one in turned])


def events_page(
    home: Home,
    at: Cursor,
    wanted: EventFilter,
    frame: Frame,
    box: Box | None,
    interval: Sequence[datetime | None],
    limit: int,
    seconds: float,
    sizes: Sizes,
    stop: Stop,
) -> Page:
    """Return events behind a cursor, in a box and an interval; ``seconds``: after which a page may be shorter."""
    until, head = time.monotonic() + seconds, head_of(home)
    found: list[dict[str, Any]] = []
    size = 0
    for told in wanted_behind(home, at, wanted) if head is not None else ():
        stop.check()
        if told.events is not None and head is not None:
            kept = _is_in(_lonlat(told.events, frame), box) & _is_between(told.events.column("t"), interval)
            some = told.events.take(pa.array(np.flatnonzero(kept)[: limit + 1 - len(found)]))
            for piece in pieces_of(some, sizes.event_part):
                if size >= sizes.events_page:
                    return Page(found, None, found[-1]["id"])
                lines = line_column(piece, head.settings).to_pylist()
                found += _event_features(piece, _lonlat(piece, frame), lines)
                size += sum(map(len, lines))
            if len(found) > limit:
                return Page(found[:limit], None, found[limit - 1]["id"])
        at = told.upto
        if found and time.monotonic() > until:  # GDAL takes a page without features for the last one
            return Page(found, None, str(at))
    return Page(found, None, None)


def _lonlat(events: pa.Table, frame: Frame) -> NDArray[np.float64]:
    return frame.lonlat_of(np.stack([events.column(name).to_numpy() for name in "xy"], axis=1))


def _event_features(events: pa.Table, lonlat: NDArray[np.float64], lines: list[str]) -> Iterator[dict[str, Any]]:
    numbers = zip(events.column("batch").to_pylist(), events.column("number").to_pylist(), strict=True)
    for cursor, (lon, lat), line in zip(numbers, lonlat.tolist(), lines, strict=True):
        point = {"type": "Point", "coordinates": [lon, lat]} if isfinite(lon) and isfinite(lat) else None
        yield feature(str(Cursor(*cursor)), point, orjson.Fragment(line))


def _is_in(lonlat: NDArray[np.float64], box: Box | None) -> NDArray[np.bool_]:
    if box is None:
        return np.ones(len(lonlat), np.bool_)
    (lon, lat), (west, south, east, north) = lonlat.T, box
    beside = (lon >= west) & (lon <= east) if west <= east else (lon >= west) | (lon <= east)
    return (lat >= south) & (lat <= north) & (beside | (np.abs(lat) == 90.0))


def _is_between(t: pa.ChunkedArray, interval: Sequence[datetime | None]) -> NDArray[np.bool_]:
    """Return which events are of a time, both ends included; those without one are."""
    kept = np.ones(len(t), np.bool_)
    for at, compare in zip(interval, (pc.greater_equal, pc.less_equal), strict=True):
        if at is not None:
            number = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            kept &= np.asarray(pc.fill_null(compare(t, number), True))
    return kept


NO_INTERVAL = None, None


def watch_page(
    state: WorkerState,
    one: Collection,
    token: Token,
    box: Box | None,
    interval: tuple[datetime | None, datetime | None],
    after: str | None,
    limit: int,
    stop: Stop,
) -> Page:
    """Return a page of zones or events behind the id of one."""
    if one is ZONE_SHAPES:
        fences, clock = _fences_seen(state, token)
        frame = _frame_of(state, fences.marks.space)
        page = zones_page(fences, clock, frame, box, after, limit, state.sizes.events_page, stop)
        for feature in page.features:
            _as_asked(token, feature)
        return page
    home, own = home_of(state), own_of(token)
    head = head_of(home)
    if head is None:
        return Page([], None, None)
    at = beginning_of(home, after or FROM_BEGINNING, "cursor", own=own is not None)
    frame, seconds = _frame_of(state, head.settings.space), state.paces.page * state.settings.limits.pool_seconds
    return events_page(home, at, EventFilter(own=own), frame, box, interval, limit, seconds, state.sizes, stop)


def watch_feature(state: WorkerState, one: Collection, token: Token, id_: str, stop: Stop) -> dict[str, Any] | None:
    """Return a zone or an event; None where there is none of the id."""
    if one is ZONE_SHAPES:
        fences, clock = _fences_seen(state, token)
        found = fences.row_of(id_, clock)
        if found is None:
            return None
        frame = _frame_of(state, fences.marks.space)
        return _as_asked(token, zone_features(found[0], np.array([found[1]]), frame)[0])
    at = cursor_in(id_, "item")
    before = str(Cursor(at.batch, max(at.number - 1, 0)))
    events = watch_page(state, one, token, None, NO_INTERVAL, before, 1, stop).features
    return events[0] if events and events[0]["id"] == id_ else None


def _fences_seen(state: WorkerState, token: Token) -> tuple[Fences, int | None]:
    source = state.showing.fences
    assert source is not None  # there is a watch
    fences, clock = source.now()
    return fences if token.prefix is None else fences.of(token.prefix), clock


def _frame_of(state: WorkerState, space: Space) -> Frame:
    frame = state.showing.frame_of(space)
    if frame is None:
        raise Problem(501, "places of the watch have no longitude and latitude: ask by /events", limit="crs")
    return frame


def _as_asked(token: Token, feature: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a zone without the condition of the token."""
    if feature is not None:
        feature["properties"]["where"] = condition_as_asked(token, feature["properties"]["where"])
    return feature
