"""What is asked of windows that are stored: wide rows, what changed, names; what was read once stays open."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pyarrow as pa
import pytest

from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.locks import Recent
from dtoss.windows.keys import h3_keys
from dtoss.windows.query.open_files import first_due
from dtoss.windows.query.wide import Names
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.storage.keys_file import keys_from, of_h3, of_sites, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import Home
from dtoss.windows.trajectories.visitors import last_visits
from pipelines.command.main import main
from tests.dtoss.windows.brute import World
from tests.dtoss.windows.storage.kept import SECOND, SITES, check_row, commit, far, key_of, made, spec

SHOPS = pa.array(["Main Street", "Harbour", None])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Windows of shops with names, of three batches, and their rows."""
    wanted = spec()
    home = Home(str(tmp_path_factory.mktemp("asked") / "store"), "fleet")
    fixed = FixedSpec(wanted, write_keys(home, of_sites(SITES, SHOPS)))
    fix(home, fixed)
    batches = made(3, batches=3)
    for batch in batches:
        commit(home, fixed, batch)
    return home, fixed, batches


@pytest.fixture
def stored(whole, tmp_path):
    """A copy of them."""
    home, *others = whole
    return Home(str(shutil.copytree(home.store, tmp_path / "store")), "fleet"), *others


def values(table):
    """Rows by key, of measures only."""
    return {
        row.pop("key"): {name: value for name, value in row.items() if name not in ("name", "end", "revision", "final")}
        for row in table.to_pylist()
    }


def test_wide_rows_have_all_lengths(stored):
    """Each end of it, beside each length by itself."""
    found = open_windows(stored[0].store, "fleet")
    for end in range(0, found.watermark + 1, found.spec.slide):
        wide = values(found.wide(end / SECOND))
        ends = {name: values(found.at(end / SECOND, name)) for name in found.spec.names}
        assert set(wide) == set().union(*ends.values())
        for key, row in wide.items():
            for name in found.spec.names:
                alone = ends[name].get(key, {})
                for measure, value in alone.items():
                    assert row["here" if measure == "here" else f"{measure}_{name}"] == value
    assert found.wide().column_names[:7] == ["key", "name", "end", "revision", "final", "here", "rows_4s"]
    whole = found.wide_between(0)
    assert sum(len(found.wide(end / SECOND)) for end in range(0, found.watermark + 1, found.spec.slide)) == len(whole)


