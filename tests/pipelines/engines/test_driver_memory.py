"""Spark with 512 MB for its driver: what that holds does not grow with the objects, their updates or the files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOM = 24e6
"""Bytes: of each of the last cycle's updates its id and time alone would be 9 MB for 600,000."""
PARTITIONS = 8


def peaks_of(folder, objects, files):
    """The peaks of the driver, bytes: when Spark has begun, after a rebuild, and after each of two cycles."""
    command = [sys.executable, "-m", "tests.pipelines.engines.driver_memory", str(folder), str(objects), str(files)]
    done = subprocess.run([*command, str(PARTITIONS)], capture_output=True, text=True, cwd=ROOT, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])["peaks"]


@pytest.mark.deep("minutes of Spark; that tasks say as little of many updates is in test_cycles_by_tasks")
def test_a_driver_holds_no_more_for_many_objects(tmp_path):
    """A rebuild and two cycles by tasks alone: a hundred thousand objects in 200 files, a million in 2,000."""
    peaks = []
    for objects, files in ((100_000, 200), (300_000, 600), (1_000_000, 2000)):
        (tmp_path / str(objects)).mkdir()
        peaks.append(peaks_of(tmp_path / str(objects), objects, files))
    for step in range(4):
        assert peaks[2][step] < min(peaks[0][step], peaks[1][step]) + ROOM, (step, peaks)
