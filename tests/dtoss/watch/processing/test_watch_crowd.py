"""All who use a watch use it at once; ``crowd`` does it in processes, and on an object store."""

from __future__ import annotations

import pytest

from dtoss.watch.watch_folder import DEFAULT_NAME, Home
from tests.dtoss.watch.processing.crowd import in_threads
from tests.dtoss.watch.processing.scripted import FEW


@pytest.mark.parametrize(
    "batches", [12, pytest.param(40, marks=pytest.mark.deep("forty batches, twelve are in make test"))]
)
def test_readers_are_told_each_event_once_while_others_change_fold_and_remove(tmp_path, batches):
    """Some batches, two who subscribe, one who folds and retains, two readers with cursors of their own."""
    (tmp_path / "notes").mkdir()
    told = in_threads(Home(str(tmp_path / "store"), DEFAULT_NAME, FEW), tmp_path / "notes", batches)
    assert told["events"] > 2.5 * batches
    assert told["told"] == 2 * told["events"]
    assert told["removed"] > 0
    assert told["changes"] > 1