def test_only_what_changed_is_told(stored):
    """Since the end before, an end of before, a batch as it was known then; with zeros where nothing is left."""
    found = open_windows(stored[0].store, "fleet")
    old = {number: found._of_commit(number) for number in (1, 2, 3)}
    count = 0
    for window in (None, "4s"):

        def rows(of, end, window=window):
            return values(of.wide(end) if window is None else of.at(end, window))

        last = found.watermark // found.spec.slide * found.spec.slide
        pairs = [({}, found, last - found.spec.slide), ({"since": 4}, found, 4 * SECOND)]
        pairs += [({"commit": n}, one, one.watermark // found.spec.slide * found.spec.slide) for n, one in old.items()]
        for asked, then, before in pairs:
            were, are = rows(then, before / SECOND), rows(found, last / SECOND)
            told = values(found.changed(window=window, **asked))
            assert set(told) == {key for key in set(were) | set(are) if not same(were.get(key, {}), are.get(key, {}))}
            assert all(same(row, are.get(key, {})) for key, row in told.items())
            count += len(told)
    assert count > 0
    assert len(found.changed(commit=3)) == 0


def same(one, other):
    """Whether two rows have the same measures: what is missing is 0, or null."""
    return all((one.get(name) or 0) == (other.get(name) or 0) for name in one.keys() | other.keys())


def test_newer_commits_are_read_beside_what_is_open(stored):
    """What was read stays right, and commits are found by the ends that became due with them."""
    home, fixed, _ = stored
    found = open_windows(home.store, "fleet")
    assert found.newest() is found
    before = found.wide()
    commit(home, fixed, made(9, batches=5)[-1])
    after = found.newest()
    assert (after.head.number, after.reader) == (4, found.reader)
    assert found.wide().equals(before)
    assert after.wide().equals(open_windows(home.store, "fleet").wide())
    ends = range(0, after.watermark + 1, after.spec.slide)
    marks = [after.reader.said(number).watermark for number in range(1, 5)]
    due = [first_due(after.reader, after.head, end) for end in ends]
    assert due == [next(i for i, mark in enumerate(marks, 1) if mark is not None and mark >= end) for end in ends]


def test_a_file_is_read_once_and_windows_of_any_length_are_counted_once(stored, monkeypatch):
    """Asked again nothing is read."""
    home = stored[0]
    found = open_windows(home.store, "fleet")
    first = [found.at(window=name) for name in ("4s", "6s", "8s", "10s")]
    monkeypatch.setattr("dtoss.windows.query.open_files.ResultFile.opened", None)
    monkeypatch.setattr("dtoss.windows.query.open_files.read_panes", None)
    monkeypatch.setattr("dtoss.windows.query.open_files.object_states", None)
    assert [found.at(window=name) for name in ("4s", "6s", "8s", "10s")] == first


def test_names_stand_beside_keys(stored):
    """In each kind of answer; a place without one has null; keys are found by them."""
    found = open_windows(stored[0].store, "fleet")
    names = SHOPS.to_pylist()
    for table in (found.at(window="4s"), found.wide(), found.changed(), found.series("Harbour", "4s", 0)):
        assert [row["name"] for row in table.to_pylist()] == [names[row["key"]] for row in table.to_pylist()]
    flow = found.flow(window="4s").to_pylist()
    assert all((row["from_name"], row["to_name"]) == (names[row["from"]], names[row["to"]]) for row in flow)
    assert found.series("Harbour", "4s", 0).equals(found.series(1, "4s", 0))
    for wrong, said in [
        (3, "there is no key 3: keys are 0 to 2"),
        (-1, "there is no key -1: keys are 0 to 2"),
        ("Harbur", "no place is called 'Harbur', and keys are numbers from 0 to 2; did you mean Harbour?"),
    ]:
        with pytest.raises(InputError, match=said.replace("?", r"\?")):
            found.series(wrong, "4s", 0)


def test_sites_that_are_called_by_numbers_are_found_by_them(tmp_path):
    """Where the number is that of no key."""
    home = Home(str(tmp_path), "w")
    fixed = FixedSpec(spec(), write_keys(home, of_sites(SITES, pa.array(["100", "0", "7"]))))
    fix(home, fixed)
    commit(home, fixed, made(3)[0])
    found = open_windows(home.store, "w")
    assert [found.names.key_of(name) for name in ("100", 7, "0", 1)] == [0, 2, 0, 1]
    with pytest.raises(InputError, match="there is no key 8: keys are 0 to 2"):
        found.names.key_of("8")


def test_last_visits_are_those_of_sets(stored):
    """Of every length, also where panes are counted a few at a time."""
    home, _, batches = stored
    found = open_windows(home.store, "fleet")
    world = World(found.spec, [row for batch in batches for row in batch], key_of, far)
    for panes in range(1, found.spec.longest + 1):
        name = f"{panes * found.spec.pane // SECOND}s"
        known = world.at(found.watermark, {name: panes * found.spec.pane})
        for row in found.at(window=name).to_pylist():
            check_row(row, known[row["key"]], name)


def test_a_state_of_no_object_has_no_visits():
    """No keys, no panes."""
    assert last_visits(spec(), [], 5).within(2).tolist() == [[]]


def test_what_was_used_last_is_held():
    """Up to so many bytes; what is larger is made each time."""
    held, made_ = Recent(10), []

    def one(name, size):
        return held.of(name, lambda: (made_.append(name) or name, size))

    assert [one(name, 4) for name in "abacab"] == list("abacab")
    assert made_ == ["a", "b", "c", "b"]
    assert ("a" in held, "c" in held) == (True, False)
    assert [one("large", 11), one("large", 11)] == ["large", "large"]
    assert made_[-2:] == ["large", "large"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--window", "5 m"], "--window is '5 m': a number and a unit are wanted"),
        (["--window", "0s"], "more than 0 is wanted"),
        (["--window", ""], "--window is ''"),
        (["--at", "1e300"], "end is '1e300': a time such as"),
        (["--at", "3"], "the nearest are 1970-01-01T00:00:02Z"),
        (["--window", "3s"], "lengths are multiples of 2s up to 10s; the nearest are 2s and 4s"),
        (["--window", "99h"], "the nearest are 10s"),
        (["--at", "noon"], "end is 'noon': a time such as"),
        (["--at", "1970-01-01T00:00:03"], "the nearest are 1970-01-01T00:00:02Z and 1970-01-01T00:00:04Z"),
        (["--at", "2030-01-01T00:00"], "is not due: the watermark is 1970-01-01T00:00:"),
        (["--at", "1970-01-01T00:00:02", "--window", "6s"], "was not declared, and is known where it ends at"),
        (["--key", "9"], "there is no key 9: keys are 0 to 2"),
        (["--key", "Harbur"], "did you mean Harbour?"),
        (["--flow", "--at", "1970-01-01T00:00:00", "--window", "10s"], "are no longer kept: those that end from"),
        (["--flow", "--wide"], "--flow and --wide are given"),
        (["--wide", "--window", "4s"], "wide rows have all lengths"),
        (["--since", "4"], "--since 4 is given without --changed"),
        (["--changed", "--since", "17"], "there is no commit 17: there are 1 to 3"),
        (["--changed", "--window", "6s"], "it is of 4s, 10s"),
        (["--name", "flet"], "did you mean --name fleet?"),
        (["--store", "nowhere"], "there are no windows 'fleet' in nowhere"),
    ],
)
def test_what_cannot_be_asked_is_one_line(stored, capfd, monkeypatch, tmp_path, options, said):
    """With the value, the bound and the way out; exit 2."""
    monkeypatch.chdir(tmp_path)
    line = ["windows", "show", "--store", "store", "--name", "fleet", *options]
    with pytest.raises(SystemExit) as end:
        main(line)
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1), err
    assert said in err


