"""A file that cannot be read as the others are, in a watch: set aside by name, in the commit of the batch."""

from __future__ import annotations

import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from dtoss.watch.subscription import ENTER, INSIDE, LEAVE
from dtoss.watch.watch_folder import Home
from pipelines.watch import watch_files
from pipelines.watching.watch_batches import Rowwise
from tests.dtoss.watch.streams import BEGIN, SECOND, change, circle
from tests.pipelines.watching.arrivals import OLD, all_told, arrive, once


def row(number, second):
    return {
        "id": number, "t": BEGIN + second * SECOND, "x": 0.0, "y": 0.0, "attributes": {"occupied": 1, "kind": "taxi"},
    }  # fmt: skip


@pytest.fixture
def scene(tmp_path):
    store, incoming = tmp_path / "store", tmp_path / "in"
    change(Home(str(store)), [circle("a", 0.0, 0.0, 3000.0)])
    return store, incoming


def altered(incoming, name, **columns):
    """A file of good rows with some columns that are otherwise."""
    path = arrive(incoming, name, [row(50, 9), row(51, 9)], "parquet")
    table = pq.read_table(path)
    for column, values in columns.items():
        table = table.set_column(table.column_names.index(column), column, values)
    pq.write_table(table, path)
    os.utime(path, (OLD, OLD))
    return path


def damaged(incoming, name):
    """A Parquet file with a good footer, whose pages are not."""
    path = arrive(incoming, name, [row(60, 9)], "parquet")
    data = bytearray(path.read_bytes())
    data[4:40] = b"x" * 36
    path.write_bytes(data)
    os.utime(path, (OLD, OLD))
    return path


def refused(store):
    return Home(str(store)).batches.head().document["ledger"].get("refused", {})


def test_odd_files_are_set_aside_by_name_and_the_others_go_on(session, scene):
    """Another type of ids, of a column, damage, no Parquet at all: beside a good file, each once, and none ends it."""
    store, incoming = scene
    arrive(incoming, "a", [row(1, 0)], "parquet")
    once(session, incoming, store)
    odd = [
        altered(incoming, "b", id=pa.array(["50", "51"])),
        altered(incoming, "c", occupied=pa.array(["x", "y"])),
        damaged(incoming, "d"),
        incoming / "e.parquet",
    ]
    odd[3].write_text("id,lon,lat,t\n1,2,3,4\n")
    os.utime(odd[3], (OLD, OLD))
    arrive(incoming, "good", [row(1, 1), row(2, 1)], "parquet")
    warned = []
    done = once(session, incoming, store, warn=warned.append)
    assert (done.batches, done.rows) == (1, 2)
    assert set(refused(store)) == {str(path) for path in odd}
    head = Home(str(store)).batches.head()
    assert head.number == 2, "in the commit of the good rows"
    assert set(head.document["batch"]["refused"]) == {str(path) for path in odd}
    for path in odd:
        assert len([line for line in warned if line.startswith(f"{path}: refused, none of its rows counts: ")]) == 1
    assert not any("rebuild" in line for line in warned)
    again = once(session, incoming, store, warn=warned.append)
    assert again.batches == 0
    altered(incoming, "b")
    os.utime(odd[0], (OLD + 5, OLD + 5))
    done = once(session, incoming, store, warn=warned.append)
    assert done.rows == 2, "written anew it is read"
    assert str(odd[0]) not in refused(store)
    assert {event[3] for batch in all_told(store) for event in batch} == {1, 2, 50, 51}


def test_a_lone_odd_file_is_refused_too_unless_that_fails(session, scene):
    store, incoming = scene
    arrive(incoming, "a", [row(1, 0)], "parquet")
    once(session, incoming, store)
    odd = altered(incoming, "b", id=pa.array(["p", "q"]))
    with pytest.raises(InputError, match="column 'id' is string, and the ids of watch default are int64"):
        once(session, incoming, store, on_odd_file="fail")
    assert refused(store) == {}
    assert once(session, incoming, store).rows == 0
    assert set(refused(store)) == {str(odd)}


