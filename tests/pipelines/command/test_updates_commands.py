"""``dtoss rebuild`` with updates, and with deletions and expiry from all rows: as a user calls it."""

from __future__ import annotations

import os

import pytest

from dtoss.snapshots.store import Store
from tests.pipelines.command.test_cycles_commands import put
from tests.pipelines.stores import objects_of


def test_updates_are_merged_once(tmp_path, works):
    """The columns are those of the rebuild; a file is read once; a second call says that nothing has changed."""
    arriving, store = tmp_path / "in", tmp_path / "s"
    arriving.mkdir()
    rows = [(i, 0.1 * i + 1.0, 1.0, 10) for i in range(20)]
    put(tmp_path, "all.csv", rows)
    works("rebuild", tmp_path / "all.csv", "--store", store, "--partitions", 2)
    put(arriving, "a.csv", [(0, 5.0, 5.0, 11), (1, 5.0, 5.0, 9), (30, 6.0, 6.0, 10)])
    done = works("rebuild", "--updates", arriving, "--store", store, "--now", 12, "--json").json
    assert (done["cycle"]["updated"], done["cycle"]["late"], done["objects"]) == (2, 1, 21)
    assert works("rebuild", "--updates", arriving, "--store", store, "--now", 12).out == "nothing has changed\n"
    said = works("rebuild", "--updates", arriving, "--store", store, "--now", 100.5, "--expire", "90s").out
    assert "20 expired" in said
    assert {id: row[2] for id, row in objects_of(store).items() if id in (0, 1, 30)} == {0: 11}


def test_deletions_and_expiry_from_all_rows(tmp_path, works):
    """A deletion is no object; it is remembered, so an older row of a later cycle does not bring the object back."""
    store = tmp_path / "s"
    text = "id,lon,lat,t,gone\n1,0,0,10,\n2,1,1,10,\n2,,,11,true\n3,2,2,1,\n"
    (tmp_path / "all.csv").write_text(text)
    ran = works(
        "rebuild", tmp_path / "all.csv", "--store", store, "--partitions", 1, "--deleted", "gone", "--expire",
        "5s", "--now", 12, "--deleted-for", "ever",
    )  # fmt: skip
    assert "objects kept" in ran.out
    assert objects_of(store) == {1: (0.0, 0.0, 10)}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "late.csv").write_text("id,lon,lat,t,gone\n2,1,1,10,false\n")
    os.utime(tmp_path / "in" / "late.csv", (1, 1))
    ran = works("rebuild", "--updates", tmp_path / "in", "--store", store, "--deleted", "gone", "--now", 12, "--json")
    assert ran.json["cycle"]["late"] == 1
    assert objects_of(store) == {1: (0.0, 0.0, 10)}


def test_the_time_of_a_replay_is_what_its_rows_say(tmp_path, command, works):
    """A row of another year moves it in no command, and the clock of the machine is no clock of a replay."""
    arriving, store = tmp_path / "in", tmp_path / "s"
    arriving.mkdir()
    put(tmp_path, "all.csv", [(i, 0.1 * i, 1.0, 1_400_000_000) for i in range(20)])
    works("rebuild", tmp_path / "all.csv", "--store", store, "--partitions", 1)
    later = [(i, 0.1 * i, 2.0, 1_400_000_060) for i in range(10)]
    put(arriving, "a.csv", [*later, (99, 9.0, 9.0, 1_590_000_000), (50, 5.0, 95.0, 1_400_000_060)])
    rules = ("--expire", "15min", "--clock", "data")
    said = command.fails("run", "--updates", arriving, "--store", store, "--cycles", 1, "--expire", "15min")
    assert "there is no object: 11 updates are outdated and 20 objects have expired, as it is " in said
    assert "by this machine's clock; --clock data takes the time from the rows" in said
    works("run", "--updates", arriving, "--store", store, "--cycles", 1, *rules)
    assert [entry["rows"] for entry in Store(str(store)).manifest()["quarantine"]] == [1]
    found = objects_of(store)
    assert sorted(found) == [*range(20), 99]
    assert sum(row[1] == 2.0 for row in found.values()) == 10
    # the whole anew, where one witness is asked for and where not
    silent = [(i, 0.1 * i, 1.0, 1_400_000_000) for i in range(10, 20)]
    put(tmp_path, "all.csv", [*later, *silent, (99, 9.0, 9.0, 1_590_000_000)])
    works("rebuild", tmp_path / "all.csv", "--store", store, "--partitions", 1, *rules, "--witnesses", 1)
    assert sorted(objects_of(store)) == [99]
    works("rebuild", tmp_path / "all.csv", "--store", store, "--partitions", 1, *rules)
    assert sorted(objects_of(store)) == [*range(20), 99]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name POSITIONS, all that there are, or --updates DIR: one of them is wanted"),
        (("a.csv", "--updates", "in"), "name POSITIONS, all that there are, or --updates DIR: one of them is wanted"),
        (("--updates", "in", "--dry-run"), "--dry-run is for all POSITIONS, not for --updates"),
        (("--updates", "in", "--pivots", "spread"), "updates take keep, balanced or auto"),
        (("a.csv", "--pivots", "auto"), "--pivots auto is for --updates"),
        (("a.csv", "--now", "12"), "--now is for --updates, --deleted or --expire"),
        (("a.csv", "--clock", "data"), "--clock data is for --updates, --deleted or --expire"),
        (("a.csv", "--witnesses", "3"), "--witnesses is for --updates, --deleted or --expire"),
        (("--updates", "in", "--witnesses", "3"), "--witnesses 3 is for --clock data without --now"),
        (("--updates", "in", "--clock", "data", "--witnesses", "few"), "--witnesses is 'few': a share such as 1%"),
        (("a.csv", "--missing", "null"), "--missing null is for --updates"),
        (("a.csv", "--done", "delete"), "--done is for --updates"),
        (("--updates", "in", "--expire", "soon"), "soon"),
    ],
)
def test_what_cannot_be_meant_is_said(arguments, said, tmp_path, command, no_spark):
    """One line, exit code 2, before Spark starts."""
    assert said in command.fails("rebuild", *arguments, "--store", tmp_path / "s")
