"""What a command that goes on tells: numbers as Prometheus reads them, on a port, in a file, or nowhere."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dtoss.errors import InputError
from dtoss.option import Option

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Numbers:
    """Where numbers are shown."""

    title: ClassVar[str] = "Numbers"
    metrics: Annotated[
        str | None, Option("Where Prometheus finds numbers: a port of 127.0.0.1, or HOST:PORT.", "PLACE")
    ] = None
    metrics_file: Annotated[str | None, Option("File for the same numbers.", "FILE")] = None


class Exposition:
    """What is shown of a registry.

    ``place``: where to serve it: a port of 127.0.0.1, 0 for a free one, or ``HOST:PORT``; None serves nothing;
    ``file``: what :meth:`write` writes; None writes nothing.
    """

    def __init__(self, place: str | None = None, file: str | None = None) -> None:
        self._file = file
        self.port: int | None = None
        self._server: Any = None
        self.registry: Any = None  # None where nobody wants any number
        if place is None and file is None:
            return
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise InputError("metrics need prometheus-client: pip install 'dtoss[serve]'") from None
        self.registry = prometheus.CollectorRegistry()
        if place is not None:
            self._serve(prometheus, place)

    def show(
        self,
        name: str,
        facts: Callable[[], Mapping[str, float]],
        counts: Mapping[str, str],
        gauges: Mapping[str, str],
    ) -> None:
        """Show facts as they are whenever they are read: ``dtoss_NAME_FACT_total`` and ``dtoss_NAME_FACT``.

        ``counts``: what each that only grows means; ``gauges``: the same of others.
        """
        if self.registry is None:
            return
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        class Facts:
            def collect(self) -> Iterator[Any]:
                now = facts()
                for family, texts in ((CounterMetricFamily, counts), (GaugeMetricFamily, gauges)):
                    for fact, text in texts.items():
                        yield family(f"dtoss_{name}_{fact}", text, value=now[fact])

        self.registry.register(Facts())

    def _serve(self, prometheus: Any, place: str) -> None:
        host, _, port = place.rpartition(":")
        host = host.strip("[]") or LOOPBACK
        if not re.fullmatch("[0-9]{1,5}", port):
            raise InputError(f"metrics are served on PORT or HOST:PORT, such as 9108 or 0.0.0.0:9108, not on {place!r}")
        try:
            self._server, _ = prometheus.start_http_server(int(port), addr=host, registry=self.registry)
        except (OSError, OverflowError) as error:
            raise InputError(f"metrics cannot be served on port {port} of {host}: {error}") from None
        self.port = self._server.server_port

    def close(self) -> None:
        """Write the file once more, and serve no longer."""
        self.write()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def write(self) -> None:
        """Write the file, whole."""
        if self._file is None:
            return
        from prometheus_client import write_to_textfile

        try:
            write_to_textfile(self._file, self.registry)
        except OSError as error:
            raise InputError(f"metrics cannot be written to {self._file}: {error.strerror or error}") from None


COUNTED = {
    "updated": "Objects that an update has changed or made.",
    "added": "Objects that an update has made.",
    "late": "Rows that were older than what stood.",
    "too_late": "Rows of ids that do not stand, older than what is remembered of deletions.",
    "outdated": "Rows that were too old to stay when they came.",
    "unchanged": "Rows that were what stood already.",
    "deleted": "Objects that were deleted.",
    "expired": "Objects that were dropped because of their age.",
}
"""Fields of a manifest's ``cycle`` that are summed up."""


