"""``dtoss windows`` as a user types it: files that arrive, partitions and sites as keys, what is refused in a line."""

from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygons import as_polygons
from dtoss.snapshots.manifest import regions_of_manifest
from dtoss.snapshots.store import Store
from dtoss.windows.query.window_query import open_windows
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.windows.brute import World
from tests.dtoss.windows.storage.kept import SECOND, check_answer, counts_add_up
from tests.pipelines.stores import made as made_store

BEGIN = 1_700_000_000
ARGUMENTS = ("--slide", "20s", "--late", "40s", "--max-gap", "1min")


@pytest.fixture
def run(session, command, monkeypatch, tmp_path):
    """(exit code, lines of stdout, lines of stderr) of a command in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    by = () if session is None else ("--engine", "spark")

    def ended(*arguments):
        ran = command(*arguments, *(by if arguments[:2] == ("windows", "run") else ()))
        assert "Traceback" not in ran.err
        return ran.code, *ran.lines

    return ended


def put(folder, name, rows):
    """Write rows as a file that has been there for long."""
    folder.mkdir(exist_ok=True)
    lines = ["id,t,lon,lat", *(f"{who},{t / SECOND!r},{x!r},{y!r}" for who, t, x, y in rows)]
    (folder / name).write_text("\n".join(lines) + "\n")
    os.utime(folder / name, (1, 1))


def made(seed, first, count=60):
    """Rows (id, t, lon, lat) of four objects over two minutes."""
    rng = np.random.default_rng(seed)
    t = (BEGIN + first + rng.integers(0, 120, count)) * SECOND
    places = np.stack([rng.uniform(8.0, 8.4, count), rng.uniform(50.0, 50.2, count)], axis=1)
    who = rng.integers(0, 4, count).tolist()
    return [(i, int(at), *place) for i, at, place in zip(who, t, places.tolist(), strict=True)]


def other_pivots(places, store):
    """Make a snapshot of the same places in other partitions current."""
    index = dtoss.build(places["id"], np.stack([places["lon"], places["lat"]], axis=1), partitions=5)
    stored(index, store)


def held_to_the_oracle(store, name, keys_at, rows):
    """Hold each end that is due to the oracle."""
    found = open_windows(str(store), name)
    far = found.spec.space
    world = World(found.spec, rows, keys_at, lambda a, b: distance_of(far, a, b))
    count, slide = 0, found.spec.slide
    for end in range(BEGIN * SECOND // slide * slide, found.watermark + 1, slide):
        for length in found.spec.names:
            count += check_answer(found.at(end / SECOND, length), world.at(end), length)
    return count


def distance_of(space, a, b):
    """The project's distance of two places."""
    from dtoss.geometry.distance import distance

    return float(distance(space.vectors(np.array([a])), space.vectors(np.array([b]))[0])[0])


def test_files_that_arrive_are_counted_by_partition(run, tmp_path):
    """A run goes on where the last one was; answers are the oracle's; new pivots are refused with the reason."""
    store, moves = tmp_path / "store", tmp_path / "in"
    rng = np.random.default_rng(5)
    places = {"id": np.arange(60), "lon": rng.uniform(8.0, 8.4, 60), "lat": rng.uniform(50.0, 50.2, 60)}
    made_store(pa.table(places), store, partitions=4)
    first, second = made(1, 0), made(2, 100)
    put(moves, "a.csv", first)
    home = ("--store", str(store), "--name", "fleet")
    measures = "rows,objects,here,arrivals,flow,speed,max_speed"
    asked = ("--lengths", "1min,2min", *ARGUMENTS, "--measures", measures)
    code, out, err = run("windows", "run", str(moves), *home, *asked, "--once")
    assert (code, out[0].partition(",")[0]) == (0, "60 rows in 1 batch"), err
    assert run("windows", "run", str(moves), *home, "--once")[1] == ["nothing has changed"]
    put(moves, "b.csv", second)
    code, out, err = run("windows", "run", str(moves), *home, *asked, "--once", "--json", "--max-bad", "1")
    facts = json.loads(out[0])
    assert facts["commit"] == 2
    found = dtoss.open_windows(str(store), "fleet")
    counts_add_up(found.head.commit.document)
    mark = dtoss.open_windows(str(store), "fleet").head.watermark_before
    rows = first + [row for row in second if row[1] >= mark - 40 * SECOND]
    regions = regions_of_manifest(Store(str(store)).manifest())
    space = found.spec.space
    keys_at = lambda x, y: [int(regions.nearest(space.vectors(np.array([[x, y]])))[0])]  # noqa: E731
    assert held_to_the_oracle(store, "fleet", keys_at, rows) > 20
    shown = run("windows", "show", *home, "--window", "1min", "--json", "--top", "0")[1]
    assert [json.loads(line)["key"] for line in shown] == found.at(None, "1min")["key"].to_pylist()
    code, out, err = run("windows", "show", *home, "--window", "80s", "--key", "1")
    assert out[0].split() == ["key", "rows", "objects", "here", "arrivals", "speed", "max_speed"]
    assert [line.split()[0] for line in out[1:]] == ["1"]
    assert run("windows", "show", *home, "--flow", "--window", "2min")[1][0].split() == ["from", "to", "moves"]
    assert run("verify", "--store", str(store), "--windows", "fleet")[0] == 0
    assert run("gc", "--store", str(store))[0] == 0
    said = run("windows", "run", str(moves), *home, "--once", "--lengths", "1min", *ARGUMENTS)[2][-1]
    assert "--lengths is 1min,2min and 1min is asked for" in said
    other_pivots(places, store)
    code, out, err = run("windows", "run", str(moves), *home, "--once")
    assert (code, out) == (2, [])
    assert "the pivots of" in err[-1]
    assert "begin windows of another name (--name NAME)" in err[-1]


