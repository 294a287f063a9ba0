"""A store of format 2 is not updated; after one rebuild it is."""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime

import pytest

import dtoss
from dtoss.errors import StoreError
from dtoss.snapshots.snapshots_table import verify_store
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from pipelines.rebuild import rebuild
from tests.dtoss.snapshots.test_format_2 import SAMPLE
from tests.pipelines.stores import table


def test_rebuild_once(engine, tmp_path):
    with tarfile.open(SAMPLE) as packed:
        packed.extractall(tmp_path, filter="data")
    store = Store(str(tmp_path))
    before = store.current()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    held = table(20).append_column("t", [[moment] * 20])
    updates = engine.createDataFrame(held.slice(0, 2))
    with pytest.raises(StoreError, match=r"snapshot '2026.*' has format 2, which cannot be updated: rebuild once"):
        cycle(updates, str(tmp_path))
    assert store.current() == before
    assert len(dtoss.open(str(tmp_path))) == 60
    rebuild(engine.createDataFrame(held), str(tmp_path), partitions=2)
    cycle(updates, str(tmp_path))
    found = verify_store(store)
    assert (found.damaged, found.commits, len(found.held["snapshots"])) == ([], 3, 3)
    assert store.rollback()[0] == found.held["snapshots"][1]
    assert store.rollback()[0] == before
    assert len(dtoss.open(str(tmp_path))) == 60
