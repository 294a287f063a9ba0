"""From how many updates on is a cycle cheaper than updating in place? `python -m bench.crossover`.

A million taxis, of which a share moves for a minute: our cycle, and the same moves one by one in an R-tree (`rtree`),
in SQLite's R*Tree (one transaction, in memory) and in Redis GEO (pipelines, where a redis-server is installed).
Processor seconds of all processes that take part. What is updated in place is measured on `--most` updates and scaled.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from bench.measuring.cycling import cycling
from bench.measuring.machine import processor_seconds
from bench.measuring.updates import CITIES, OBJECTS, places, reporting, reports, world
from bench.peers.agreeing import Missing
from bench.peers.servers import redis_server
from datasets.tables.command import run, say

SHARES = (0.001, 0.004, 0.01, 0.02, 0.06, 0.07, 0.1, 0.16, 0.3, 0.5, 1.0)
"""Of the objects that are updated in a cycle; 2, 6 and 7 % are where papers saw in-place updating lose."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Move = Callable[[Ints, Floats, Floats], None]
"""Moves objects: ids, where they are, where they go."""


@dataclass(frozen=True)
class Rival:
    """What is updated in place: its name, how it moves objects, and the clock of those who do the work."""

    name: str
    move: Move
    clock: Callable[[], float] = process_time


@contextmanager
def rtree(places: Floats) -> Iterator[Rival]:
    """Boxes of no size in libspatialindex, loaded at once; a move is a deletion and an insertion."""
    try:
        import rtree as library
    except ImportError:
        raise Missing("rtree is not installed") from None

    boxes = ((number, (x, y, x, y), None) for number, (x, y) in enumerate(places.tolist()))
    tree = library.index.Index(boxes)

    def move(ids: Ints, old: Floats, new: Floats) -> None:
        for number, (x, y), (u, v) in zip(ids.tolist(), old.tolist(), new.tolist(), strict=True):
            tree.delete(number, (x, y, x, y))
            tree.insert(number, (u, v, u, v))

    try:
        yield Rival(f"rtree {library.__version__}", move)
    finally:
        tree.close()


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

        yield Rival(f"SQLite {sqlite3.sqlite_version} R*Tree", move)
    finally:
        base.close()


@contextmanager
def redis(places: Floats) -> Iterator[Rival]:
    """Redis GEO on loopback: GEOADD in pipelines of 10,000; the client's time counts too."""
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as (client, version):

        def add(ids: Ints, new: Floats) -> None:
            for begin in range(0, len(ids), 10_000):
                values: list[float] = []
                for number, (x, y) in zip(
                    ids[begin : begin + 10_000].tolist(), new[begin : begin + 10_000].tolist(), strict=True
                ):
                    values += (x, y, number)
                client.geoadd("objects", values)

        add(np.arange(len(places)), places)
        yield Rival(f"Redis {version} GEO", lambda ids, old, new: add(ids, new), processor_seconds)


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


def crossing(shares: list[float], ours: list[float], each: float, objects: int) -> float | None:
    """Return the share of updates from which on ours is cheaper, between the shares measured; None if it never is."""
    gaps = [each * share * objects - mine for share, mine in zip(shares, ours, strict=True)]
    if gaps[0] >= 0.0:
        return shares[0]
    for i in range(1, len(gaps)):
        if gaps[i] >= 0.0:
            part = -gaps[i - 1] / (gaps[i] - gaps[i - 1])
            return shares[i - 1] + part * (shares[i] - shares[i - 1])
    return None


def main(
    objects: Annotated[int, typer.Option(help="How many.")] = OBJECTS,
    partitions: Annotated[int, typer.Option(help="Of our store.")] = 8,
    most: Annotated[int, typer.Option(help="Updates on which one in place is measured.")] = 20_000,
    turns: Annotated[int, typer.Option(help="Of our cycle for each share; the least counts.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the fleet and of who reports.")] = 0,
) -> None:
    """Print processor seconds of a cycle beside updating in place, and where they cross."""
    rng, begin = np.random.default_rng(seed), world(objects, CITIES, seed).rows
    old, new = places(begin), places(reports(rng, begin, np.arange(objects), 1))
    rivals: dict[str, float] = {}
    for start in (rtree, sqlite, redis):
        try:
            with start(old) as rival:
                rivals[rival.name] = seconds_each(rival, old, new, min(most, objects), rng)
                say(f"{rival.name}: {rivals[rival.name] * 1e6:.1f} us an update")
        except Missing as reason:
            say(f"{start.__name__}: not measured, {reason}")
    ours: list[float] = []
    number = 0
    with cycling(begin, partitions) as running:
        for share in (*SHARES[:2], *SHARES):  # the first two are for warming up
            spent = []
            for _ in range(turns):
                number += 1
                newer = reports(rng, begin, reporting(rng, objects, share), number)
                spent.append(running.cycle(newer).processor)
            ours.append(min(spent))
    ours = ours[2:]
    print(f"| updated | our cycle, processor s | {' | '.join(rivals)} |")
    print("|---" * (2 + len(rivals)) + "|")
    for share, mine in zip(SHARES, ours, strict=True):
        cells = [f"{each * share * objects:.2f}" for each in rivals.values()]
        print(f"| {share:.1%} | {mine:.2f} | {' | '.join(cells)} |")
    at = [crossing(list(SHARES), ours, each, objects) for each in rivals.values()]
    print(f"| ours is cheaper from | | {' | '.join('never' if c is None else f'{c:.1%}' for c in at)} |")


if __name__ == "__main__":
    run(main)
