"""Which places are met on the way from row to row, against brute force that shares no code with it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.watch.matching.crossings import crossing_pieces
from dtoss.watch.matching.matches import Matches
from dtoss.watch.watch_settings import Rows
from tests.dtoss.watch.judged_ways import met_in_plane, met_on_sphere
from tests.examples import examples

pytestmark = pytest.mark.checked

SPOTS = [(0.0, 0.0), (179.99, 0.0), (-179.98, 60.0), (30.0, 89.95), (77.0, -89.9), (-73.98, 40.75), (10.0, -33.0)]


def _box(middle, wide, high):
    x, y = middle
    west, east = x - wide, x + wide
    return {
        "box": [west + 360 if west < -180 else west, max(y - high, -90), east - 360 if east > 180 else east, y + high]
    }


def _ring(rng, middle, size, corners):
    turn = np.sort(rng.uniform(0, 2 * np.pi, corners))
    far = size * rng.uniform(0.3, 1.0, corners)
    ring = np.stack([middle[0] + far * np.cos(turn), middle[1] + far * np.sin(turn)], axis=1)
    return [*ring.tolist(), ring[0].tolist()]


def _places(rng, count, size, middles, sphere):
    found = []
    for number in range(count):
        middle = middles[rng.integers(len(middles))]
        kind = rng.integers(4 if sphere else 3)
        if kind == 0:
            place = {"circle": [*middle, float(rng.uniform(0.0, size)) * (111_000.0 if sphere else 1.0)]}
        elif kind == 1:
            place = _box(middle, *rng.uniform(0.05, 1.0, 2) * size)
        else:
            edges = "spherical" if kind == 3 else "planar"
            ring = _ring(rng, middle, size, int(rng.integers(3, 9)))
            place = {"polygon": {"type": "Polygon", "edges": edges, "coordinates": [ring]}}
        found.append({"id": f"s{number}", "events": ["cross"], **place})
    return found


def _told(watch, rows):
    """The crosses of rows that follow one another, by the row's time and the subscription."""
    events = watch.events(None, rows, max_gap=1.5)
    columns = (events[name].to_pylist() for name in ("t", "subscription", "t_cross"))
    return {(int(t), name): at for t, name, at in zip(*columns, strict=True)}


