"""Watches and windows that have read many files: runs beside commits that name them; cleared, verified, carried on."""

from __future__ import annotations

import numpy as np
import pytest

from dtoss.commits.ledger_runs import LEDGERS, LOOSE_FILES, runs_in
from dtoss.commits.offsets import Source
from dtoss.commits.table import orphans_of
from dtoss.errors import StoreError
from dtoss.watch.events.watch_tables import tables_of as watch_tables
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.processing import watch_plan
from dtoss.watch.processing.watch_commit import commit_batch as commit_watched
from dtoss.watch.processing.watch_task import run_task
from dtoss.watch.watch_folder import Home as WatchHome
from dtoss.windows.processing.windows_tables import table_of as windows_table
from dtoss.windows.processing.windows_tables import verify_windows
from dtoss.windows.storage import window_plan
from dtoss.windows.storage.window_document import Home as WindowsHome
from dtoss.windows.storage.window_document import begun_windows
from tests.dtoss.windows.migration.following import begin_beside
from tests.dtoss.windows.storage import kept
from tests.dtoss.windows.window_batch import run_batch
from tests.erasure_worlds import NOW, rows_of, settings_of

MANY = {f"day/{number:05d}.parquet": number for number in range(LOOSE_FILES + 1)}


class Watched:
    """A watch whose batches have no rows."""

    verify = staticmethod(verify_watch)

    def __init__(self, store):
        self.home = WatchHome(store)
        self.table = watch_tables(self.home)[0]

    def read(self, files, there=None):
        settings, source = settings_of(ids="int64"), Source(files, there)
        plan = watch_plan.plan_batch(self.home, settings, source, watch_plan.Options(), NOW)
        return commit_watched(plan, [run_task(plan, 0, np.arange(256), rows_of([], "int64"))])

    def ledger(self):
        return watch_plan.ledger_of(self.home)


class Counted:
    """Windows of the same."""

    verify = staticmethod(verify_windows)

    def __init__(self, store):
        self.home, self.fixed = kept.begin(store, kept.spec())
        self.table = windows_table(self.home)

    def read(self, files, there=None):
        types, options = ("int64", "double"), window_plan.Options()
        plan = window_plan.plan_batch(self.home, self.fixed, types, Source(files, there), options, NOW, 1)
        return run_batch(plan, kept.rows_of([]))

    def ledger(self):
        return window_plan.ledger_of(self.home)


@pytest.mark.parametrize("kind", [Watched, Counted])
def test_a_commit_says_few_files_and_names_the_others(kind, tmp_path):
    """Runs stay while the ledger says all of their files; those that no commit needs any more are orphans."""
    one = kind(str(tmp_path / "store"))
    first = one.read(MANY).document["ledger"]
    assert first["files"] == {}
    assert len(runs_in(first)) == 1
    assert one.ledger().files == MANY
    second = one.read({"new.parquet": 7}).document["ledger"]
    assert (second["files"], second["runs"]) == ({"new.parquet": 7}, first["runs"])
    assert one.ledger().fresh({**MANY, "new.parquet": 7, "newer.parquet": 1}) == {"newer.parquet": 1}
    assert not one.verify(one.home).damaged
    assert orphans_of(one.table, erase=True)[LEDGERS] == {}
    one.read({"last.parquet": 1}, ("new.parquet",))
    assert one.ledger().files == {"new.parquet": 7, "last.parquet": 1}
    assert set(orphans_of(one.table, erase=True)[LEDGERS]) == {first["runs"][0]["name"]}
    assert not one.verify(one.home).damaged


@pytest.mark.parametrize("kind", [Watched, Counted])
def test_a_run_that_is_damaged_or_gone_is_named(kind, tmp_path):
    one = kind(str(tmp_path / "store"))
    (run,) = one.read(MANY).document["ledger"]["runs"]
    (path,) = tmp_path.rglob(run["name"])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(StoreError, match="does not have the bytes"):
        one.read({"new.parquet": 7})
    assert any(run["name"] in line for line in one.verify(one.home).damaged)
    path.unlink()
    with pytest.raises(StoreError, match="is missing: a commit lists it"):
        one.ledger()
    assert any(run["name"] in line for line in one.verify(one.home).damaged)
    path.write_bytes(whole)
    assert one.ledger().files == MANY


def test_a_set_that_begins_from_another_has_runs_of_its_own(tmp_path):
    one = Counted(str(tmp_path / "store"))
    one.read(MANY)
    begin_beside(one.home, kept.spec(measures="rows,objects"), kept.SITES)
    assert begun_windows(WindowsHome(one.home.store, one.home.name, 2)).ledger.files == MANY
