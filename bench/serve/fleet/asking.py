"""Connections that ask without a pause, in a process of its own: python -m bench.serve.fleet.asking PORT ..."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import uvloop

from bench.serve.fleet.answers import Answers


class _Asking(asyncio.Protocol):
    def __init__(self, targets: list[bytes], counts: list[int]) -> None:
        self.targets, self.counts, self.at = targets, counts, 0
        self.answers = Answers()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.transport.write(self.targets[self.at % len(self.targets)])  # type: ignore[attr-defined]
        self.at += 1

    def data_received(self, data: bytes) -> None:
        status = self.answers.status(data)
        if status is not None:
            self.counts[0 if status == 200 else 1] += 1
            self.ask()


async def _run(port: int, targets: list[str], connections: int, seconds: float) -> tuple[int, int]:
    counts = [0, 0]
    lines = [f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode() for target in targets]
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda at=at: _Asking(lines[at:] + lines[:at], counts), "127.0.0.1", port)
        for at in range(connections)
    ]
    await asyncio.sleep(0.5)
    begun = counts[0]
    await asyncio.sleep(seconds)
    answered = counts[0] - begun
    for transport, _ in made:
        transport.close()
    return answered, counts[1]


def asked_for(port: int, targets: list[str], connections: int, seconds: float) -> float:
    """Return answers/s that a process of its own gets, on the last core."""
    core = sorted(os.sched_getaffinity(0))[-1]
    run = subprocess.run(
        [sys.executable, "-m", "bench.serve.fleet.asking", str(port), str(connections), str(seconds)],
        input=json.dumps(targets), capture_output=True, text=True, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, [core]),
    )  # fmt: skip
    answered, wrong = json.loads(run.stdout)
    assert wrong == 0, f"{wrong} answers other than 200"
    return float(answered / seconds)


def main() -> None:
    """Ask, and print how many answers came."""
    port, connections, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    targets = json.loads(sys.stdin.read())
    print(json.dumps(uvloop.run(_run(port, targets, connections, seconds))))


if __name__ == "__main__":
    main()
