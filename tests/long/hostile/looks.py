"""What is looked at while a server is treated badly: how long its health takes, its memory and its descriptors."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.serve.fleet.servers import Fleet
from bench.serve.workers import memory_of

READER, PEER = "reads", "says"
"""Tokens of a client, and of servers of the plan."""
MOST_MB = 60.0
"""Of memory, beyond what a server had; of several each."""
MOST_HEALTH = 0.2
"""Seconds until a server says that it lives."""


def token_file(folder: Path) -> str:
    """Write the tokens, and return the path of their file."""
    file = folder / "tokens"
    file.write_text(f"fleet {READER}\nplan {PEER} peer\n")
    return str(file)


def said_by(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"Authorization": f"Bearer {token}"}


def ask(
    port: int, target: str, token: str = READER, method: str = "GET", body: bytes | str | None = None
) -> tuple[int, bytes, float]:
    """Return status, body and seconds of an answer on a connection of its own."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
    began = time.perf_counter()
    try:
        link.request(method, target, body, said_by(token))
        answer = link.getresponse()
        return answer.status, answer.read(), time.perf_counter() - began
    finally:
        link.close()


class Looks(threading.Thread):
    """Looks at servers again and again until it is stopped: health over a connection of its own, and memory.

    Parameters
    ----------
    ports
        Of the servers.
    pids
        Their processes.
    pause
        Seconds between two looks.
    """

    def __init__(self, ports: Sequence[int], pids: Sequence[int], pause: float = 0.1) -> None:
        super().__init__(daemon=True)
        self.ports, self.pids, self.pause = ports, pids, pause
        self.health: list[float] = []
        self.memory: list[float] = []
        self.descriptors: list[int] = []
        self.stopped = False

    def run(self) -> None:
        """Look."""
        while not self.stopped:
            for port in self.ports:
                began = time.perf_counter()
                link = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
                try:
                    link.request("GET", "/healthz")
                    link.getresponse().read()
                finally:
                    link.close()
                self.health.append(time.perf_counter() - began)
            self.memory.append(private_of(self.pids))
            self.descriptors.append(descriptors_of(self.pids))
            time.sleep(self.pause)

    def __enter__(self) -> Looks:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped = True
        self.join(120)


def private_of(pids: Sequence[int]) -> float:
    """Return the MB that processes have for themselves alone."""
    return sum(memory_of(pid)["Private_Dirty"] for pid in pids)


def descriptors_of(pids: Sequence[int]) -> int:
    """Return how many files and connections processes have open."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def pids_of(servers: Fleet) -> list[int]:
    """Return the processes of all servers."""
    return [pid for number in range(len(servers.ports)) for pid in servers.pids(number)]
