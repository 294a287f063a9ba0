"""What connections may cost: long lines and headers, slow ones, too many of them, and what is no HTTP at all."""

from __future__ import annotations

import json
import ssl
import subprocess
import time
from contextlib import ExitStack, suppress

import pytest

from dtoss.serve.processes import worker
from tests.dtoss.serve.processes.started import SECONDS, answer, asked, dialled, get, started

TRIVIAL = ("-m", "tests.dtoss.serve.processes.processes", 1)


@pytest.fixture(scope="module")
def server():
    with started(*TRIVIAL) as running:
        yield running


def problem_of(got):
    """The problem that an answer holds; its connection is closed after it."""
    status, headers, body = got
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert "date" in headers
    told = json.loads(body)
    assert told["status"] == status
    assert headers["x-request-id"] == told["request_id"] == "an-id"
    return told


def test_a_line_has_a_bound(server):
    """8,192 bytes of target are read, one more is not; in one piece or in many."""
    longest = "/" + "x" * 8_191
    assert asked(server.port, longest)[0] == 200
    told = problem_of(asked(server.port, longest + "y"))
    assert (told["status"], told["limit"], told["bound"]) == (414, "line_bytes", 8_192)
    with dialled(server.port) as sock:
        for piece in ("GET /", *["z" * 1_000] * 9):
            sock.sendall(piece.encode())
            time.sleep(0.01)
        assert problem_of(answer(sock))["status"] == 414
        assert answer(sock) is None


