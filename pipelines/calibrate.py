"""How many requests a second this machine answers from a store, or a server over HTTP: a ``[[server]]`` block.

Also a script: ``python -m pipelines.calibrate --store STORE``, or by spark-submit, with the options of
``dtoss calibrate``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dtoss
from ceps.model.number_text import figure, how_many
from ceps.model.servers import RequestCosts
from dtoss.errors import InputError
from dtoss.locks import processors
from pipelines.calibration.over_http import KS, RADII, block, curve, memory_of_partitions, weights_by_k

BATCHES = (16, 256, 1024, 4096)
"""Requests that a thread answers at a time, where it answers several."""
TURNS = 3
"""Turns in which a question and the base question are measured, the best of each counts."""
NEAR = 1024
"""Objects among which the nearest other place is looked for."""
MOST_HITS = 200_000
"""Hits that questions of one batch have together, about, where their cost is measured."""

Piece = Any
"""What a thread answers at a time: a place, or several."""


@dataclass(frozen=True)
class Rate:
    """One measurement."""

    way: str  # How questions come: a key of :data:`WAYS`
    threads: int  # threads, batch: how many threads, each answering how many requests at a time
    batch: int
    per_second: float
    p99: float  # Seconds below which 99 % of requests are answered: each waits at most for the batch before its own


@dataclass(frozen=True)
class Calibration:
    """What was measured on a machine."""

    best: Mapping[str, Rate | None]  # By way, the best rate at which the limit was kept; None where it never was
    way: str  # The way whose rate the block states
    rates: tuple[Rate, ...]  # Everything that was measured
    costs: RequestCosts  # What questions for other k and radii cost, in the base question
    k: int  # k, limit: what was asked for, and the seconds that 99 % had
    limit: float
    objects: int  # objects, bytes, cores: of the store; of the memory that partitions may fill; of the machine
    bytes: int
    cores: int

    @property
    def chosen(self) -> Rate:
        """The rate that the block states."""
        rate = self.best[self.way]
        assert rate is not None
        return rate


Answer = Callable[[dtoss.Index, Piece, "Question"], Any]


@dataclass(frozen=True)
class Question:
    """What is asked at each place: the k nearest, or all within a radius (metres or CRS units)."""

    k: int | None = None
    radius: float = 0.0

    def ask(self, index: dtoss.Index, places: Any) -> dtoss.Hits:
        """Return the hits of one place or of several."""
        return index.range(places, self.radius) if self.k is None else index.knn(places, self.k)


def _singly(index: dtoss.Index, piece: Piece, question: Question) -> None:
    """Answer a place by itself, by the public call."""
    question.ask(index, piece)


def _gathered(index: dtoss.Index, piece: Piece, question: Question) -> None:
    """Answer places that came one by one: each is queued, all are asked at once, each gets its own ids and distances.

    This is what a server does in one process, without what carries requests to it.
    """
    waiting: SimpleQueue[tuple[int, float, float]] = SimpleQueue()
    for number, (x, y) in enumerate(piece):
        waiting.put((number, x, y))
    came = [waiting.get() for _ in range(len(piece))]
    hits = question.ask(index, np.array([(x, y) for _, x, y in came]))
    ends = np.searchsorted(hits.query, np.arange(len(came) + 1)).tolist()
    answers: SimpleQueue[tuple[int, Any, Any]] = SimpleQueue()
    for (number, _, _), begin, end in zip(came, ends, ends[1:], strict=False):
        answers.put((number, hits.id[begin:end], hits.distance[begin:end]))


def _in_batches(index: dtoss.Index, piece: Piece, question: Question) -> None:
    """Answer an array of places that came as one."""
    question.ask(index, piece)


WAYS: Mapping[str, tuple[Answer, Sequence[int]]] = {
    "singly": (_singly, (1,)),
    "gathered": (_gathered, BATCHES),
    "batches": (_in_batches, BATCHES),
}
"""How questions may come, by name: what answers a piece of them, and how many a piece may hold."""


def calibrate(
    store: str,
    *,
    k: int = 8,
    limit: float = 0.050,
    seconds: float = 4.0,
    way: str = "singly",
    threads: Sequence[int] | None = None,
    seed: int = 0,
) -> Calibration:
    """Return the most requests/s that this machine answers with p99 within a limit, in process, and what costs more.

    Each request asks for the k nearest of a place where an object is, drawn at random. Threads answer one piece after
    the other; a request waits for the piece before its own and for its own. Of each way in which questions come the
    best of some sizes and thread counts is taken. Other k, and radii from the nearest object to all of them, are
    measured in the same way: their seconds over those of the base question.

    Parameters
    ----------
    store
        Path or URI; all its partitions are opened.
    k
        At least 1: the base question.
    limit
        Seconds that 99 % of requests may take.
    seconds
        How long to measure in all, about.
    way
        Whose rate the block states, and by which costs are measured: a key of :data:`WAYS`.
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
    if way not in WAYS:
        raise ValueError(f"rate {way!r} is not known: {', '.join(WAYS)}")
    index = dtoss.open(store)
    if not len(index):
        raise InputError(f"{store} holds no objects: rebuild it from some first")
    counts = sorted({1, processors()} if threads is None else set(threads))
    places = places_of_objects(index, np.random.default_rng(seed), 4 * max(BATCHES))
    each = seconds / 2 / (len(counts) * sum(len(sizes) for _, sizes in WAYS.values()) * 1.2)
    question = Question(k=k)
    pieces = {(name, batch): _pieces(places, name, batch) for name, (_, sizes) in WAYS.items() for batch in sizes}
    found = tuple(
        _measure(index, pieces[name, batch], question, name, count, batch, each)
        for name, (_, sizes) in WAYS.items()
        for count in counts
        for batch in sizes
    )
    best = {name: best_within(limit, [rate for rate in found if rate.way == name]) for name in WAYS}
    chosen = best[way]
    if chosen is None:
        least = min(rate.p99 for rate in found if rate.way == way)
        raise InputError(
            f"p99 was {figure(1000 * least, 3)} ms at best, the limit is {figure(1000 * limit)} ms: raise it (--p99)"
        )
    costs = _costs(index, places, question, chosen, seconds / 2)
    return Calibration(best, way, found, costs, k, limit, len(index), memory_of_partitions(), processors())


