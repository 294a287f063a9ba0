"""What Prometheus reads: all workers' numbers, whichever is asked, and none lost or counted twice when one dies."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from bisect import bisect_left
from pathlib import Path

import numpy as np
import pytest

from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.serve.observability.metrics import Metrics, fresh_families
from dtoss.serve.observability.shared_counts import HOT_ROUTES, SECONDS, SIZES, SharedCounts

ROOT = Path(__file__).parents[3]
parser = pytest.importorskip("prometheus_client.parser")


def values(text):
    """The samples of a text by name and labels, each there once."""
    samples = [
        ((sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))), sample.value)
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    assert len(dict(samples)) == len(samples)
    return dict(samples)


def test_latencies_fall_into_the_buckets_that_hold_them():
    """However many are told at a time."""
    counts = SharedCounts(2)
    counts.of(0).hot(1, [9.0] * 7, 70)
    here, rng = counts.of(1), np.random.default_rng(1)
    told = []
    for count in (1, 2, 3, 4, 5, 6, 50, 300):
        for spread in (0.0, 0.1, 3.0):
            seconds = (10.0 ** rng.uniform(-6, 2) * np.exp(rng.normal(0.0, spread, count))).tolist()
            here.hot(1, seconds, 10 * count)
            told += seconds
    told += [*SECONDS, 0.0, 100.0]  # a bound belongs to its bucket
    here.hot(1, [*SECONDS, 0.0, 100.0], 0)
    wanted = [0] * (len(SECONDS) + 1)
    for one in told:
        wanted[bisect_left(SECONDS, one)] += 1
    buckets, total, sent = here.latencies(1)
    assert buckets == wanted
    assert total == pytest.approx(sum(told))
    assert sent == 10 * 3 * (1 + 2 + 3 + 4 + 5 + 6 + 50 + 300)
    for route in (0, 2):
        assert here.latencies(route) == ([0] * len(wanted), 0.0, 0)
    assert sum(counts.of(0).latencies(1)[0]) == 7


def test_sizes_of_calls_and_reads():
    counts = SharedCounts(1)
    here = counts.of(0)
    for size in (1, 2, 3, 512, 513, 100_000):
        here.gathered(size)
    here.read(70, 50)
    assert here.calls() == ([1, 1, 1, *[0] * (len(SIZES) - 4), 1, 2], 1 + 2 + 3 + 512 + 513 + 100_000)
    assert here.reads() == (70, 50)
    assert here.latencies(2) == ([0] * (len(SECONDS) + 1), 0.0, 0)


def test_the_text_of_one_process():
    counts = SharedCounts(3)
    metrics = Metrics(counts, 1)
    metrics.hot(0, [0.00012, 0.3], 800)
    metrics.answered("/knn", 200, 0.3, 1_000)
    metrics.answered("/knn", 200, 0.002, 10)
    metrics.answered("/box", 400, 0.002, 5)
    metrics.gathered(2)
    metrics.read(5, 4)
    for seconds in (0.5, 0.25):
        metrics.swapped(seconds)
        metrics.evaluated(seconds / 2)
    metrics.refused()
    metrics.waiting(7)
    metrics.waiting(3)
    metrics.in_hand(2)
    metrics.in_hand(-1)
    metrics.logged(10, 999)
    metrics.not_logged()
    metrics.not_logged(lost=3)
    metrics.dropped(4)
    metrics.unaudited(5)
    metrics.forwarded("gathered", 3)
    metrics.forwarded("hedged")
    metrics.forwarded_bytes(77)
    metrics.unread_servers(1)
    metrics.streams(3)
    metrics.streams(-1)
    metrics.sent_events(0)
    metrics.sent_events(500)
    metrics.subscribed("added", 7)
    metrics.subscribed("removed", 1)
    metrics.not_subscribed("rights")
    metrics.watch_failed()
    metrics.serves("2026-01-02T03-04-05Z-ab", 17, 1e9, 1_234)
    counts.of(0).end(restarts=True)
    text = metrics.text().decode()
    found = values(text)
    knn = {
        (way, kind): found[f"dtoss_request_seconds_{kind}", "route=/knn", f"way={way}"]
        for way in ("short", "framework") for kind in ("count", "sum")
    }  # fmt: skip
    assert knn == {
        ("short", "count"): 2, ("short", "sum"): 0.30012, ("framework", "count"): 2, ("framework", "sum"): 0.302,
    }  # fmt: skip
    for way, below in (("short", 1), ("framework", 1)):
        assert found["dtoss_request_seconds_bucket", "le=0.25", "route=/knn", f"way={way}"] == below
        assert found["dtoss_request_seconds_bucket", "le=0.5", "route=/knn", f"way={way}"] == 2
        assert found["dtoss_request_seconds_bucket", "le=+Inf", "route=/knn", f"way={way}"] == 2
    requests = {key[1:]: value for key, value in found.items() if key[0] == "dtoss_requests_total" and value}
    assert requests == {
        ("route=/knn", "status=200", "way=short"): 2, ("route=/knn", "status=200", "way=framework"): 2,
        ("route=/box", "status=400", "way=framework"): 1,
    }  # fmt: skip
    assert found["dtoss_answer_bytes_total", "route=/knn", "way=short"] == 800
    assert found["dtoss_answer_bytes_total", "route=/knn", "way=framework"] == 1_010
    plain = {name: value for (name, *labels), value in found.items() if not labels}
    age = plain.pop("dtoss_snapshot_age_seconds")
    assert age > 5e8
    assert plain == {
        "dtoss_gathered_requests_count": 1, "dtoss_gathered_requests_sum": 2,
        "dtoss_partitions_read_count": 4, "dtoss_partitions_read_sum": 5,
        "dtoss_swap_seconds_count": 2, "dtoss_swap_seconds_sum": 0.75,
        "dtoss_condition_seconds_count": 2, "dtoss_condition_seconds_sum": 0.375,
        "dtoss_snapshots_refused_total": 1, "dtoss_servers_unread": 1, "dtoss_pool_waiting": 3,
        "dtoss_requests_in_hand": 1,
        "dtoss_access_log_rows_total": 10, "dtoss_access_log_requests_total": 999,
        "dtoss_access_log_failures_total": 2, "dtoss_access_log_lost_total": 3, "dtoss_log_lines_dropped_total": 4,
        "dtoss_audit_lines_dropped_total": 5,
        "dtoss_forward_bytes_total": 77,
        "dtoss_event_streams": 2, "dtoss_events_sent_total": 500, "dtoss_watch_failures_total": 1,
        "dtoss_objects": 1_234, "dtoss_workers": 1, "dtoss_worker_restarts_total": 1,
    }  # fmt: skip
    forwards = {key[1]: value for key, value in found.items() if key[0] == "dtoss_forwards_total"}
    assert forwards == {"what=gathered": 3, "what=asked": 0, "what=hedged": 1, "what=failed": 0, "what=moved": 0}
    changes = {key[1]: value for key, value in found.items() if key[0] == "dtoss_subscriptions_changed_total"}
    assert changes == {"change=added": 7, "change=changed": 0, "change=removed": 1}
    refusals = {key[1]: value for key, value in found.items() if key[0] == "dtoss_subscriptions_refused_total"}
    assert refusals == {"why=rights": 1, "why=rows": 0}
    ((info, value),) = [one for one in found.items() if one[0][0] == "dtoss_snapshot_info"]
    assert (info[1], value) == ("snapshot=2026-01-02T03-04-05Z-ab", 1)
    assert found["dtoss_worker_resident_bytes", "worker=1"] > 1e6
    helped = re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE)
    assert all(name.startswith("dtoss_") and sentence.endswith(".") for name, sentence in helped)
    assert len(helped) == len({name for name, _ in helped}) == len(re.findall("^# TYPE", text, re.MULTILINE))
    assert HOT_ROUTES == ("/knn", "/range", "/objects/{object_id}", "/windows")


def test_threads_lose_no_reads():
    """Bulk questions are answered in several threads at once."""
    counts = SharedCounts(1)
    metrics = Metrics(counts)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [metrics.read(2, 1) for _ in range(5_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert counts.of(0).reads() == (40_000, 20_000)


def test_what_is_served_is_told_whole_or_not_at_all():
    here = SharedCounts(1).of(0)
    assert here.served() is None
    here.serve("one", 1, 1.5, 10)
    here.serve("another, and longer " + "x" * 200, 2, 2.5, 20)
    assert here.served() == (("another, and longer " + "x" * 200)[:128], 2, 2.5, 20)
    here.serve("three", 3, 3.5, 30)
    assert here.served() == ("three", 3, 3.5, 30)
    here._words[-20] |= 1  # as one leaves it that dies while it writes
    assert here.served() is None
    here.serve("four", 4, 4.5, 40)
    assert here.served() == ("four", 4, 4.5, 40)


SERVER = """
import os, signal, sys, time
from dtoss.serve.observability.metrics import Metrics, forget, prepare
folder = prepare(sys.argv[1])
from dtoss.serve.observability.shared_counts import SharedCounts
counts = SharedCounts(2)

