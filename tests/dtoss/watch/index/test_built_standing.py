"""What stands after changes: a large index and a small one are the table, and each change is read once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dtoss.watch.index import index_changes
from dtoss.watch.index.index_changes import PATIENCE, Background, prepare
from dtoss.watch.index.large_and_small import standing_of
from dtoss.watch.subscription import AROUND
from dtoss.watch.subscriptions import current
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.watch_folder import Limits
from tests.dtoss.watch.streams import Home, asked, change, circle, settings_of, table_of


def stands(home, files):
    """The rows that stand, by id."""
    found = standing_of(home, files)
    return found.table.take(pa.array(np.flatnonzero(found.stands))).sort_by("id")


def home_of(path, least_delta):
    """A watch whose large index is built anew once more than so many have come or gone."""
    return Home(str(path), "w", Limits(least_delta=least_delta))


def around(id, object):
    """A subscription around an object."""
    return asked(id, AROUND, object=object, radius=100.0, events=1)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep("more seeds of the same kind"))])
def test_both_indexes_hold_the_table_of_each_change(tmp_path, seed):
    rng, home = np.random.default_rng(seed), home_of(tmp_path, 4)
    settings, files, moved, bases = settings_of(), None, 0, set()
    for step in range(15):
        for _ in range(rng.integers(0, 3)):
            names = [f"s{number}" for number in rng.choice(12, 3, replace=False)]
            made = circle(names[0], 0.0, 0.0, float(step)), around(names[1], str(rng.integers(4)))
            change(home, [one for one in made if rng.random() < 0.7], names[2:])
        moved += int(rng.integers(2))
        at = lambda ids: np.array([[float(id), float(moved)] if id != "3" else [np.nan] * 2 for id in ids])  # noqa: B023, E731
        known = rng.random() < 0.9
        files = prepare(
            home, change_number(home), settings, files, at if known else None, f"v{moved}" if known else None
        )
        wanted = table_at(home, change_number(home))
        found = stands(home, files)
        assert found.drop_columns(["x", "y"]).equals(wanted.drop_columns(["x", "y"]))
        for row in found.filter(pc.equal(found.column("kind"), AROUND)).to_pylist():
            centre = None if row["object"] == "3" or not known else float(row["object"])
            assert (row["x"], row["y"]) == (centre, None if centre is None else float(moved))
        bases.add(files.base_number)
    assert 1 < len(bases) < 15


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep("more seeds of the same kind"))])
def test_a_large_index_that_was_built_meanwhile_takes_over_at_any_change(tmp_path, seed):
    """However many changes came since it was begun, replacements of all among them; the one before stays until then."""
    rng, home = np.random.default_rng(seed), home_of(tmp_path, 2)
    settings, files, newer, taken = settings_of(), None, None, 0
    for step in range(25):
        names = [f"s{number}" for number in rng.choice(12, 3, replace=False)]
        made = [circle(names[0], 0.0, 0.0, float(step)), around(names[1], "1")]
        if rng.random() < 0.1:
            subscribe(home, table_of(made), replace=True)
        else:
            change(home, made, names[2:])
        number = change_number(home)
        before = files
        files = prepare(home, number, settings, files, newer=newer, patience=10**6)
        if newer is not None and files.base_number == newer.base_number > before.base_number:
            taken += 1
        wanted = table_at(home, number).drop_columns(["x", "y"])
        assert stands(home, files).drop_columns(["x", "y"]).equals(wanted)
        if rng.random() < 0.4:
            newer = prepare(home, int(rng.integers(max(1, number - 3), number + 1)), settings, None)
    assert taken > 2


def test_the_large_index_is_built_beside_the_batches(tmp_path, monkeypatch):
    """Begun once the small one has outgrown it, once; batches go on meanwhile, and the next one takes it."""
    home, settings, told = home_of(tmp_path, 3), settings_of(), []
    beside = Background(home, told.append)
    beside.look(None, settings, None, None)
    change(home, [circle("first", 0.0, 0.0, 1.0)])
    files = prepare(home, change_number(home), settings, None)
    built = []
    real = index_changes.prepare
    monkeypatch.setattr(index_changes, "prepare", lambda *said: built.append(said[1]) or real(*said))
    for number in range(12):
        change(home, [circle(f"s{number}", 0.0, 0.0, 1.0)])
        files = prepare(home, change_number(home), settings, files, newer=beside.newer, patience=PATIENCE)
        assert stands(home, files).num_rows == number + 2
        beside.look(files, settings, None, None)
        beside.look(files, settings, None, None)
        beside.wait()
    assert built == [5, 9, 13]
    assert (files.base_number, beside.newer.base_number, told) == (9, 13, [])


def test_an_index_that_cannot_be_built_beside_the_batches_is_told_and_then_waited_for(tmp_path, monkeypatch):
    home, settings, told = home_of(tmp_path, 3), settings_of(), []
    beside = Background(home, told.append)

    def full(*said):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index_changes, "prepare", full)
    change(home, [circle("first", 0.0, 0.0, 1.0)])
    files = prepare(home, change_number(home), settings, None)
    bases = []
    for number in range(14):
        change(home, [circle(f"s{number}", 0.0, 0.0, 1.0)])
        files = prepare(home, change_number(home), settings, files, newer=beside.newer, patience=PATIENCE)
        beside.look(files, settings, None, None)
        beside.wait()
        bases.append(files.base_number)
    assert bases == [1] * 12 + [14, 14]
    assert len(told) == 9
    assert told[0] == (
        "the index of subscriptions could not be built beside the batches: [Errno 28] No space left on device"
    )


def test_another_snapshot_is_nothing_new_where_nobody_asks_around_an_object(tmp_path):
    home, settings = Home(str(tmp_path), "w"), settings_of()
    change(home, [circle("here", 0.0, 0.0, 1.0)])
    files = prepare(home, 1, settings, None, None, "one")
    change(home, [circle("there", 0.0, 0.0, 1.0)])
    files = prepare(home, 2, settings, files, None, "one")
    assert prepare(home, 2, settings, files, None, "two") is files
    change(home, [around("with it", "1")])
    files = prepare(home, 3, settings, files, lambda ids: np.array([[1.0, 2.0]]), "two")
    moved = prepare(home, 3, settings, files, lambda ids: np.array([[3.0, 2.0]]), "three")
    assert moved != files
    assert 3.0 in standing_of(home, moved).table["x"].to_pylist()


def test_a_change_is_read_once_however_many_there_were(tmp_path, monkeypatch):
    home, settings = Home(str(tmp_path), "w"), settings_of()
    change(home, [circle(f"s{number}", 0.0, 0.0, 1.0) for number in range(20)])
    files = prepare(home, change_number(home), settings, None)
    read = []
    before = current.read_listed
    monkeypatch.setattr(current, "read_listed", lambda *said: read.append(said[1]) or before(*said))
    for number in range(10):
        change(home, [circle("s3", 0.0, 0.0, 2.0 + number)])
        read.clear()
        files = prepare(home, change_number(home), settings, files)
        assert len(read) == 1
    assert files.base_number == 1
    assert files.delta["rows"] == 1


def test_many_around_objects_do_not_build_the_large_index_anew(tmp_path):
    home, settings = home_of(tmp_path, 4), settings_of()
    change(home, [circle("here", 0.0, 0.0, 1.0), *(around(f"o{number}", "1") for number in range(20))])
    files = prepare(home, change_number(home), settings, None)
    change(home, [circle("there", 0.0, 0.0, 1.0)])
    assert prepare(home, change_number(home), settings, files).base_number == files.base_number
