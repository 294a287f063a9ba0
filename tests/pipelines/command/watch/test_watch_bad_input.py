"""Subscriptions that cannot be, files that are none, names that are not known: one line each, and exit code 2."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.geometry.space import space_of
from dtoss.watch.subscriptions.current import change_number
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings

WIDE = {"type": "Polygon", "coordinates": [[[0, 0], [120, 0], [-120, 0], [0, 0]]]}
LONG = 1_000_000


@pytest.fixture
def run(command):
    """(exit code, lines of stdout, lines of stderr) of a command."""

    def ended(*words):
        ran = command(*words)
        assert "Traceback" not in ran.err
        return ran.code, *ran.lines

    return ended


@pytest.fixture
def refused(run, tmp_path):
    """What a file of one subscription is refused with, whose watch has rows where ``columns`` says which."""

    def said(row, *arguments, columns=None, **settings):
        home = Home(str(tmp_path / "store"))
        if columns is not None:
            home.folder.make()
            kept = Settings(space_of(), "int64", **({"time": "timestamp", "attributes": columns} | settings))
            home.batches.append({"kind": "watch", "settings": kept.as_json(), "changes": 0}, home.batches.head())
        path = tmp_path / "a.jsonl"
        path.write_text(row if isinstance(row, str) else json.dumps(row) + "\n")
        code, out, err = run("subscribe", path, "--store", home.store, *arguments)
        assert (code, out, len(err)) == (2, [], 2), err
        assert err[1] == "error: 1 of 1 subscriptions are bad, more than --max-bad 0% allows; nothing has changed"
        assert err[0].startswith(f"bad: {path}:1")
        assert len(err[0]) < 500
        assert change_number(home) == 0
        return err[0]

    return said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"id": 1, "circle": [8, 50, NaN]}', "it is not JSON: NaN is no value of JSON"),
        ({"circle": [8, 50, -1]}, "radius is -1: a finite number that is not negative is wanted"),
        ({"box": [8, 50, 8, 51]}, "box has no width: its west and east are 8 and 8, the west has to be another"),
        (
            {"polygon": WIDE, "edges": "spherical"},
            "polygon: a polygon on the sphere has to fit in a hemisphere: cut it into parts",
        ),
        ({"words": ""}, "words '': a word is wanted before the end"),
        ({"words": "?!"}, "words '?!': '?!' has no letter and no digit, so it is no word"),
        ({"words": "coffee or"}, "words 'coffee or': a word is wanted before the end"),
        ({"words": "not decaf"}, "name a place or a word, or give --allow-everything"),
        ({"words": "fire", "events": ["enter"]}, "words go with inside only"),
        ({"around": {"object": 7, "metres": 5}, "events": ["leave"]}, "around goes with inside only"),
        ({"where": "occupied = "}, "where 'occupied = '"),
        ({"where": "a = 1 or " * (LONG // 9)}, "where has 999,999 characters: at most 100,000 are kept, make it"),
        ({"words": "a or " * (LONG // 5) + "b"}, "words has 1,000,001 characters: at most 100,000"),
        ({"meta": "x" * LONG}, "meta has 1,000,002 characters: at most 100,000"),
        ({"id": "x" * LONG}, "id has 1,000,000 characters: at most 1,000"),
        ({"expires": "tomorrow"}, "expires is 'tomorrow': seconds since 1970, or a time such as"),
        ({"circel": [8, 50, 1]}, "'circel' is nothing that a subscription has; did you mean circle?"),
    ],
)
def test_a_subscription_that_cannot_be_is_one_line(refused, row, said):
    """The value, the bound and the way out."""
    assert said in refused({"id": 1} | row if isinstance(row, dict) else row)


def test_what_rows_do_not_have_is_known_after_the_first_batch(refused):
    """A column, its type, a time, a text."""
    columns = {"occupied": pa.int64(), "kind": pa.string()}
    said = refused({"id": 1, "where": "occupid = 0"}, columns=columns)
    assert (
        "column 'occupid' is not carried by the objects; they carry speed, occupied, kind, id; did you mean occupied?"
        in said
    )
    assert "compares" in refused({"id": 1, "where": "occupied = 'yes'"})
    assert "--text COLUMN under another --watch" in refused({"id": 1, "words": "fire"})
    said = refused({"id": 1, "events": ["enter"]}, columns=columns, time=None)
    assert "enter, leave, dwell and cross need rows of objects that move, with a time: these have none" in said


def test_an_id_twice_is_named_with_the_first(run, tmp_path):
    """A number and its digits are one id."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 10}\n\n{"id": "10", "box": [1, 1, 2, 2]}\n')
    code, _, err = run("subscribe", path, "--store", tmp_path / "store")
    assert (code, err[0]) == (2, f"bad: {path}:3 ('10'): the id '10' stands twice: {path}:1 has it too")


def test_numbers_of_parquet_that_are_none(run, tmp_path):
    """NaN is no radius there either, and null no circle."""
    radius = pa.array([5.0, float("nan"), None])
    table = pa.table({"id": [1, 2, 3], "lon": [8.0] * 3, "lat": [50.0] * 3, "radius": radius})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    code, _, err = run("subscribe", path, "--store", tmp_path / "store")
    assert code == 2
    assert [line.partition(": ")[2] for line in err[:2]] == [
        f"{path}:2 ('2'): radius is nan: a finite number that is not negative is wanted",
        f"{path}:3 ('3'): the circle has no radius",
    ]


