"""Clients that still send what is refused: they read why, and nobody reads for ever what they send."""

from __future__ import annotations

import pytest

from dtoss.serve.core.server_settings import Limits
from tests.dtoss.serve.bulk.test_bulk import connected, read_all
from tests.dtoss.serve.served import running, town, until


@pytest.fixture(scope="module")
def index():
    """An index on the sphere."""
    return town(objects=50)


@pytest.fixture
def small(index):
    """A worker that reads little, and waits a second."""
    with running(index, limits=Limits(body_bytes=20_000, idle_seconds=1.0)) as server:
        yield server


@pytest.mark.parametrize("hot", [True, False])
@pytest.mark.parametrize("kept", ["keep-alive", "close"])
def test_who_still_sends_what_is_refused_reads_why(index, hot, kept):
    """All of it is sent before anything is read, as most clients do: there is an answer, and no reset."""
    refused = [
        ("/knn", 413, b'"limit":"body_bytes"'), ("/within", 413, b'"limit":"corners"'), ("/no", 404, b"there is no"),
        ("/knn?kk=1", 400, b"no parameter"),
    ]  # fmt: skip
    with running(index, hot=hot, limits=Limits(body_bytes=4_000_000, corners=1_000)) as server:
        for path, status, said in refused:
            with connected(server) as client:
                head = f"POST {path} HTTP/1.1\r\nhost: x\r\nconnection: {kept}\r\ncontent-length: 5000000\r\n\r\n"
                client.sendall(head.encode())
                client.sendall(b" " * 5_000_000)
                answer = client.recv(1 << 16)
                while not answer.endswith(b"}"):
                    answer += client.recv(1 << 16)
                assert answer.startswith(b"HTTP/1.1 %d" % status)
                assert said in answer
                if kept == "keep-alive":  # the next request on it is none of the body
                    client.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                    assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
                else:
                    assert read_all(client) == b""


def test_what_is_refused_is_not_read_for_ever(small):
    """Eight times what a body may have, and as long as one may take; then the connection is closed."""
    head = b"POST /knn HTTP/1.1\r\nhost: x\r\ncontent-length: 900000000\r\n\r\n"
    with connected(small) as client:
        client.sendall(head)
        with pytest.raises(OSError):
            client.sendall(b" " * 900_000_000)
    with connected(small) as client:
        client.sendall(head)
        assert read_all(client).startswith(b"HTTP/1.1 413")
    until(lambda: not small.server.server_state.tasks)