def test_windows_longer_than_all_rows_have_no_result_and_the_run_says_so(run, tmp_path):
    """What they wait for, and which option does not; a run with results says nothing of it."""
    moves, store = tmp_path / "in", str(tmp_path / "store")
    (tmp_path / "shops.csv").write_text("id,lon,lat\n1,8.1,50.1\n")
    put(moves, "a.csv", made(1, 0))
    asked = ("--store", store, "--slide", "1d", "--measures", "rows", "--by", "sites:shops.csv", "--once")
    code, out, err = run("windows", "run", str(moves), "--name", "days", "--lengths", "1d", *asked)
    assert (code, out) == (0, ["60 rows in 1 batch, 0 results"])
    assert "no window has ended: an end is due once as many objects as --witnesses says have come past it;" in err[-1]
    code, out, err = run("windows", "run", str(moves), "--name", "wall", "--lengths", "1d", *asked, "--clock", "wall")
    assert (code, out[0].endswith(" 0 results")) == (0, False)
    assert "no window has ended" not in err[-1]


def test_rows_of_a_file_are_keys_and_bad_rows_are_quarantined(run, tmp_path):
    """The nearest of the user's own places; no snapshot is needed."""
    moves, store = tmp_path / "in", str(tmp_path / "store")
    sites = np.array([[8.1, 50.1], [8.3, 50.1], [8.2, 50.0]])
    shops = tmp_path / "shops.csv"
    shops.write_text("id,lon,lat\n" + "".join(f"{i},{x},{y}\n" for i, (x, y) in enumerate(sites.tolist())))
    rows = made(3, 0)
    put(moves, "a.csv", [*rows, (9, BEGIN * SECOND, 200.0, 50.0), (9, (BEGIN + 10**10) * SECOND, 8.0, 50.0)])
    home = ("--store", store, "--name", "shops")
    asked = ("--by", f"sites:{shops}", "--lengths", "1min", *ARGUMENTS)
    code, _, err = run("windows", "run", str(moves), *home, *asked, "--once", "--max-bad", "1%")
    assert code == 2
    assert "2 of 62 rows are bad (1 longitude out of range, 1 time in the future)" in err[-1]
    assert run("windows", "run", str(moves), *home, *asked, "--once")[0] == 0
    space = open_windows(store, "shops").spec.space
    vectors = space.vectors(sites)
    keys_at = lambda x, y: [int(((vectors - space.vectors(np.array([[x, y]]))) ** 2).sum(axis=1).argmin())]  # noqa: E731
    assert held_to_the_oracle(store, "shops", keys_at, rows) > 10
    err = run("windows", "show", *home)[2]
    assert "2 of 62 rows were set aside: 1 longitude out of range, 1 time in the future" in err[-1]


