"""Servers as processes of their own, and sockets that talk to them byte by byte."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[4]
SECONDS = 90


class Started:
    """A process whose lines are read as they come; both streams are one."""

    def __init__(self, process):
        self.process, self.lines, self._new = process, [], queue.Queue()
        self.port = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            self._new.put(None)
        self._new.put(None)

    def until(self, pattern, times=1, seconds=SECONDS):
        """The lines that match a pattern, once there are so many."""
        ends = time.monotonic() + seconds
        while True:
            found = [line for line in self.lines if re.search(pattern, line)]
            if len(found) >= times:
                return found
            assert time.monotonic() < ends, self.lines
            assert self.process.poll() is None or not self._new.empty(), self.lines
            with suppress(queue.Empty):
                self._new.get(timeout=0.05)

    def stop(self, number=signal.SIGTERM):
        """(exit code, seconds that it took)."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(timeout=SECONDS), time.monotonic() - began


@contextmanager
def started(*arguments, ready=r"^ready (\d+)$", seconds=SECONDS, python=sys.executable, **env):
    """A process of Python that is ready once it says so; the group of the match is its port."""
    process = subprocess.Popen(
        [python, *map(str, arguments)], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT), **env}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    server = Started(process)
    try:
        server.port = int(re.search(ready, server.until(ready, seconds=seconds)[0])[1])
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        process.stdout.close()


def dialled(port, seconds=SECONDS):
    """A connection."""
    return socket.create_connection(("127.0.0.1", port), timeout=seconds)


def get(path, *headers):
    """The bytes of a request."""
    lines = [f"GET {path} HTTP/1.1", "host: localhost", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def answer(sock):
    """(status, headers, body) of the next answer of a connection; None where it is closed."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        try:
            byte = sock.recv(1)
        except ConnectionResetError:
            return None
        if not byte:
            assert not head, head
            return None
        head += byte
    first, *lines = head.decode().rstrip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = b""
    while len(body) < int(headers["content-length"]):
        body += sock.recv(int(headers["content-length"]) - len(body))
    return int(first.split()[1]), headers, body


def asked(port, path, *headers):
    """The answer to a request on a connection of its own."""
    with dialled(port) as sock:
        sock.sendall(get(path, *headers))
        return answer(sock)