def worker(number, times, snapshot):
    ready, told = os.pipe()
    pid = os.fork()
    if pid:
        os.read(ready, 1)
        return pid
    metrics = Metrics(counts, number, folder)
    for _ in range(times):
        metrics.hot(0, [0.001, 0.002], 10)
        metrics.answered("/box", 200, 0.01, 7)
    metrics.gathered(times)
    metrics.waiting(times)
    metrics.in_hand(times)
    metrics.serves(snapshot, times, time.time() - times, 100 * times)
    if number == 1:
        sys.stdout.write(metrics.text().decode() + "=====")
        sys.stdout.flush()
    os.write(told, b"x")
    signal.pause()

def kill(number, pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    counts.of(number).end(restarts=True)
    forget(pid, folder)

first, second = worker(0, 1, "old"), worker(1, 20, "new")
kill(0, first)
kill(1, second)
third, fourth = worker(0, 300, "new"), worker(1, 4000, "new")
kill(0, third)
kill(1, fourth)
"""


def test_each_worker_shows_all_also_what_dead_ones_have_counted(tmp_path):
    """A scrape while two run, and one after both were killed and others took their places."""
    folder = tmp_path / "numbers"
    folder.mkdir()
    (folder / "counter_1.db").write_bytes(b"of an earlier server")
    run = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SERVER, str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True)
    early, late, nothing = done.stdout.split("=====")
    assert nothing == ""
    for text, counted, running in ((early, 21, (1, 20)), (late, 4321, (300, 4000))):
        found = values(text)
        assert found["dtoss_requests_total", "route=/knn", "status=200", "way=short"] == 2 * counted
        assert found["dtoss_requests_total", "route=/box", "status=200", "way=framework"] == counted
        assert found["dtoss_request_seconds_count", "route=/box", "way=framework"] == counted
        assert found["dtoss_request_seconds_sum", "route=/knn", "way=short"] == pytest.approx(0.003 * counted)
        assert found["dtoss_answer_bytes_total", "route=/box", "way=framework"] == 7 * counted
        plain = {name: value for (name, *labels), value in found.items() if not labels}
        assert plain["dtoss_gathered_requests_sum"] == counted
        assert plain["dtoss_requests_in_hand"] == plain["dtoss_pool_waiting"] == sum(running)
        assert plain["dtoss_snapshot_age_seconds"] == pytest.approx(max(running), abs=20)
        assert plain["dtoss_objects"] == 100 * max(running)
        assert plain["dtoss_workers"] == 2
        assert plain["dtoss_worker_restarts_total"] == (0 if text is early else 2)
        names = {key[1]: value for key, value in found.items() if key[0] == "dtoss_snapshot_info"}
        assert names == ({"snapshot=old": 1, "snapshot=new": 1} if text is early else {"snapshot=new": 2})


def test_what_is_told_of_generations_stands_in_the_document():
    """Each of its families, and nothing else; what was counted, and how old the newest one is."""
    counts = FreshCounts()
    for _ in range(2):
        counts.begin()
    counts.add_acknowledged(5, 5)
    counts.add_refused(3)
    counts.add_unusable(2)
    counts.add_generation(4, 1, 0.5)
    counts.add_generation(5, 2, 0.25)
    found = {sample.name: sample.value for family in fresh_families(counts) for sample in family.samples}
    assert 0 <= found.pop("dtoss_fresh_generation_age_seconds") < 60
    assert found == {
        "dtoss_fresh_rows_acknowledged_total": 5, "dtoss_fresh_rows_busy_total": 3, "dtoss_fresh_hand_overs_total": 1,
        "dtoss_fresh_rows_unusable_total": 2, "dtoss_fresh_bases_refused_total": 0,
        "dtoss_fresh_builder_restarts_total": 1, "dtoss_fresh_builds": 1, "dtoss_fresh_log_seq": 5,
        "dtoss_fresh_seq": 5, "dtoss_fresh_base_commit": 2, "dtoss_fresh_rows_unseen": 0,
        "dtoss_fresh_generation_seconds_count": 2, "dtoss_fresh_generation_seconds_sum": 0.75,
    }  # fmt: skip
    metrics = Metrics(SharedCounts(1), fresh=True)
    metrics.seen([0.0, 1.0])
    told = values(metrics.text().decode())
    assert told["dtoss_fresh_lag_seconds_count",] == 2
    text = (ROOT / "docs" / "fresh.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`dtoss_[^|]*) \|", text, re.MULTILINE)
    names = {re.sub(r"_(count|sum)$", "", name) for name in found}
    assert set(re.findall(r"dtoss_\w+", " ".join(rows))) == {
        *names, "dtoss_fresh_lag_seconds", "dtoss_fresh_generation_age_seconds"
    }  # fmt: skip
