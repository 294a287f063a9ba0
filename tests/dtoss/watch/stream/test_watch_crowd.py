"""All who use a watch use it at once; ``crowd`` does it in processes, and on an object store."""

from __future__ import annotations

from dtoss.watch.home import Home
from tests.dtoss.watch.stream.crowd import in_threads
from tests.dtoss.watch.stream.scripted import small


def test_readers_are_told_each_event_once_while_others_change_fold_and_remove(tmp_path, monkeypatch):
    """Forty batches, two who subscribe, one who folds and retains, two readers with cursors of their own."""
    small(monkeypatch)
    (tmp_path / "notes").mkdir()
    told = in_threads(Home(str(tmp_path / "store")), tmp_path / "notes", 40)
    assert told["events"] > 100
    assert told["told"] == 2 * told["events"]
    assert told["removed"] > 0
    assert told["changes"] > 1
