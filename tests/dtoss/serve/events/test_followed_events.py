"""``dtoss.connect(url).events()``: each event once, whatever becomes of the connection; what it says where it ends."""

from __future__ import annotations

import http.client
import json
import threading

import pytest

import dtoss
from dtoss.client import http_connections
from dtoss.client.remote_index import RemoteIndex
from dtoss.serve.core.server_settings import Limits
from tests.dtoss.serve.events.listening import WAIT, Watch
from tests.dtoss.serve.served import Doors, running, town, until


@pytest.fixture(scope="module")
def index():
    return town(objects=300)


def connected(server, token=None):
    return RemoteIndex(f"http://127.0.0.1:{server.at[1]}", token)


def taken(events, count):
    """The first events."""
    found = []
    for event in events:
        found.append(event)
        if len(found) == count:
            break
    return found


def test_events_are_those_of_files(index, tmp_path):
    watch = Watch(tmp_path).begin()
    for _ in range(3):
        watch.batch()
    with running(index, store=str(tmp_path), doors=Doors("secret")) as server:
        wanted = [json.loads(line) for line in watch.told()]
        remote = connected(server, "secret")
        with remote.events("beginning") as followed:
            assert taken(followed, len(wanted)) == wanted
            assert followed.last == wanted[-1]["id"]
            watch.batch()
            more = [json.loads(line) for line in watch.told()][len(wanted) :]
            assert taken(followed, len(more)) == more
        some = [one for one in wanted + more if one["subscription"] == "a" and one["kind"] != "inside"]
        with remote.events("beginning", "a", ["enter", "leave"]) as followed:
            assert taken(followed, len(some)) == some
        with remote.events("beginning", ["a", 'b "ü"']) as followed:
            assert taken(followed, len(wanted)) == wanted
        # one that is ended by another thread ends
        followed = remote.events()
        heard = []
        thread = threading.Thread(target=lambda: heard.extend(followed))
        thread.start()
        until(lambda: followed.last is not None)
        followed.close()
        thread.join(WAIT)
        assert not thread.is_alive()
        assert heard == []


def test_closed_while_it_connects_or_waits_for_the_server_it_ends(index, tmp_path, monkeypatch):
    """At once, though there is nothing yet that could be hung up."""
    watch = Watch(tmp_path).begin()
    watch.batch()
    with running(index, store=str(tmp_path)) as server:
        followed = connected(server).events("beginning")
        connect = http.client.HTTPConnection.connect

        def closing(self):
            connect(self)
            followed.close()

        monkeypatch.setattr(http.client.HTTPConnection, "connect", closing)
        assert list(followed) == []
    monkeypatch.undo()
    followed = connected(server).events(patience=10 * WAIT)
    tried = threading.Event()
    monkeypatch.setattr(http_connections, "SHORTEST_PAUSE", 5 * WAIT)
    monkeypatch.setattr(http_connections.Followed, "_hang_up", lambda self: tried.set())
    thread = threading.Thread(target=lambda: list(followed))
    thread.start()
    assert tried.wait(WAIT)  # nobody is there: it waits to try again
    followed.close()
    thread.join(WAIT)
    assert not thread.is_alive()


def test_connections_that_break_are_made_again(index, tmp_path):
    watch = Watch(tmp_path).begin()
    with running(index, store=str(tmp_path)) as server:
        followed = connected(server).events("beginning")
        events, heard = iter(followed), []
        for _ in range(4):
            watch.batch()
            heard.append(next(events))
            followed._hang_up()
        wanted = [json.loads(line) for line in watch.told()]
        heard += taken(events, len(wanted) - len(heard))
        assert heard == wanted
        followed.close()


def test_what_is_wrong_is_said(index, tmp_path):
    watch = Watch(tmp_path).begin()
    watch.batch()
    with running(index, store=str(tmp_path), limits=Limits(event_streams=1)) as server:
        remote = connected(server)
        for bad in (-1, True, "x", float("nan")):
            with pytest.raises(ValueError, match="patience"):
                remote.events(patience=bad)
        with pytest.raises(ValueError, match="after is 'x'"):
            next(iter(remote.events("x")))
        with pytest.raises(ValueError, match="kind"):
            next(iter(remote.events(kinds=["came"])))
        with remote.events("beginning") as followed:
            held = iter(followed)
            next(held)
            with pytest.raises(dtoss.DtossError, match="at most 1 are allowed"):
                next(iter(remote.events("beginning", patience=0.0)))
    with pytest.raises(dtoss.DtossError, match="no server answers"):
        next(iter(remote.events(patience=0.3)))
