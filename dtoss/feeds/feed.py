"""A source of rows, which is told once they are on the disk of a log, and messages of a named shape as rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from dtoss.brokers import endpoint_at
from dtoss.client.endpoint import Access
from dtoss.errors import InputError
from dtoss.extras import need
from dtoss.log.read_upto import ReadUpto

MESSAGES_AT_ONCE = 1_000
"""That are taken from a source at the most."""


@dataclass(frozen=True)
class Batch:
    """Messages of a source."""

    messages: tuple[bytes, ...]  # JSON, an object or a list of them each; of CSV a whole document
    mark: Any  # By which the source knows what is acknowledged
    csv: bool = False
    topics: tuple[str, ...] = ()  # On which each message came, where a source has such
    upto: ReadUpto | None = None  # Where the source goes on behind these, where a log is to keep that

    def rows(self) -> list[bytes]:
        """Return a line for each row; a message that is no JSON is one, too, and nobody can read it."""
        return list(self.messages) if self.csv else [line for one in self.messages for line in _lines(one)]


class Feed(Protocol):
    """A source; what it cannot do now it says by `dtoss.client.http_connections.Later`."""

    def take(self, seconds: float) -> Batch | None:
        """Return messages that nobody has acknowledged; None where none come for so many seconds."""

    def acknowledge(self, batch: Batch) -> None:
        """Tell the source that it need not keep messages any more: their rows are on disk."""

    def close(self) -> None:
        """Let go of connections; what was not acknowledged comes again."""


def feed_at(url: str, access: Access | None = None) -> Feed:
    """Return the source that a URL means."""
    return cast(Feed, endpoint_at(url, "source", access or Access(), "--from"))


def _lines(message: bytes) -> Iterator[bytes]:
    text = message.strip()
    if text[:1] == b"[":
        try:
            many = json.loads(text)
        except (ValueError, RecursionError):
            many = None
        if isinstance(many, list):
            yield from (json.dumps(one).encode() for one in many)
            return
    # within JSON a line's end is space
    yield text.replace(b"\r", b" ").replace(b"\n", b" ") or b"null"


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
