"""Features of what a server's watch is asked and tells, as far as a token sees them; all in threads."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np

from dtoss.geometry.space import Space
from dtoss.serve.auth.tokens import Token
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.events.event_chunks import EventFilter
from dtoss.serve.events.event_reader import FROM_BEGINNING, beginning_of, cursor_in
from dtoss.serve.map.subscriptions_in_view import Fences
from dtoss.serve.ogc.collections import ZONE_SHAPES, Collection
from dtoss.serve.ogc.features import Page
from dtoss.serve.ogc.pages_by_id import Box
from dtoss.serve.ogc.watch_features import events_page, zone_features, zones_page
from dtoss.serve.requests.served_watch import home_of
from dtoss.serve.rights.own_subscriptions import condition_as_asked, own_of
from dtoss.serve.state.worker_state import WorkerState
from dtoss.tiles.map_frame import Frame
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.watch_document import head_of

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