def best_within(limit: float, rates: Sequence[Rate]) -> Rate | None:
    """Return the highest rate at which 99 % of requests had their answer in time; None where none had."""
    return max((rate for rate in rates if rate.p99 <= limit), key=lambda rate: rate.per_second, default=None)


def places_of_objects(index: dtoss.Index, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Return places of objects drawn at random, float64 (count, 2), in random order."""
    sizes = np.array([part.objects for part in index.parts.facts])
    drawn = np.bincount(rng.choice(len(sizes), count, p=sizes / sizes.sum()), minlength=len(sizes))
    found = []
    for number in np.flatnonzero(drawn).tolist():
        part = index.parts[number]
        found.append(part.positions[rng.integers(0, part.owned_objects, drawn[number])])
    return rng.permutation(np.concatenate(found))


def _pieces(places: NDArray[np.float64], way: str, batch: int) -> list[Piece]:
    """Return places as they come in one way, so many at a time."""
    if way == "singly":
        return [tuple(place) for place in places.tolist()]
    pieces = [places[at : at + batch] for at in range(0, len(places) - batch + 1, batch)]
    return [piece.tolist() for piece in pieces] if way == "gathered" else pieces


def _measure(
    index: dtoss.Index,
    pieces: Sequence[Piece],
    question: Question,
    way: str,
    threads: int,
    batch: int,
    seconds: float,
) -> Rate:
    answer = WAYS[way][0]
    answer(index, pieces[0], question)
    spans: list[list[float]] = [[] for _ in range(threads)]
    gate = threading.Barrier(threads)

    def work(me: int) -> None:
        at, mine = me * len(pieces) // threads, spans[me]
        gate.wait()
        now = began = perf_counter()
        while now - began < seconds or len(mine) < 3:
            answer(index, pieces[at % len(pieces)], question)
            last, now, at = now, perf_counter(), at + 1
            mine.append(now - last)

    workers = [threading.Thread(target=work, args=(me,)) for me in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    waits = np.concatenate([np.array(mine)[1:] + np.array(mine)[:-1] for mine in spans])
    rate = sum(len(mine) * batch / sum(mine) for mine in spans)
    return Rate(way, threads, batch, rate, float(np.quantile(waits, 0.99)))


def _costs(index: dtoss.Index, places: NDArray[np.float64], base: Question, rate: Rate, seconds: float) -> RequestCosts:
    """Return what questions cost in the base question, measured as `rate` was, one thread each, in turns with it."""
    few = places[:64]
    ks = sorted({k for k in KS if k <= len(index)} | {base.k or 1})
    radii = radii_from(index, few)
    hits = [float(k) for k in ks] + [float(index.count(few, radius).mean()) for radius in radii]
    asked = [Question(k=k) for k in ks] + [Question(radius=radius) for radius in radii]
    each = seconds / (2 * TURNS * len(asked))
    plainly = _pieces(places, rate.way, rate.batch)
    weights = []
    for question, many in zip(asked, hits, strict=True):
        batch = 1 if rate.way == "singly" else int(np.clip(MOST_HITS / max(many, 1.0), 1, rate.batch))
        pieces = plainly if batch == rate.batch else _pieces(places, rate.way, batch)
        plain, slower = 0.0, 0.0
        for _ in range(TURNS):
            plain = max(plain, _measure(index, plainly, base, rate.way, 1, rate.batch, each).per_second)
            slower = max(slower, _measure(index, pieces, question, rate.way, 1, batch, each).per_second)
        weights.append(plain / slower)
    by_k = weights_by_k(ks, weights, base.k or 1)
    return RequestCosts(curve(ks, by_k), curve(radii, weights[len(ks) :]))


def radii_from(index: dtoss.Index, places: NDArray[np.float64]) -> list[float]:
    """Return radii from where the nearest other place is to where all objects are, each as many times the last.

    Where many objects share a place, the nearest other one is looked for among :data:`NEAR` of them.
    """
    far = float(index.knn(places[:1], len(index)).distance.max())
    gaps = index.knn(places, min(NEAR, len(index))).distance.reshape(len(places), -1)
    nearest = np.where(gaps > 0, gaps, np.inf).min(axis=1)
    if not np.isfinite(nearest).any():
        return [float(f"{far:.3g}")] if far > 0 else []
    first = float(np.median(nearest[np.isfinite(nearest)]))
    return sorted({float(f"{radius:.3g}") for radius in np.geomspace(first, far, RADII)})


def server_block(measured: Calibration, name: str, dollars_per_hour: float | None) -> str:
    """Return TOML text of a server type with what was measured; without a price, a comment where it is missing."""
    chosen = measured.chosen
    how = (
        f"dtoss calibrate: k = {measured.k} nearest of {how_many(measured.objects, 'object')}, {chosen.way}, "
        f"{how_many(chosen.threads, 'thread')} on {measured.cores} cores, pieces of {chosen.batch}, "
        f"p99 {figure(1000 * chosen.p99, 3)} ms, in process"
    )
    remarks = [f"{way}: {_said(rate)}" for way, rate in measured.best.items()]
    remarks.append("in process, without HTTP, which no server reaches: dtoss calibrate --url measures one")
    rate = f"{_rounded(chosen.per_second)} # {chosen.way}"
    return block(name, rate, remarks, measured.bytes, dollars_per_hour, measured.costs, measured.k, how)


def facts(measured: Calibration) -> dict[str, Any]:
    """Return all that was measured, for programs; the rate of the block stands at the top."""
    chosen = measured.chosen
    return {
        "requests_per_second": chosen.per_second, "p99_seconds": chosen.p99, "threads": chosen.threads,
        "batch": chosen.batch, "rate": measured.way, "k": measured.k, "objects": measured.objects,
        "bytes": measured.bytes, "cores": measured.cores,
        "rates": {
            way: None if rate is None else {
                "requests_per_second": rate.per_second, "p99_seconds": rate.p99, "threads": rate.threads,
                "batch": rate.batch,
            }
            for way, rate in measured.best.items()
        },
        "cost_by_k": [list(pair) for pair in measured.costs.by_k],
        "cost_by_radius": [list(pair) for pair in measured.costs.by_radius],
    }  # fmt: skip


def rows(measured: Calibration) -> list[str]:
    """Return a line for each measurement."""
    return [
        f"{rate.way}: {how_many(rate.threads, 'thread')}, pieces of {rate.batch}: {rate.per_second:,.0f} requests/s, "
        f"p99 {figure(1000 * rate.p99, 3)} ms"
        for rate in measured.rates
    ]


def _said(rate: Rate | None) -> str:
    if rate is None:
        return "not within the limit"
    return f"{_rounded(rate.per_second)} requests/s, {how_many(rate.threads, 'thread')}, pieces of {rate.batch}"


def _rounded(per_second: float) -> str:
    return f"{float(f'{per_second:.3g}'):.10g}"


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("calibrate")
