"""Servers of a plan under load: what a forward costs, and kills, plan changes and swaps while they are asked.

    python -m bench.serve.together [--objects N] [--rounds N] [cost] [memory] [kills] [hangs] [plans] [swaps]

Servers are processes of this machine that hold their share of 128 partitions of one store; the client is this process.
Answers under kills, plan changes and swaps are compared with those of the index itself, byte for byte. Exits with 1 and
the goals that are missed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.measuring.verdicts import Goals
from bench.serve.fleet.servers import CORES, Load, counted, fleet, made_store, towns_index
from bench.serve.workers import memory_of
from dtoss.index import Index
from dtoss.serve.cluster.served_plans import Placement
from dtoss.snapshots.lineage import files_of
from dtoss.snapshots.store import Store
from tests.dtoss.serve.cluster.several import dealt
from tests.dtoss.snapshots.damaged_stores import stored

PARTITIONS, PLACES = 128, 4_000
CONNECTIONS = 32
PARTS = ("cost", "memory", "kills", "hangs", "plans", "swaps")


def targets_of(index: Index, rng: np.random.Generator, part: Callable[[int], bool] = lambda number: True) -> list[str]:
    """Return questions for the 8 nearest of places near objects of some partitions."""
    held = [one.positions[: one.owned_objects] for one in index.parts.all() if part(one.number)]
    near = np.concatenate(held)
    places = near[rng.integers(0, len(near), PLACES)] + rng.normal(0, 1e-4, (PLACES, 2))
    return [f"/knn?lon={x:.6f}&lat={y:.6f}&k=8" for x, y in places.clip([-180, -90], [180, 90]).tolist()]


def answers_to(index: Index, targets: list[str]) -> dict[str, list[tuple[int, float]]]:
    """Return the hits of each question."""
    places = [[float(value.partition("=")[2]) for value in one.partition("?")[2].split("&")[:2]] for one in targets]
    found = index.knn(places, 8)
    rows = list(zip(found.id.tolist(), found.distance.tolist(), strict=True))
    return {one: rows[8 * at : 8 * at + 8] for at, one in enumerate(targets)}


def checker(wanted: dict[str, list[tuple[int, float]]]) -> Callable[[str, int, bytes], str]:
    """Return what says of an answer whether it is right."""

    def check(target: str, status: int, body: bytes) -> str:
        if status != 200:
            return str(status)
        hits = [(hit["id"], hit["distance"]) for hit in json.loads(body)["hits"]]
        return "right" if hits == wanted[target] else "wrong"

    return check


def latencies(port: int, targets: list[str]) -> list[float]:
    """Return microseconds of each answer over one connection."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    taken = []
    for target in targets:
        began = time.perf_counter()
        link.request("GET", target)
        link.getresponse().read()
        taken.append((time.perf_counter() - began) * 1e6)
    link.close()
    return taken


def throughput(port: int, targets: list[str], seconds: float) -> float:
    """Return answers/s over many connections of a process that only asks."""
    from bench.serve.fleet.asking import asked_for

    return asked_for(port, targets, CONNECTIONS, seconds)


