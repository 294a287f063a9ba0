"""What servers of a plan say to each other, said by somebody else: unread answers, groups without places, a freeze."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from bench.measuring.verdicts import Goals
from bench.serve.fleet.servers import Fleet, fleet
from dtoss.index import Index
from dtoss.serve.requests.bundles import packed_bundle, packed_group
from tests.dtoss.serve.cluster.several import dealt
from tests.long.hostile.looks import MOST_HEALTH, MOST_MB, PEER, READER, Looks, ask, token_file

PLACES, K = 10_000, 64
"""Of a message that is as large as is allowed."""
EMPTY_GROUPS = 100_000
TIMES_SLOWER = 3.0
"""At the most, of answers that need nobody else while a server is frozen."""
TOLD_WITHIN = 1.5
"""Seconds until it is said what those have who are not frozen."""


@contextmanager
def plan_of(store: str, index: Index, folder: Path, servers: int) -> Iterator[Fleet]:
    """Give servers of a plan without copies, with tokens."""
    placement = dealt(index, servers, "contiguous", np.random.default_rng(0))
    with fleet(store, folder, placement, servers, ["--token-file", token_file(folder)], token=PEER) as made:
        yield made


def group(places: NDArray[np.float64], k: int = K) -> bytes:
    """Return questions for the nearest of places, as servers say them."""
    return packed_group(True, k, None, places, np.full(len(places), 1e7), [k] * len(places))


def deep_in(index: Index, held: frozenset[int] | set[int]) -> NDArray[np.float64]:
    """Return the place of an object of some partitions."""
    part = index.parts[min(held)]
    place: NDArray[np.float64] = part.positions[part.owned_objects // 2]
    return place


def peers(store: str, index: Index, folder: Path, seconds: float, goals: Goals) -> None:
    """Play all of it."""
    with plan_of(store, index, folder, 3) as servers:
        name = servers.ready(0)["snapshot"]
        place = deep_in(index, servers.placement.held_by(0))
        large = packed_bundle(name, [group(np.tile(place, (PLACES, 1)))])
        empty = packed_bundle(name, [group(np.zeros((0, 2)))] * EMPTY_GROUPS)
        for route in ("/forward", "/partial"):
            status = ask(servers.ports[0], route, READER, "POST", large)[0]
            goal = goals.ask(f"a reader's token at {route}", status, most=403, least=403)
            print(f"  a reader's token at {route}: {status} {goal}")
        unread(servers, large, seconds, goals)
        on_the_loop(servers, empty, large, goals)
        frozen(servers, index, goals)


def unread(servers: Fleet, large: bytes, seconds: float, goals: Goals) -> None:
    """Send message after message on one connection, and read no answer."""
    port, pids = servers.ports[0], servers.pids(0)
    before = of_one(port, pids, large)
    head = b"POST /forward HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n"
    message, sent = head % (PEER.encode(), len(large)) + large, 0
    with Looks([port], pids) as looks, socket.create_connection(("127.0.0.1", port)) as idle:
        idle.setblocking(False)
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            try:
                sent += idle.send(message[sent % len(message) :])
            except BlockingIOError:
                time.sleep(0.1)
            except OSError:
                break
    told("answers that nobody reads", looks, before, goals, f"{sent / len(message):.1f} messages taken")


def on_the_loop(servers: Fleet, empty: bytes, large: bytes, goals: Goals) -> None:
    """Send groups without places, and the largest messages one after the other."""
    port, pids = servers.ports[0], servers.pids(0)
    before = of_one(port, pids, large)
    # read by another process: this one's looks are not to wait for that
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(status_of, port, empty).result()
        with Looks([port], pids, 0.02) as looks:
            status, _, took = ask(port, "/forward", PEER, "POST", empty)
            made = [pool.submit(status_of, port, large).result() for _ in range(8)]
    goal = goals.ask("groups without places", status, most=400, least=400)
    print(f"  {EMPTY_GROUPS:,} groups without places: {status} in {took:.2f} s {goal}")
    told("long messages", looks, before, goals, f"{len(made)} of {len(large):,} bytes: {sorted(set(made))}")


def of_one(port: int, pids: list[int], message: bytes) -> float:
    """Return the MB that a server has at the most while it answers one message at a time, and somebody reads."""
    with Looks([port], pids, 0.02) as looks:
        for _ in range(3):
            assert status_of(port, message) == 200
    return max(looks.memory)


def status_of(port: int, message: bytes) -> int:
    """Return the status of the answer to what a peer says."""
    return ask(port, "/forward", PEER, "POST", message)[0]


def told(name: str, looks: Looks, before: float, goals: Goals, more: str) -> None:
    """Say what health and memory were."""
    worst, grown = max(looks.health), max(looks.memory) - before
    print(
        f"  {name}: {more}; healthz at most {worst:.3f} s {goals.ask(f'{name}: healthz', worst, most=MOST_HEALTH)}, "
        f"memory {grown:+.0f} MB beyond one answer {goals.ask(f'{name}: memory', grown, most=MOST_MB)}", flush=True,
    )  # fmt: skip


def frozen(servers: Fleet, index: Index, goals: Goals) -> None:
    """Stop a server, and ask another one for what needs it and what does not."""
    (x, y), (fx, fy) = (deep_in(index, servers.placement.held_by(one)) for one in (0, 2))
    port = servers.ports[0]
    name = servers.ready(0)["snapshot"]
    far = f"/count?lon={fx}&lat={fy}&radius=300"
    own = {
        "count": f"/count?lon={x}&lat={y}&radius=1",
        "knn": f"/knn?lon={x}&lat={y}&k=2",
        "knn with columns": f"/knn?lon={x}&lat={y}&k=2&columns=size",
        "a tile": f"/tiles/{name}/objects/0/0/0.mvt",
    }
    for target in own.values():
        ask(port, target)
    well = {what: times(port, target, 40) for what, target in own.items()}
    stopped = servers.pids(2)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        with Looks([port], servers.pids(0), 0.02) as looks, ThreadPoolExecutor(3) as pool:
            first = [pool.submit(ask, port, far + "&partial=ok"), *(pool.submit(ask, port, far) for _ in range(2))]
            time.sleep(0.1)
            while_frozen = {what: times(port, target, 40) for what, target in own.items()}
            ended = [one.result() for one in first]
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    for what, found in while_frozen.items():
        ratio = median(found) / max(median(well[what]), 1e-3)
        said = f"a peer is frozen, {what} of its own"
        print(
            f"  {said}: {1e3 * median(found):.1f} ms, before {1e3 * median(well[what]):.1f} ms, worst "
            f"{1e3 * max(found):.0f} ms {goals.ask(said, ratio, most=TIMES_SLOWER)}"
        )  # fmt: skip
    for (status, body, took), wanted in zip(ended, (200, 503, 503), strict=True):
        said = f"what needs it, {'with partial=ok' if wanted == 200 else 'without'}"
        names = sorted({"missing", "servers", "partitions"} & set(json.loads(body)))
        print(
            f"  {said}: {status} after {took:.2f} s with {', '.join(names)} {goals.ask(said, took, most=TOLD_WITHIN)}"
        )  # fmt: skip
        goals.ask(f"{said}: status", status, most=wanted, least=wanted)
    worst = max(looks.health)
    print(f"  healthz at most {worst:.3f} s {goals.ask('a peer is frozen: healthz', worst, most=MOST_HEALTH)}")


def times(port: int, target: str, count: int) -> list[float]:
    """Return seconds of good answers."""
    found = []
    for _ in range(count):
        status, _, took = ask(port, target)
        assert status == 200, target
        found.append(took)
    return found