def test_a_user_sees_names_wide_rows_and_changes(stored, capfd, monkeypatch, tmp_path):
    """As a table, and as JSON with a line for each row."""
    monkeypatch.chdir(tmp_path)
    found = open_windows("store", "fleet")

    def shown(*options):
        with pytest.raises(SystemExit) as end:
            main(["windows", "show", "--store", "store", "--name", "fleet", "--top", "0", *options])
        assert not end.value.code
        return capfd.readouterr().out.splitlines()

    assert shown("--wide")[0].split()[:4] == ["key", "name", "here", "rows_4s"]
    assert [json.loads(line)["rows_10s"] for line in shown("--wide", "--json")] == found.wide()["rows_10s"].to_pylist()
    changed = [json.loads(line)["key"] for line in shown("--changed", "--wide", "--since", "1", "--json")]
    assert changed == found.changed(commit=1)["key"].to_pylist()
    assert [json.loads(line)["key"] for line in shown("--key", "Harbour", "--json")] == [1]


def test_cells_of_h3_are_keys(tmp_path):
    """Those of Uber's own library, by a number that is shown in hexadecimal; flow works."""
    pytest.importorskip("h3ronpy")
    h3 = pytest.importorskip("h3")
    space = space_of()
    rng = np.random.default_rng(5)
    places = np.stack([rng.uniform(-180, 180, 300), rng.uniform(-90, 90, 300)], axis=1)
    for resolution in (0, 8, 15):
        want = [h3.str_to_int(h3.latlng_to_cell(lat, lon, resolution)) for lon, lat in places.tolist()]
        assert h3_keys(space, resolution).of(places).key.tolist() == want
    wanted = spec(measures="rows,objects,flow", space=space)
    wanted = type(wanted)(**{**vars(wanted), "by": "h3:7", "keys": keys_from(space, of_h3(7)).digest})
    home = Home(str(tmp_path), "w")
    fixed = FixedSpec(wanted, write_keys(home, of_h3(7)))
    fix(home, fixed)
    rows = [(i % 3, i * SECOND // 4, *place) for i, place in enumerate((places[:40] % 0.1 + 8).tolist())]
    commit(home, fixed, rows)
    found = open_windows(str(tmp_path), "w")

    def cell(x, y):
        return [h3.str_to_int(h3.latlng_to_cell(y, x, 7))]

    world = World(wanted, rows, cell, far)
    table = found.at(window="10s")
    assert {row["key"] for row in table.to_pylist()} == set(world.at(found.watermark // (2 * SECOND) * 2 * SECOND))
    assert all(row["name"] == h3.int_to_str(row["key"]) for row in table.to_pylist())
    flow = {(row["from"], row["to"]): row["moves"] for row in found.flow(window="10s").to_pylist()}
    assert flow == world.flow(found.watermark, 10 * SECOND)
    name = table["name"][0].as_py()
    assert found.series(name, "10s", 0)["key"][0].as_py() == h3.str_to_int(name)


def test_h3_is_refused_in_a_plane_and_where_it_is_not_installed(monkeypatch):
    """In a line, with the way out."""
    with pytest.raises(InputError, match="--by h3:8 needs places in degrees, and these are in none"):
        h3_keys(space_of(None, "plane"), 8)
    monkeypatch.setitem(sys.modules, "h3ronpy", None)
    monkeypatch.delitem(sys.modules, "h3ronpy.vector", raising=False)
    with pytest.raises(InputError, match=r"--by h3:8 needs h3ronpy: pip install 'dtoss\[h3\]'"):
        h3_keys(space_of(), 8)
    with pytest.raises(InputError, match="there is no key 'shop': a cell of H3 is wanted, such as 88283082b9fffff"):
        Names(type(spec())(**{**vars(spec()), "by": "h3:8"}), None, None).key_of("shop")
