"""The short way is asked before anybody asks; where uvicorn has changed, all go the long way and the log says so."""

from __future__ import annotations

import asyncio
import json
import re
import resource
from types import SimpleNamespace

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dtoss.serve.answers.open_snapshots import Serving
from dtoss.serve.app import application
from dtoss.serve.core.connection_limits import GuardedProtocol
from dtoss.serve.core.server_settings import Limits, Settings
from dtoss.serve.map.map_files import files_of
from dtoss.serve.processes.warm_up import short_way_works
from dtoss.serve.processes.worker import config_of
from dtoss.serve.requests.hot_protocol import HotProtocol
from dtoss.serve.state.worker_state import WorkerState
from tests.dtoss.serve.processes.started import asked, started
from tests.dtoss.serve.served import Doors, Heard, served_of, town
from tests.dtoss.serve.watched import commit


def rehearsed(kind="sphere"):
    """(what the rehearsal says, what was told of it)."""
    heard, settings = Heard(), Settings("nowhere")
    heard.files = files_of(settings)
    serving = Serving(served_of(town(kind)))
    audit = SimpleNamespace(request=lambda **facts: heard.requests.append(facts))
    state = WorkerState(0, settings, serving, heard, heard, heard, Doors(token="secret"), heard, heard, audit=audit)

    async def run():
        front, _ = application(state, asyncio.get_running_loop())
        return await short_way_works(state, config_of(front, settings))

    found = asyncio.run(run())
    return found, heard.accesses + heard.hot_answers + heard.answers + heard.requests + heard.events + heard.turns


@pytest.mark.parametrize("kind", ["sphere", "plane"])
def test_the_short_way_works_here(kind):
    """No metric, no log, no access log and no audit hears of it, and it needs no token."""
    assert rehearsed(kind) == (None, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("on_response_complete", lambda self: 1 / 0),
        ("on_url", lambda self, url: None),
        ("on_header", lambda self, name, value, more: None),
        ("on_headers_complete", lambda self: None),
        ("connection_made", lambda self, transport: None),
        ("data_received", lambda self, data: None),
    ],
)
def test_what_has_changed_inside_uvicorn_is_noticed(monkeypatch, name, value):
    """Whatever it is, it is told and not raised."""
    owner = HotProtocol if name == "on_headers_complete" else GuardedProtocol if name == "on_url" else HttpToolsProtocol
    monkeypatch.setattr(owner, name, value)
    monkeypatch.setattr(asyncio.BaseEventLoop, "call_exception_handler", lambda self, context: None)
    found, told = rehearsed()
    assert isinstance(found, str)
    assert told == []


def test_a_worker_falls_back_to_the_long_way(tmp_path):
    """And answers all the same."""
    store = commit(tmp_path / "store")
    code = f"""
import dtoss.serve.requests.hot_protocol as hot
hot.HotProtocol.on_headers_complete = lambda self: self.headers_are_complete_now()
from pipelines.command.main import main
main(["serve", "--store", {store!r}, "--port", "0", "--access-log", "off"])
"""
    with started("-c", code, ready=r"^serving .* on http://127\.0\.0\.1:(\d+)$") as server:
        (line,) = server.until('"event":"no short way"')
        assert "it does not work with this uvicorn: all go the long way" in json.loads(line)["detail"]
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard == resource.RLIM_INFINITY or hard >= 2 * Limits().connections:
            assert not any('"event":"few files"' in told for told in server.lines)
        status, _, body = asked(server.port, "/knn?lon=10&lat=50&k=2")
        assert (status, len(json.loads(body)["hits"])) == (200, 2)
        metrics = asked(server.port, "/metrics")[2].decode()
        assert re.search(r'^dtoss_requests_total\{route="/knn",status="200",way="framework"\} 1\.0$', metrics, re.M)