class Metrics:
    """Numbers of a loop, shown at a place, in a file, both or nowhere, as by :class:`Exposition`.

    The file is written whole after every change.
    """

    def __init__(self, place: str | None = None, file: str | None = None) -> None:
        self.shown = Exposition(place, file)
        registry = self._registry = self.shown.registry
        if registry is None:
            return
        import prometheus_client as prometheus

        def gauge(name: str, text: str, *labels: str) -> Any:
            return prometheus.Gauge(f"dtoss_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Any:
            return prometheus.Counter(f"dtoss_{name}", text, labels, registry=registry)

        self._cycles = counter("cycles", "Cycles that became current.")
        self._failures = counter("cycle_failures", "Cycles that failed.")
        self._in_a_row = gauge("cycle_failures_in_a_row", "Cycles that failed since the last one that did not.")
        self._skipped = counter("beats_skipped", "Beats at which nothing had changed.")
        self._sessions = counter("spark_sessions", "Sessions of Spark that were started.")
        self._seconds = prometheus.Summary(
            "dtoss_cycle_seconds", "Wall seconds of cycles, by stage.", ["stage"], registry=registry
        )
        self._last = gauge("last_cycle_seconds", "Wall seconds of the last cycle, by stage.", "stage")
        self._counts = {name: counter(name, text) for name, text in COUNTED.items()}
        self._quarantined = counter("quarantined", "Rows that were set aside, by reason.", "reason")
        self._forgotten = counter("forgotten", "Rows that were dropped, as those of whom they are were forgotten.")
        self._objects = gauge("objects", "Objects of the current snapshot.")
        self._partitions = gauge("partitions", "Partitions of the current snapshot.")
        self._linked = gauge("partitions_linked", "Partitions of the current snapshot that were linked, not built.")
        self._kept = gauge("pivots_kept", "1 where the current snapshot has the pivots of the one before, else 0.")
        self._largest = gauge("partition_largest_to_mean", "Objects of the largest partition, over the mean.")
        self._bytes = gauge("snapshot_bytes", "Bytes of the current snapshot's files.")
        self._staleness = gauge(
            "staleness_seconds", "Age of the oldest update of the last cycle, since it arrived, when it became current."
        )
        self._current = gauge("current_timestamp_seconds", "When the last snapshot became current, in Unix time.")
        self._waiting = gauge("files_waiting", "Files that have arrived and are not whole yet.")
        self._gone = counter("files_done", "Files that were deleted or moved after they were read.")
        self._refused = counter("files_refused", "Files that could not be read as the others are, and were set aside.")
        self.shown.write()

    def committed(self, manifest: Mapping[str, Any], staleness: float | None) -> None:
        """Take over what the manifest of a new snapshot says.

        ``staleness``: seconds from the arrival of its oldest update to now; None where it had none.
        """
        if self._registry is None:
            return
        self._cycles.inc()
        self._in_a_row.set(0)
        self._last.clear()
        for stage, seconds in manifest["timings"].items():
            self._seconds.labels(stage).observe(seconds)
            self._last.labels(stage).set(seconds)
        cycle = manifest.get("cycle") or {}
        for name, count in self._counts.items():
            count.inc(cycle.get(name) or 0)
        for reason, rows in manifest["counts"]["quarantined"].items():
            self._quarantined.labels(reason).inc(rows)
        self._forgotten.inc(manifest["counts"].get("forgotten", 0))
        sizes = [entry["objects"] for entry in manifest["partitions"]]
        self._objects.set(manifest["objects"])
        self._partitions.set(len(sizes))
        self._linked.set(cycle.get("linked") or 0)
        self._kept.set(cycle.get("pivots") == "kept")
        self._largest.set(max(sizes) * len(sizes) / max(sum(sizes), 1))
        self._bytes.set(manifest["bytes"])
        self._current.set(time.time())
        if staleness is not None:
            self._staleness.set(staleness)

    def failed(self, in_a_row: int) -> None:
        """Count a cycle that failed."""
        if self._registry is not None:
            self._failures.inc()
            self._in_a_row.set(in_a_row)

    def skipped(self) -> None:
        """Count a beat at which nothing had changed."""
        if self._registry is not None:
            self._skipped.inc()

    def started(self) -> None:
        """Count a session of Spark."""
        if self._registry is not None:
            self._sessions.inc()

    def files(self, waiting: int | None = None, gone: int = 0, refused: int = 0) -> None:
        """Say how many files wait, and count those that have gone, and those that were refused."""
        if self._registry is not None:
            if waiting is not None:
                self._waiting.set(waiting)
            self._gone.inc(gone)
            self._refused.inc(refused)
