"""Clients without manners, each kind at a pace of its own: python -m tests.long.hostile.clients SECONDS PORT ..."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import numpy as np

from dtoss.serve.requests.bundles import packed_bundle, packed_group
from tests.dtoss.serve.hostile import fuzz
from tests.long.hostile.looks import PEER, READER, ask

Client = Callable[["Hostile", int, np.random.Generator], Awaitable[None]]
MANY, HELD_SECONDS = 300, 5.0
"""Connections that ask nothing, and for how long they are held."""
RESET = struct.pack("ii", 1, 0)


class Hostile:
    """What clients share: the snapshot, and what each kind has done.

    Parameters
    ----------
    snapshot
        That servers serve.
    ends
        In seconds of the loop.
    """

    def __init__(self, snapshot: str, ends: float) -> None:
        self.snapshot, self.ends = snapshot, ends
        self.done: Counter[str] = Counter()


async def dialled(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection with little room for what nobody reads."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=made, limit=4_096)


def request(
    path: str, body: bytes = b"", token: str = READER, kind: str = "application/json", length: int = -1
) -> bytes:
    """Return the bytes of a request."""
    size = len(body) if length < 0 else length
    head = f"{'POST' if size else 'GET'} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    return f"{head}Content-Type: {kind}\r\nContent-Length: {size}\r\n\r\n".encode() + body


def bulk(count: int, rng: np.random.Generator) -> bytes:
    """Return places as JSON."""
    return json.dumps({"positions": rng.uniform([-180, -80], [180, 80], (count, 2)).round(3).tolist()}).encode()


async def reads_slowly(hostile: Hostile, port: int, rng: np.random.Generator) -> None:
    """Ask for much, and read some bytes a second, or none."""
    reader, writer = await dialled(port)
    for _ in range(3):
        writer.write(request("/knn?k=64", bulk(2_000, rng)))
    for _ in range(8):
        await asyncio.sleep(1.0)
        if rng.random() < 0.5:
            await asyncio.wait_for(reader.read(1_000), 5.0)
    writer.close()


async def sends_slowly(hostile: Hostile, port: int, rng: np.random.Generator) -> None:
    """Send a header or a body byte by byte."""
    _, writer = await dialled(port)
    sent = request("/within", b'{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}')
    begun = 0 if rng.random() < 0.5 else len(sent) - 60
    writer.write(sent[:begun])
    for at in range(begun, len(sent) - 1):
        writer.write(sent[at : at + 1])
        await asyncio.sleep(0.2)
        if writer.is_closing():
            break
    writer.close()


async def resets(hostile: Hostile, port: int, rng: np.random.Generator) -> None:
    """Ask, several times in a row, and reset the connection at once or in the middle of the answer."""
    reader, writer = await dialled(port)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.write(request("/knn?k=8", bulk(int(rng.integers(1, 500)), rng)) * int(rng.integers(1, 4)))
    if rng.random() < 0.5:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(100), 1.0)
    writer.transport.abort()


async def stops_in_the_middle(hostile: Hostile, port: int, rng: np.random.Generator) -> None:
    """Send half a body, and go away or stay."""
    _, writer = await dialled(port)
    path, token = [("/knn", READER), ("/within", READER), ("/forward", PEER), ("/partial", PEER)][int(rng.integers(4))]
    writer.write(request(path, b"{" * int(rng.integers(1, 9_000)), token, length=10_000))
    await asyncio.sleep(float(rng.uniform(0, 3)))
    writer.close()


async def says_much(hostile: Hostile, port: int, rng: np.random.Generator) -> None:
    """Say what a peer says, at its largest, or without places, and read nothing of it."""
    count = int(rng.choice([0, 1_000, 10_000]))
    places = np.tile(rng.uniform([-180, -70], [180, 70]), (count, 1))
    group = packed_group(True, 64, None, places, np.full(count, 1e7), [64] * count)
    body = packed_bundle(hostile.snapshot, [group] * (1 if count else 100_000))
    _, writer = await dialled(port)
    for _ in range(3):
        writer.write(request("/forward", body, PEER, "application/octet-stream"))
        await asyncio.sleep(1.0)
    writer.close()


async def guesses(hostile: Hostile, port: int, rng: np.random.Generator) -> None:
    """Ask with tokens that nobody has."""
    reader, writer = await dialled(port)
    for number in range(50):
        writer.write(request("/snapshot", token=f"guess-{number}-{int(rng.integers(1 << 40))}"))
        await reader.read(4_096)
    writer.close()


async def babbles(hostile: Hostile, port: int, rng: np.random.Generator) -> None:
    """Send what is no request, or none that anybody should send."""
    makers = (fuzz.strange_bytes, fuzz.strange_target, fuzz.strange_json, fuzz.strange_arrow, fuzz.strange_shape)
    for maker in makers:
        reader, writer = await dialled(port)
        sent, _ = maker(rng)
        writer.write(sent.replace(b"host: localhost\r\n", f"host: a\r\nauthorization: Bearer {READER}\r\n".encode(), 1))
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(2_000), 0.5)
        writer.close()


async def holds_many(hostile: Hostile, port: int, rng: np.random.Generator) -> None:
    """Open many connections, and ask nothing."""
    made = [await dialled(port) for _ in range(MANY)]
    await asyncio.sleep(HELD_SECONDS)
    for _, writer in made:
        writer.close()


async def listens_to_nothing(hostile: Hostile, port: int, rng: np.random.Generator) -> None:
    """Open streams of events and of the page, and read nothing of them."""
    made = [await dialled(port) for _ in range(20)]
    for number, (_, writer) in enumerate(made):
        writer.write(request("/live" if number % 2 else "/events?after=beginning"))
    await asyncio.sleep(10.0)
    for _, writer in made:
        writer.close()


CLIENTS: tuple[tuple[Client, int, float], ...] = (
    (reads_slowly, 4, 0.5), (sends_slowly, 10, 0.1), (resets, 2, 0.1), (stops_in_the_middle, 4, 0.1),
    (says_much, 1, 2.0), (guesses, 1, 0.5), (babbles, 2, 0.1), (holds_many, 1, 5.0), (listens_to_nothing, 1, 1.0),
)  # fmt: skip
"""Kinds of clients, how many there are of each, and the seconds after which each comes again."""


async def _come_again(client: Client, hostile: Hostile, ports: list[int], pause: float, seed: list[int]) -> None:
    rng, loop = np.random.default_rng(seed), asyncio.get_running_loop()
    while loop.time() < hostile.ends:
        with suppress(OSError, asyncio.TimeoutError):
            await client(hostile, ports[int(rng.integers(len(ports)))], rng)
        hostile.done[client.__name__] += 1  # type: ignore[attr-defined]
        await asyncio.sleep(pause)


async def _run(seconds: float, ports: list[int]) -> Counter[str]:
    snapshot = json.loads(ask(ports[0], "/readyz")[1])["snapshot"]
    hostile = Hostile(snapshot, asyncio.get_running_loop().time() + seconds)
    await asyncio.gather(
        *(
            _come_again(client, hostile, ports, pause, [kind, number])
            for kind, (client, count, pause) in enumerate(CLIENTS)
            for number in range(count)
        )
    )
    return hostile.done


def main() -> None:
    """Be hostile, and print how often."""
    seconds, *ports = sys.argv[1:]
    done = asyncio.run(_run(float(seconds), list(map(int, ports))))
    print(", ".join(f"{name} {count}" for name, count in sorted(done.items())))


if __name__ == "__main__":
    main()
