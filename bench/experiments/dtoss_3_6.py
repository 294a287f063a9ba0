"""Figures 3.6 and 3.7 of the dissertation: from how many updates on is a cycle cheaper than updating in place?

Objects that are uniform in degrees, or made taxis of 100 cities, of which a share moves by 300 m: our cycle in this
process, and the same moves one by one in RT-CAN (`bench/peers/rt_can.py`: R-trees of 128 nodes, messages counted and
not timed), in SQLite's R*Tree (one transaction, in memory) and in Redis GEO (pipelines, where a redis-server is
installed). Processor seconds of all processes that take part. What is updated in place is measured on some updates and
scaled.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.experiments.results import Results, Row, grid, point
from bench.measuring.machine import processor_seconds
from bench.measuring.updates import CITIES, places, reporting, reports, world
from bench.peers.agreeing import Missing
from bench.peers.rt_can import RtCan, messages_by_3_4_6
from bench.peers.servers import redis_server
from datasets.tables.command import say
from pipelines.cycle import cycle
from pipelines.rebuild import rebuild

SHARES = (0.001, 0.004, 0.01, 0.02, 0.06, 0.1, 0.16, 0.3, 0.5, 1.0)
SIZES = {
    "smoke": (2_000, 2, SHARES[-1:], 200, 1),
    "here": (1_000_000, 8, SHARES, 5_000, 2),
    "full": (1_000_000, 8, SHARES, 100_000, 3),
}
"""Objects, partitions, shares of them that move, updates on which one in place is measured, turns of our cycle."""
NODES = 128
SECONDS, EACH, CROSSING = "processor s", "us an update", "share from which ours is cheaper"
FINDING, TELLING = "messages an update to find its node", "and to tell others of it, by 3.4.6"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Move = Callable[[Ints, Floats, Floats], None]
"""Moves objects: ids, where they are, where they go."""


@dataclass(frozen=True)
class Rival:
    """What is updated in place: how it moves objects, the clock of those who do the work, its messages an update."""

    move: Move
    clock: Callable[[], float] = process_time
    messages: Callable[[], float] | None = None


@contextmanager
def rt_can(places: Floats) -> Iterator[Rival]:
    """R-trees of libspatialindex, loaded at once; a move is a deletion and an insertion."""
    trees = RtCan(places, NODES)
    yield Rival(lambda ids, old, new: trees.move(ids, new), messages=lambda: trees.found / max(trees.moved, 1))


@contextmanager
def sqlite(places: Floats) -> Iterator[Rival]:
    """SQLite's R*Tree in memory, single precision; all moves of a cycle are one transaction."""
    base = sqlite3.connect(":memory:", isolation_level=None)
    try:
        try:
            base.execute("CREATE VIRTUAL TABLE tree USING rtree(id, x0, x1, y0, y1)")
        except sqlite3.OperationalError as error:
            raise Missing(str(error)) from None
        base.execute("BEGIN")
        rows = ((number, x, x, y, y) for number, (x, y) in enumerate(places.tolist()))
        base.executemany("INSERT INTO tree VALUES (?, ?, ?, ?, ?)", rows)
        base.execute("COMMIT")

        def move(ids: Ints, old: Floats, new: Floats) -> None:
            rows = ((x, x, y, y, number) for number, (x, y) in zip(ids.tolist(), new.tolist(), strict=True))
            base.execute("BEGIN")
            base.executemany("UPDATE tree SET x0 = ?, x1 = ?, y0 = ?, y1 = ? WHERE id = ?", rows)
            base.execute("COMMIT")

        yield Rival(move)
    finally:
        base.close()


@contextmanager
def redis(places: Floats) -> Iterator[Rival]:
    """Redis GEO on loopback: GEOADD in pipelines of 10,000; the client's time counts too."""
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as (client, _):

        def add(ids: Ints, new: Floats) -> None:
            for begin in range(0, len(ids), 10_000):
                part = slice(begin, begin + 10_000)
                pairs = zip(ids[part].tolist(), new[part].tolist(), strict=True)
                client.geoadd("objects", [value for number, (x, y) in pairs for value in (x, y, number)])

        add(np.arange(len(places)), places)
        yield Rival(lambda ids, old, new: add(ids, new), processor_seconds)


