"""Messages of a named shape as rows of JSON: OwnTracks, and vehicle positions of GTFS-realtime."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from dtoss.errors import InputError
from dtoss.extras import need

OWNTRACKS, GTFS_REALTIME = "owntracks", "gtfs-realtime"
MESSAGE_SHAPES = (OWNTRACKS, GTFS_REALTIME)
_OWNTRACKS_FIELDS = ("tid", "acc", "alt", "batt", "cog", "vel")
"""That a row has beside its place and time, null where a message has none."""


def check_shape(shape: str | None) -> None:
    """Check that a shape is one, and that what reads it is installed."""
    if shape is not None and shape not in MESSAGE_SHAPES:
        raise InputError(f"--shape {shape} is none: {', '.join(MESSAGE_SHAPES)} are")
    if shape == GTFS_REALTIME:
        need("google.transit.gtfs_realtime_pb2", "--shape gtfs-realtime", "gtfs")


def rows_of_shape(shape: str, message: bytes, topic: str | None, refuse: Callable[[str, int], None]) -> list[bytes]:
    """Return the rows of a message as lines of JSON; ``refuse``: is told why another one is none."""
    found: list[bytes] = []
    try:
        for row in _of_owntracks(message, topic) if shape == OWNTRACKS else _of_gtfs(message):
            try:
                found.append(json.dumps(row, allow_nan=False).encode())
            except (TypeError, ValueError):
                refuse(f"a row of {shape} with a number that is none, or with text that is not written in UTF-8", 1)
    except ValueError as error:
        refuse(str(error), 1)
    return found


def _of_owntracks(message: bytes, topic: str | None) -> Iterator[dict[str, Any]]:
    """Yield the location of a device; its topic is its id, else the letters that it shows."""
    try:
        said = json.loads(message)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ValueError("no message of OwnTracks: a JSON object is wanted")
    if said.get("_type") != "location":
        raise ValueError("a message of OwnTracks that is no location")
    at = {"id": topic or said.get("tid"), "lon": said.get("lon"), "lat": said.get("lat"), "t": _moment(said.get("tst"))}
    yield at | {name: said.get(name) for name in _OWNTRACKS_FIELDS}


def _of_gtfs(message: bytes) -> Iterator[dict[str, Any]]:
    """Yield the vehicles of a feed that say where they are; who gives no time has that of the feed."""
    from google.protobuf.message import DecodeError
    from google.transit import gtfs_realtime_pb2

    feed = gtfs_realtime_pb2.FeedMessage()
    try:
        feed.ParseFromString(message)
    except DecodeError:
        raise ValueError("no feed of GTFS-realtime: a FeedMessage is wanted") from None
    for entity in feed.entity:
        one = entity.vehicle
        if not one.HasField("position"):
            continue  # a trip's update or an alert: a feed may hold all three
        at = one.position
        yield {
            "id": one.vehicle.id or entity.id,
            "lon": round(at.longitude, 6),  # of 32 bits
            "lat": round(at.latitude, 6),
            "t": _moment(one.timestamp or feed.header.timestamp or None),
            "bearing": at.bearing if at.HasField("bearing") else None,
            "speed": at.speed if at.HasField("speed") else None,
            "trip_id": one.trip.trip_id or None,
            "route_id": one.trip.route_id or None,
            "stop_id": one.stop_id or None,
            "label": one.vehicle.label or None,
        }


def _moment(seconds: Any) -> str | None:
    """Return a moment of UTC as text; None where seconds since 1970 are none that a calendar has."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    except (TypeError, ValueError, OverflowError, OSError):
        return None
