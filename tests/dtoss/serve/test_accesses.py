"""The access log: a uniform sample whose weights are all requests, in files that are whole, and none counted twice."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from scipy.stats import chi2

from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of
from dtoss.serve.observability import access_log
from dtoss.serve.observability.access_log import Accesses, Amounts
from dtoss.serve.observability.partition_counts import A_DEGREE, Sample, rounding_of
from dtoss.snapshots.store import Store
from tests.dtoss.serve.watched import commit
from tests.object_store import object_store

SHORT = Amounts(minute=0.05)
SPHERE, PLANE = space_of(), space_of("EPSG:32632")
NAME = r"\d{4}-\d\d-\d\d/[0-2]\d\d-%s-\d+\.parquet"


class Notes:
    """What an access log tells."""

    def __init__(self):
        self.rows = self.requests = self.failures = self.lost = 0
        self.events = []

    def logged(self, rows, requests):
        self.rows += rows
        self.requests += requests

    def not_logged(self, lost=0):
        self.failures += 1
        self.lost += lost

    def event(self, what, /, **facts):
        self.events.append((what, facts))


def ask(log, numbers, sizes=(1, 7, 50)):
    """Ask once for each number, which is the lon of its place, in batches of these sizes in turn."""
    at, turn = 0, 0
    numbers = np.asarray(numbers, dtype=float)
    while at < len(numbers):
        some = numbers[at : at + sizes[turn % len(sizes)]]
        log.many(some, some / 2, np.full(len(some), 8), None)
        at, turn = at + len(some), turn + 1


def files_of(folder):
    return sorted(str(file.relative_to(folder)) for file in Path(folder).rglob("*") if file.is_file())


def rows_of(folder):
    found = [pq.read_table(file) for file in sorted(Path(folder).rglob("*.parquet"))]
    return pa.concat_tables(found)


# -- the sample -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "requests", "sizes"), [(20, 300, (1,)), (20, 300, (7, 50)), (1, 40, (3,)), (50, 60, (60,))]
)
def test_each_request_is_kept_with_the_same_probability(size, requests, sizes):
    """Chi-square over the requests' numbers, of many samples: what is kept without replacement varies a little less."""
    times = 1_000
    seen = np.zeros(requests)
    for seed in range(times):
        sample = Sample(size, seed)
        at = 0
        while at < requests:
            count = min(sizes[(seed + at) % len(sizes)], requests - at)
            numbers = np.arange(at, at + count, dtype=float)
            sample.add(numbers, numbers, 1, None, count)
            at += count
        kept = sample.kept(("lon", "lat")).table["lon"].to_numpy().astype(int)
        assert len(set(kept)) == size
        seen[kept] += 1
    expected = times * size / requests
    statistic = ((seen - expected) ** 2 / expected).sum() / (1 - size / requests) * (requests - 1) / requests
    assert chi2.ppf(0.0005, requests - 1) < statistic < chi2.ppf(0.9995, requests - 1)


@pytest.mark.parametrize("requests", [0, 1, 19, 20, 21, 40, 12_345])
def test_weights_are_whole_requests_and_sum_to_all(requests):
    sample = Sample(20, 3)
    for number in range(requests):
        sample.add(float(number), 0.0, None, None, 1)
    kept = sample.kept(("lon", "lat"))
    weights = kept.table["weight"].to_pylist()
    assert len(weights) == min(requests, 20)
    assert sum(weights) == kept.requests == sample.requests == requests
    assert not weights or max(weights) - min(weights) <= 1


def test_which_rows_weigh_one_more_is_drawn_too():
    """30 requests, of which 20 are kept: ten of them stand for two, and not always the same."""
    heavy = Counter()
    for seed in range(300):
        sample = Sample(20, seed)
        sample.add(np.arange(30.0), np.zeros(30), None, None, 30)
        heavy.update(np.flatnonzero(sample.kept(("x", "y")).table["weight"].to_numpy() == 2).tolist())
    assert sorted(heavy) == list(range(20))
    assert 100 < min(heavy.values()) <= max(heavy.values()) < 200


def test_the_same_seed_keeps_the_same():
    def kept(seed):
        sample = Sample(10, seed)
        sample.add(np.arange(500.0), np.zeros(500), None, None, 500)
        return sample.kept(("x", "y")).table.drop(["t"])

    assert kept(1) == kept(1) != kept(2)


# -- files ------------------------------------------------------------------------------------------------------------