RIVALS = {"RT-CAN": rt_can, "SQLite R\\*Tree": sqlite, "Redis GEO": redis}


def seconds_each(rival: Rival, old: Floats, new: Floats, most: int, rng: np.random.Generator) -> float:
    """Return the processor seconds of one update: the best of three turns of moves there, the ways back not timed."""
    spent = []
    for _ in range(3):
        ids = rng.permutation(len(old))[:most]
        began = rival.clock()
        rival.move(ids, old[ids], new[ids])
        spent.append((rival.clock() - began) / len(ids))
        rival.move(ids, new[ids], old[ids])
    return min(spent)


def crossing(ours: dict[float, float], each: float, objects: int) -> float:
    """Return the share of updates from which on ours is cheaper, between the shares measured; no end if it never is.

    ``ours``: processor seconds by share; ``each``: of one update in place.
    """
    shares = list(ours)
    gaps = [each * share * objects - mine for share, mine in ours.items()]
    if gaps[0] >= 0.0:
        return shares[0]
    for i in range(1, len(gaps)):
        if gaps[i] >= 0.0:
            part = -gaps[i - 1] / (gaps[i] - gaps[i - 1])
            return shares[i - 1] + part * (shares[i] - shares[i - 1])
    return float("inf")


def objects_of(kind: str, objects: int) -> pa.Table:
    """Return rows of objects at the beginning."""
    rows = world(objects, CITIES, 0).rows
    if kind == "uniform":
        for name, values in zip(
            ("lon", "lat"), np.random.default_rng(0).uniform((-180, -60), (180, 60), (objects, 2)).T, strict=True
        ):
            rows = rows.set_column(rows.column_names.index(name), name, pa.array(values))
    return rows


def cycles(begin: pa.Table, partitions: int, shares: Sequence[float], turns: int) -> dict[float, float]:
    """Return the processor seconds of our cycle by the share that moves, the best of some turns."""
    ours, rng, objects = {}, np.random.default_rng(1), len(begin)
    with tempfile.TemporaryDirectory() as store:
        rebuild(begin, store, time="t", partitions=partitions)
        for number, share in enumerate((*shares[:1], *shares), 1):  # the first is for warming up
            spent = []
            for turn in range(turns):
                newer = reports(rng, begin, reporting(rng, objects, share), number * turns + turn)
                began = process_time()
                manifest = cycle(newer, store, keep_for=0.0)
                spent.append(process_time() - began)
                assert manifest["objects"] == objects
            ours[share] = min(spent)
    return ours


def run(size: str) -> Iterator[Row]:
    """Yield processor seconds by objects and share that moves; of each rival one update, and where both cross."""
    objects, partitions, shares, most, turns = SIZES[size]
    for kind in ("uniform", "taxi"):
        rng, begin = np.random.default_rng(0), objects_of(kind, objects)
        old, new = places(begin), places(reports(rng, begin, np.arange(objects), 1))
        ours = cycles(begin, partitions, shares, turns)
        for share, seconds in ours.items():
            yield point("our cycle", f"{kind}, {share:.1%}", seconds, SECONDS, data=f"{objects:,} objects")
        for name, start in RIVALS.items():
            try:
                with start(old) as rival:
                    each = seconds_each(rival, old, new, min(most, objects), rng)
                    if rival.messages:
                        yield point(name, kind, rival.messages(), FINDING)
                        yield point(name, kind, messages_by_3_4_6(1, NODES).telling, TELLING, modelled=True)
            except Missing as reason:
                say(f"{name}: not measured, {reason}")
                continue
            for share in shares:
                yield point(name, f"{kind}, {share:.1%}", each * share * objects, SECONDS)
            yield point(name, kind, 1e6 * each, EACH)
            yield point(name, kind, crossing(ours, each, objects), CROSSING)


def draw(results: Results) -> str:
    """Return seconds by share, one update of each, and where ours is cheaper."""
    forms = {SECONDS: "{:.2f}", EACH: "{:.1f}", FINDING: "{:.2f}", TELLING: "{:.0f}", CROSSING: "{:.1%}"}
    return "\n\n".join(grid(results, unit, f"objects: {unit}", form) for unit, form in forms.items())