def test_of_first_files_the_first_one_says_the_types(session, scene):
    """The rows of text without the columns that are named are set aside where another file has them."""
    store, incoming = scene
    arrive(incoming, "a", [row(1, 0)])
    odd = incoming / "b.csv"
    odd.write_text("name,lon,lat,t\nx,0,0,1\n")
    os.utime(odd, (OLD, OLD))
    assert once(session, incoming, store).rows == 1
    assert set(refused(store)) == {str(odd)}
    assert "there is no column 'id'" in refused(store)[str(odd)]


def said(store):
    return [event[0] for batch in all_told(store) for event in batch]


@pytest.fixture
def free(tmp_path):
    """A watch of cabs that are free, of which one has entered."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    change(Home(str(store)), [circle("a", 0.0, 0.0, 3000.0, where="occupied = 1", events=ENTER | LEAVE)])
    return store, incoming


def lacking(incoming, name, numbers, second, kind):
    path = arrive(incoming, name, [row(number, second) for number in numbers], kind)
    if kind == "parquet":
        pq.write_table(pq.read_table(path).drop_columns(["occupied"]), path)
    else:
        lines = [line.split(",") for line in path.read_text().splitlines()]
        at = lines[0].index("occupied")
        path.write_text("".join(",".join(line[:at] + line[at + 1 :]) + "\n" for line in lines))
    os.utime(path, (OLD, OLD))
    return path


TEXT = pytest.mark.deep("what is missing in text is found where nobody has said what to do, and then treated alike")


@pytest.mark.parametrize(
    ("missing", "kind"),
    [
        *((missing, "parquet") for missing in (None, "null", "keep", "error")),
        (None, "csv"),
        *(pytest.param(missing, "csv", marks=TEXT) for missing in ("null", "keep", "error")),
    ],
)
def test_a_file_that_lacks_a_column_of_a_condition(session, free, kind, missing):
    """Null, with a warning where nobody has said so; as it was; or an odd file. Beside it a file that has it."""
    store, incoming = free
    arrive(incoming, "a", [row(1, 0), row(2, 0)], kind)
    once(session, incoming, store, missing=missing)
    assert said(store) == ["enter", "enter"]
    path = lacking(incoming, "b", [1], 1, kind)
    arrive(incoming, "c", [row(2, 1)], kind)
    warned = []
    once(session, incoming, store, missing=missing, warn=warned.append)
    assert said(store)[2:] == (["leave"] if missing in (None, "null") else [])
    told = [
        line for line in warned if line.startswith(f"{path} has no column 'occupied', which subscriptions ask about")
    ]
    assert len(told) == (missing is None)
    assert set(refused(store)) == ({str(path)} if missing == "error" else set())


def test_messages_are_known_by_their_bytes(session, tmp_path):
    """Under another name, twice at once, touched; a file that is written anew with as many bytes is another one."""
    store, incoming = tmp_path / "store", tmp_path / "in"
    incoming.mkdir()
    change(Home(str(store)), [circle("a", 0.0, 0.0, 3000.0, events=INSIDE)])
    options = {"columns": Columns(id=None), "rows": Rowwise(messages=True, has_ids=False), "carry": ("n",)}

    def write(name, number, age=0):
        path = incoming / f"{name}.csv"
        path.write_text(f"lon,lat,n\n0,0,{number}\n")
        os.utime(path, (OLD + age, OLD + age))
        return path

    def heard():
        once(session, incoming, store, **options, warn=lambda line: None)
        return sorted(one["n"] for one in dtoss.events(str(store)))

    first = write("a", 1)
    write("twin", 1)
    assert heard() == [1]
    first.rename(incoming / "b.csv")
    (incoming / "twin.csv").unlink()
    assert heard() == [1]
    write("c", 2)
    assert heard() == [1, 2], "and the next commit knows the new name"
    os.utime(incoming / "b.csv", (OLD + 7, OLD + 7))
    assert heard() == [1, 2]
    write("c", 3, age=9)
    assert heard() == [1, 2, 3]
    assert "hashes" in Home(str(store)).batches.head().document["ledger"]


def test_a_file_that_is_overwritten_with_as_many_bytes_is_read_again(session, scene):
    store, incoming = scene
    path = arrive(incoming, "latest", [row(1, 0)])
    once(session, incoming, store)
    size = path.stat().st_size
    arrive(incoming, "latest", [row(1, 1) | {"x": 9.0}])
    assert path.stat().st_size == size
    os.utime(path, (OLD + 1, OLD + 1))
    once(session, incoming, store)
    assert said(store) == ["enter", "inside", "leave"]


def test_several_folders_are_watched(session, scene, tmp_path):
    store, incoming = scene
    arrive(incoming, "a", [row(1, 0)])
    arrive(tmp_path / "other", "a", [row(2, 0)])
    done = watch_files([str(incoming), str(tmp_path / "other")], str(store), lambda: session, once=True)
    assert done.rows == 2


def test_odd_text_is_refused(session, scene):
    """Packed and cut short, a zip, ids of another kind, names in another order beside others."""
    store, incoming = scene
    arrive(incoming, "a", [row(1, 0)])
    once(session, incoming, store)
    plain = arrive(incoming, "text", [row(number, 1) for number in range(900)]).read_bytes()
    (incoming / "text.csv").unlink()
    odd = [incoming / name for name in ("cut.csv.gz", "zip.csv", "ids.csv", "other.jsonl")]
    odd[0].write_bytes(gzip.compress(plain)[:-400])
    odd[1].write_bytes(b"PK\x03\x04" + plain)
    odd[2].write_text("id,lon,lat,t,occupied,kind\n" + f"x,0,0,{BEGIN // SECOND + 1},1,taxi\n" * 3)
    odd[3].write_text('{"id": 1, "lon": 0, "lat": 0, "t": 1}\n')
    swapped = incoming / "swapped.csv"
    swapped.write_text(f"lat,lon,id,t\n0,0,70,{BEGIN // SECOND + 1}\n")
    for path in (*odd, swapped):
        os.utime(path, (OLD, OLD))
    arrive(incoming, "good", [row(2, 1), row(3, 1)])
    done = once(session, incoming, store)
    assert (done.batches, done.rows) == (2, 3)
    assert set(refused(store)) == {str(path) for path in odd}
    assert {event[3] for batch in all_told(store) for event in batch} == {1, 2, 3, 70}


@pytest.mark.parametrize("moment", [1, 2, "committed"])
def test_a_watch_that_is_killed_refuses_a_file_once(session, scene, moment):
    """Before its commit nothing of the batch counts; after it the file is not read again."""
    store, incoming = scene
    arrive(incoming, "a", [row(1, 0)], "parquet")
    once(session, incoming, store)
    odd = altered(incoming, "b", id=pa.array(["p", "q"]))
    arrive(incoming, "good", [row(1, 1), row(2, 1)], "parquet")
    calls = iter(range(1, 100))

    def sessions():
        if next(calls) == moment:
            raise KeyboardInterrupt
        return session

    def say(told):
        if moment == "committed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch_files(str(incoming), str(store), sessions, once=True, say=say, warn=lambda line: None)
    assert Home(str(store)).batches.head().number == (2 if moment == "committed" else 1)
    assert once(session, incoming, store, warn=lambda line: None).rows == (0 if moment == "committed" else 2)
    assert Home(str(store)).batches.head().number == 2
    assert set(refused(store)) == {str(odd)}


def test_no_file_is_to_blame_where_there_is_no_spark(session, scene):
    store, incoming = scene
    arrive(incoming, "a", [row(1, 0)])
    once(session, incoming, store)
    arrive(incoming, "b", [row(2, 0)])

    def sessions():
        raise InputError("this needs Spark")

    with pytest.raises(InputError, match="this needs Spark"):
        watch_files(str(incoming), str(store), sessions, once=True, warn=pytest.fail)
    assert once(session, incoming, store).rows == 1
    assert refused(store) == {}