def _held(watch, rows):
    found = watch.match(rows)
    return set(zip(found.row.tolist(), watch.ids[found.subscription].tolist(), strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_ways_of_a_plane_of_whole_numbers(seed):
    """Ways that touch corners, follow edges and end on them: nothing is left out, and the share is the first."""
    rng = np.random.default_rng(seed)
    asked = []
    for number in range(25):
        x, y = rng.integers(-6, 7, 2).tolist()
        kind = rng.integers(3)
        if kind == 0:
            place = {"circle": [x, y, int(rng.integers(0, 4))]}
        elif kind == 1:
            wide, high = rng.integers(1, 5, 2).tolist()
            place = {"box": [x, y, x + wide, y + high]}
        else:
            ring = [
                [x, y],
                [x + int(rng.integers(1, 5)), y],
                [x + int(rng.integers(-2, 3)), y + int(rng.integers(1, 5))],
            ]
            place = {"polygon": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}}
        asked.append({"id": f"s{number}", "events": ["cross"], **place})
    count = 60
    xy = rng.integers(-9, 10, (count, 2)).astype(float)
    watch = dtoss.subscriptions(asked, crs="none")
    rows = {"id": np.zeros(count, int), "t": np.arange(count), "x": xy[:, 0], "y": xy[:, 1]}
    held, told, wanted = _held(watch, rows), _told(watch, rows), {}
    for row in np.flatnonzero((np.diff(xy, axis=0) != 0).any(axis=1)) + 1:
        for one in asked:
            met, share = met_in_plane(one, xy[row - 1], xy[row])
            name = one["id"]
            if met and (row, name) not in held and (row - 1, name) not in held:
                wanted[row, name] = row - 1 + share
    assert told.keys() == wanted.keys()
    assert all(abs(told[key] - wanted[key]) < 2e-6 for key in wanted)
    assert len(wanted) > 40


MORE = pytest.mark.deep("more spots and sizes of the same kind")
FEW = ((0, 0.001), (1, 3.0), (3, 0.05))


@pytest.mark.parametrize(
    ("spot", "size"),
    [
        pytest.param(spot, size, marks=() if (spot, size) in FEW else MORE)
        for spot in range(len(SPOTS))
        for size in (0.001, 0.05, 3.0)
    ],
)
def test_ways_on_the_sphere(spot, size):
    """Across the antimeridian, near poles, ways as long as places and twice as long."""
    rng = np.random.default_rng(spot)
    middle = SPOTS[spot]
    size = min(size, 0.04) if abs(middle[1]) > 89 else size
    wide = size / max(np.cos(np.radians(middle[1])), 0.02)
    asked = _places(rng, 16, size, [middle], sphere=True)
    asked = [one for one in asked if "polygon" not in one or abs(middle[0]) < 170]
    count = examples(40, 20)
    lonlat = np.array(middle) + rng.uniform(-1.5, 1.5, (count, 2)) * [wide, size]
    lonlat[:, 0] = (lonlat[:, 0] + 180) % 360 - 180
    lonlat[:, 1] = np.clip(lonlat[:, 1], -90, 90)
    watch = dtoss.subscriptions(asked)
    rows = {"id": np.zeros(count, int), "t": np.arange(count), "lon": lonlat[:, 0], "lat": lonlat[:, 1]}
    held, told = _held(watch, rows), _told(watch, rows)
    crossed = 0
    for row in range(1, count):
        for one in asked:
            met = met_on_sphere(one, lonlat[row - 1], lonlat[row])
            if met is not None:
                name = one["id"]
                met = met and (row, name) not in held and (row - 1, name) not in held
                assert ((row, name) in told) == met, (one, lonlat[row - 1 : row + 1].tolist())
                crossed += met
    assert crossed > count / 2


@pytest.mark.parametrize(
    ("place", "begin", "end", "share"),
    [
        # an arc along 50 north bulges by 0.108 degrees over 10 of longitude, and by as much to the south on 50 south
        ({"box": [14.0, 50.1, 16.0, 51.0]}, (10.0, 50.0), (20.0, 50.0), 0.4),
        ({"box": [14.0, 50.11, 16.0, 51.0]}, (10.0, 50.0), (20.0, 50.0), None),
        ({"box": [14.0, -51.0, 16.0, -50.1]}, (20.0, -50.0), (10.0, -50.0), 0.4),
        ({"box": [0.0, 50.1, 30.0, 51.0]}, (10.0, 50.0), (20.0, 50.0), 0.368),
        ({"box": [170.0, 10.0, -170.0, 20.0]}, (160.0, 15.0), (-160.0, 15.0), 0.25),
        ({"box": [-180.0, 80.0, 180.0, 90.0]}, (0.0, 70.0), (180.0, 70.0), 0.25),
        ({"box": [30.0, 80.0, 40.0, 90.0]}, (0.0, 70.0), (180.0, 70.0), 0.5),
        ({"box": [30.0, 80.0, 40.0, 89.9]}, (0.0, 70.0), (180.0, 70.0), None),
        ({"circle": [7.0, 90.0, 0.001]}, (0.0, 70.0), (180.0, 70.0), 0.5),
        ({"box": [-1.0, -1.0, 1.0, 1.0]}, (0.0, -2.0), (0.0, 2.0), 0.25),
        ({"box": [-1.0, -86.0, 1.0, -84.0]}, (180.0, -85.0), (0.0, -80.0), 0.6),
        ({"box": [-1.0, -1.0, 1.0, 1.0]}, (-90.0, 0.0), (90.0, 0.0), None),  # opposite places
        ({"circle": [0.0, 0.0, 111_195.08]}, (-2.0, 0.0), (2.0, 0.0), 0.25),
    ],
)
def test_ways_that_are_known(place, begin, end, share):
    """Bulges of arcs, the antimeridian, a pole that a way leads over, the equator, which both halves have."""
    watch = dtoss.subscriptions([{"id": "a", "events": ["cross"], **place}])
    rows = {"id": [1, 1], "t": [0.0, 1.0], "lon": [begin[0], end[0]], "lat": [begin[1], end[1]]}
    told = watch.events(None, rows)["t_cross"].to_pylist()
    assert told == ([] if share is None else [pytest.approx(share, abs=0.01)])


@pytest.mark.parametrize("gap", [0.0, -1.0, float("nan"), float("inf")])
def test_a_gap_that_is_none_is_refused(gap):
    watch = dtoss.subscriptions([{"id": "a", "events": ["cross"], "circle": [0.0, 0.0, 1.0]}])
    with pytest.raises(ValueError, match=r"max_gap is .* s: a finite number above 0 is wanted"):
        watch.events(None, {"id": [1], "t": [0.0], "lon": [0.0], "lat": [0.0]}, max_gap=gap)


@pytest.mark.parametrize(
    ("more", "said"),
    [({}, "cross needs a place"), ({"circle": [0, 0, 1], "words": "fire"}, "words go with inside only")],
)
def test_what_nobody_can_cross_is_refused_in_a_line(more, said):
    with pytest.raises(InputError, match=said):
        dtoss.subscriptions([{"id": "a", "events": ["cross"], **more}], text="body")


@pytest.mark.parametrize("most", [1, 7])
def test_a_crowd_of_places_is_met_some_rows_at_a_time(most):
    """Where many places stand on one another memory has a bound; the rows come in their order, each once."""
    rng = np.random.default_rng(0)
    asked = _places(rng, 60, 3.0, [(0.0, 0.0)], sphere=False)
    watch = dtoss.subscriptions(asked, crs="none")
    rows = Rows(rng.uniform(-5, 5, (50, 2)), pa.array(np.zeros(50, int)), np.arange(50))
    standing, moved = watch.built({}), np.delete(np.arange(1, 50), [3, 20])
    whole = Matches(0, 50, np.arange(50), np.zeros(50, np.int32), np.zeros(50))
    parts = list(crossing_pieces(standing, standing.alive(None), rows, moved, whole, most))
    ((_, wanted),) = crossing_pieces(standing, standing.alive(None), rows, moved, whole)
    assert [(one.first_row, one.last_row) for one, _ in parts] == [(met.first_row, met.last_row) for _, met in parts]
    assert [one.last_row for one, _ in parts][:-1] == [one.first_row for one, _ in parts][1:]
    assert (parts[0][0].first_row, parts[-1][0].last_row) == (0, 50)
    assert np.concatenate([one.row for one, _ in parts]).tolist() == list(range(50))
    for name in ("row", "subscription", "distance"):
        assert np.concatenate([getattr(met, name) for _, met in parts]).tolist() == getattr(wanted, name).tolist()
    assert len(parts) > 20
    assert len(wanted) > 500
