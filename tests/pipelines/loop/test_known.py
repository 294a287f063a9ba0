"""What a store knows of its sources."""

from __future__ import annotations

from dtoss.commits.offsets import Ledger
from dtoss.rows.input_columns import Columns, columns_of
from dtoss.snapshots.read_file import ledger_of
from dtoss.snapshots.store import Store
from pipelines.loop.known_sources import current_manifest
from tests.dtoss.snapshots.small_stores import commit


def test_columns_are_the_stores_but_for_what_is_asked():
    stored = {"source": {"id": "name", "x": None, "time": "when", "columns": ["a", "b"], "delimiter": ";", "later": 1}}
    assert columns_of(None, {}) == columns_of({"source": None}, {}) == Columns()
    assert columns_of(stored, {}) == Columns(id="name", time="when", attributes=["a", "b"], delimiter=";")
    assert columns_of(stored, {"time": "t", "id": None, "attributes": "none"}) == Columns(
        id="name", time="t", attributes="none", delimiter=";"
    )


def test_a_store_without_a_snapshot_knows_nothing(tmp_path):
    store = Store(str(tmp_path / "store"))
    assert current_manifest(store) is None
    assert not (tmp_path / "store").exists()
    commit(store, 7)
    assert current_manifest(store)["number"] == 7
    assert ledger_of(store, current_manifest(store)) == Ledger()
