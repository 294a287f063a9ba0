"""The paper's simple job (section 7): one compute of panes of a minute, one consolidate of several windows."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import process_time

import numpy as np

from bench.windows.enorm.channels import Carry
from bench.windows.enorm.jobs import Job, chain
from bench.windows.enorm.operators import SUM, Compute, Consolidate, Map, Row
from bench.windows.enorm.placing import Component, Configuration, configured
from bench.windows.enorm.running import Run, Source
from bench.windows.enorm.spans import Window, every

NODES = 6
"""As many m1.medium work for the paper."""
GROUPS = 60
MINUTE = 60
KEY, BY_KEY = ("key",), frozenset(["key"])
TWO = (every(5 * MINUTE), every(10 * MINUTE))
SIX = tuple(every(5 * MINUTE * number) for number in range(1, 7))
Lines = dict[str, dict[float, float]]
"""A figure: y by x, by the name of a line."""
EACH, MOST = 1000, 512
"""Rows between two timestamps; messages of a connection at a time."""


def job(windows: Sequence[Window] = TWO) -> Job:
    """Return it, with an end that takes results and keeps nothing."""
    return chain(
        Compute("compute", KEY, BY_KEY, SUM, pane=MINUTE),
        Consolidate("consolidate", KEY, BY_KEY, SUM, tuple(windows)),
        Map("end", KEY, BY_KEY, lambda row: ()),
    )


def placed(made: Job, *components: Sequence[str], groups: int = GROUPS, nodes: int = NODES) -> Configuration:
    """Return components of operators, with key groups on nodes in turn."""
    turn = tuple(group % nodes for group in range(groups))
    return configured(
        made, {f"C{at + 1}": Component(frozenset(names), KEY, turn) for at, names in enumerate(components)}
    )


def combined(windows: Sequence[Window] = TWO, **options: int) -> Configuration:
    """Return the job as one component and its end."""
    return placed(job(windows), ["compute", "consolidate"], ["end"], **options)


def apart(windows: Sequence[Window] = TWO, **options: int) -> Configuration:
    """Return the job as two: the consolidate is with the end."""
    return placed(job(windows), ["compute"], ["consolidate", "end"], **options)


def uniform(rows: int, keys: int, minutes: int, seed: int = 0) -> list[Row]:
    """Return rows of keys that are equally frequent, at an even rate."""
    rng = np.random.default_rng(seed)
    times = (np.arange(rows) * (minutes * MINUTE) // rows).tolist()
    return [((key,), 1, at, at + 1) for key, at in zip(rng.integers(keys, size=rows).tolist(), times, strict=True)]


def running(start: Configuration, rows: Sequence[Row], nodes: int = NODES, carry: Carry = bytes) -> Run:
    """Return a run with bytes between components."""
    return Run(start, [Source(rows, 0, EACH)], nodes, carry=carry, most=MOST)


@contextmanager
def by_socket() -> Iterator[Carry]:
    """Yield what sends bytes through a socket of this machine and takes them out again, row by row."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:

        def carry(data: bytes) -> bytes:
            near.send(data)
            return far.recv(1 << 16)

        yield carry


def until(run: Run, time: int) -> None:
    """Run until rows are at a time, and all that was sent has been handled."""
    while run.sources[0].newest < time:
        run.sources[0].step()
    run.drain()


def seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds of a call, without collections of garbage."""
    gc.collect()
    gc.disable()
    try:
        begin = process_time()
        work()
        return process_time() - begin
    finally:
        gc.enable()


def least(works: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """Return the least processor seconds of each of several works, in turns."""
    found = {name: [seconds(work)] for name, work in works.items()}
    for _ in range(times - 1):
        for name, work in works.items():
            found[name].append(seconds(work))
    return {name: min(all_of_it) for name, all_of_it in found.items()}
