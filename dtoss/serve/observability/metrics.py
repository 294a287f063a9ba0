"""What Prometheus is told of a server: all workers' numbers, whichever of them is asked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dtoss.serve.observability.exposition import Exposition
from dtoss.serve.observability.shared_counts import SECONDS, SharedCounts

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder where the client keeps the numbers of each process."""

SUBSCRIPTION_CHANGES = ("added", "changed", "removed")
"""What may be done with a subscription."""
FORWARDS = ("gathered", "asked", "hedged", "failed", "moved")
"""What becomes of questions to other servers."""
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

    ``folder``: as :func:`prepare` returned it; None keeps the client's numbers in this process.
    """

    def __init__(self, counts: SharedCounts, worker: int = 0, folder: str | None = None) -> None:
        import prometheus_client as prometheus

        self._here = counts.of(worker)
        self._here.begin(os.getpid())
        self.hot = self._here.hot
        self.gathered = self._here.gathered
        self.read = self._here.read
        self.in_hand = self._here.in_hand
        self.serves = self._here.serve
        registry = prometheus.CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Any:
            return prometheus.Counter(f"dtoss_{name}", text, labels, registry=registry)

        def summary(name: str, text: str) -> Any:
            return prometheus.Summary(f"dtoss_{name}", text, registry=registry)

        self._requests = counter("requests", "Requests that were answered.", "route", "status", "way")
        self._seconds = prometheus.Histogram(
            "dtoss_request_seconds", "Seconds from the header of a request to the end of its answer.",
            ["route", "way"], buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._bytes = counter("answer_bytes", "Bytes of the bodies of answers.", "route", "way")
        self._swaps = summary("swap_seconds", "Seconds of swaps, from the news of a commit to the first answer.")
        self._refused = counter("snapshots_refused", "Snapshots that were not served because they failed a check.")
        self._waiting = prometheus.Gauge(
            "dtoss_pool_waiting", "Requests that wait for a thread.", registry=registry, multiprocess_mode="livesum"
        )
        self._evaluated = summary("condition_seconds", "Seconds of evaluating a new condition.")
        self._kept = counter("access_log_rows", "Rows of the access log that were written.")
        self._stood_for = counter("access_log_requests", "Requests that the written rows of the access log stand for.")
        self._failures = counter("access_log_failures", "Attempts to write a file of the access log that failed.")
        self._lost = counter("access_log_lost", "Requests that are in no file of the access log, after long failures.")
        self._streams = prometheus.Gauge(
            "dtoss_event_streams", "Streams of events of the watch that are open.", registry=registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        self._sent = counter("events_sent", "Events of the watch that were sent, by streams and pages.")
        changes = counter("subscriptions_changed", "Subscriptions that were changed by requests.", "change")
        self._changed = {change: changes.labels(change).inc for change in SUBSCRIPTION_CHANGES}
        refusals = counter("subscriptions_refused", "Requests to change subscriptions that were refused.", "why")
        self._refusals = {why: refusals.labels(why).inc for why in REFUSALS}
        self._watch_failures = counter("watch_failures", "Attempts to read or change the watch that failed.")
        forwards = counter(
            "forwards", "Questions to other servers of the plan, and what became of them: in messages of one turn "
            "(gathered) or by themselves (asked), asked again of a copy (hedged), unanswered (failed), or of "
            "partitions that had moved (moved).", "what",
        )  # fmt: skip
        self._forward_bytes = counter("forward_bytes", "Bytes of questions to other servers and of their answers.")
        self._unread = prometheus.Gauge(
            "dtoss_servers_unread", "Other servers of the plan whose messages have a version that is not read here.",
            registry=registry, multiprocess_mode="livemax",
        )  # fmt: skip
        self._forwards = {what: forwards.labels(what).inc for what in FORWARDS}
        self._dropped = counter("log_lines_dropped", "Lines that the log had no room for, or could not be written.")
        self._unaudited = counter("audit_lines_dropped", "Lines that the audit had no room for, or could not write.")
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

    def swapped(self, seconds: float) -> None:
        """Count a swap."""
        self._swaps.observe(seconds)

    def refused(self) -> None:
        """Count a snapshot that was refused."""
        self._refused.inc()

    def waiting(self, requests: int) -> None:
        """Say how many requests wait for a thread of this worker's pool."""
        self._waiting.set(requests)

    def evaluated(self, seconds: float) -> None:
        """Count a condition that was evaluated."""
        self._evaluated.observe(seconds)

    def logged(self, rows: int, requests: int) -> None:
        """Count rows of the access log that were written, and the requests that they stand for."""
        self._kept.inc(rows)
        self._stood_for.inc(requests)

    def not_logged(self, lost: int = 0) -> None:
        """Count a file of the access log that could not be written, and requests that are lost by it."""
        self._failures.inc()
        self._lost.inc(lost)

    def streams(self, change: int) -> None:
        """Say how many more streams of events are open."""
        self._streams.inc(change)

    def sent_events(self, events: int) -> None:
        """Count events that were sent."""
        if events:
            self._sent.inc(events)

    def subscribed(self, change: str, subscriptions: int) -> None:
        """Count subscriptions that have changed."""
        self._changed[change](subscriptions)

    def not_subscribed(self, why: str) -> None:
        """Count a change of subscriptions that was refused, one of :data:`REFUSALS`."""
        self._refusals[why]()

    def watch_failed(self) -> None:
        """Count an attempt to read or change the watch that failed."""
        self._watch_failures.inc()

    def forwarded(self, what: str, requests: int = 1) -> None:
        """Count questions to other servers, one of :data:`FORWARDS`."""
        self._forwards[what](requests)

    def forwarded_bytes(self, size: int) -> None:
        """Count the bytes of a question to another server and of its answer."""
        self._forward_bytes.inc(size)

    def unread_servers(self, count: int) -> None:
        """Say how many other servers there are whose messages are not read here."""
        self._unread.set(count)

    def dropped(self, lines: int = 1) -> None:
        """Count lines that the log has dropped."""
        self._dropped.inc(lines)

    def unaudited(self, lines: int = 1) -> None:
        """Count lines that the audit has dropped."""
        self._unaudited.inc(lines)

    def also(self, families: Callable[[], Iterable[Any]]) -> None:
        """Have families put into each text that are true of the whole server, whichever worker is asked."""
        self._exposition.others.append(families)

    def text(self) -> bytes:
        """Return the numbers of all workers as Prometheus reads them."""
        return self._exposition.text()
