"""Messages of OwnTracks and of GTFS-realtime as rows; what is none of them is counted, and spoils no others."""

from __future__ import annotations

import json
import random
import struct

import pytest

from dtoss.client.endpoint import Access
from dtoss.errors import InputError
from dtoss.feeds.feed import Batch, check_shape, feed_at, rows_of_shape
from pipelines.command.ingest_command import MOST_REASONS, Told, tell_batch
from tests.dtoss.feeds.test_polled_url import serving

LOCATION = {"_type": "location", "lat": 50.0, "lon": 10.5, "tst": 1_767_268_800, "tid": "ab", "batt": 80, "x": 1}


def rows(shape, batch):
    """The rows that a batch tells, and what became of the others."""
    told, found = Told(), []
    tell_batch(batch, lambda lines, *_: found.extend(map(json.loads, lines)), told, shape)
    return found, told


def feed_message():
    pb2 = pytest.importorskip("google.transit.gtfs_realtime_pb2")
    feed = pb2.FeedMessage()
    feed.header.gtfs_realtime_version, feed.header.timestamp = "2.0", 1_767_268_800
    for number in range(3):
        one = feed.entity.add(id=f"e{number}")
        one.vehicle.position.longitude, one.vehicle.position.latitude = 10.5, 50.0 + number
    feed.entity[0].vehicle.vehicle.id, feed.entity[0].vehicle.timestamp = "bus", 1_767_268_799
    feed.entity[0].vehicle.position.bearing, feed.entity[0].vehicle.trip.route_id = 0.0, "7"
    feed.entity.add(id="late").trip_update.trip.trip_id = "x"
    return feed.SerializeToString()


def test_a_location_of_owntracks_is_a_row_of_its_topic():
    messages = *(json.dumps(one).encode() for one in (LOCATION, {"_type": "lwt"}, [1])), b"{"
    batch = Batch(messages, 0, topics=("a/b",) * 4)
    found, told = rows("owntracks", batch)
    rest = {"tid": "ab", "acc": None, "alt": None, "batt": 80, "cog": None, "vel": None}
    assert found == [{"id": "a/b", "lon": 10.5, "lat": 50.0, "t": "2026-01-01T12:00:00.000000Z"} | rest]
    assert told.bad == 3
    assert [*told.reasons] == [
        "a message of OwnTracks that is no location",
        "no message of OwnTracks: a JSON object is wanted",
    ]
    assert json.loads(rows_of_shape("owntracks", json.dumps(LOCATION).encode(), None, told.refuse)[0])["id"] == "ab"


def test_a_vehicle_of_gtfs_realtime_is_a_row():
    """By a URL as a document of bytes; without a time of its own it has that of the feed."""
    check_shape("gtfs-realtime")
    with serving((200, {"content-type": "application/x-protobuf"}, feed_message())) as (url, _):
        found, told = rows("gtfs-realtime", feed_at(url, Access(whole=True)).take(0))
    assert [(row["id"], row["lon"], row["lat"], row["t"]) for row in found] == [
        ("bus", 10.5, 50.0, "2026-01-01T11:59:59.000000Z"), ("e1", 10.5, 51.0, "2026-01-01T12:00:00.000000Z"),
        ("e2", 10.5, 52.0, "2026-01-01T12:00:00.000000Z")
    ]  # fmt: skip
    assert (found[0]["bearing"], found[0]["speed"], found[0]["route_id"], told.bad) == (0.0, None, "7", 0)


def test_a_bad_row_spoils_no_other_of_its_feed():
    """A place that is no number, and text of other bytes."""
    good = feed_message()
    nan, other = bytearray(good), good.replace(b"bus", b"b\xff\xfe")
    at = nan.index(struct.pack("<f", 51.0))
    nan[at : at + 4] = struct.pack("<f", float("nan"))
    for bad in (bytes(nan), other):
        found, told = rows("gtfs-realtime", Batch((bad, good), 0))
        assert (len(found), told.bad) in [(5, 1), (3, 1)]  # a feed that is not to be read at all is one message
    found, told = rows("owntracks", Batch((json.dumps(LOCATION | {"lat": float("nan")}).encode(),), 0))
    assert (found, told.bad) == ([], 1)


@pytest.mark.parametrize("shape", ["owntracks", "gtfs-realtime"])
def test_mutated_messages_of_a_shape_are_rows_or_counted(shape):
    rng, told = random.Random(0), Told()
    text = json.dumps(LOCATION).encode() if shape == "owntracks" else feed_message()
    for _ in range(2_000):
        made = bytearray(text)
        for _ in range(rng.randrange(1, 4)):
            made[rng.randrange(len(made))] = rng.randrange(256)
        tell_batch(Batch((bytes(made),), 0), lambda lines, *_: [json.loads(line) for line in lines], told, shape)
    assert told.bad > 200
    assert len(told.reasons) <= MOST_REASONS + 1


def test_another_shape_is_none():
    with pytest.raises(InputError, match="owntracks, gtfs-realtime are"):
        check_shape("gpx")
