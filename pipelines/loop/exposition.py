"""Numbers of a command that goes on, as Prometheus reads them: on a port, in a file, both or nowhere."""

from __future__ import annotations

import re
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
