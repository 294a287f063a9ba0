"""What Prometheus is told of a server's builder: whichever worker is asked, the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from dtoss.fresh.fresh_counts import FreshCounts


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
