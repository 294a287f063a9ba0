"""Files that arrive, held against subscriptions: the events of the loop, each once; what is refused."""

from __future__ import annotations

import json
import os
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

import dtoss
import pipelines.watching.typed_rows
import pipelines.watching.watch_batches
from dtoss.errors import InputError, StoreError
from dtoss.rows.input_columns import Columns
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.watch_folder import EVENTS, STATE, Home
from pipelines.spark.session import cores
from pipelines.watch import watch_files
from pipelines.watching.watch_batches import Rowwise
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.streams import (
    BEGIN,
    SECOND,
    SPHERE,
    change,
    circle,
    random_asked,
    random_rows,
    run,
    settings_of,
    stands,
)
from tests.pipelines.watching.arrivals import all_told, arrive, counted, once

MORE = pytest.mark.deep("files of other formats, which the tests beside it read, with an expiry")


def of_files(home, kind, names):
    """The bytes of the files of a kind that the last commit names."""
    return sorted(bytes(home.folder.read(kind, one["name"])) for one in names)


@pytest.mark.parametrize("ids", ["int64", "string"])
def test_a_batch_writes_what_tasks_write_in_process(session, tmp_path, unfolded, ids):
    """Two batches with late rows, ties and rows twice, subscriptions that come and go: events and state as bytes."""
    rng = np.random.default_rng(6)
    there, here, incoming = Home(str(tmp_path / "there")), Home(str(tmp_path / "here")), tmp_path / "in"
    rows = random_rows(rng, 80, objects=9, seconds=90)
    rows = rows if ids == "int64" else [row | {"id": f"é{row['id']}"} for row in rows]
    for number, part in enumerate((rows[:50], rows[30:])):
        asking = [random_asked(rng, f"s{one}") | {"expires": None} for one in range(number, number + 6)]
        for home in (there, here):
            change(home, asking, ["s1"] if number else [])
        arrive(incoming, f"part{number}", part, "jsonl")
        once(session, incoming, there.store)
        wanted = run(here, settings_of(ids=ids), part, cores(session), ids=ids).document
        found = there.batches.head().document
        assert found["counts"] == wanted["counts"]
        for kind, name in ((EVENTS, "events"), (STATE, "state")):
            assert of_files(there, kind, found[name]) == of_files(here, kind, wanted[name])
        assert found["events"]


@pytest.mark.parametrize("kind", ["csv", *(pytest.param(kind, marks=MORE) for kind in ("jsonl", "parquet"))])
def test_files_are_held_against_what_stands(session, tmp_path, unfolded, kind):
    """Three files, a batch each, with late rows, ties and an expiry: batch by batch what the loop tells."""
    rng = np.random.default_rng(len(kind))
    store, incoming = tmp_path / "store", tmp_path / "in"
    home = Home(str(store))
    loop = Watched(SPHERE, settings_of().schema, 30 * SECOND)
    rows = random_rows(rng, 60, seconds=90)
    first = {"id": 1, "t": BEGIN, "x": 0.0, "y": 0.0, "attributes": {"occupied": 1, "kind": "taxi"}}
    parts = [[first, *rows[:20]], rows[20:40], rows[40:]]
    for number, part in enumerate(parts, start=1):
        change(home, [random_asked(rng, f"s{one}") for one in range(number, number + 4)])
        number_of, table = stands(home)
        before = len(all_told(store))
        arrive(incoming, f"part{number}", part, kind)
        done = once(session, incoming, store, expire=30.0)
        fresh = all_told(store)[before:]
        assert done.batches == len(fresh) <= 2
        assert done.events == sum(map(len, fresh))
        for rows_of_batch, found in zip((part, []), fresh, strict=False):  # a beat, where somebody is over by now
            assert Counter(found) == Counter(loop.batch(rows_of_batch, number_of, table)), number
    assert sum(map(len, all_told(store))) > 10
    assert not verify_watch(home).damaged


def test_tasks_that_fail_once_lose_and_double_nothing(spark, tmp_path, monkeypatch):
    """After they have written their files: tried again, each event is told once."""
    rng = np.random.default_rng(8)
    home, incoming, marks = Home(str(tmp_path / "store")), tmp_path / "in", tmp_path / "marks"
    marks.mkdir()
    change(home, [random_asked(rng, f"s{one}") | {"expires": None} for one in range(8)])
    rows, real = random_rows(rng, 50, objects=9, seconds=90), pipelines.watching.typed_rows.done_by_bucket

    def done_by_bucket(frame, key, tasks, work):
        def fails_once(task, table):
            done = work(task, table)
            if not (marks / str(task)).exists():
                (marks / str(task)).touch()
                raise OSError("this executor is lost")
            return done

        return real(frame, key, tasks, fails_once)

    loop, (number, table) = Watched(SPHERE, settings_of().schema), stands(home)
    monkeypatch.setattr(pipelines.watching.typed_rows, "done_by_bucket", done_by_bucket)
    arrive(incoming, "a", rows, "parquet")
    done = once(spark, incoming, home.store)
    assert sorted(path.name for path in marks.iterdir()) == ["0", "1"]
    assert done.batches == 1
    assert counted(all_told(home.store)) == Counter(loop.batch(rows, number, table))
    assert not verify_watch(home).damaged


