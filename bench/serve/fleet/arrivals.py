"""Requests that arrive whether or not those before are answered: python -m bench.serve.fleet.arrivals, by its stdin.

It reads one JSON document of ports, targets by partition, the server of each partition, and when requests of which
partition are sent; it writes what became of each.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from typing import Any

import uvloop

from bench.serve.fleet.answers import Answers


class _Connection(asyncio.Protocol):
    def __init__(self, free: deque[_Connection]) -> None:
        self.free = free
        self.done: asyncio.Future[int] | None = None
        self.answers = Answers()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        status = self.answers.status(data)
        if status is not None:
            done, self.done = self.done, None
            if done is not None and not done.done():
                done.set_result(status)
            self.free.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self in self.free:
            self.free.remove(self)
        if self.done is not None and not self.done.done():
            self.done.set_result(0)


async def _run(given: dict[str, Any]) -> list[list[float]]:
    loop = asyncio.get_running_loop()
    ports: list[int] = given["ports"]
    free: list[deque[_Connection]] = [deque() for _ in ports]
    found: list[list[float]] = []
    tasks = set()

    async def one(server: int, target: str, due: float, at: float) -> None:
        began = loop.time()
        if free[server]:
            connection = free[server].popleft()
        else:
            _, connection = await loop.create_connection(lambda: _Connection(free[server]), "127.0.0.1", ports[server])
        connection.done = loop.create_future()
        connection.transport.write(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        status = await connection.done
        found.append([due, server, status, loop.time() - at, began - at])

    start = loop.time() + 0.5
    used: dict[int, int] = {}
    for due, partition in given["arrivals"]:
        at = start + due
        if (left := at - loop.time()) > 0:
            await asyncio.sleep(left)
        turn = used[partition] = used.get(partition, -1) + 1
        some = given["targets"][partition]
        task = loop.create_task(one(given["server_of"][partition], some[turn % len(some)], due, at))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.wait(tasks, timeout=10) if tasks else None
    return found


def main() -> None:
    """Send what stdin says, and write what became of it."""
    given = json.loads(sys.stdin.read())
    json.dump(uvloop.run(_run(given)), sys.stdout)


if __name__ == "__main__":
    main()
