"""A byte that has changed in any file of a windows folder is found, and the file named."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dtoss.commits.chain import Chain, log_of
from dtoss.commits.log_compaction import fold
from dtoss.errors import StoreError
from dtoss.windows.processing.hour_compaction import merge_hours
from dtoss.windows.processing.windows_tables import verify_windows
from dtoss.windows.state.hour_files import Steps
from dtoss.windows.storage.spec_file import read_spec
from dtoss.windows.storage.window_document import Home, head_of
from tests.disks import files_read
from tests.dtoss.windows.storage.kept import SECOND, begin, commit, made, spec

FLIPS, BATCHES, BLOCK = 2, 5, 5
"""Bytes of a file, batches, and commits of a log."""
LATE = [(1, -100 * SECOND, 0.0, 0.0)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Windows with all kinds of files: state whole and in patches, results, those of past hours, rows set aside."""
    wanted = spec(late="3s")
    found, fixed = begin(tmp_path_factory.mktemp("flips"), wanted)
    for number, batch in enumerate(made(5, batches=BATCHES, rows=12, ids=40)):
        commit(found, fixed, [*batch, *LATE] if number else batch, tasks=2)
        if number == 3:
            merge_hours(found, wanted, head_of(found), steps=Steps(hour_us=6 * SECOND))
    assert verify_windows(found).damaged == []
    return found


def test_another_number_in_the_spec_is_damage(home):
    """Which would be counted with from then on: nothing of the form tells."""
    path = Path(home.folder.path("spec.json"))
    data = path.read_bytes()
    path.write_bytes(re.sub(rb'"late":3000000\b', b'"late":9000000', data))
    with pytest.raises(StoreError, match=r"spec\.json is damaged: it does not have the hash that it says"):
        read_spec(home)
    path.write_bytes(data)
    assert read_spec(home).spec.late == 3 * SECOND


def test_rows_that_are_equal_are_set_aside_for_each_batch(tmp_path):
    """Whoever reads the folder, and no commits, counts as many as these say."""
    home, fixed = begin(tmp_path, spec(late="3s"))
    for rows in (made(5)[0], LATE, LATE):
        commit(home, fixed, rows)
    names = home.folder.files("quarantine")
    rows = sum(pq.read_metadata(home.folder.path("quarantine", name)).num_rows for name in names)
    assert rows == head_of(home).totals["quarantined"] == 2


def test_a_log_of_commits_is_read_once(home, monkeypatch, tmp_path):
    """And not for each of its commits."""
    home = replace(home, store=str(shutil.copytree(home.store, tmp_path / "copy")))
    monkeypatch.setattr(Home, "batches", property(lambda self: Chain(self.folder, block=BLOCK, kept=True)))
    assert fold(home.batches, 0, -1.0) == BLOCK
    log, read = log_of(1, BLOCK), files_read(monkeypatch)
    assert verify_windows(home).damaged == []
    assert 0 < read.count(log) < BLOCK
