"""How many requests a second this machine answers from a store: a ``[[server]]`` block for the planner.

Also a script: ``python -m pipelines.calibrate --store STORE``, or by spark-submit, with the options of
``dtoss calibrate``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import dtoss
from ceps.texts import how_many
from dtoss.errors import InputError

BATCHES = (1, 16, 256, 1024, 4096)
"""Requests that a thread answers at a time, as a server does that gathers what has come in."""
MEMORY_SHARE = 0.8
"""Of the machine's memory, what partitions may fill."""


@dataclass(frozen=True)
class Rate:
    """One measurement.

    Parameters
    ----------
    threads, batch
        How many threads, each answering how many requests at a time.
    per_second
        Requests/s in all.
    p99
        Seconds below which 99 % of requests are answered: each waits at most for the batch before its own.
    """

    threads: int
    batch: int
    per_second: float
    p99: float


@dataclass(frozen=True)
class Calibration:
    """The best rate at which the limit was kept, and all that was measured."""

    best: Rate
    rates: tuple[Rate, ...]
    k: int
    limit: float
    objects: int
    bytes: int
    cores: int


def calibrate(
    store: str,
    *,
    k: int = 8,
    limit: float = 0.050,
    seconds: float = 4.0,
    threads: Sequence[int] | None = None,
    seed: int = 0,
) -> Calibration:
    """Return the most requests/s that this machine answers with p99 within a limit, in process.

    Each request asks for the k nearest of a place where an object is, drawn at random. Threads answer batches one
    after the other; a request waits for the batch before its own and for its own. The best of some sizes and thread
    counts is taken.

    Parameters
    ----------
    store
        Path or URI; all its partitions are opened.
    k
        At least 1.
    limit
        Seconds that 99 % of requests may take.
    seconds
        How long to measure in all, about.
    threads
        Thread counts to try; 1 and the cores when None.
    seed
        Of the places.

    Raises
    ------
    InputError
        The store holds no objects, or the limit cannot be kept.
    ValueError
        An argument is out of its bounds.
    """
    for name, value in (("k", k), ("limit", limit), ("seconds", seconds)):
        if not value > 0:
            raise ValueError(f"{name} is {value}: a number above 0 is wanted")
    index = dtoss.open(store)
    if not len(index):
        raise InputError(f"{store} holds no objects: rebuild it from some first")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    counts = sorted({1, cores} if threads is None else set(threads))
    places = _places(index, np.random.default_rng(seed), 4 * max(BATCHES))
    each = seconds / (len(counts) * len(BATCHES) * 1.2)
    found = tuple(_measure(index, places, k, count, batch, each) for count in counts for batch in BATCHES)
    kept = [rate for rate in found if rate.p99 <= limit]
    if not kept:
        least = min(rate.p99 for rate in found)
        raise InputError(f"p99 was {1000 * least:.3g} ms at best, the limit is {1000 * limit:g} ms: raise it (--p99)")
    best = max(kept, key=lambda rate: rate.per_second)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Calibration(best, found, k, limit, len(index), int(MEMORY_SHARE * memory), cores)


def _places(index: dtoss.Index, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Return places of objects drawn at random, float64 (count, 2), in random order."""
    sizes = np.array([part.objects for part in index.parts.facts])
    drawn = np.bincount(rng.choice(len(sizes), count, p=sizes / sizes.sum()), minlength=len(sizes))
    found = []
    for number in np.flatnonzero(drawn).tolist():
        part = index.parts[number]
        found.append(part.positions[rng.integers(0, part.owned_objects, drawn[number])])
    return rng.permutation(np.concatenate(found))


def _measure(index: dtoss.Index, places: NDArray[np.float64], k: int, threads: int, batch: int, seconds: float) -> Rate:
    pieces = [places[at : at + batch] for at in range(0, len(places) - batch + 1, batch)]
    index.knn(pieces[0], k)
    spans: list[list[float]] = [[] for _ in range(threads)]
    gate = threading.Barrier(threads)

    def work(me: int) -> None:
        at, mine = me * len(pieces) // threads, spans[me]
        gate.wait()
        now = began = perf_counter()
        while now - began < seconds or len(mine) < 3:
            index.knn(pieces[at % len(pieces)], k)
            last, now, at = now, perf_counter(), at + 1
            mine.append(now - last)

    workers = [threading.Thread(target=work, args=(me,)) for me in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    waits = np.concatenate([np.array(mine)[1:] + np.array(mine)[:-1] for mine in spans])
    rate = sum(len(mine) * batch / sum(mine) for mine in spans)
    return Rate(threads, batch, rate, float(np.quantile(waits, 0.99)))


def server_block(measured: Calibration, name: str, dollars_per_hour: float | None) -> str:
    """Return TOML text of a server type with what was measured."""
    best = measured.best
    how = (
        f"dtoss calibrate: k = {measured.k} nearest of {how_many(measured.objects, 'object')}, "
        f"{how_many(best.threads, 'thread')} on {measured.cores} cores, batches of "
        f"{best.batch}, p99 {1000 * best.p99:.3g} ms, in process"
    )
    price = "dollars_per_hour = 0.0 # not known: write the price here, and where it is from into source"
    if dollars_per_hour is not None:
        price = f"dollars_per_hour = {dollars_per_hour:g}"
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return (
        f'[[server]]\nname = "{quoted}"\n'
        f"requests_per_second = {float(f'{best.per_second:.3g}'):.0f}\n"
        f"bytes = {measured.bytes} # {MEMORY_SHARE:.0%} of this machine's memory\n"
        f"{price}\n"
        f'source = "{how}"\n'
        f'date = "{datetime.now(UTC).date().isoformat()}"\n'
    )


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("calibrate")