def test_polygons_are_keys_and_those_that_overlap_have_no_flow(run, tmp_path):
    """A row counts in each polygon that holds it, and in none where none does."""
    moves, store = tmp_path / "in", str(tmp_path / "store")
    boxes = [(8.0, 50.0, 8.2, 50.1), (8.1, 50.05, 8.3, 50.2), (8.3, 50.05, 8.35, 50.2)]
    shapes = [[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]] for x0, y0, x1, y1 in boxes]
    zones = [{"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [s]}} for s in shapes]
    (tmp_path / "zones.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": zones}))
    rows = made(4, 0, 25)
    put(moves, "a.csv", rows)
    home = ("--store", store, "--name", "zones")
    asked = ("--by", "polygons:zones.geojson", "--lengths", "1min", *ARGUMENTS)
    code, _, err = run("windows", "run", str(moves), *home, *asked, "--measures", "rows,flow", "--once")
    assert code == 2
    assert "polygons 0 and 1 overlap; leave out flow" in err[-1]
    assert run("windows", "run", str(moves), *home, *asked, "--measures", "rows,objects,arrivals", "--once")[0] == 0
    space = open_windows(store, "zones").spec.space
    plain = [as_polygons(zone, space)[0] for zone in zones]
    keys_at = lambda x, y: [i for i, one in enumerate(plain) if inside(space.vectors(np.array([[x, y]])), one)[0]]  # noqa: E731
    assert held_to_the_oracle(store, "zones", keys_at, rows) > 5
    assert run("verify", "--store", store, "--windows", "zones")[0] == 0
    zones[1]["geometry"]["coordinates"] = [[[0, 0], [1, 1]]]
    (tmp_path / "bad.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": zones}))
    said = run("windows", "run", str(moves), *home[:2], "--name", "b", *asked[2:], "--by", "polygons:bad.geojson")[2][
        -1
    ]
    assert "polygon 1" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--lengths", "0min"), "--lengths is '0min'"),
        (("--lengths", "5 m"), "--lengths is '5 m'"),
        (("--lengths", "1h", "--slide", "0s"), "--slide is '0s'"),
        (("--lengths", "1h", "--slide", "1ms"), "at most 100,000 are legal"),
        (("--lengths", "1h", "--measures", "rows,speeds"), "--measures has 'speeds'"),
        (("--lengths", "1h", "--by", "cells"), "--by cells"),
        (("--lengths", "1h", "--by", "sites:nothing.csv"), "nothing.csv"),
        (("--lengths", "1h", "--by", "sites:"), "--by sites:: there are partition, sites:FILE"),
        (("--lengths", "1h", "--by", f"h3:{'9' * 5000}"), "RES is a whole number from 0 to 15"),
        (("--lengths", "1h", "--witnesses", "1e999999999"), "--witnesses is '1e999999999'"),
        (("--slide", "1min"), "--slide is given without --lengths"),
        ((), "say which are wanted (--lengths 5min,1h)"),
        (("--lengths", "1h", "--every", "0s"), "--every"),
        (("--lengths", "1h", "--time", "when"), "'when'"),
        (("--lengths", "1h", "--by", "partition"), "no snapshot"),
        (("--lengths", "1h", "--retain", "7 days"), "--retain is '7 days'"),
        (("--lengths", "1h", "--retain", "5min"), "--retain is 5min and --late 10min: an end may change until then"),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, tmp_path, given, said):
    """With the value, the bound and the way out."""
    put(tmp_path / "in", "a.csv", made(1, 0, 3))
    (tmp_path / "shops.csv").write_text("id,lon,lat\n1,8,50\n")
    by = () if "--by" in given or not given else ("--by", "sites:shops.csv")
    code, out, err = run("windows", "run", "in", "--store", "store", "--name", "w", "--once", *given, *by)
    assert (code, out) == (2, [])
    assert err[-1].startswith("error: ")
    assert said in err[-1], err[-1]


def test_rows_without_times_are_refused(run, tmp_path):
    """Windows are of time."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,lon,lat\n1,8,50\n")
    (tmp_path / "shops.csv").write_text("id,lon,lat\n1,8,50\n")
    os.utime(tmp_path / "in" / "a.csv", (1, 1))
    arguments = ("--store", "store", "--name", "w", "--once", "--lengths", "1h", "--by", "sites:shops.csv")
    code, _, err = run("windows", "run", "in", *arguments)
    assert code == 2
    assert "these rows have no column of times: name it (--time COLUMN)" in err[-1]
