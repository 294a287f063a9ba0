"""What Prometheus is told of a server: all workers' numbers, whichever of them is asked.

The text that Prometheus reads: what the client holds of every process, and what workers share.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dtoss
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.serve.observability.shared_counts import HOT_ROUTES, SECONDS, SIZES, SharedCounts, WorkerCounts

if TYPE_CHECKING:  # the client looks for its folder when it is loaded
    from prometheus_client import Counter, Metric, Summary

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder where the client keeps the numbers of each process."""
SUBSCRIPTION_CHANGES = ("added", "changed", "removed")
"""What may be done with a subscription."""
FORWARDS = ("gathered", "asked", "hedged", "failed", "moved")
"""What becomes of questions to other servers."""
LAGS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the buckets of seconds until rows are found."""
REFUSALS = ("rights", "rows")
"""Why a change of subscriptions is refused: who asks may not, or some of the rows are bad."""


def prepare(folder: str | None = None) -> str:
    """Return the folder of the client's numbers, made and emptied, and load the client, which looks for it only then.

    To be called by the parent, before anything loads the client and before the fork.

    ``folder``: its path; a fresh one among the temporary files when None.
    """
    folder = folder or tempfile.mkdtemp(prefix="dtoss-metrics-")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for file in Path(folder).glob("*.db"):
        file.unlink()
    os.environ[FOLDER] = folder
    import prometheus_client  # noqa: F401

    return folder


def forget(pid: int, folder: str | None) -> None:
    """Take the gauges of a process that died out of the sums; what it counted stays."""
    if folder is not None:
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


class Metrics:
    """The numbers of one worker, and the text of all.

    ``folder``: as :func:`prepare` returned it; None keeps the client's numbers in this process; ``fresh``: whether it
    answers from generations.
    """

    def __init__(self, counts: SharedCounts, worker: int = 0, folder: str | None = None, fresh: bool = False) -> None:
        import prometheus_client as prometheus

        self._here = counts.of(worker)
        self._here.begin(os.getpid())
        self.hot = self._here.hot
        self.gathered = self._here.gathered
        self.read = self._here.read
        self.in_hand = self._here.in_hand
        self.serves = self._here.serve
        registry = prometheus.CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return prometheus.Counter(f"dtoss_{name}", text, labels, registry=registry)

        def summary(name: str, text: str) -> Summary:
            return prometheus.Summary(f"dtoss_{name}", text, registry=registry)

        self._requests = counter("requests", "Requests that were answered.", "route", "status", "way")
        self._seconds = prometheus.Histogram(
            "dtoss_request_seconds", "Seconds from the header of a request to the end of its answer.",
            ["route", "way"], buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._bytes = counter("answer_bytes", "Bytes of the bodies of answers.", "route", "way")
        swaps = summary("swap_seconds", "Seconds of swaps, from the news of a commit to the first answer.")
        self.swapped = swaps.observe
        self._lag = None if not fresh else prometheus.Histogram(
            "dtoss_fresh_lag_seconds", "Seconds from the acknowledgement of rows to the first answer that holds them.",
            buckets=LAGS, registry=registry,
        )  # fmt: skip
        self.refused = counter("snapshots_refused", "Snapshots that were not served because they failed a check.").inc
        self.waiting = prometheus.Gauge(
            "dtoss_pool_waiting", "Requests that wait for a thread.", registry=registry, multiprocess_mode="livesum"
        ).set
        self.evaluated = summary("condition_seconds", "Seconds of evaluating a new condition.").observe
        self._kept = counter("access_log_rows", "Rows of the access log that were written.")
        self._stood_for = counter("access_log_requests", "Requests that the written rows of the access log stand for.")
        self._failures = counter("access_log_failures", "Attempts to write a file of the access log that failed.")
        self._lost = counter("access_log_lost", "Requests that are in no file of the access log, after long failures.")
        self.streams = prometheus.Gauge(
            "dtoss_event_streams", "Streams of events of the watch that are open.", registry=registry,
            multiprocess_mode="livesum",
        ).inc  # fmt: skip
        self.sent_events = counter("events_sent", "Events of the watch that were sent, by streams and pages.").inc
        changes = counter("subscriptions_changed", "Subscriptions that were changed by requests.", "change")
        self._changed = {change: changes.labels(change).inc for change in SUBSCRIPTION_CHANGES}
        refusals = counter("subscriptions_refused", "Requests to change subscriptions that were refused.", "why")
        self._refusals = {why: refusals.labels(why).inc for why in REFUSALS}
        self.watch_failed = counter("watch_failures", "Attempts to read or change the watch that failed.").inc
        forwards = counter(
            "forwards", "Questions to other servers of the plan, and what became of them: in messages of one turn "
            "(gathered) or by themselves (asked), asked again of a copy (hedged), unanswered (failed), or of "
            "partitions that had moved (moved).", "what",
        )  # fmt: skip
        self.forwarded_bytes = counter("forward_bytes", "Bytes of questions to other servers and of their answers.").inc
        self.unread_servers = prometheus.Gauge(
            "dtoss_servers_unread", "Other servers of the plan whose messages have a version that is not read here.",
            registry=registry, multiprocess_mode="livemax",
        ).set  # fmt: skip
        self._forwards = {what: forwards.labels(what).inc for what in FORWARDS}
        self.dropped = counter("log_lines_dropped", "Lines that the log had no room for, or could not be written.").inc
        self.unaudited = counter("audit_lines_dropped", "Lines that the audit had no room for, or could not write.").inc
        self._exposition = Exposition(counts, registry, folder)
        self._known: dict[tuple[str, int], tuple[Callable[[], None], Callable[[float], None], Callable[..., None]]] = {}

    def answered(self, route: str, status: int, seconds: float, bytes: int) -> None:
        """Count an answer of the framework's way."""
        known = self._known.get((route, status))
        if known is None:
            known = self._known[route, status] = (
                self._requests.labels(route, str(status), "framework").inc,
                self._seconds.labels(route, "framework").observe,
                self._bytes.labels(route, "framework").inc,
            )
        count, observe, add = known
        count()
        observe(seconds)
        add(bytes)

    def seen(self, moments: Iterable[float]) -> None:
        """Count groups of rows that answers hold from now on, by when they were acknowledged, seconds since 1970."""
        now = time.time()
        for moment in moments:
            if self._lag is not None:
                self._lag.observe(max(now - moment, 0.0))

    def logged(self, rows: int, requests: int) -> None:
        """Count rows of the access log that were written, and the requests that they stand for."""
        self._kept.inc(rows)
        self._stood_for.inc(requests)

    def not_logged(self, lost: int = 0) -> None:
        """Count a file of the access log that could not be written, and requests that are lost by it."""
        self._failures.inc()
        self._lost.inc(lost)

    def subscribed(self, change: str, subscriptions: int) -> None:
        """Count subscriptions that have changed."""
        self._changed[change](subscriptions)

    def not_subscribed(self, why: str) -> None:
        """Count a change of subscriptions that was refused, one of :data:`REFUSALS`."""
        self._refusals[why]()

    def forwarded(self, what: str, requests: int = 1) -> None:
        """Count questions to other servers, one of :data:`FORWARDS`."""
        self._forwards[what](requests)

    def also(self, families: Callable[[], Iterable[Any]]) -> None:
        """Have families put into each text that are true of the whole server, whichever worker is asked."""
        self._exposition.others.append(families)

    def text(self) -> bytes:
        """Return the numbers of all workers as Prometheus reads them."""
        return self._exposition.text()


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
        for family in _shared_metrics(self._counts.all()):
            if family.name in families:
                families[family.name].samples += family.samples
            else:
                families[family.name] = family
        yield from families.values()
        for others in self.others:
            yield from others()


