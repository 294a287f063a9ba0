"""The text that Prometheus reads: what the client holds of every process, and what workers share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import dtoss
from dtoss.serve.observability.shared_counts import HOT_ROUTES, SECONDS, SIZES, SharedCounts, WorkerCounts


class Exposition:
    """All numbers, put together at each scrape.

    ``counts``: that workers share; ``folder``: where the client keeps the numbers of each process; None shows those of
    this process.
    """

    def __init__(self, counts: SharedCounts, registry: Any, folder: str | None) -> None:
        self._counts = counts
        self._registry = registry
        self._folder = folder
        self.others: list[Callable[[], Iterable[Any]]] = []

    def text(self) -> bytes:
        """Return the text."""
        from prometheus_client import CollectorRegistry, generate_latest

        fresh = CollectorRegistry(auto_describe=False)
        fresh.register(self)
        return generate_latest(fresh)

    def collect(self) -> Iterator[Any]:
        """Yield the families of metrics, each once: those of both sources differ in the label ``way``."""
        from prometheus_client.multiprocess import MultiProcessCollector

        source = self._registry if self._folder is None else MultiProcessCollector(None, self._folder)  # type: ignore[no-untyped-call]
        families = {family.name: family for family in source.collect()}
        for family in _shared(self._counts.all()):
            if family.name in families:
                families[family.name].samples += family.samples
            else:
                families[family.name] = family
        yield from families.values()
        for others in self.others:
            yield from others()


def _shared(parts: list[WorkerCounts]) -> Iterator[Any]:
    """Yield what the shared memory holds."""
    from prometheus_client import core

    requests = core.CounterMetricFamily(
        "dtoss_requests", "Requests that were answered.", labels=["route", "status", "way"]
    )
    seconds = core.HistogramMetricFamily(
        "dtoss_request_seconds",
        "Seconds from the header of a request to the end of its answer.",
        labels=["route", "way"],
    )
    sent = core.CounterMetricFamily("dtoss_answer_bytes", "Bytes of the bodies of answers.", labels=["route", "way"])
    for number, route in enumerate(HOT_ROUTES):
        found = [part.latencies(number) for part in parts]
        buckets = list(map(sum, zip(*(one[0] for one in found), strict=True)))
        requests.add_metric([route, "200", "short"], sum(buckets))
        seconds.add_metric([route, "short"], _cumulated(SECONDS, buckets), sum(one[1] for one in found))
        sent.add_metric([route, "short"], sum(one[2] for one in found))
    yield from (requests, seconds, sent)
    calls = [part.calls() for part in parts]
    sizes = list(map(sum, zip(*(one[0] for one in calls), strict=True)))
    yield core.HistogramMetricFamily(
        "dtoss_gathered_requests", "Requests of one turn of the loop that were answered together.",
        buckets=_cumulated(SIZES, sizes), sum_value=sum(one[1] for one in calls),
    )  # fmt: skip
    reads = [part.reads() for part in parts]
    yield core.SummaryMetricFamily(
        "dtoss_partitions_read", "Partitions that a question has read.",
        count_value=sum(one[1] for one in reads), sum_value=sum(one[0] for one in reads),
    )  # fmt: skip
    yield _counter("dtoss_worker_restarts", "Workers that took the place of one that died.", _sum(parts, "restarts"))
    yield _gauge("dtoss_requests_in_hand", "Requests of the framework's way in hand.", _sum(parts, "waiting"))
    yield from _living([(number, part) for number, part in enumerate(parts) if part.pid])


def _living(parts: list[tuple[int, WorkerCounts]]) -> Iterator[Any]:
    """Yield what workers are and serve, of those that run."""
    from prometheus_client import core

    yield _gauge("dtoss_workers", "Workers that run.", len(parts))
    resident = core.GaugeMetricFamily(
        "dtoss_worker_resident_bytes", "Resident memory of a worker; pages of files and of the fork are shared.",
        labels=["worker"],
    )  # fmt: skip
    for number, part in parts:
        if (size := _resident(part.pid)) is not None:
            resident.add_metric([str(number)], size)
    yield resident
    served = [found for _, part in parts if (found := part.served()) is not None]
    if not served:
        return
    yield _gauge(
        "dtoss_snapshot_age_seconds", "Age of the oldest snapshot that a worker serves.",
        max(time.time() - min(made for _, _, made, _ in served), 0.0),
    )  # fmt: skip
    yield _gauge("dtoss_objects", "Objects of the current snapshot.", max(served, key=lambda one: one[1])[3])
    info = core.GaugeMetricFamily(
        "dtoss_snapshot_info", "Workers that serve a snapshot, by its name.", labels=["snapshot", "version"]
    )
    names = [one[0] for one in served]
    for name in sorted(set(names)):
        info.add_metric([name, dtoss.__version__], names.count(name))
    yield info


def _cumulated(bounds: tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    """Return buckets as Prometheus wants them: each holds all below its bound."""
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(names, accumulate(counts), strict=True))


def _sum(parts: list[WorkerCounts], name: str) -> int:
    return sum(getattr(part, name) for part in parts)


def _gauge(name: str, text: str, value: float) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, text, value)


def _counter(name: str, text: str, value: float) -> Any:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(name, text, value)


def _resident(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None  # it has just ended, or this is no Linux
