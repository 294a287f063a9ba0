"""``dtoss watch`` as a user types it: what it counts, warns of and refuses, and what others then list."""

from __future__ import annotations

import json
import os

import pytest

import dtoss


@pytest.fixture
def run(session, command, monkeypatch, tmp_path):
    """(exit code, lines of stdout, lines of stderr) of a command in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    by = () if session is None else ("--engine", "spark")

    def ended(*arguments):
        ran = command(*arguments, *(by if arguments[0] == "watch" else ()))
        assert "Traceback" not in ran.err
        return ran.code, *ran.lines

    return ended


def put(folder, name, text):
    """Write a file that has been there for long."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    os.utime(path, (1, 1))
    return str(path)


def asked(folder, *rows):
    return put(folder, "asked.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def test_what_is_carried_counted_and_cannot_be_asked(run, tmp_path):
    """Columns with names of events, ids as text, rows that come late, twice or from the future, an empty id."""
    moves, home = str(tmp_path / "in"), ("--store", str(tmp_path / "store"))
    zone, nowhere = "my zone é 世", {"id": "q", "where": "nope = 1"}
    path = asked(tmp_path, {"id": zone, "circle": [8, 50, 1000], "events": ["enter", "leave"]}, nowhere)
    assert run("subscribe", path, *home)[0] == 0
    rows = [
        "id,lon,lat,t,kind",
        "taxi 1,8,50,100,x",
        "täxi,8,50,100,",
        "taxi 1,9,50,200,y",
        ",8,50,200,",
        "z,8,50,9e10,",
    ]
    put(tmp_path / "in", "a.csv", "\n".join(rows) + "\n")
    code, out, err = run("watch", moves, *home, "--once")
    assert (code, out, len(err)) == (2, [], 1)
    assert err[0].startswith(
        "error: 2 of 5 rows are bad (1 no id, 1 time ahead of the clock), more than --max-bad 10% allows:"
    )
    code, out, err = run("watch", moves, *home, "--once", "--max-bad", "50%", "--carry", "kind,t,kind")
    assert (code, out) == (0, ["4 rows in 1 batch, 3 events"])
    assert err[0].startswith("warning: subscription 'q' cannot be asked of these rows: where 'nope = 1': column 'nope'")
    assert ": 4 rows, 2 quarantined, 2 enter, 1 leave; " in err[1]
    told = [json.loads(line) for line in run("events", *home, "--subscription", zone)[1]]
    told.sort(key=lambda one: (one["object"], one["t"]))
    assert [(one["kind"], one["object"], one["kind_"]) for one in told] == [
        ("enter", "taxi 1", "x"), ("leave", "taxi 1", "y"), ("enter", "täxi", None),
    ]  # fmt: skip
    assert told[0]["t"] == told[0]["t_"] == 100
    code, out, err = run("subscriptions", *home)
    assert out[1].endswith("2 enter, 1 leave")
    assert err[0].startswith("q tells nothing: where 'nope = 1': column 'nope'")
    assert "nope" in json.loads(run("subscriptions", *home, "--json", "--id", "q")[1][0])["unanswered"]
    later = ["id,lon,lat,t,kind", "taxi 1,8,50,150,", "taxi 1,9,50,200,", "z,8,50,300,", "z,8,51,300,"]
    put(tmp_path / "in", "b.csv", "\n".join(later) + "\n")
    code, out, _ = run("watch", moves, *home, "--once", "--json")
    counts = json.loads(out[0])["counts"]
    assert [counts[name] for name in ("rows", "late", "repeated", "tied", "enter")] == [4, 1, 1, 1, 0]
    assert run("verify", *home, "--watch")[0] == 0


def test_rows_are_where_the_subscriptions_are(run, tmp_path):
    """In their CRS where no other is said; another one is refused; a name that is not known is warned of."""
    path = asked(tmp_path, {"id": "c", "circle": [500_000, 4_000_000, 100], "events": ["enter"]})
    moves, home = str(tmp_path / "in"), ("--store", str(tmp_path / "store"))
    assert run("subscribe", path, *home, "--crs", "EPSG:32610")[0] == 0
    put(tmp_path / "in", "a.csv", "id,x,y,t\n1,500000,4000050,100\n")
    code, out, err = run("watch", moves, *home, "--once", "--crs", "EPSG:32633")
    assert (code, out, len(err)) == (2, [], 1)
    assert "are in EPSG:32610 (plane) and the rows in EPSG:32633 (plane)" in err[0]
    assert run("watch", moves, *home, "--once")[1] == ["1 rows in 1 batch, 1 events"]
    (event,) = dtoss.events(home[1])
    assert (event["x"], event["y"], event["distance"]) == (500_000, 4_000_050, 50)
    code, _, err = run("watch", moves, *home, "--once", "--watch", "defalt", "--crs", "EPSG:32610")
    assert code == 0
    assert err[0].startswith("warning: nobody has subscribed to watch 'defalt': its rows are read, and make no events")
    assert err[0].endswith("; did you mean default?")