def cost(store: str, index: Index, folder: Path, rounds: int, goals: Goals) -> None:
    """Compare answers from home with answers of which another server has the home, on the same core."""
    rng = np.random.default_rng(2)
    owner = (np.arange(PARTITIONS) >= PARTITIONS // 2).astype(int)
    placement = Placement(index.partitioning.digest, tuple((int(one),) for one in owner))
    home, away = (targets_of(index, rng, lambda number, one=one: owner[number] == one) for one in (0, 1))  # type: ignore[misc]
    with fleet(store, folder, placement, 2, core=CORES[0]) as servers:
        for targets in (home, away):
            latencies(servers.ports[0], targets[:500])
        ratios, shares = [], []
        for _ in range(rounds):
            times = [median(latencies(servers.ports[0], targets[:1500])) for targets in (home, away)]
            rates = [throughput(servers.ports[0], targets, 4.0) for targets in (home, away)]
            ratios.append(times[1] / times[0])
            shares.append(rates[1] / rates[0])
            print(
                f"  from home {times[0]:.0f} us, {rates[0]:,.0f}/s; forwarded {times[1]:.0f} us ({ratios[-1]:.2f}), "
                f"{rates[1]:,.0f}/s ({shares[-1]:.2f})", flush=True,
            )  # fmt: skip
        said = f"cost of a forward, median latency of {rounds} rounds, worst {max(ratios):.2f}"
        print(f"  {said}: {median(ratios):.2f} {goals.ask(said, median(ratios), most=2.5)}")
        said = f"forwards/s over answers from home, worst {min(shares):.2f}"
        print(f"  {said}: {median(shares):.2f} {goals.ask(said, median(shares), least=0.6)}")


def memory(store: str, index: Index, folder: Path, goals: Goals) -> None:
    """Measure what a server has beyond one that holds nothing, beside the bytes that the plan gives it."""
    rng = np.random.default_rng(3)
    owner = np.arange(PARTITIONS) * 2 // PARTITIONS
    placement = Placement(index.partitioning.digest, tuple((int(one),) for one in owner))
    manifest = Store(store).manifest()
    sizes = [entry["bytes"] for entry in manifest["partitions"]]
    targets = targets_of(index, rng)
    with fleet(store, folder, placement, 3) as servers:
        for port in servers.ports:
            latencies(port, targets)
        found = []
        for number in range(3):
            pid = servers.pids(number)[-1]
            one = memory_of(pid)
            found.append(one["Rss"])
        print(f"  resident: {', '.join(f'{one:.0f} MB' for one in found)}; the last holds nothing")
        for number in range(2):
            held = np.flatnonzero(owner == number)
            planned = sum(sizes[one] for one in held) / 2**20
            said = f"memory of server {number} beyond an empty one, MB, planned {planned:.0f}"
            over = found[number] - found[2]
            print(f"  {said}: {over:.0f} {goals.ask(said, over, most=1.05 * planned + 60)}")


def kills(store: str, index: Index, folder: Path, goals: Goals) -> None:
    """Kill each server in turn while all are asked."""
    rng = np.random.default_rng(4)
    placement = dealt(index, 3, "copies", rng)
    targets = targets_of(index, rng)
    check = checker(answers_to(index, targets))
    with fleet(store, folder, placement, 3) as servers:
        for victim in range(3):
            rest = [port for number, port in enumerate(servers.ports) if number != victim]
            loads = [Load(rest, targets[at::8], check) for at in range(8)]
            of_victim = [Load([servers.ports[victim]], targets[at::2], check) for at in range(2)]
            for load in (*loads, *of_victim):
                load.start()
            time.sleep(2.0)
            servers.kill(victim)
            time.sleep(3.0)
            began = time.perf_counter()
            servers.start([victim])
            up = time.perf_counter()
            other = rest[0]
            while (before := forwards(other)) is not None and time.perf_counter() - up < 10:
                time.sleep(0.1)
                if asked_again(servers.folder / f"log-{servers.ports.index(other)}", victim, began):
                    break
            back = time.perf_counter() - up
            time.sleep(1.0)
            whole, cut = counted(loads), counted(of_victim)
            print(
                f"  server {victim}: others {whole}; its own connections {cut}; in the pool after {back:.1f} s",
                flush=True,
            )
            goals.ask(f"killed server {victim}: wrong", whole.get("wrong", 0) + cut.get("wrong", 0), most=0)
            failed = sum(count for said, count in whole.items() if said != "right")
            goals.ask(f"killed server {victim}: failed of others", failed, most=0)
            goals.ask(f"killed server {victim}: cut off of its own", cut.get("cut off", 0), most=2)
            goals.ask(f"killed server {victim}: seconds until it is asked again", back, most=3.0)
            assert before is not None


def forwards(port: int) -> float | None:
    """Return how many questions a server has sent on."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    link.request("GET", "/metrics")
    text = link.getresponse().read().decode()
    link.close()
    found = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("dtoss_forwards_total")]
    return sum(found) if found else None


def asked_again(log: Path, server: int, since: float) -> bool:
    """Return whether a server's log says last that another one is asked again, or never that it is not."""
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    mine = [one["event"] for one in events if one.get("server") == server and "event" in one]
    return not mine or mine[-1] == "server asked again"


def hangs(store: str, index: Index, folder: Path, goals: Goals) -> None:
    """Stop a server for some seconds, which keeps its connections, while the others are asked."""
    rng = np.random.default_rng(7)
    targets = targets_of(index, rng)
    check = checker(answers_to(index, targets))
    with fleet(store, folder, dealt(index, 3, "copies", rng), 3) as servers:
        loads = [Load(servers.ports[:2], targets[at::6], check) for at in range(6)]
        for load in loads:
            load.start()
        time.sleep(3.0)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in servers.pids(2):
                os.kill(pid, number)
            time.sleep(5.0)
        slowest = max(load.slowest for load in loads)
        whole = counted(loads)
        print(f"  a server stopped for 5 s: {whole}; the slowest answer of the others took {slowest:.2f} s")
        goals.ask("stopped server: not right", sum(count for said, count in whole.items() if said != "right"), most=0)


def plans(store: str, index: Index, folder: Path, rounds: int, goals: Goals) -> None:
    """Change the plan again and again while servers are asked."""
    rng = np.random.default_rng(5)
    targets = targets_of(index, rng)
    check = checker(answers_to(index, targets))
    with fleet(store, folder, dealt(index, 3, "contiguous", rng), 3) as servers:
        loads = [Load(servers.ports, targets[at::6], check) for at in range(6)]
        for load in loads:
            load.start()
        began = time.perf_counter()
        settled: list[float] = []
        for turn in range(rounds):
            placement = dealt(index, 3, ["random", "contiguous", "copies"][turn % 3], rng)
            servers.follow(placement)
            changed = time.perf_counter()
            if turn % 5 == 4:  # let go of what left; else the next plan comes while this one is on its way
                while time.perf_counter() - changed < 20:
                    if all(set(servers.ready(one)["held"]) == placement.held_by(one) for one in range(3)):
                        settled.append(time.perf_counter() - changed)
                        break
                    time.sleep(0.2)
            else:
                time.sleep(float(rng.uniform(0.5, 2.5)))
        whole = counted(loads)
        print(
            f"  {rounds} plans in {time.perf_counter() - began:.0f} s: {whole}; settled after "
            f"{', '.join(f'{one:.1f}' for one in settled)} s"
        )
        goals.ask("plan changes: not right", sum(count for said, count in whole.items() if said != "right"), most=0)
        goals.ask("plan changes that settled", len(settled), least=rounds // 5)


def swaps(store: str, index: Index, folder: Path, rounds: int, goals: Goals) -> None:
    """Swap between two snapshots, the ids of which are dealt anew, while servers are asked that swap when they do."""
    rng = np.random.default_rng(6)
    other = towns_index(len(index), PARTITIONS, ids=rng.permutation(len(index)))
    assert other.partitioning.digest == index.partitioning.digest, "the plan is for the pivots of both"
    first = Store(store).current()
    stored(other, store, kinds={"size": "bigint"})
    second = Store(store).current()
    targets = targets_of(index, rng)
    wanted = {first: answers_to(index, targets), second: answers_to(other, targets)}
    of = {first: first, second: second}

    def check(target: str, status: int, body: bytes) -> str:
        if status != 200:
            return str(status)
        said = json.loads(body)
        hits = [(hit["id"], hit["distance"]) for hit in said["hits"]]
        seen.add(said["snapshot"])
        return "right" if hits == wanted[of[said["snapshot"]]][target] else "mixed"

    seen: set[str] = set()
    with fleet(store, folder, dealt(index, 3, "random", rng), 3) as servers:
        loads = [Load(servers.ports, targets[at::6], check) for at in range(6)]
        for load in loads:
            load.start()
        for turn in range(rounds):
            commit_of(store, (first, second)[turn % 2], of)
            time.sleep(float(rng.uniform(0.2, 1.5)))
        whole = counted(loads)
        print(f"  {rounds} swaps, {len(seen)} snapshots answered: {whole}")
        goals.ask("swaps: not right", sum(count for said, count in whole.items() if said != "right"), most=0)


def commit_of(path: str, of: str, known: dict[str, str]) -> None:
    """Make the files of a snapshot a new snapshot, once it is known whose objects it has."""
    store = Store(path)
    manifest, name = store.manifest(of), store.begin()
    for file in files_of(manifest):
        store.link(name, file, of)
    known[name] = of
    store.finish(name, manifest | {"snapshot": name})


def main() -> None:
    """Measure the parts that are named, or all."""
    parser = argparse.ArgumentParser(description="Servers of a plan under load.")
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=50)
    given = parser.parse_args()
    goals = Goals()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        store, index = made_store(str(folder / "store"), given.objects, PARTITIONS)
        work: dict[str, Callable[[], Any]] = {
            "cost": lambda: cost(store, index, folder, 5, goals),
            "memory": lambda: memory(store, index, folder, goals),
            "kills": lambda: kills(store, index, folder, goals),
            "hangs": lambda: hangs(store, index, folder, goals),
            "plans": lambda: plans(store, index, folder, given.rounds, goals),
            "swaps": lambda: swaps(store, index, folder, given.rounds, goals),
        }
        for name in given.parts or PARTS:
            print(f"{name}, {given.objects:,} objects", flush=True)
            work[name]()
    goals.end()


if __name__ == "__main__":
    main()