def test_rows_are_what_was_asked(tmp_path):
    """Time, place, k and radius of each way to ask; nulls where a request had none, and no limit is none."""
    notes, began = Notes(), time.time()
    log = Accesses(str(tmp_path / "made" / "log"), SPHERE, server="ab", worker=3, metrics=notes, log=notes)
    log.many(np.array([1.25, -2.5]), np.array([3.0, 4.0]), np.array([8, 0]), np.array([np.nan, 10.5]))
    log.many(5.0, 6.0, None, None)
    log.many(np.array([7.0]), np.array([8.0]), 3, np.inf)
    log.many(np.array([9.0, 9.5]), np.array([1.0, 2.0]), np.array([np.nan, 4.0]), 0.0)
    log.close()
    log.many(1.0, 1.0, 1, None)  # too late
    log.close()
    (file,) = files_of(tmp_path / "made" / "log")
    assert re.fullmatch(NAME % "ab-3", file)
    table = rows_of(tmp_path)
    assert table.schema.types == [
        pa.timestamp("us", "UTC"), pa.float64(), pa.float64(), pa.int32(), pa.float64(), pa.int64(),
    ]  # fmt: skip
    moments = [moment.timestamp() for moment in table["t"].to_pylist()]
    assert all(began - 1e-3 <= moment <= time.time() for moment in moments)
    assert table.drop(["t"]).to_pylist() == [
        {"lon": 1.25, "lat": 3.0, "k": 8, "radius": None, "weight": 1},
        {"lon": -2.5, "lat": 4.0, "k": None, "radius": 10.5, "weight": 1},
        {"lon": 5.0, "lat": 6.0, "k": None, "radius": None, "weight": 1},
        {"lon": 7.0, "lat": 8.0, "k": 3, "radius": None, "weight": 1},
        {"lon": 9.0, "lat": 1.0, "k": None, "radius": 0.0, "weight": 1},
        {"lon": 9.5, "lat": 2.0, "k": 4, "radius": 0.0, "weight": 1},
    ]
    slot, day = int(file[11:14]), file[:10]
    assert day == table["t"][0].as_py().strftime("%Y-%m-%d")
    assert slot in {int(moment % 86_400 / 300) for moment in (began, time.time())}
    assert (notes.rows, notes.requests, notes.failures, notes.events) == (6, 6, 0, [])


def test_places_may_be_rounded_and_the_plane_has_x_and_y(tmp_path):
    log = Accesses(str(tmp_path), PLANE, digits=-2)
    log.many(np.array([123_456.7]), np.array([-987.6]), 1, None)
    log.close()
    table = rows_of(tmp_path)
    assert table.column_names == ["t", "x", "y", "k", "radius", "weight"]
    assert table.select(["x", "y"]).to_pylist() == [{"x": 123_500.0, "y": -1_000.0}]


@pytest.mark.parametrize("metres", [10.0, 100.0, 5000.0])
def test_places_lie_on_a_grid_of_metres_wherever_they_are(tmp_path, metres):
    rng = np.random.default_rng(0)
    lon = np.concatenate([rng.uniform(-180, 180, 500), [180.0, -180.0, 179.9999, 12.0, 0.0]])
    lat = np.concatenate([rng.uniform(-90, 90, 500), [0.0, 60.0, -89.9999, 90.0, -90.0]])
    log = Accesses(str(tmp_path), SPHERE, sample=None, grid=metres)
    log.many(lon, lat, 1, None)
    log.close()
    kept = np.stack([rows_of(tmp_path)[name].to_numpy() for name in ("lon", "lat")], axis=1)
    moved = distance(*(SPHERE.vectors(places) for places in (np.stack([lon, lat], axis=1), kept)))
    assert moved.max() <= 0.75 * metres
    assert moved.max() > 0.5 * metres
    assert (np.abs(kept) <= [180.0, 90.0]).all()
    again = rounding_of(SPHERE, None, metres)(*kept.T)
    assert np.allclose(np.stack(again, axis=1), kept, atol=1e-9), "a place of the grid stays where it is"
    east = rounding_of(SPHERE, None, metres)(np.linspace(0.0, 40.0, 5000), np.full(5000, 80.0))[0]
    apart = np.diff(np.unique(east)) * A_DEGREE * np.cos(np.radians(80.0))
    assert apart.min() > 0.98 * metres, "the grid is no finer far north"
    near = np.full(100, 2.35) + rng.uniform(0, 1e-5, 100)
    assert len(np.unique(rounding_of(SPHERE, None, 5000.0)(near, near)[0])) == 1


def test_the_grid_of_a_plane_is_in_its_units_and_there_is_one_rounding():
    x, y = rounding_of(PLANE, None, 100.0)(np.array([123_456.7, -1.0]), np.array([-987.6, 49.0]))
    assert (x.tolist(), y.tolist()) == ([123_500.0, 0.0], [-1_000.0, 0.0])
    assert not np.signbit(x[1])
    assert rounding_of(PLANE, None, None) is None
    with pytest.raises(ValueError, match="give --access-round or --log-places"):
        rounding_of(SPHERE, 4, 100.0)
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="a length above 0 is wanted"):
            rounding_of(SPHERE, None, wrong)


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = Accesses(None, SPHERE)
    log.many(1.0, 1.0, 1, None)
    log.close()
    assert files_of(tmp_path) == []


