"""Stores with a watch, a reader of server-sent events, and what it should have read."""

from __future__ import annotations

import http.client
import json
from contextlib import contextmanager

from dtoss.watch.events.event_lines import json_lines
from dtoss.watch.events.event_log import events
from dtoss.watch.events.watch_document import head_of
from tests.dtoss.watch.streams import BEGIN, SECOND, Home, change, circle, run, settings_of

WAIT = 60
FENCES = [circle("a", 0.0, 0.0, 3000.0, meta='{"street":\n"Ä"}'), circle('b "ü"', 0.01, 0.0, 1500.0)]


class Watch:
    """A watch of a store of its own, whose batches are committed when a test says so; each has events."""

    def __init__(self, store, name="default"):
        self.home, self.settings, self.turn = Home(str(store), name), settings_of(), 0

    def begin(self, fences=FENCES):
        change(self.home, fences)
        return self

    def batch(self, rows=6, **options):
        """Commit a batch in which objects come into the fences and leave them."""
        self.turn += 1
        t = BEGIN + self.turn * 10 * SECOND
        far = self.turn % 2 == 0
        made = [
            {
                "id": i,
                "t": t,
                "x": 5.0 if far else 0.001 * (i % 9),
                "y": 0.0,
                "attributes": {"occupied": 0, "kind": None},
            }
            for i in range(rows)
        ]
        run(self.home, self.settings, made, **options)

    def told(self, after=None, **which):
        """All events, as ``dtoss events`` prints them."""
        settings = head_of(self.home).settings
        data = b"".join(bytes(json_lines(table, settings)) for table in events(self.home, after, **which))
        return data.decode().splitlines()


class Stream:
    """The answer to ``GET /events``, read block by block."""

    def __init__(self, at, target="/events", last=None, **headers):
        self.link = http.client.HTTPConnection(*at, timeout=WAIT)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            self.link.request("GET", target, headers=given | ({} if last is None else {"Last-Event-ID": last}))
            self.response = self.link.getresponse()
        except BaseException:
            self.link.close()
            raise
        self.last = last

    def block(self):
        """The fields of the next block; None at the end, also where it is cut off in a block."""
        fields = {}
        while (line := self.response.readline()).endswith(b"\n"):
            if line == b"\n":
                self.last = fields.get("id", self.last)
                return fields
            name, _, value = line.decode().rstrip("\n").partition(": ")
            fields[name] = value
        return None

    def events(self, count):
        """The next events, as (id, line)."""
        found = []
        while len(found) < count:
            block = self.block()
            assert block is not None, found
            if "data" in block:
                found.append((block["id"], block["data"]))
        return found

    def close(self):
        self.response.close()
        self.link.close()


@contextmanager
def stream(server, target="/events", last=None, **headers):
    """A stream of a worker."""
    found = Stream(server.at, target, last, **headers)
    try:
        yield found
    finally:
        found.close()


def ids_of(lines):
    """The ids of lines."""
    return [json.loads(line)["id"] for line in lines]


def with_ids(lines):
    """Lines with their ids."""
    return list(zip(ids_of(lines), lines, strict=True))


def order(ids):
    """Cursors as pairs of numbers."""
    return [tuple(map(int, one.split("-"))) for one in ids]
