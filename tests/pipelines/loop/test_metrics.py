"""What a loop tells: text that Prometheus reads, on a port of this machine or in a file."""

from __future__ import annotations

import sys
import urllib.request

import pytest

from dtoss.errors import InputError
from pipelines.loop.exposition import Metrics

parser = pytest.importorskip("prometheus_client.parser")

MANIFEST = {
    "timings": {"merge": 1.5, "build": 2.25},
    "cycle": {
        "updated": 10, "added": 9, "outdated": 8,
        "late": 2, "too_late": 1, "unchanged": 3, "deleted": 4, "expired": 5, "linked": 6, "built": 2,
        "pivots": "kept", "why": "",
    },
    "counts": {"quarantined": {"no id": 7, "no time": 8}, "forgotten": 2},
    "partitions": [{"objects": 30}, {"objects": 10}],
    "objects": 40,
    "bytes": 12345,
}  # fmt: skip


def values(text):
    """The samples of a text, by name and labels, without what the library adds."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_all_numbers_of_cycles(tmp_path):
    file = tmp_path / "dtoss.prom"
    metrics = Metrics(file=str(file))
    metrics.failed(1)
    metrics.failed(2)
    metrics.skipped()
    metrics.started()
    for staleness in (9.0, 12.5, None):
        metrics.committed(MANIFEST, staleness)
    metrics.files(waiting=3, gone=2)
    metrics.files(gone=2)
    metrics.files(refused=3)
    metrics.shown.write()
    found = values(file.read_text())
    moment = found.pop(("dtoss_current_timestamp_seconds",))
    assert moment > 1.7e9
    assert found == {
        ("dtoss_cycles_total",): 3, ("dtoss_cycle_failures_total",): 2, ("dtoss_cycle_failures_in_a_row",): 0,
        ("dtoss_beats_skipped_total",): 1, ("dtoss_spark_sessions_total",): 1,
        ("dtoss_cycle_seconds_count", "merge"): 3, ("dtoss_cycle_seconds_sum", "merge"): 4.5,
        ("dtoss_cycle_seconds_count", "build"): 3, ("dtoss_cycle_seconds_sum", "build"): 6.75,
        ("dtoss_last_cycle_seconds", "merge"): 1.5, ("dtoss_last_cycle_seconds", "build"): 2.25,
        ("dtoss_updated_total",): 30, ("dtoss_added_total",): 27, ("dtoss_outdated_total",): 24,
        ("dtoss_late_total",): 6, ("dtoss_too_late_total",): 3,
        ("dtoss_unchanged_total",): 9, ("dtoss_deleted_total",): 12, ("dtoss_expired_total",): 15,
        ("dtoss_quarantined_total", "no id"): 21, ("dtoss_quarantined_total", "no time"): 24,
        ("dtoss_objects",): 40, ("dtoss_partitions",): 2, ("dtoss_partitions_linked",): 6, ("dtoss_pivots_kept",): 1,
        ("dtoss_partition_largest_to_mean",): 1.5, ("dtoss_snapshot_bytes",): 12345,
        ("dtoss_staleness_seconds",): 12.5, ("dtoss_files_waiting",): 3, ("dtoss_files_done_total",): 4,
        ("dtoss_files_refused_total",): 3, ("dtoss_forgotten_total",): 6,
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == [file]


def test_a_full_build_and_an_empty_store(tmp_path):
    file = tmp_path / "dtoss.prom"
    metrics = Metrics(file=str(file))
    metrics.committed({**MANIFEST, "cycle": None, "objects": 0, "partitions": [{"objects": 0}] * 2}, None)
    metrics.shown.write()
    found = values(file.read_text())
    assert found["dtoss_pivots_kept",] == 0
    assert found["dtoss_updated_total",] == 0
    assert found["dtoss_partition_largest_to_mean",] == 0


def test_the_port_is_one_of_this_machine():
    metrics = Metrics("0")
    try:
        metrics.committed(MANIFEST, 1.0)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{metrics.shown.port}/metrics", timeout=120) as answer:
            assert values(answer.read().decode())["dtoss_objects",] == 40
        with pytest.raises(InputError, match=rf"cannot be served on port {metrics.shown.port} of 127\.0\.0\.1"):
            Metrics(str(metrics.shown.port))
    finally:
        metrics.shown.close()


def test_nothing_is_loaded_where_nobody_asks(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    metrics = Metrics()
    metrics.committed(MANIFEST, 1.0)
    metrics.failed(1)
    metrics.skipped()
    metrics.started()
    metrics.files(1, 1)
    metrics.shown.write()
    metrics.shown.close()
    with pytest.raises(InputError, match=r"pip install 'dtoss\[serve\]'"):
        Metrics("0")


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match=r"metrics cannot be written to .*: No such file or directory"):
        Metrics(file=str(tmp_path / "nowhere" / "dtoss.prom"))
