"""Files that keep arriving: which are whole, which were read."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError
from pipelines.loop.arriving import LONG_SECONDS, YOUNG_SECONDS, Patience, has_footer, list_arrivals
from pipelines.rows.list_files import join_listings, listing

NOW = 1_800_000_000.0


class Watched:
    """A folder that is looked at, with what was told of it."""

    def __init__(self, folder):
        self.folder, self.ledger, self.patience, self.told, self.now = folder, Ledger(), Patience(), [], NOW

    def look(self):
        return list_arrivals(str(self.folder), self.ledger, self.patience, self.told.append, lambda: self.now)

    def names(self):
        """Fresh files, below the folder; they are read at once."""
        found = self.look()
        self.ledger = found.read(self.ledger)
        return [name.removeprefix(f"{self.folder}/") for name in found.fresh]


@pytest.fixture
def watched(tmp_path):
    folder = tmp_path / "updates"
    folder.mkdir()
    return Watched(folder)


def text(folder, name, lines=("id,lon,lat,t", "1,2,3,4"), age=60.0):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    os.utime(path, (NOW - age, NOW - age))
    return path


def parquet(folder, name, rows=3, age=60.0):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(range(rows)), "lon": [1.0] * rows, "lat": [2.0] * rows}), path)
    os.utime(path, (NOW - age, NOW - age))
    return path


def test_each_file_is_fresh_once(watched):
    text(watched.folder, "b.csv")
    text(watched.folder, "deep/er/a.csv.gz")
    assert watched.names() == ["b.csv", "deep/er/a.csv.gz"]
    assert watched.names() == []
    text(watched.folder, "c.csv")
    assert watched.names() == ["c.csv"]
    text(watched.folder, "b.csv", ("id,lon,lat,t", "1,2,3,4", "2,2,3,4"))
    assert watched.names() == ["b.csv"]
    assert watched.told == []


def test_the_ledger_is_bounded_by_the_folder(watched):
    first, second = text(watched.folder, "a.csv"), text(watched.folder, "b.csv")
    watched.names()
    assert set(watched.ledger.files) == {str(first), str(second)}
    assert watched.ledger.files[str(first)] == first.stat().st_size
    first.unlink()
    text(watched.folder, "c.csv")
    watched.names()
    assert set(watched.ledger.files) == {str(second), str(watched.folder / "c.csv")}


@pytest.mark.parametrize("name", [".a.csv", "_a.csv", "_tmp/a.csv", "sub/.x/a.csv", "_SUCCESS", "a/.b.csv.crc"])
def test_hidden_names_are_never_read(watched, name):
    text(watched.folder, name, age=0.0)
    text(watched.folder, "seen.csv")
    watched.now += 10 * LONG_SECONDS
    assert watched.names() == ["seen.csv"]
    assert watched.told == []


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.csv.gz"])
def test_text_that_is_young_waits(watched, name):
    text(watched.folder, name, age=YOUNG_SECONDS - 0.01)
    found = watched.look()
    assert (list(found.fresh), list(found.waiting), found.oldest) == ([], [str(watched.folder / name)], None)
    watched.now += 0.01
    found = watched.look()
    assert (list(found.fresh), list(found.waiting)) == ([str(watched.folder / name)], [])
    assert found.oldest == pytest.approx(NOW - YOUNG_SECONDS + 0.01, abs=1e-6)


def test_a_time_of_a_clock_ahead_of_ours_is_not_young(watched):
    text(watched.folder, "a.csv", age=-3600.0)
    assert watched.names() == ["a.csv"]


def test_parquet_waits_for_its_footer_and_is_told_of_once_after_ten_minutes(watched):
    whole = parquet(watched.folder, "a.parquet", age=0.0)
    data = whole.read_bytes()
    half = watched.folder / "b.parquet"
    half.write_bytes(data[:-1])
    os.utime(half, (NOW, NOW))
    assert watched.names() == ["a.parquet"]
    watched.now += LONG_SECONDS
    assert watched.names() == []
    assert watched.told == []
    watched.now += 1.0
    for _ in range(3):
        assert watched.names() == []
    assert watched.told == [f"{half}: has no footer after 10 minutes, and is not read: is its writer gone?"]
    half.write_bytes(data)
    assert watched.names() == ["b.parquet"]


def test_text_that_is_written_to_for_ever_is_told_of_once(watched):
    for step in range(int(LONG_SECONDS) + 3):
        watched.now = NOW + step
        path = watched.folder / "a.csv"
        path.write_bytes(b"id,lon,lat,t\n")
        os.utime(path, (watched.now, watched.now))
        assert watched.names() == []
    assert len(watched.told) == 1
    assert "is still being written to after 10 minutes" in watched.told[0]


@pytest.mark.parametrize("cut", [0, 3, 4, 11, 12])
def test_what_is_cut_has_no_footer(tmp_path, cut):
    path = parquet(tmp_path, "a.parquet")
    data = path.read_bytes()
    filesystem = listing(str(tmp_path)).filesystem
    assert has_footer(filesystem, str(path), len(data))
    path.write_bytes(data[:cut])
    assert not has_footer(filesystem, str(path), cut)
    path.write_bytes(data[: len(data) - cut - 1])
    assert not has_footer(filesystem, str(path), len(data) - cut - 1)
    # a length that leads before the file
    path.write_bytes(b"PAR1" + (1000).to_bytes(4, "little") + b"PAR1")
    assert not has_footer(filesystem, str(path), 12)
    assert not has_footer(filesystem, str(tmp_path / "gone.parquet"), 100)


def test_formats_are_not_mixed(watched):
    one, other = text(watched.folder, "a.csv"), parquet(watched.folder, "b.parquet")
    with pytest.raises(InputError, match="files of several formats arrive") as raised:
        watched.look()
    assert str(one) in str(raised.value)
    assert str(other) in str(raised.value)


def test_formats_are_not_mixed_with_what_was_read(watched):
    text(watched.folder, "a.csv")
    watched.names()
    text(watched.folder, "b.jsonl")
    with pytest.raises(InputError, match="several formats"):
        watched.look()


def test_other_files_are_left_alone_and_told_of_once(watched):
    text(watched.folder, "readme.pdf")
    text(watched.folder, "a.csv")
    assert watched.names() == ["a.csv"]
    assert watched.names() == []
    assert watched.told == [f"{watched.folder / 'readme.pdf'}: no format that is read: it is left alone"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"nothing is at .*nowhere: make the folder"):
        list_arrivals(str(tmp_path / "nowhere"), Ledger(), Patience(), print)


def test_a_glob_may_match_nothing_yet(tmp_path):
    assert list_arrivals(f"{tmp_path}/*.csv", Ledger(), Patience(), print).fresh == {}


def test_an_empty_file_counts_as_read_and_is_not_read(watched):
    (watched.folder / "a.csv").write_bytes(b"")
    os.utime(watched.folder / "a.csv", (NOW - 9, NOW - 9))
    found = watched.look()
    assert list(found.fresh.values()) == [0]
    assert found.inputs() is None
    text(watched.folder, "b.csv")
    assert watched.look().inputs().files == (str(watched.folder / "b.csv"),)


def test_files_that_vanish_or_grow_are_known(watched):
    for name in ("a.csv", "b.csv", "c.csv"):
        text(watched.folder, name)
    found = watched.look()
    assert found.gone() == []
    (watched.folder / "a.csv").unlink()
    with (watched.folder / "c.csv").open("a") as stream:
        stream.write("more\n")
    assert found.gone() == [str(watched.folder / "a.csv"), str(watched.folder / "c.csv")]


def test_what_is_read_is_what_is_fresh(spark, watched):
    from dtoss.rows.input_columns import Columns
    from pipelines.rows.read_files import read_positions

    odd = "day=1/a b[1]{2}*.csv"
    text(watched.folder, odd)
    text(watched.folder, "day=2/b.csv.gz", ("id,lon,lat,t", "7,8,9,10"))
    watched.names()
    text(watched.folder, "day=3/c.csv", ("id,lon,lat,t", "9,8,7,6"))
    inputs = watched.look().inputs()
    positions = read_positions(spark, inputs, Columns())
    try:
        rows = positions.spark_frame.select("id", "x", "t", "`a:day`").toArrow().to_pylist()
    finally:
        positions.release()
    assert rows == [{"id": 9, "x": 8.0, "t": 6, "a:day": 3}]
    watched.ledger = Ledger()
    positions = read_positions(spark, watched.look().inputs(), Columns())
    try:
        rows = positions.spark_frame.select("id", "`a:day`").toArrow().to_pylist()
    finally:
        positions.release()
    assert sorted((row["id"], row["a:day"]) for row in rows) == [(1, 1), (7, 2), (9, 3)]


def test_what_was_read_is_not_opened_again(watched):
    """It is no Parquet at all, which nobody sees any more; one with other bytes is looked at."""
    for number in range(200):
        (watched.folder / f"{number:03d}.parquet").write_bytes(b"no Parquet at all")
        (watched.folder / f"{number:03d}").write_bytes(b"no Parquet at all")
    watched.ledger = Ledger({str(path): 17 for path in watched.folder.iterdir()})
    (watched.folder / "007.parquet").write_bytes(b"no Parquet at all either")
    os.utime(watched.folder / "007.parquet", (NOW, NOW))
    found = watched.look()
    assert list(found.fresh) == []
    assert list(found.waiting) == [str(watched.folder / "007.parquet")]
    assert watched.told == []


def test_several_places_are_one(tmp_path):
    """A folder, a file of it and a glob: each file once, those of no format are told of, folders of values go alone."""
    for name in ("a/1.csv", "a/2.csv", "b/3.csv", "b/notes.md", "c/4.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("id\n1\n")
        os.utime(tmp_path / name, (1, 1))
    places, told = [f"{tmp_path}/a", f"{tmp_path}/a/1.csv", f"{tmp_path}/b/*"], []
    found = list_arrivals(places, Ledger(), Patience(), told.append)
    wanted = [f"{tmp_path}/{name}" for name in ("a/1.csv", "a/2.csv", "b/3.csv")]
    assert list(found.fresh) == wanted
    assert told == [f"{tmp_path}/b/notes.md: no format that is read: it is left alone"]
    assert found.inputs().named == tuple(f"file://{file}" for file in wanted)
    assert list_arrivals(places, found.read(Ledger()), Patience(), told.append).fresh == {}
    with pytest.raises(InputError, match=f"nothing is at {tmp_path}/d"):
        list_arrivals([*places, f"{tmp_path}/d"], Ledger(), Patience(), told.append)
    with pytest.raises(InputError, match=r"are on different file systems: name those of one"):
        join_listings([listing(f"{tmp_path}/a"), replace(listing(f"{tmp_path}/b"), path="s3://bucket/b")])
    (tmp_path / "v" / "day=1").mkdir(parents=True)
    (tmp_path / "v" / "day=1" / "5.csv").write_text("id\n1\n")
    with pytest.raises(InputError, match=r"whose names are values of a column, which go by one path"):
        list_arrivals([*places, f"{tmp_path}/v"], Ledger(), Patience(), told.append)


def test_a_file_that_is_written_again_with_as_many_bytes_is_fresh(watched):
    path = text(watched.folder, "latest.csv")
    assert watched.names() == ["latest.csv"]
    text(watched.folder, "latest.csv", ("id,lon,lat,t", "1,2,3,5"), age=50.0)
    found = watched.look()
    assert found.fresh == {str(path): path.stat().st_size}
    assert found.gone() == found.changed() == []
    os.utime(path, (NOW - 40, NOW - 40))
    assert found.gone() == found.changed() == [str(path)], "and while it is read"
    assert watched.names() == ["latest.csv"]
    assert watched.names() == []


def test_files_that_will_never_be_whole_are_broken(watched):
    """No Parquet at all, once nobody writes; after ten minutes what is cut short, and room that nobody filled."""
    none, half, hole = (watched.folder / f"{name}.parquet" for name in ("none", "half", "hole"))
    none.write_text("id,lon,lat,t\n1,2,3,4\n")
    half.write_bytes(parquet(watched.folder, "a.parquet").read_bytes()[:-9])
    hole.write_bytes(bytes(100))
    for path in (none, half, hole):
        os.utime(path, (NOW, NOW))
    assert watched.look().broken == {}
    assert watched.look().grows(NOW)
    watched.now += YOUNG_SECONDS + 1.0
    assert set(watched.look().broken) == {str(none)}
    watched.now += LONG_SECONDS
    found = watched.look()
    assert set(found.broken) == {str(none), str(half), str(hole)}
    assert not found.grows(watched.now)
    watched.ledger = found.source(found.broken).read(watched.ledger)
    assert set(watched.ledger.refused) == set(found.broken)
    assert watched.look().waiting == {}
    parquet(watched.folder, "half.parquet", age=0.0)
    assert watched.names() == ["half.parquet"]
    assert set(watched.ledger.refused) == {str(none), str(hole)}


def test_a_file_of_another_format_is_broken_where_files_are_refused(watched):
    text(watched.folder, "a.csv")
    watched.names()
    odd = text(watched.folder, "b.jsonl", age=90.0)
    text(watched.folder, "c.csv")
    found = list_arrivals(str(watched.folder), watched.ledger, Patience(), pytest.fail, lambda: NOW, refuses=True)
    assert list(found.fresh) == [str(watched.folder / "c.csv")]
    assert set(found.broken) == {str(odd)}
    watched.ledger = found.source(found.broken).read(watched.ledger)
    assert watched.names() == [], "what is refused is of no format that counts"
