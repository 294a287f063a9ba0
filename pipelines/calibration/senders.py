"""Several processes that send requests together, and what they saw."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

import numpy as np

from dtoss.errors import InputError
from pipelines.calibration.sender import Seen, Where, work

AHEAD = 0.05
"""Seconds from when processes are told to when they begin."""


@dataclass(frozen=True)
class Window:
    """What was seen while requests came at a rate."""

    rate: float  # Requests/s that were due
    seconds: float
    p50: float  # p50, p99: seconds from when a request was due within which so many were answered
    p99: float
    lag: float  # Seconds within which senders came to 99 % of the requests after these were due
    spare: float  # Share of the time in which the busiest sender had nothing to do
    statuses: Counter[int]  # Answers by status; 0 where none came


class Senders:
    """Processes that send requests."""

    def __init__(self, where: Where, processes: int) -> None:
        self.where = where
        self._running: list[tuple[Any, Connection]] = []
        context = multiprocessing.get_context("spawn")
        shares = np.diff(np.linspace(0, where.connections, processes + 1).astype(int)).tolist()
        try:
            for share in shares:
                mine, theirs = context.Pipe()
                mine_of = Where(where.host, where.port, where.tls, share)
                process = context.Process(target=work, args=(theirs, mine_of), daemon=True)
                process.start()
                theirs.close()
                self._running.append((process, mine))
            self._all("connect", [()] * len(self._running))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Senders:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        for process, pipe in self._running:
            pipe.close()
            process.join(5.0)
            if process.is_alive():
                process.terminate()
                process.join()
        self._running = []

    def load(self, requests: Sequence[bytes]) -> None:
        """Give the processes the requests that they send, each a share."""
        many = len(self._running)
        self._all("requests", [(list(requests[at::many] or requests),) for at in range(many)])

    def at_rate(self, rate: float, seconds: float, patience: float, rng: np.random.Generator) -> Window:
        """Return what is seen while requests come at a rate, at random times that do not depend on one another.

        ``patience``: seconds for which answers are waited for after that.
        """
        each = rate / len(self._running)
        due = [np.sort(rng.uniform(0.0, seconds, rng.poisson(each * seconds))) for _ in self._running]
        begin = monotonic() + AHEAD
        seen: list[Seen] = self._all("at_times", [(times, begin, patience) for times in due])
        latency, lag = (np.concatenate([getattr(one, name) for one in seen]) for name in ("latency", "lag"))
        statuses = sum((one.statuses for one in seen), Counter[int]())
        if not len(latency):
            latency, lag = np.array([np.inf]), np.array([0.0])
        p50, p99 = np.quantile(latency, (0.5, 0.99), method="higher").tolist()
        return Window(rate, seconds, p50, p99, float(np.quantile(lag, 0.99)), min(one.spare for one in seen), statuses)

    def at_most(self, seconds: float) -> tuple[float, Counter[int]]:
        """Return the requests/s that are answered where each connection always waits for one, and all by status."""
        begin = monotonic() + AHEAD
        seen = self._all("one_after_another", [(begin, seconds)] * len(self._running))
        return sum(count for count, _ in seen) / seconds, sum((by for _, by in seen), Counter[int]())

    def _all(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        found = []
        try:
            for (_, pipe), given in zip(self._running, arguments, strict=True):
                pipe.send((name, given))
            found = [pipe.recv() for _, pipe in self._running]
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise InputError("a process that sends requests is gone: is there memory for it?") from None
        for one in found:
            if isinstance(one, OSError):
                raise InputError(f"{self.where.host}:{self.where.port} cannot be asked any more: {one}")
        return found
