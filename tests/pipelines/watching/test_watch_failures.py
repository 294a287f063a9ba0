"""Batches that fail: tried again, three times in a row; Spark is started anew where that may help."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pipelines.loop.arriving_batches
from dtoss.commits.lease import held_by
from dtoss.watch.watch_folder import Home
from pipelines.loop.arriving_batches import BatchesFailed
from pipelines.watch import watch_files
from tests.dtoss.watch.streams import BEGIN, change, circle
from tests.pipelines.watching.arrivals import arrive

ROOT = Path(__file__).parents[3]
ROW = {"id": 1, "t": BEGIN, "x": 0.0, "y": 0.0, "attributes": {}}


def failing(monkeypatch, tmp_path, fails, patient=True):
    """Watch five files, of which batches fail as ``fails`` says, without Spark; return what was done and told."""
    tmp_path.mkdir(exist_ok=True)
    change(Home(str(tmp_path / "store")), [circle("a", 0.0, 0.0, 1.0)])
    for number in range(5):
        arrive(tmp_path / "in", f"part{number}", [ROW])
    told, waits = [], iter(fails)
    read: set[str] = set()
    real = pipelines.loop.arriving_batches.taken_files

    def batch(loop, found, files):
        error = next(waits, None)
        if error is not None:
            raise error
        read.update(files)
        told.append("batch")
        return True

    monkeypatch.setattr(pipelines.loop.arriving_batches, "_batch", batch)
    monkeypatch.setattr(
        pipelines.loop.arriving_batches,
        "taken_files",
        lambda *rest: [one for one in real(*rest) if not read >= set(one)],
    )
    monkeypatch.setattr(pipelines.loop.arriving_batches, "RETRIED_AFTER", (0.0, 0.0))
    watch_files(
        str(tmp_path / "in"), str(tmp_path / "store"), lambda: None, once=True, patient=patient, most_rows=1,
        warn=told.append, renew=lambda: told.append("renewed"),
    )  # fmt: skip
    return told


def test_failures_that_are_not_in_a_row_end_nothing(monkeypatch, tmp_path):
    """A batch that succeeds ends the row; a disk that is full once is no reason to start Spark anew."""
    full = OSError(28, "No space left on device")
    told = failing(monkeypatch, tmp_path, [full, None, full, None, full, None, full])
    assert told.count("batch") == 5
    assert "renewed" not in told
    assert len([one for one in told if "a batch has failed: OSError: [Errno 28]" in one]) == 4


def test_spark_that_fails_twice_for_no_known_reason_is_started_anew(monkeypatch, tmp_path):
    """And a third failure in a row ends the watch."""
    told = failing(monkeypatch, tmp_path, [RuntimeError("odd"), RuntimeError("odd")])
    assert told.count("renewed") == 1
    assert told.count("batch") == 5
    with pytest.raises(BatchesFailed, match="3 batches in a row have failed, the last one: RuntimeError: odd"):
        failing(monkeypatch, tmp_path / "again", [RuntimeError("odd")] * 3)
    with pytest.raises(BatchesFailed, match=r"^the batch has failed: RuntimeError: odd$"):
        failing(monkeypatch, tmp_path / "once", [RuntimeError("odd")], patient=False)


STARTING = """
import sys, time
from pipelines.watch import watch_files

def session():
    print("ready", flush=True)
    time.sleep(1000)

done = watch_files(sys.argv[1], sys.argv[2], session, warn=print)
print(done.stopped, done.batches)
"""


def test_sigterm_while_spark_starts_ends_at_once(tmp_path):
    """There is no batch in hand that could be waited for; the lease is let go of."""
    arrive(tmp_path / "in", "a", [ROW])
    home = Home(str(tmp_path / "store"))
    command = [sys.executable, "-c", STARTING, str(tmp_path / "in"), home.store]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=600)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "True 0\n")
    assert held_by(home.folder) is None