def test_a_file_of_another_kind_is_one_line(run, tmp_path):
    """CSV, a database, a folder, one that is not there, one in another CRS."""
    files = {
        "a.csv": b"id,lon,lat,radius\n1,8,50,10\n" * 50,
        "a.gpkg": b"SQLite format 3\0" + bytes(range(256)) * 4,
        "empty.jsonl": b"\n",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for name, said in [
        (
            "a.csv",
            "is no JSON and no Parquet: JSON lines, GeoJSON or Parquet is wanted; DuckDB and pandas make Parquet",
        ),
        ("a.gpkg", "is no JSON and no Parquet"),
        ("empty.jsonl", "is empty: a subscription on each line is wanted"),
        ("", "is a folder: name its files"),
        ("none.jsonl", "is not there"),
    ]:
        code, out, err = run("subscribe", tmp_path / name, "--store", tmp_path / "store")
        assert (code, out, len(err)) == (2, [], 1), name
        assert said in err[0]
    assert not (tmp_path / "store").exists()


def test_a_watch_that_is_not_there_is_told_of(run, tmp_path):
    """With the one that may be meant, those that there are, or how one is made; nothing is made by asking."""
    store = tmp_path / "store"
    for asked in (("subscriptions",), ("unsubscribe", "7")):
        code, out, err = run(*asked, "--store", store)
        assert (code, out) == (2, [])
        assert err == [
            f"error: there is no watch 'default' in {store}; dtoss subscribe FILES --store {store} makes one"
        ]
    assert not store.exists()
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1}\n')
    run("subscribe", path, "--store", store, "--watch", "taxis")
    for asked in (("subscriptions",), ("unsubscribe", "7"), ("events",), ("verify",)):
        code, out, err = run(*asked, "--store", store, "--watch", "taxi")
        assert (code, out, len(err)) == (2, [], 1)
        assert err[0].endswith("; did you mean --watch taxis?")
        if asked != ("verify",):
            code, _, err = run(*asked, "--store", store)
            assert (code, err[0].endswith("; its watch is taxis")) == (2, True)
    code, _, err = run("events", "--store", store, "--watch", "taxis")
    assert (code, len(err)) == (2, 1)
    assert err[0].endswith(f"; dtoss watch POSITIONS --store {store} --watch taxis commits the first")
    for name in "abcdef":
        run("subscribe", path, "--store", store, "--watch", name)
    assert run("events", "--store", store)[2][0].endswith("; its watches are a, b, c, d, e, ...")


def test_words_of_commands_that_are_not_known(run, tmp_path):
    """The option, the kind and the cursor that are meant."""
    store = tmp_path / "store"
    for arguments, said in [
        (("subscribe", "a", "--store", store, "--replac"), "did you mean --replace?"),
        (("subscriptions", "--store", store, "--wach", "x"), "did you mean --watch?"),
        (("watch", "in", "--store", store, "--evry", "2s"), "did you mean --every?"),
        (("watch", "in", "--store", store, "--every", "2"), "--every: '2' is no duration"),
        (("watch", "in", "--store", store, "--expire", "soon"), "--expire: 'soon' is no duration"),
        (("watch", "in", "--store", store, "--witnesses", "few"), "--witnesses is 'few': a share such as 1%"),
        (("watch", "in", "--store", store, "--retain", "7"), "--retain: '7' is no duration"),
        (("watch", "in", "--store", store, "--max-bad", "200%"), "--max-bad is '200%': a share such as 50%"),
        (("watch", "in", "--store", store, "--crs", "nonsense"), "crs 'nonsense'"),
        (("watch", tmp_path / "in", "--store", store), "make the folder in which updates arrive"),
    ]:
        code, out, err = run(*arguments)
        assert (code, out) == (2, [])
        assert said in err[-1]


def test_verify_looks_at_the_default_watch_where_none_is_named(run, tmp_path):
    """Before and behind other options."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1}\n')
    run("subscribe", path, "--store", tmp_path / "store")
    for arguments in (("--store", tmp_path / "store", "--watch"), ("--watch", "--store", tmp_path / "store")):
        code, out, _ = run("verify", *arguments)
        assert (code, out[0].split(), out[2].split()) == (0, ["commits", "0"], ["changes", "1"])
    code, _, err = run("verify", "--store", tmp_path / "store", "--watch", "other")
    assert (code, "its watch is default" in err[0]) == (2, True)


def test_many_at_one_place_all_match(tmp_path):
    """A hundred thousand: each has its event, written in pieces."""
    from tests.dtoss.watch.streams import BEGIN, change, circle, run, settings_of

    home, count = Home(str(tmp_path)), 100_000
    change(home, [circle(f"s{number:06}", 8.0, 50.0, 10.0) for number in range(count)])
    row = {"id": 1, "t": BEGIN, "x": 8.0, "y": 50.0, "attributes": {"occupied": 0, "kind": "taxi"}}
    commit = run(home, settings_of(), [row], 1)
    assert commit.document["counts"]["enter"] == count
    (file,) = commit.document["events"]
    names = pq.read_table(home.folder.path("events", file["name"]), columns=["subscription", "kind"])
    entered = names.filter(pa.compute.equal(names["kind"].cast(pa.string()), "enter"))
    assert np.array_equal(
        np.sort(entered["subscription"].cast(pa.string()).to_numpy()), [f"s{number:06}" for number in range(count)]
    )