@pytest.mark.parametrize("pieces", [1, 5, 40])
@pytest.mark.parametrize("form", ["one", "many"])
def test_a_header_has_a_bound(server, pieces, form):
    """64 kB in all, whether one value is long or there are many, and however they arrive."""
    long = [f"a: {'b' * 70_000}"] if form == "one" else [f"name{number}: {'b' * 100}" for number in range(700)]
    data = get("/", *long)
    with dialled(server.port) as sock:
        for number in range(pieces):
            step = -(-len(data) // pieces)
            try:
                sock.sendall(data[number * step : (number + 1) * step])
            except ConnectionError:
                break
            time.sleep(0.002)
        told = problem_of(answer(sock))
        assert (told["status"], told["limit"], told["bound"]) == (431, "header", 65_536)
    short = [f"name{number}: {'b' * 100}" for number in range(500)]
    assert asked(server.port, "/", *short)[0] == 200


def test_a_long_body_is_no_long_header(server):
    """Neither one that is read nor one that comes after its answer."""
    body = b"b" * 300_000
    head = get("/echo", f"content-length: {len(body)}").replace(b"GET", b"POST")
    with dialled(server.port) as sock:
        sock.sendall(head + body)
        assert answer(sock)[2] == b"300000"
        early = get("/early", f"content-length: {len(body)}").replace(b"GET", b"POST")
        sock.sendall(early)
        assert answer(sock)[2] == b"early"
        sock.sendall(body + get("/"))
        assert answer(sock)[0] == 200


@pytest.mark.parametrize("bad", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"])
def test_what_is_no_http_is_said_to_be_none(server, bad):
    """One problem, then the end; what came before it on the connection is answered first."""
    with dialled(server.port) as sock:
        sock.sendall(bad)
        assert problem_of(answer(sock))["status"] == 400
        assert answer(sock) is None
    with dialled(server.port) as sock:
        sock.sendall(get("/nap") + bad)
        status, headers, _ = answer(sock)
        assert (status, headers["connection"]) == (200, "close")
        assert answer(sock) is None
    with dialled(server.port) as sock:
        sock.sendall(get("/echo", "transfer-encoding: chunked").replace(b"GET", b"POST") + b"zz\r\n")
        assert problem_of(answer(sock))["status"] == 400


def test_headers_that_take_too_long_are_refused():
    """Drop by drop; a connection that says nothing is idle and may last longer; one that asks in time goes on."""
    with ExitStack() as opened:
        server = opened.enter_context(started(*TRIVIAL, "header_seconds=2", "idle_seconds=5"))
        slow, silent, again, patient = (opened.enter_context(dialled(server.port)) for _ in range(4))
        began = time.monotonic()
        again.sendall(get("/"))
        assert answer(again)[0] == 200
        patient.sendall(b"GET / HTTP/1.1\r\n")
        time.sleep(0.3)
        patient.sendall(b"host: localhost\r\n\r\n")
        assert answer(patient)[0] == 200
        again.sendall(b"GET / HTTP/1.1\r\n")
        slow.settimeout(0.1)
        for byte in get("/", "a: " + "b" * 100):
            slow.sendall(bytes([byte]))
            try:
                slow.recv(1, 2)  # MSG_PEEK
                break
            except TimeoutError:
                pass
        slow.settimeout(SECONDS)
        told = problem_of(answer(slow))
        assert (told["status"], told["limit"], told["bound"]) == (408, "header_seconds", 2)
        assert time.monotonic() - began > 1.9
        assert problem_of(answer(again))["status"] == 408
        assert answer(silent) is None
        assert 4.9 < time.monotonic() - began < 70  # without the limit: 75
        assert answer(patient) is None
        assert server.until(r"^refused") == ["refused 408", "refused 408"]


def test_answers_that_nobody_reads_are_dropped():
    """A client that reads, however slowly, gets all of it."""
    with started(*TRIVIAL, "idle_seconds=1.5") as server, dialled(server.port) as stuck, dialled(server.port) as slow:
        for sock in (stuck, slow):
            sock.sendall(get("/big"))
        ends, read = time.monotonic() + 3.5, 0
        while time.monotonic() < ends:
            read += len(slow.recv(100_000))
            time.sleep(0.02)
        assert read < 50_000_000
        while len(piece := slow.recv(1_000_000)) and (read := read + len(piece)) < 50_000_000:
            pass
        assert read >= 50_000_000
        kept = 0
        with suppress(ConnectionResetError):
            while piece := stuck.recv(1_000_000):
                kept += len(piece)
        assert kept < 50_000_000


def test_an_answer_is_made_once_those_before_are_read(server):
    """A question behind one whose answer nobody reads is not begun: it would end the worker."""
    before = asked(server.port, "/")
    with dialled(server.port) as sock:
        sock.sendall(get("/big") + get("/die"))
        sock.recv(1)
        assert [asked(server.port, "/")[2] for _ in range(3)] == [before[2]] * 3


def test_connections_are_counted():
    """One more than are allowed is told so, and closed; when others have gone there is room again."""
    with started(*TRIVIAL, "connections=5") as server:
        socks = [dialled(server.port) for _ in range(5)]
        for sock in socks:
            sock.sendall(get("/"))
            assert answer(sock)[0] == 200
        for _ in range(3):
            with dialled(server.port) as more:
                status, headers, body = answer(more)
                assert (status, headers["retry-after"]) == (503, "1")
                assert json.loads(body)["limit"] == "connections"
        for sock in socks:
            sock.sendall(get("/"))
            assert answer(sock)[0] == 200
            sock.close()
        deadline = time.monotonic() + SECONDS
        while True:
            with dialled(server.port) as sock:
                sock.sendall(get("/"))
                if answer(sock)[0] == 200:
                    break
            assert time.monotonic() < deadline


def test_files_of_snapshots_to_come_leave_less_room_for_connections(monkeypatch):
    """A mapped file is an open one, and a system allows only so many."""
    monkeypatch.setattr(worker.resource, "getrlimit", lambda _: (2_000, 2_000))
    without = worker.room_for(10_000)
    assert 0 < without < 2_000
    assert worker.room_for(10_000, 300) == without - 300
    assert worker.room_for(100, 300) == 100


def test_pipelined_requests_are_answered_in_turn(server):
    """And those behind one that asks to close are not."""
    with dialled(server.port) as sock:
        sock.sendall(get("/nap") + get("/") + get("/", "connection: close") + get("/"))
        statuses = [answer(sock) for _ in range(4)]
        assert [got and got[0] for got in statuses] == [200, 200, 200, None]


def test_tls(tmp_path):
    """What is served with a certificate is not served without; the certificate is read anew at SIGHUP."""
    first = certificate(tmp_path, "one.example")
    with started(*TRIVIAL, first[0], first[1], "header_seconds=2") as server:
        trust = ssl.create_default_context(cafile=first[0])
        with trust.wrap_socket(dialled(server.port), server_hostname="one.example") as sock:
            sock.sendall(get("/"))
            assert answer(sock)[0] == 200
            assert sock.version() in ("TLSv1.2", "TLSv1.3")
        certificate(tmp_path, "two.example")
        server.process.send_signal(1)
        server.until("^hangup")
        trust = ssl.create_default_context(cafile=first[0])
        with trust.wrap_socket(dialled(server.port), server_hostname="two.example") as sock:
            sock.sendall(get("/"))
            assert answer(sock)[0] == 200
        with dialled(server.port) as plain:
            plain.sendall(get("/"))
            assert not plain.recv(100).startswith(b"HTTP/1.1 200")
        with dialled(server.port) as silent:
            began = time.monotonic()
            assert silent.recv(1) == b""
            assert time.monotonic() - began < 50  # without the limit: 60
        assert server.stop()[0] == 0


def certificate(folder, name):
    """(certificate, key) files."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", cert, "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return cert, key
