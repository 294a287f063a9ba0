"""One subscription as the page tells it: what it asks for, its events, its place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import orjson

from dtoss.serve.map.event_totals import MOST_AT_CLICK, counts_of, events_to_count
from dtoss.serve.map.subscription_places import Placed
from dtoss.serve.tiles.snapshot_facts import length_unit
from dtoss.tiles.map_frame import Frame
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, POLYGON, WANTS
from dtoss.watch.watch_folder import Home

_START = datetime(1970, 1, 1, tzinfo=UTC)


def fence_told(home: Home, placed: Placed, row: int, frame: Frame | None, zoom: float) -> dict[str, Any]:
    """Return what the page tells of a subscription.

    ``frame``: what the map is; None where it has no place on it.

    ``meta`` is JSON as text, as it was given. ``counts`` are None where counting would take long: more than 20 million
    events since the last fold.
    """
    said = placed.table.slice(row, 1).to_pylist()[0]
    view = None if frame is None else placed.view(row, frame)
    drawn = None
    if frame is not None and view is not None:
        drawn = placed.drawn(np.array([row]), frame, zoom, 0.0)[0]
    expires = said["expires"]
    head = head_of(home)
    counts: dict[str, int] | None = {}
    if head is not None:
        counts = counts_of(home, said["id"]) if events_to_count(home, head) <= MOST_AT_CLICK else None
    return {
        "id": said["id"],
        "unit": length_unit(placed.space),
        "place": place_of(said),
        "where": said["where"],
        "words": said["words"],
        "wants": [name for name, bit in WANTS.items() if said["events"] & bit],
        "version": said["version"] or 0,
        "expires": None if expires is None else _moment(expires),
        "meta": said["meta"],
        "counts": counts,
        "view": view,
        "drawn": drawn,
    }


def place_of(said: dict[str, Any]) -> dict[str, Any]:
    """Return a subscription's place by its kind, of a polygon how many corners it has."""
    kind = said["kind"]
    if kind == CIRCLE:
        return {"circle": [said["x"], said["y"], said["radius"]]}
    if kind == BOX:
        return {"box": [said["west"], said["south"], said["east"], said["north"]]}
    if kind == AROUND:
        centre = None if said["x"] is None else [said["x"], said["y"]]
        return {"around": {"object": said["object"], "distance": said["radius"], "centre": centre}}
    if kind == POLYGON:
        shape = orjson.loads(said["polygon"])
        parts = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
        return {"polygon": {"parts": len(parts), "corners": sum(len(ring) for rings in parts for ring in rings)}}
    return {"everywhere": True}


def _moment(microseconds: int) -> str:
    try:
        return (_START + timedelta(microseconds=microseconds)).isoformat(timespec="seconds")
    except OverflowError:  # beyond the year 9999
        return f"{microseconds / 1e6:g} s since 1970"