def test_all_can_be_kept(tmp_path):
    """In files of so many rows at most, but for a request of more; what no file has room for yet is lost for none."""
    log = Accesses(str(tmp_path), SPHERE, sample=None, amounts=Amounts(rows=100))
    ask(log, range(1_000))
    ask(log, range(1_000, 1_500), sizes=(450, 50))
    log.close()
    found = rows_of(tmp_path)
    assert sorted(found["lon"].to_pylist()) == list(range(1_500))
    assert set(found["weight"].to_pylist()) == {1}
    sizes = sorted(pq.read_metadata(tmp_path / file).num_rows for file in files_of(tmp_path))
    assert sizes[-1] == 450
    assert sizes[-2] <= 100


@pytest.mark.parametrize("sample", [0, -5])
def test_a_sample_of_none_is_refused(sample):
    with pytest.raises(ValueError, match="at least 1 is wanted"):
        Accesses("log", SPHERE, sample=sample)


def test_each_minute_has_a_file_and_a_sample_of_its_own(tmp_path):
    """With minutes of a fifth of a second: each file holds a sample, and all of them all requests."""
    notes, began = Notes(), time.time()
    log = Accesses(str(tmp_path), SPHERE, sample=10, metrics=notes, amounts=Amounts(minute=0.2))
    asked = 0
    while len(files_of(tmp_path)) < 4:
        ask(log, np.full(58, asked % 180))
        asked += 58
        time.sleep(0.002)
    log.close()
    files = files_of(tmp_path)
    assert 4 <= len(files) <= (time.time() - began) / 0.2 + 2
    tables = [pq.read_table(tmp_path / file) for file in files]
    assert {len(table) for table in tables} == {10}
    assert sum(sum(table["weight"].to_pylist()) for table in tables) == asked == notes.requests
    assert notes.rows == 10 * len(files)
    spans = sorted((min(table["t"].to_pylist()), max(table["t"].to_pylist())) for table in tables)
    assert all(early[1] < late[0] for early, late in pairwise(spans))


def test_a_folder_that_is_away_is_counted_and_written_later(tmp_path):
    """What could not be written stands in its own file once it can be; nothing is lost or doubled."""
    place, notes = tmp_path / "log", Notes()
    place.write_text("a file where a folder should be")
    log = Accesses(str(place), SPHERE, sample=10, metrics=notes, log=notes, amounts=SHORT)
    for number in range(4):
        ask(log, np.full(100, float(number)))
        wait_until(lambda at=number: notes.failures > at)
    assert notes.rows == 0
    place.unlink()
    wait_until(lambda: notes.requests == 400)
    log.close()
    assert sum(rows_of(place)["weight"].to_pylist()) == 400
    assert notes.lost == 0
    what, facts = notes.events[0]
    assert what == "access log not written"
    assert "log" in facts["detail"]
    assert facts["files_waiting"] >= 1


def wait_until(true):
    ending = time.monotonic() + 60.0
    while not true():
        assert time.monotonic() < ending
        time.sleep(0.01)


def test_beyond_what_is_kept_in_memory_requests_are_lost_and_counted(tmp_path):
    place, notes = tmp_path / "log", Notes()
    place.write_text("")
    log = Accesses(str(place), SPHERE, sample=10, metrics=notes, log=notes, amounts=SHORT._replace(waiting=25))
    asked = 0
    while not notes.lost:
        assert asked < 100_000
        ask(log, np.zeros(100))
        asked += 100
        time.sleep(0.03)
    place.unlink()
    wait_until(lambda: notes.requests + notes.lost == asked)
    log.close()
    assert sum(rows_of(place)["weight"].to_pylist()) == notes.requests > 0


def test_what_is_left_at_the_end_is_lost_and_counted(tmp_path):
    """Of a folder that cannot be written until the process ends."""
    place, notes = tmp_path / "log", Notes()
    place.write_text("")
    log = Accesses(str(place), SPHERE, sample=10, metrics=notes, log=notes)
    ask(log, np.zeros(100))
    log.close()
    assert (notes.lost, notes.requests) == (100, 0)
    assert (notes.events[-1][1]["files_waiting"], notes.events[-1][1]["requests_lost"]) == (0, 100)


