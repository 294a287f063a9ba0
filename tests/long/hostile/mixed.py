"""Minutes of clients that are hostile in every way at once, beside clients that ask as they should."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import numpy as np
from numpy.typing import NDArray

from bench.measuring.verdicts import Goals
from bench.serve.fleet.servers import START, Load, children_of, counted, fleet
from dtoss.index import Index
from tests.dtoss.serve.cluster.several import dealt
from tests.dtoss.serve.events.listening import Watch
from tests.long.hostile.looks import (
    MOST_HEALTH,
    MOST_MB,
    PEER,
    READER,
    Looks,
    descriptors_of,
    pids_of,
    said_by,
    token_file,
)

QUESTIONS = 300
"""Of which each of the good clients asks one after the other."""
GOOD = 4
"""Good clients."""
WARM_SECONDS = 15.0
"""Of the same load before: until then heaps and caches fill for the first time, and files of metrics are opened."""
SETTLE_SECONDS = 60.0
"""Within which descriptors have to be back."""
LINKS = 4
"""Connections to each other server, which come and go with what is asked."""
RADIUS_KM, EARTH_KM = 5.0, 6_371.0088


def brute_force(index: Index, rng: np.random.Generator) -> dict[str, list[int] | int]:
    """Return questions and their answers, found by looking at every object."""
    ids, positions = [], []
    for part in index.parts.all():
        ids.append(part.ids[: part.owned_objects])
        positions.append(part.positions[: part.owned_objects])
    all_ids, all_places = np.concatenate(ids), np.concatenate(positions)
    vectors = vectors_of(all_places)
    places = all_places[rng.integers(0, len(all_places), QUESTIONS)] + rng.normal(0, 1e-3, (QUESTIONS, 2))
    answers: dict[str, list[int] | int] = {}
    for x, y in places.clip([-180, -89], [180, 89]).round(6).tolist():
        apart = np.square(vectors - vectors_of(np.array([[x, y]]))).sum(axis=1)
        nearest = np.argpartition(apart, 8)[:8]
        answers[f"/knn?lon={x}&lat={y}&k=8"] = all_ids[nearest[np.argsort(apart[nearest])]].tolist()
        # the chord of the radius
        most = (2 * np.sin(RADIUS_KM / EARTH_KM / 2)) ** 2
        answers[f"/count?lon={x}&lat={y}&radius={1000 * RADIUS_KM}"] = int((apart <= most).sum())
        sides = (round(x - 0.02, 6), round(y - 0.02, 6), round(x + 0.02, 6), round(y + 0.02, 6))
        if sides[0] >= -180 and sides[2] <= 180:
            inside = ((all_places >= sides[:2]) & (all_places <= sides[2:])).all(axis=1)
            box = "west={}&south={}&east={}&north={}".format(*sides)
            answers[f"/box?{box}&count=1"] = int(inside.sum())
    return answers


def vectors_of(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places on the sphere as unit vectors."""
    lon, lat = np.radians(places).T
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def checker(answers: dict[str, list[int] | int]) -> Callable[[str, int, bytes], str]:
    """Return what says of an answer whether it is right."""

    def check(target: str, status: int, body: bytes) -> str:
        if status != 200:
            return f"{status}: {json.loads(body)['detail'][:60]}"
        said = json.loads(body)
        found = said["count"] if "count" in said else [hit["id"] for hit in said["hits"]]
        return "right" if found == answers[target] else "wrong"

    return check


def workers(store: str, index: Index, folder: Path, seconds: float, goals: Goals) -> None:
    """Play on a server of two workers, with a watch of which events are streamed."""
    Watch(store).begin().batch()
    log = folder / "log-workers"
    with two_workers(store, token_file(folder), log) as (port, pids):
        played("two workers", [port], pids, brute_force(index, np.random.default_rng(0)), seconds, goals, [log])