def test_rows_that_cannot_be_are_set_aside_and_counted(session, tmp_path):
    """A null id, no number, NaN, a latitude of 91, a time of the future and one BC: reasons, and rows in a file."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    incoming.mkdir()
    change(Home(str(store)), [circle("a", 0.0, 0.0, 1000.0)])
    lines = [
        "id,lon,lat,t",
        "1,0,0,100",
        ",0,0,100",
        "2,x,0,100",
        "3,0,91,100",
        "4,0,0,99999999999",
        "5,0,nan,100",
        "6,0,0,-99999999999",
    ]
    path = incoming / "bad.csv"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1, 1))
    with pytest.raises(InputError, match=r"6 of 7 rows are bad .* --max-bad 10% allows"):
        once(session, incoming, store)
    assert Home(str(store)).batches.head() is None
    once(session, incoming, store, max_bad=0.9)
    document = Home(str(store)).batches.head().document
    assert document["reasons"] == {
        "latitude out of range": 1,
        "no id": 1,
        "position is NaN": 1,
        "position is not a number": 1,
        "time ahead of the clock": 1,
        "time out of range": 1,
    }
    assert sum(file["rows"] for file in document["quarantine"]) == 6
    folder = store / "watch" / "default" / "quarantine"
    rows = [row for file in document["quarantine"] for row in pq.read_table(folder / file["name"]).to_pylist()]
    assert {json.loads(row["row"])["t"] for row in rows if row["reason"] == "time ahead of the clock"} == {
        "99999999999"
    }
    assert all(row["row"] for row in rows)
    assert document["counts"]["inside"] == 1


def test_a_file_that_was_read_is_never_read_again(session, tmp_path):
    """Not by another run, nor under another order of files; one that is new is."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    rows = random_rows(np.random.default_rng(3), 30)
    change(Home(str(store)), [circle("a", 0.0, 0.0, 3000.0), circle("b", 180.0, 0.0, 3000.0)])
    arrive(incoming, "b", rows[:10])
    once(session, incoming, store)
    before = all_told(store)
    arrive(incoming, "a", rows[10:20])
    once(session, incoming, store)
    assert all_told(store)[: len(before)] == before
    assert len(all_told(store)) == len(before) + 1
    assert set(Home(str(store)).batches.head().document["ledger"]["files"]) == {
        str(incoming / "a.csv"),
        str(incoming / "b.csv"),
    }


def test_later_files_take_the_types_of_the_first(session, tmp_path):
    """A column of text stays one where all its values look like numbers; one that is missing is null."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    change(Home(str(store)), [circle("a", 0.0, 0.0, 3000.0, where="kind = '7'")])
    row = {"id": 1, "t": BEGIN, "x": 0.0, "y": 0.0, "attributes": {"occupied": 1, "kind": "taxi"}}
    arrive(incoming, "a", [row])
    once(session, incoming, store)
    arrive(incoming, "b", [row | {"t": BEGIN + SECOND, "attributes": {"occupied": 1, "kind": "7"}}])
    once(session, incoming, store)
    assert [event[0] for event in all_told(store)[1]] == ["enter", "inside"]
    path = incoming / "c.csv"
    path.write_text(f"id,lon,lat,t\n1,0,0,{BEGIN // SECOND + 9}\n")
    os.utime(path, (1, 1))
    once(session, incoming, store)
    assert [event[0] for event in all_told(store)[2]] == ["leave"]


def test_messages_have_words_and_places(session, tmp_path):
    """Every message near that speaks of fire, whatever it says beside; no state, no leave; 1 MB of text as well."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    incoming.mkdir()
    change(
        Home(str(store)),
        [
            circle("fire", 10.0, 50.0, 20_000.0, words="(fire or flood) and not drill", events=1),
            circle("phrase", 10.0, 50.0, 20_000.0, words='"big fire"', events=1),
        ],
    )
    texts = ["Big FIRE!", "a fire drill", "fire", "no big thing", None, "flood " * 170_000]
    messages = [{"lon": 10.0, "lat": 50.0, "said": text, "n": number} for number, text in enumerate(texts)]
    messages.append({"lon": 20.0, "lat": 50.0, "said": "fire", "n": 99})
    path = incoming / "m.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in messages))
    os.utime(path, (1, 1))
    rows = Rowwise(text="said", messages=True, has_ids=False)
    done = once(session, incoming, store, columns=Columns(id=None), rows=rows, carry=("n",))
    assert done.events == 4
    found = sorted((one["subscription"], one["n"]) for one in dtoss.events(str(store)))
    assert found == [("fire", 0), ("fire", 2), ("fire", 5), ("phrase", 0)]
    assert Home(str(store)).batches.head().document["state"] == []