def test_a_file_that_was_written_though_it_failed_is_not_written_twice(tmp_path, monkeypatch):
    """As when the answer of a store gets lost: the second try is of the same name."""
    real, calls = access_log._write_local, []

    def written_and_lost(data, file):
        real(data, file)
        calls.append(file)
        if len(calls) == 1:
            raise OSError("the answer was lost")

    monkeypatch.setattr(access_log, "_write_local", written_and_lost)
    notes = Notes()
    log = Accesses(str(tmp_path), SPHERE, metrics=notes, amounts=SHORT)
    ask(log, np.zeros(77))
    wait_until(lambda: notes.requests)
    log.close()
    assert calls[0] == calls[1]
    assert sum(rows_of(tmp_path)["weight"].to_pylist()) == 77
    assert notes.failures == 1


def test_a_worker_that_follows_another_one_overwrites_nothing(tmp_path):
    for _ in range(3):
        log = Accesses(str(tmp_path), SPHERE, server="s", worker=1)
        ask(log, np.zeros(5))
        log.close()
    assert sum(rows_of(tmp_path)["weight"].to_pylist()) == 15
    assert all(re.fullmatch(NAME % "s-1", file) for file in files_of(tmp_path))


KILLED = """
import sys, time
from pathlib import Path
import numpy as np
from dtoss.geometry.space import space_of
from dtoss.serve.observability import access_log; accesses = access_log
short = accesses.Amounts(minute=0.05)
log = accesses.Accesses(sys.argv[1], space_of(), server="s", worker=1, amounts=short)
log.many(np.zeros(40), np.zeros(40), 8, None)
while not list(Path(sys.argv[1]).glob("*/[0-9]*.parquet")):
    time.sleep(0.01)
stop = lambda self, target: (print("half", flush=True), time.sleep(600))
access_log.Path.replace = stop
log.many(np.zeros(30), np.zeros(30), 8, None)
print("begun", flush=True)
time.sleep(600)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_that_counts(tmp_path):
    """What it left is hidden, and goes when another one writes; what it had written before counts once."""
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert sorted([process.stdout.readline(), process.stdout.readline()]) == ["begun\n", "half\n"]
        process.send_signal(signal.SIGKILL)
    names = [Path(file).name for file in files_of(tmp_path)]
    assert [name[0] for name in sorted(names)].count(".") == 1
    assert sum(name.endswith(".parquet") for name in names) == 1
    mine = tmp_path / files_of(tmp_path)[0].partition("/")[0] / f".of-one-that-runs.parquet.{access_log.passing_name()}"
    mine.touch()
    log = Accesses(str(tmp_path), SPHERE, server="s", worker=1)
    ask(log, np.zeros(5))
    log.close()
    assert sum(rows_of(tmp_path)["weight"].to_pylist()) == 45
    assert [Path(file).name for file in files_of(tmp_path) if "/." in file] == [mine.name]


def test_another_file_system_gets_its_files_by_a_rename(tmp_path, monkeypatch):
    """HDFS, say: no file is ever there under its name before it is whole."""
    other = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(access_log, "filesystem_of", lambda path: (other, "log"))
    for _ in range(2):
        log = Accesses("hdfs://somewhere/log", SPHERE, server="s", worker=1)
        ask(log, np.zeros(5))
        log.close()
    assert all(re.fullmatch("log/" + NAME % "s-1", file) for file in files_of(tmp_path))
    assert sum(rows_of(tmp_path)["weight"].to_pylist()) == 10


def test_an_object_store_takes_files():
    with object_store() as place:
        uri, notes = place.uri("store/accesses"), Notes()
        for _ in range(2):
            log = Accesses(uri, SPHERE, server="s", worker=1, metrics=notes, log=notes)
            ask(log, np.zeros(2_500))
            log.close()
        assert notes.events == []
        filesystem, root = access_log.filesystem_of(uri)
        found = filesystem.get_file_info(fs.FileSelector(root, recursive=True))
        tables = [pq.read_table(one.path, filesystem=filesystem) for one in found if one.type == fs.FileType.File]
        assert [len(table) for table in tables] == [1_000, 1_000]
        assert sum(sum(table["weight"].to_pylist()) for table in tables) == 5_000


def test_a_store_is_cleared_and_verified_beside_its_access_log(tmp_path, command):
    """The log of a store is neither debris nor damage."""
    store = Store(str(tmp_path / "store"))
    for number in range(3):
        commit(store.path, number)
    log = Accesses(store.file("accesses"), SPHERE)
    ask(log, np.zeros(5))
    log.close()
    day = tmp_path / "store" / "accesses" / "2026-01-01"
    day.mkdir()
    (day / f".half.parquet.{access_log.passing_name()}").touch()
    before = files_of(tmp_path / "store" / "accesses")
    assert len(before) == 2
    for name, *options in (["gc", "--keep", 1, "--keep-for", "0s"], ["verify"]):
        ran = command(name, "--store", store.path, *options)
        assert (ran.code, ran.err) == (0, "")
    assert len(store.snapshots()) == 1
    assert files_of(tmp_path / "store" / "accesses") == before
