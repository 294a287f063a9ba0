"""Requests are sent when they are due, whatever the answers do, and latency counts from then."""

from __future__ import annotations

import multiprocessing
import socket
import ssl
import threading
import time
from collections import Counter

import numpy as np
import pytest

from dtoss.errors import InputError
from pipelines.calibration import sender as sender_of_requests
from pipelines.calibration.sender import Sender, Senders, Where
from tests.dtoss.certificates import certificate

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
REQUESTS = [b"GET /a HTTP/1.1\r\n\r\n", b"GET /b HTTP/1.1\r\n\r\n"]


class Answering:
    """A server of threads that answers each request by what a function says, in as many sends as it likes."""

    def __init__(self, answer, tls=None):
        self._tls = tls
        self._answer, self.came, self.times = answer, [], []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.where = lambda connections: Where(
            "127.0.0.1", self._listening.getsockname()[1], tls is not None, connections
        )
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                link, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link):
        if self._tls is not None:
            link = self._tls.wrap_socket(link, server_side=True)
        with link:
            while True:
                try:
                    request = link.recv(4096)
                except OSError:
                    return
                if not request:
                    return
                self.times.append(time.monotonic())
                self.came.append(request)
                for piece in self._answer(len(self.came)):
                    if piece is None:
                        return
                    link.sendall(piece)
                    time.sleep(0.001)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


def sent(server, due, connections=4, patience=60.0):
    """What was seen of requests that were due at some times."""
    sender = Sender(server.where(connections), REQUESTS)
    sender.connect()
    try:
        return sender.at_times(np.array(due), time.monotonic() + 0.02, patience)
    finally:
        sender.close()


@pytest.mark.parametrize(
    "pieces",
    [[PLAIN], [CHUNKED], [PLAIN[:5], PLAIN[5:30], PLAIN[30:]], [CHUNKED[:50], CHUNKED[50:-3], CHUNKED[-3:]],
     [PLAIN.replace(b"2\r", b"300000\r") + b"x" * 100_000, b"x" * 199_998]],
    ids=["whole", "chunked", "in pieces", "chunks in pieces", "large"],
)  # fmt: skip
def test_answers_are_read_to_their_end(pieces):
    """However they come; each request is sent once, in turn."""
    with Answering(lambda number: pieces) as server:
        seen = sent(server, np.arange(20) * 0.004)
    assert seen.statuses == Counter({200: 20})
    assert np.isfinite(seen.latency).all()
    assert (seen.latency > 0).all()
    assert sorted(server.came) == sorted(REQUESTS * 10)


def test_connections_may_be_encrypted(tmp_path, monkeypatch):
    """Answers that are longer than a record of TLS are read to their end."""
    cert, key = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    sender_of_requests.trust.cache_clear()
    long = PLAIN.replace(b"2\r", b"50000\r") + b"x" * 49_998
    with Answering(lambda number: [long], tls) as server:
        seen = sent(server, np.arange(20) * 0.004)
    sender_of_requests.trust.cache_clear()
    assert seen.statuses == Counter({200: 20})


def test_a_request_waits_for_nobody_else():
    """One answer waits until all others came: they are on another connection, and each is sent when it is due."""
    all_came = threading.Event()

    def answer(number):
        if number == 1:
            assert all_came.wait(60.0)
        elif number == 4:
            all_came.set()
        return [PLAIN]

    due = [0.0, 0.1, 0.2, 0.3]
    with Answering(answer) as server:
        begin = time.monotonic()
        seen = sent(server, due, connections=2)
    assert seen.statuses == Counter({200: 4})
    assert seen.latency[0] > 0.2
    assert (np.array(server.times) - begin >= due).all()


def test_a_server_that_falls_behind_cannot_hide_it():
    """Each answer takes 20 ms, on one connection, and a request is due each 5 ms: the last waits for all before it."""

    def answer(number):
        time.sleep(0.02)
        return [PLAIN]

    with Answering(answer) as server:
        seen = sent(server, np.arange(20) * 0.005, connections=1)
    assert seen.latency[-1] > 0.02 * 20 - 0.005 * 20
    assert (np.diff(seen.latency) > 0).mean() > 0.9
    # the sender itself was there in time
    assert np.quantile(seen.lag, 0.5) < np.quantile(seen.latency, 0.5) / 2
    assert seen.spare > 0.2


def test_what_fails_is_never_a_quick_answer():
    """Refusals, connections that break, answers that do not come within the patience."""
    kinds = {1: [REFUSED], 2: [None], 3: [b"HTTP/1.1 200 OK\r\n", None], 4: [PLAIN[:-1]]}
    with Answering(lambda number: kinds.get(number, [PLAIN])) as server:
        seen = sent(server, np.arange(10) * 0.02, connections=2, patience=2.0)
    assert seen.statuses == Counter({200: 6, 429: 1, 0: 3})
    assert np.isinf(seen.latency).sum() == 4


def test_processes_share_a_rate():
    """About as many requests as are due, at times that look random; then as many as the server can answer."""
    with Answering(lambda number: [PLAIN]) as server, Senders(server.where(6), 2) as senders:
        senders.load(REQUESTS)
        window = senders.at_rate(400.0, 0.5, 60.0, np.random.default_rng(0))
        assert window.statuses.total() == len(server.came)
        assert 130 < window.statuses[200] < 280
        gaps = np.diff(np.sort(server.times))
        assert np.std(gaps) > 0.5 * np.mean(gaps)
        assert set(server.came) == set(REQUESTS)
        assert 0 < window.p50 <= window.p99 < 60.0
        server.came.clear()
        rate, statuses = senders.at_most(0.3)
        assert rate == statuses[200] / 0.3
        assert statuses[200] <= len(server.came) <= statuses[200] + 12
        where = server.where(2)
    assert not multiprocessing.active_children()
    with pytest.raises(InputError, match="cannot be asked any more"):
        Senders(where, 1)