def plan(store: str, index: Index, folder: Path, seconds: float, goals: Goals) -> None:
    """Play on a plan of three servers without copies."""
    placement = dealt(index, 3, "contiguous", np.random.default_rng(0))
    with fleet(store, folder, placement, 3, ["--token-file", token_file(folder)], token=PEER) as servers:
        answers = brute_force(index, np.random.default_rng(1))
        logs = [folder / f"log-{number}" for number in range(3)]
        played("a plan of three", servers.ports, pids_of(servers), answers, seconds, goals, logs)


@contextmanager
def two_workers(store: str, tokens: str, log: Path) -> Iterator[tuple[int, list[int]]]:
    """Run a server; gives its port and its processes."""
    run = [
        sys.executable, "-c", START, "serve", "--store", store, "--port", "0", "--json", "--workers", "2",
        "--access-log", "off", "--log", str(log), "--token-file", tokens,
    ]  # fmt: skip
    process = subprocess.Popen(run, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield int(said["url"].rpartition(":")[2]), [process.pid, *children_of(process.pid)]
    finally:
        process.terminate()
        process.wait(60)


def hostile(ports: Sequence[int], seconds: float) -> str:
    """Let hostile clients loose for some seconds; returns what they did."""
    run = [sys.executable, "-m", "tests.long.hostile.clients", str(seconds), *map(str, ports)]
    return subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 120).stdout.strip()


def played(
    name: str, ports: Sequence[int], pids: Sequence[int], answers: dict[str, list[int] | int], seconds: float,
    goals: Goals, logs: Sequence[Path],
) -> None:  # fmt: skip
    """Let hostile and good clients loose on servers, and say what became of both."""
    targets, check = list(answers), checker(answers)
    loads = [Load(ports, targets[at::GOOD], check, said_by(READER), 0.01) for at in range(GOOD)]
    for load in loads:
        load.start()
    with Looks(ports, pids, 0.25) as looks:
        hostile(ports, WARM_SECONDS)
        time.sleep(1.0)
        warm, before = len(looks.memory), descriptors_of(pids)
        back = before + LINKS * len(ports) * (len(ports) - 1)
        what = hostile(ports, seconds)
        ends = time.perf_counter() + SETTLE_SECONDS
        while (after := descriptors_of(pids)) > back and time.perf_counter() < ends:
            time.sleep(0.5)
        whole = counted(loads)
    failed = {said: count for said, count in whole.items() if said != "right"}
    tenths = [median(some) for some in np.array_split(looks.memory[warm:], 10)]
    grown = tenths[-1] - tenths[0]
    most = max(looks.descriptors)
    slowest = max(load.slowest for load in loads)
    p99 = quantiles(looks.health, n=100)[-1]
    lines = sum(log.read_bytes().count(b"\n") for log in logs if log.exists())
    for load in loads:
        for said in failed:
            if said in load.examples:
                print(f"    {said}: {load.examples[said]}")
    print(f"  {name}, {seconds / 60:.1f} minutes; hostile: {what}")
    right = whole.get("right", 0)
    print(
        f"  good: {right:,} right {goals.ask(f'{name}: right', right, least=10 * seconds)}"
        f", others {failed} {goals.ask(f'{name}: not right', sum(failed.values()), most=0)}; slowest {slowest:.2f} s"
    )  # fmt: skip
    print(
        f"  healthz p99 {p99:.3f} s {goals.ask(f'{name}: healthz p99', p99, most=MOST_HEALTH)}, "
        f"worst {max(looks.health):.2f} s; {lines:,} lines of logs"
    )  # fmt: skip
    goal = goals.ask(f"{name}: memory, MB", grown, most=MOST_MB * len(ports))
    series = ", ".join(f"{one:.0f}" for one in tenths)
    print(
        f"  memory at most {max(looks.memory):.0f} MB, of tenths of the time {series} {goal}; "
        f"descriptors {before}, at most {most}, then {after} {goals.ask(f'{name}: descriptors', after, most=back)}",
        flush=True,
    )  # fmt: skip
