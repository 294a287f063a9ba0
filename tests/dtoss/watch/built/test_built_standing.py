"""What stands after changes: a large index and a small one are the table, and each change is read once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dtoss.watch.asked import live
from dtoss.watch.asked.live import change_number, table_at
from dtoss.watch.built import standing
from dtoss.watch.built.standing import prepare, standing_of
from dtoss.watch.subscription import AROUND
from tests.dtoss.watch.streams import Home, asked, change, circle, settings_of


def stands(home, files):
    """The rows that stand, by id."""
    found = standing_of(home, files)
    return found.table.take(pa.array(np.flatnonzero(found.stands))).sort_by("id")


def around(id, object):
    """A subscription around an object."""
    return asked(id, AROUND, object=object, radius=100.0, events=1)


@pytest.mark.parametrize("seed", range(2))
def test_both_indexes_hold_the_table_of_each_change(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(standing, "LEAST_DELTA", 4)
    rng = np.random.default_rng(seed)
    home, settings, files, moved, bases = Home(str(tmp_path), "w"), settings_of(), None, 0, set()
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


def test_a_change_is_read_once_however_many_there_were(tmp_path, monkeypatch):
    home, settings = Home(str(tmp_path), "w"), settings_of()
    change(home, [circle(f"s{number}", 0.0, 0.0, 1.0) for number in range(20)])
    files = prepare(home, change_number(home), settings, None)
    read = []
    before = live.read_listed
    monkeypatch.setattr(live, "read_listed", lambda *said: read.append(said[1]) or before(*said))
    for number in range(10):
        change(home, [circle("s3", 0.0, 0.0, 2.0 + number)])
        read.clear()
        files = prepare(home, change_number(home), settings, files)
        assert len(read) == 1
    assert files.base_number == 1
    assert files.delta["rows"] == 1


def test_many_around_objects_do_not_build_the_large_index_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(standing, "LEAST_DELTA", 4)
    home, settings = Home(str(tmp_path), "w"), settings_of()
    change(home, [circle("here", 0.0, 0.0, 1.0), *(around(f"o{number}", "1") for number in range(20))])
    files = prepare(home, change_number(home), settings, None)
    change(home, [circle("there", 0.0, 0.0, 1.0)])
    assert prepare(home, change_number(home), settings, files).base_number == files.base_number