def test_a_file_that_changes_while_it_is_read_counts_as_it_is_then(session, tmp_path, monkeypatch):
    """Its first bytes count for nothing; it is listed anew. One that is removed once it was read counts."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    incoming.mkdir()
    change(Home(str(store)), [circle("a", 0.0, 0.0, 1000.0, events=1)])
    path, other = incoming / "a.csv", incoming / "b.csv"
    path.write_text("lon,lat,n\n0,0,1\n")
    real, warned = pipelines.watching.watch_batches.run_tasks, []

    def run_tasks(*arguments):
        done = real(*arguments)
        if path.stat().st_size < 20:
            path.write_text("lon,lat,n\n0,0,1\n0,0,2\n")
            os.utime(path, (1, 1))
        elif other.exists():
            other.unlink()
        return done

    monkeypatch.setattr(pipelines.watching.watch_batches, "run_tasks", run_tasks)
    rows = Rowwise(messages=True, has_ids=False)
    options = {"columns": Columns(id=None), "rows": rows, "carry": ("n",), "warn": warned.append}
    os.utime(path, (1, 1))
    assert once(session, incoming, store, **options).events == 2
    assert len(warned) == 1
    assert warned[0].startswith(f"a batch has failed: {path} has changed while it was read; it is tried again")
    other.write_text("lon,lat,n\n0,0,3\n")
    os.utime(other, (1, 1))
    assert once(session, incoming, store, **options).events == 1
    assert not other.exists()
    assert sorted(one["n"] for one in dtoss.events(str(store))) == [1, 2, 3]


def test_a_second_watch_of_one_name_ends_at_once(session, tmp_path):
    """It says who holds it; another name is free."""
    from dtoss.commits.lease import take

    store, incoming = tmp_path / "store", tmp_path / "in"
    home = Home(str(store))
    change(home, [circle("a", 0.0, 0.0, 3000.0)])
    arrive(incoming, "a", random_rows(np.random.default_rng(1), 5))
    lease = take(home.folder, "it", print, lambda: None)
    try:
        with pytest.raises(StoreError, match=r"watch default of .* is being written by"):
            once(session, incoming, store)
        assert once(session, incoming, store, name="other").batches == 1
    finally:
        lease.release()
    assert once(session, incoming, store).batches == 1


def test_a_replay_under_another_name_tells_what_a_fence_would_have_said(session, tmp_path):
    """The same files, new subscriptions, the same code."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    rows = random_rows(np.random.default_rng(5), 40)
    arrive(incoming, "a", rows)
    change(Home(str(store)), [circle("a", 0.0, 0.0, 3000.0)])
    run(Home(str(store)), settings_of(), rows, 2)
    change(Home(str(store), "what-if"), [circle("new", 180.0, 0.0, 3000.0)])
    once(session, incoming, store, name="what-if")
    loop = Watched(SPHERE, settings_of().schema)
    number, table = stands(Home(str(store), "what-if"))
    assert counted(all_told(store, "what-if")) == Counter(loop.batch(rows, number, table))
    assert {event[1] for event in all_told(store)[0]} == {"a"}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"every": 0.0}, "more than 0"),
        ({"most_rows": 0}, "1 or more"),
        ({"expire": -1.0}, "--expire is -1 s"),
        ({"carry": ("nothing",)}, "--carry nothing: the rows of watch default have no such column, they have"),
        ({"rows": Rowwise(text="nothing")}, "there is no column 'nothing' (--text NAME)"),
        ({"columns": Columns(id="none")}, "there is no column 'none' (--id NAME)"),
        ({"rows": Rowwise(has_ids=False), "columns": Columns(id=None)}, "rows without an id are messages"),
    ],
)
def test_options_that_cannot_be(session, tmp_path, options, match):
    """One line names the value and the way out; nothing is committed."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    arrive(incoming, "a", random_rows(np.random.default_rng(1), 3))
    with pytest.raises(InputError) as caught:
        watch_files(str(incoming), str(store), lambda: session, once=True, **options)
    assert match in str(caught.value)
    assert "\n" not in str(caught.value)
    assert Home(str(store)).batches.head() is None


def test_other_settings_than_those_of_the_first_batch_are_refused(session, tmp_path):
    """Positions of a plane, or messages, are another watch's."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    arrive(incoming, "a", random_rows(np.random.default_rng(1), 3))
    once(session, incoming, store)
    arrive(incoming, "b", random_rows(np.random.default_rng(2), 3))
    with pytest.raises(InputError, match="there is no column"):
        once(session, incoming, store, columns=Columns(id="other"))
    assert Home(str(store)).batches.head().number == 1