def _shared_metrics(parts: list[WorkerCounts]) -> Iterator[Any]:
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
        seconds.add_metric([route, "short"], _cumulate(SECONDS, buckets), sum(one[1] for one in found))
        sent.add_metric([route, "short"], sum(one[2] for one in found))
    yield from (requests, seconds, sent)
    calls = [part.calls() for part in parts]
    sizes = list(map(sum, zip(*(one[0] for one in calls), strict=True)))
    yield core.HistogramMetricFamily(
        "dtoss_gathered_requests", "Requests of one turn of the loop that were answered together.",
        buckets=_cumulate(SIZES, sizes), sum_value=sum(one[1] for one in calls),
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


def _cumulate(bounds: tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    """Return buckets as Prometheus wants them: each holds all below its bound."""
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(names, accumulate(counts), strict=True))


def _sum(parts: list[WorkerCounts], name: str) -> int:
    return sum(getattr(part, name) for part in parts)


def _gauge(name: str, text: str, value: float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, text, value)


def _counter(name: str, text: str, value: float) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(name, text, value)


def _resident(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None  # it has just ended, or this is no Linux


def fresh_families(counts: FreshCounts) -> Iterator[Any]:
    """Yield the families of metrics of a builder."""
    from prometheus_client import core

    of = counts.of
    for name, text, field in (
        ("rows_acknowledged", "Rows that were taken and are durable.", "acknowledged"),
        ("rows_busy", "Rows that were refused, as too many waited.", "refused"),
        ("rows_unusable", "Rows of the log that no generation holds, as a cycle sets them aside.", "unusable"),
        ("hand_overs", "Snapshots that took the place of one upon which generations stood.", "hand_overs"),
        ("bases_refused", "Snapshots upon which no generation could be made.", "not_taken"),
    ):
        yield core.CounterMetricFamily(f"dtoss_fresh_{name}", text, of(field))
    yield core.CounterMetricFamily(
        "dtoss_fresh_builder_restarts", "Builders that took the place of one that died.", max(of("begun") - 1, 0)
    )
    for name, text, value in (
        ("builds", "Whether this server makes the generations: 1 of one server.", of("builds")),
        ("log_seq", "Sequence number of the last row of the log.", of("seq")),
        ("seq", "Sequence number up to which the newest generation holds all rows.", of("seen")),
        ("base_commit", "Commit of the store upon which it stands.", of("commit")),
        ("rows_unseen", "Rows of the log that are in no generation yet.", counts.unseen),
        ("generation_age_seconds", "Age of the newest generation.", max(time.time() - of("made") / 1e6, 0.0)),
    ):
        yield core.GaugeMetricFamily(f"dtoss_fresh_{name}", text, value)
    yield core.SummaryMetricFamily(
        "dtoss_fresh_generation_seconds", "Seconds that generations took to make.",
        count_value=of("generations"), sum_value=of("microseconds") / 1e6,
    )  # fmt: skip
