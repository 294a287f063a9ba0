"""`dtoss subscribe`, `unsubscribe` and `subscriptions`: what they say, and what ends in one line; no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.geometry.space import space_of
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings

ROOT = Path(__file__).parents[4]
RING = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
ROWS = [
    {"id": 1, "circle": [8, 50, 1500], "where": "speed > 3", "events": ["enter", "leave"], "meta": {"to": "me"}},
    {"id": "box", "box": [170, -10, -170, 10], "expires": "2030-01-01"},
    {"id": "p", "polygon": {"type": "Polygon", "coordinates": [RING]}},
    {"id": "s", "around": {"object": 7, "metres": 20}},
]


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def put(tmp_path):
    """Writes rows as JSON lines and returns the path."""

    def made(rows, name="a.jsonl"):
        path = tmp_path / name
        path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
        return str(path)

    return made


def commit(home, changes, **settings):
    """A batch that has used so many changes."""
    said = Settings(space_of(), "int64", **({"time": "timestamp", "attributes": {"speed": pa.float64()}} | settings))
    home.batches.append({"kind": "watch", "settings": said.as_json(), "changes": changes}, home.batches.head())


def test_subscriptions_come_are_listed_and_go(command, put, store):
    """As a table and as JSON, which can be subscribed again."""
    path = put(ROWS)
    assert command("subscribe", path, "--store", store) == (0, "change 1: 4 added\n", "")
    assert command("subscribe", path, "--store", store) == (0, "change 1: 4 as before\n", "")
    code, out, err = command("subscriptions", "--store", store)
    assert (code, err) == (0, "")
    lines = [line.split("  ") for line in out.splitlines()]
    assert [cell.strip() for cell in lines[0] if cell] == [
        "id", "where it is", "where", "words", "events", "expires", "version",
    ]  # fmt: skip
    assert "within 1.5 km of 8, 50" in out
    assert "from 170, -10 to -170, 10" in out
    assert "a polygon of 4 corners" in out
    assert "within 20 m of object 7" in out
    assert "2030-01-01T00:00:00Z" in out
    code, out, _ = command("subscriptions", "--store", store, "--json")
    listed = [json.loads(line) for line in out.splitlines()]
    assert [(row["id"], row["version"]) for row in listed] == [("1", 1), ("box", 1), ("p", 1), ("s", 1)]
    assert listed[0]["circle"] == [8.0, 50.0, 1500.0]
    assert listed[0]["meta"] == {"to": "me"}
    again = put(listed, "again.jsonl")
    assert command("subscribe", again, "--store", store)[1] == "change 1: 4 as before\n"
    code, out, err = command("unsubscribe", "box", "nope", "--store", store)
    assert (code, out, err) == (0, "change 2: 1 removed\n", "1 of the ids have no subscription\n")
    code, out, _ = command("subscriptions", "--store", store, "--json", "--id", "1", "--id", "box")
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["1"]
    assert len(command("subscriptions", "--store", store, "--limit", "2", "--json")[1].splitlines()) == 2


def test_what_changes_and_what_is_replaced_is_counted(command, put, store):
    """In a line, and in JSON."""
    command("subscribe", put(ROWS), "--store", store)
    fewer = put([ROWS[0] | {"where": "speed > 4"}, ROWS[1], {"id": "new", "where": "a = 1"}])
    said = command("subscribe", fewer, "--store", store, "--replace")[1]
    assert said == "change 2: 1 added, 1 changed, 2 removed, 1 as before\n"
    code, out, _ = command("subscribe", fewer, "--store", store, "--replace", "--json")
    assert (code, json.loads(out)) == (
        0, {"number": 2, "added": 0, "changed": 0, "removed": 0, "same": 3, "bad": 0},
    )  # fmt: skip


def test_ids_to_remove_come_from_a_file_or_standard_input(command, put, store, tmp_path):
    """One on each line."""
    command("subscribe", put(ROWS), "--store", store)
    (tmp_path / "ids").write_text("1\n\n  p \nnone\n")
    assert command("unsubscribe", "--file", tmp_path / "ids", "--store", store)[1] == "change 2: 2 removed\n"
    ran = command("unsubscribe", "--file", "-", "--store", store, "--json", stdin="s\n")
    assert ran.out.startswith('{"number": 3')
    command.fails("unsubscribe", "--store", store)
    assert "nothing cannot be read" in command.fails("unsubscribe", "--store", store, "--file", tmp_path / "nothing")


def test_one_bad_row_refuses_the_files(command, put, store):
    """All that are bad are named, and nothing changes; unless so many are borne."""
    path = put([*ROWS, '{"id": 5, "circle": [1, 2, NaN]}\n', {"id": 6, "box": [1, 1, 1, 2]}])
    code, out, err = command("subscribe", path, "--store", store)
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert lines[0].startswith(f"bad: {path}:5: it is not JSON")
    assert lines[1].startswith(f"bad: {path}:6 ('6'): box has no width")
    assert lines[2:] == ["error: 2 of 6 subscriptions are bad, more than --max-bad 0% allows; nothing has changed"]
    assert change_number(Home(store)) == 0
    assert command("subscribe", path, "--store", store, "--max-bad", "30%")[0] == 2
    code, out, err = command("subscribe", path, "--store", store, "--max-bad", "34%")
    assert (code, out, len(err.splitlines())) == (0, "change 1: 4 added, 2 bad\n", 2)
    code, _, err = command("subscribe", path, "--store", store, "--max-bad", "7")
    assert (code, "--max-bad" in err) == (2, True)


def test_of_many_bad_rows_twenty_are_printed(command, put, store):
    """And how many more there are."""
    code, _, err = command("subscribe", put([{"id": n, "circle": [1, 2, -1]} for n in range(50)]), "--store", store)
    lines = err.splitlines()
    assert (code, len(lines), lines[20]) == (2, 22, "bad: 30 more")


def test_columns_of_the_watch_are_known_after_its_first_batch(command, put, store):
    """Conditions are checked against them, and enter wants a time."""
    path = put([{"id": 1, "where": "sped > 3"}])
    assert command("subscribe", path, "--store", store)[0] == 0
    commit(Home(store), 1, time=None)
    code, _, err = command("subscribe", path, "--store", store)
    assert (code, "did you mean speed?" in err) == (2, True)
    code, _, err = command("subscribe", put([{"id": 1, "events": ["enter"]}]), "--store", store)
    assert (code, "with a time: these have none" in err) == (2, True)


def test_words_that_only_deny_want_a_place_or_a_word(command, put, store):
    """Or the option that allows everything."""
    path = put([{"id": 1, "words": "not decaf"}])
    code, _, err = command("subscribe", path, "--store", store)
    assert (code, "--allow-everything" in err) == (2, True)
    assert command("subscribe", path, "--store", store, "--allow-everything")[0] == 0
    assert command("subscribe", put([{"id": 2, "words": "and"}]), "--store", store, "--allow-everything")[0] == 2


def test_a_watch_has_one_crs(command, put, store):
    """Of its first change; places in another one are refused."""
    path = put([{"id": 1, "circle": [5e5, 4e6, 10]}])
    assert command("subscribe", path, "--store", store)[0] == 2
    assert command("subscribe", path, "--store", store, "--crs", "EPSG:32610")[0] == 0
    assert "within 10 units of 500000, 4000000" in command("subscriptions", "--store", store)[1]
    code, _, err = command("subscribe", path, "--store", store, "--crs", "EPSG:4326")
    assert (code, err.count("\n"), "is in EPSG:32610 (plane)" in err) == (2, 1, True)
    assert command("subscribe", path, "--store", store, "--watch", "no/name")[2].startswith(
        "error: watch 'no/name' cannot"
    )


def test_a_wait_ends_with_the_batch_that_uses_the_change(command, put, store, monkeypatch):
    """Not with one before; who waits is told for what."""
    home = Home(store)
    command("subscribe", put(ROWS), "--store", store)
    commit(home, 1)
    assert command("subscribe", put(ROWS), "--store", store, "--wait") == (0, "change 1: 4 as before\n", "")

    def later():
        while change_number(home) < 2:
            time.sleep(0.02)
        commit(home, 1)
        time.sleep(0.5)
        commit(home, 2)

    thread = threading.Thread(target=later)
    thread.start()
    code, out, err = command("unsubscribe", "1", "--store", store, "--wait")
    assert home.batches.head().document["changes"] == 2
    thread.join()
    assert (code, out) == (0, "change 2: 1 removed\n")
    assert err.startswith("waiting for a batch of watch default that uses change 2")


def test_a_million_at_one_place(command, store, tmp_path):
    """A hundred thousand in a short run; all of them stand, and a small change reads little of them."""
    count = 100_000
    columns = {"id": np.arange(count)} | {name: np.full(count, 5.0) for name in ("lon", "lat", "radius")}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert command("subscribe", tmp_path / "a.parquet", "--store", store)[1] == "change 1: 100,000 added\n"
    assert command("unsubscribe", "17", "--store", store)[1] == "change 2: 1 removed\n"
    assert len(table_at(Home(store), 2)) == count - 1


def test_spark_is_not_loaded(put, store):
    """By a subscription from a file."""
    code = (
        "import sys\nfrom pipelines.command.main import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "assert not {'pyspark', 'geopandas', 'numba.cuda'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, "subscribe", put(ROWS), "--store", store],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "change 1: 4 added\n", "")
