"""A server that takes rows, in processes of its own, and what a client with one connection sees of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from contextlib import closing, contextmanager, suppress

import dtoss
from dtoss.snapshots.store import Store
from tests.dtoss.serve.processes.started import SECONDS, started


class FreshServer:
    """A store of some objects, a log, and a server of both."""

    def __init__(self, path, server):
        self.path, self.server = path, server
        self.store, self.updates = Store(str(path / "store")), path / "in"
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
        self.seq = 0  # that this client has seen

    def close(self):
        """Close the connection."""
        self.connection.close()

    def ask(self, target, body=None):
        """(status, JSON) of an answer, whose sequence number is no less than any before on this connection."""
        try:
            kind = {} if body is None else {"content-type": "application/json"}
            self.connection.request("GET" if body is None else "POST", target, body, kind)
            response = self.connection.getresponse()
            said = json.loads(response.read())
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.seq = 0
            return None, None
        if (seq := response.headers.get("dtoss-seq")) is not None:
            assert int(seq) >= self.seq, (seq, self.seq)
            self.seq = int(seq)
        return response.status, said

    def put(self, *rows):
        """The sequence number of the last of these rows, once a server has acknowledged them."""
        return self.until(lambda: self.ask("/positions", json.dumps(rows)))["seq"]

    def until(self, ask, holds=lambda said: True):
        """What is answered, once it is a good answer of which something holds."""
        ends = time.monotonic() + SECONDS
        while True:
            status, said = ask()
            if status == 200 and holds(said):
                return said
            assert status in (None, 200, 409, 503), said
            assert time.monotonic() < ends, said
            time.sleep(0.02)

    def places(self, seq):
        """{id: [lon, lat]} of all objects at a sequence number, or a later one."""
        target = f"/box?west=-180&south=-90&east=180&north=90&columns=lon,lat&min_seq={seq}"
        hits = self.until(lambda: self.ask(target))["hits"]
        return {hit["id"]: [hit["lon"], hit["lat"]] for hit in hits}

    def events(self, what):
        """The events of a kind that the log tells."""
        lines = map(json.loads, (self.path / "log").read_text().splitlines())
        return [line for line in lines if line["event"] == what]

    @property
    def writer(self):
        """The process that took the log last."""
        return self.events("log taken")[-1]["pid"]

    def kill_writer(self):
        """End who writes the log by force; one that has ended already is left alone."""
        with suppress(ProcessLookupError):
            os.kill(self.writer, signal.SIGKILL)

    def kill_builder(self):
        """End who makes generations by force."""
        with suppress(ProcessLookupError):
            os.kill(self.events("builder started")[-1]["pid"], signal.SIGKILL)


@contextmanager
def fresh_server(path, rows, *options, workers=1, partitions=2):
    """A server of a store of some rows; begun anew where the store is there already."""
    if not (path / "store").exists():
        (path / "in").mkdir()
        dtoss.build(rows, partitions=partitions).save(path / "store")
    words = ("--store", path / "store", "--updates", path / "in", "--allow-positions", "--log", path / "log")
    more = ("--port", 0, "--access-log", "off", "--workers", workers, *options)
    ready = r"on http://127.0.0.1:(\d+)$"
    with (
        started("-m", "dtoss", "serve", *words, *more, ready=ready) as server,
        closing(FreshServer(path, server)) as found,
    ):
        yield found
