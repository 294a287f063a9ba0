"""A parent and its workers: who gets connections, deaths, signals, and the end; with a trivial application."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from dtoss.errors import InputError
from dtoss.serve.processes.processes import hold, is_loopback
from tests.dtoss.serve.processes.started import SECONDS, answer, asked, dialled, get, started

TRIVIAL = ("-m", "tests.dtoss.serve.processes.processes")


def workers_of(port, count):
    """(number, process, stands in) of the workers that answer, found by many connections."""
    found, deadline = set(), time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        _, _, body = asked(port, "/")
        found.add(tuple(map(int, body.split())))
        if len(found) == count:
            return sorted(found)
    raise AssertionError(found)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_workers_share_connections_and_end_together():
    """The kernel spreads them over one socket a worker; SIGHUP reaches each; Ctrl-C ends all with exit code 0."""
    with started(*TRIVIAL, 2) as server:
        first, second = workers_of(server.port, 2)
        assert [first[0], second[0]] == [0, 1]
        share = Counter(asked(server.port, "/")[2].split()[0] for _ in range(100))
        assert min(share.values()) >= 20
        server.process.send_signal(signal.SIGHUP)
        server.until(r"^hangup", 2)
        assert sorted(line for line in server.lines if "hangup" in line) == ["hangup 0", "hangup 1"]
        code, seconds = server.stop(signal.SIGINT)
        assert code == 0
        assert seconds < 60
        assert gone(first[1])
        assert gone(second[1])


def test_a_worker_that_is_killed_is_made_good_and_the_others_go_on():
    """Nobody waits on the socket of a dead one: every connection after its end is answered."""
    with started(*TRIVIAL, 2) as server:
        (_, pid, _), other = workers_of(server.port, 2)
        os.kill(pid, signal.SIGKILL)
        assert server.until(r"^died") == [f"died 0 {pid} SIGKILL"]
        answers = [asked(server.port, "/")[0] for _ in range(50)]
        assert answers == [200] * 50
        deadline = time.monotonic() + SECONDS
        while asked(server.port, "/")[2].split()[::2] != [b"0", b"1"]:
            assert time.monotonic() < deadline
        fresh, same = workers_of(server.port, 2)
        assert fresh[0] == 0
        assert fresh[1] != pid
        assert fresh[2] == 1
        assert same == other
        assert server.stop()[0] == 0


def test_a_server_whose_workers_keep_dying_gives_up():
    """Five deaths within a minute are made good; the sixth ends the server with exit code 1, and all workers."""
    with started(*TRIVIAL, 2) as server:
        (_, _, _), (_, other, _) = workers_of(server.port, 2)
        deaths = 0
        while deaths < 6:
            with dialled(server.port) as sock:
                sock.sendall(get("/die"))
                assert answer(sock) is None
            deaths += 1
            server.until(r"^died \d \d+ exit code 3$", deaths)
            if deaths < 6:
                workers_of(server.port, 2)
        assert server.process.wait(timeout=SECONDS) == 1
        assert gone(other)
        with pytest.raises(ConnectionRefusedError):
            dialled(server.port)


def test_workers_end_when_their_parent_is_gone():
    """A parent that is killed cannot tell them."""
    with started(*TRIVIAL, 2) as server:
        pids = [pid for _, pid, _ in workers_of(server.port, 2)]
        server.process.kill()
        server.process.wait()
        deadline = time.monotonic() + SECONDS
        while not all(map(gone, pids)):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_who_has_asked_before_the_end_is_answered():
    """Requests in hand, those that idle connections send just then, and connections that nobody had accepted yet."""
    with started(*TRIVIAL, 1) as server:
        results, begun = [], threading.Barrier(9)

        def ask_all_the_time():
            count = 0
            with dialled(server.port) as sock:
                begun.wait()
                while True:
                    sock.sendall(get("/"))
                    if (got := answer(sock)) is None:
                        results.append(("lost", count))
                        return
                    count += 1
                    if got[1].get("connection") == "close":
                        results.append(("closed" if answer(sock) is None else "open", count))
                        return

        threads = [threading.Thread(target=ask_all_the_time) for _ in range(8)]
        for thread in threads:
            thread.start()
        slow, half, idle = dialled(server.port), dialled(server.port), dialled(server.port)
        slow.sendall(get("/slow"))
        half.sendall(b"GET / HT")
        begun.wait()
        time.sleep(0.3)
        code, seconds = server.stop()
        for thread in threads:
            thread.join(SECONDS)
        assert (code, len(results)) == (0, 8)
        assert {how for how, _ in results} == {"closed"}
        assert all(count > 1 for _, count in results)
        assert answer(slow)[0] == 200
        assert answer(half) is None
        assert answer(idle) is None
        assert seconds < 60
        assert "left 0" in server.lines
        for sock in (slow, half, idle):
            sock.close()


def test_what_takes_too_long_is_cut_off_at_the_end():
    """A request of a thousand seconds does not keep the server."""
    with started(*TRIVIAL, 1) as server, dialled(server.port) as sock:
        sock.sendall(get("/long"))
        time.sleep(0.2)
        code, seconds = server.stop()
        assert (code, answer(sock)) == (0, None)
        assert seconds < 60
        assert "left 1" in server.lines


def test_a_port_that_somebody_listens_on_is_refused():
    """Also one that is shared among sockets of another server of ours; a port that is held stays ours."""
    port = hold("127.0.0.1", 0)
    listening = port.another()
    listening.listen()
    with pytest.raises(InputError, match=rf"port {port.address[1]} of 127.0.0.1 cannot be had: .*in use; choose"):
        hold("127.0.0.1", port.address[1])
    listening.close()
    again = port.another()
    assert again.getsockname() == port.held.getsockname()
    again.close()
    port.close()
    hold("127.0.0.1", port.address[1]).close()


def test_addresses():
    """IPv6 has brackets in its URL; loopback is what only this machine reaches; names are resolved."""
    assert [is_loopback(host) for host in ("127.0.0.1", "127.3.0.1", "::1", "0.0.0.0", "::", "10.0.0.1")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    port = hold("127.0.0.1", 0)
    assert port.url("http") == f"http://127.0.0.1:{port.address[1]}"
    assert port.is_loopback
    port.close()
    if socket.has_ipv6:
        port = hold("::1", 0)
        assert port.url("https") == f"https://[::1]:{port.address[1]}"
        port.close()
    with pytest.raises(InputError, match=r"--host 'no\.such\.invalid' is no address"):
        hold("no.such.invalid", 0)
    with pytest.raises(InputError, match="--port is 70000: 0 to 65535"):
        hold("127.0.0.1", 70_000)


def test_a_worker_that_fails_says_why_in_one_line():
    """And the server gives up when all that stand in for it fail too."""
    code = """
from dtoss.serve.processes.processes import keep_running
from dtoss.serve.processes.processes import hold
def work(post):
    raise RuntimeError("no\\n luck")
def died(number, pid, fate):
    print(number, fate)
raise SystemExit(keep_running(hold("127.0.0.1", 0), 1, work, ready=lambda: print("ready"), died=died))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    assert done.stdout == "0 exit code 1\n" * 6
    assert done.stderr == "error: worker 0: RuntimeError: no luck\n" * 6
