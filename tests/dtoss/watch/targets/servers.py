"""Servers of others on loopback, and connections to them that break off; a test without the program is skipped."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress

import pytest


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def program(words, port):
    """A server of another one, once it listens."""
    path = shutil.which(words[0], path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    if path is None:
        pytest.skip(f"there is no {words[0]} here")
    with subprocess.Popen([path, *words[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            ends = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert time.monotonic() < ends
                    time.sleep(0.02)
            yield server
        finally:
            server.kill()


@contextmanager
def redis_port():
    """The port of a Redis."""
    port = free_port()
    with program(redis_words(port), port):
        yield port


def redis_words(port, folder=None):
    """What starts a Redis; one with a folder has on its disk what it has acknowledged, and begins with that."""
    words = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
    return words if folder is None else [*words, "--dir", str(folder), "--appendonly", "yes", "--appendfsync", "always"]


def mosquitto_words(port, folder):
    """What starts a broker of MQTT that keeps all for who is away, also where it is asked to end and begins again."""
    config = folder / "mosquitto.conf"
    lines = f"listener {port} 127.0.0.1", "allow_anonymous true", "max_queued_messages 0", "persistence true"
    config.write_text("\n".join([*lines, f"persistence_location {folder}/", "user root", ""]))
    return ["mosquitto", "-c", str(config)]


@contextmanager
def cutting(port):
    """A port that leads to another one: it cuts the connection after so many bytes of an answer, where it is told."""
    left: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as front:
        front.settimeout(0.05)
        over = threading.Event()

        def carry(source, sink, answers):
            with suppress(OSError):
                while data := source.recv(1 << 16):
                    if answers and left:
                        left[0] -= len(data)
                        if left[0] < 0:
                            left.clear()
                            break
                    sink.sendall(data)
            for one in (source, sink):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

        def connect(near):
            with near, socket.create_connection(("127.0.0.1", port)) as far:
                near.settimeout(None)
                asking = threading.Thread(target=carry, args=(near, far, False))
                asking.start()
                carry(far, near, True)
                asking.join()

        def serve():
            known = []
            while not over.is_set():
                with suppress(TimeoutError):
                    known.append(threading.Thread(target=connect, args=[front.accept()[0]]))
                    known[-1].start()
            for one in known:
                one.join()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield front.getsockname()[1], left
        finally:
            over.set()
            thread.join()
