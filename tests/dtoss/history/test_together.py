"""Many places, each with a radius and an interval: what plain Python finds by looking at every row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtoss.geometry.distance import distance
from dtoss.history.data_file import Reads, write_file
from dtoss.history.history_commit import Change, commit
from dtoss.history.query.block_pairs import Places, time_keys
from dtoss.history.query.place_batches import NeighbourQuery, chosen_for, cuts, near
from dtoss.history.query.read_plan import gather_column
from dtoss.history.query.scan_blocks import Scan, condition_on
from dtoss.history.row_blocks import BY_PLACE, sorted_rows, t_numbers
from tests.dtoss.history.worlds import LAT, LON, PLANE, SPHERE, new_home, put_batch, schema_of, small_rows, table_of
from tests.examples import examples


def put_place_order(home, rows, schema, period, cut):
    """Give a period its place order, of two leaves on either side of a coordinate."""
    west = np.nan_to_num(rows["x"].to_numpy(), nan=-np.inf) <= cut
    parts = [(sorted_rows(rows.filter(pa.array(side)), "time"), None) for side in (west, ~west)]
    file = write_file(home.folder, BY_PLACE, [part for part in parts if len(part[0])], schema)
    return commit(home, Change("settle", ((file, period),)), home.head())


def scan_of(home, version, condition=None):
    return Scan(home, version, (), condition, Reads())


def brute(batches, schema, vectors, radius, spans, k, per_object, own, where=lambda row: True):
    """[(place, distance, id, t, x, y)] in order."""
    rows = [row for table in batches for row in table.to_pylist() if not row["deleted"] and where(row)]
    keys = {id(row): key for row, key in zip(rows, _keys(batches, schema, rows), strict=True)}
    found = []
    for place, vector in enumerate(vectors):
        near_here = []
        for row in rows:
            at = schema.space.vectors(np.array([[row["x"], row["y"]]]))[0]
            far = float(distance(at, vector))
            inside = spans[place][0] <= keys[id(row)] <= spans[place][1]
            if far <= radius[place] and inside and (own is None or row["id"] != own[place]):
                near_here.append((place, far, row["id"], keys[id(row)], row["x"], row["y"]))
        # -0.0 is below 0.0
        near_here.sort(key=lambda hit: (*hit[:4], *((c, np.copysign(1, c)) for c in hit[4:])))
        if per_object:
            seen = set()
            near_here = [hit for hit in near_here if not (hit[2] in seen or seen.add(hit[2]))]
        found += near_here[:k] if k else near_here
    return found


def _keys(batches, schema, rows):
    return [t_numbers(pa.array([row["t"]], schema.arrow.field("t").type))[0] for row in rows]


def told(parts):
    """The same of what was found."""
    found = []
    for part in parts:
        t = t_numbers(part.rows["t"]) if len(part) else []
        names = zip(part.rows["id"].to_pylist(), t, part.rows["x"].to_pylist(), part.rows["y"].to_pylist(), strict=True)
        found += [(int(q), float(d), *row) for q, d, row in zip(part.question, part.distance, names, strict=True)]
    return sorted(found, key=lambda hit: hit[0])


@pytest.mark.checked
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_as_plain_python_says(tmp_path_factory, data):
    """Time order, place order and both; ties, poles, the antimeridian; a place's own rows left out."""
    space = data.draw(st.sampled_from([SPHERE, PLANE]))
    t_type = data.draw(st.sampled_from(["timestamp", "double", "int64"]))
    schema = schema_of(space, data.draw(st.sampled_from(["int64", "string"])), t_type)
    batches = data.draw(st.lists(small_rows(schema, 15), min_size=1, max_size=4))
    home = new_home(tmp_path_factory.mktemp("near") / "h")
    period = 0
    for i, table in enumerate(batches):
        version = put_batch(home, table, schema, str(i))
        if len(table):
            if data.draw(st.booleans()):
                version = put_place_order(home, table, schema, period, data.draw(st.sampled_from(LON)))
            period += 1
    m = data.draw(st.integers(1, 4))
    places = np.array(
        data.draw(st.lists(st.tuples(st.sampled_from(LON), st.sampled_from(LAT)), min_size=m, max_size=m))
    )
    vectors = space.vectors(places)
    radii = [0.0, 1.0, 1200.0, 1e5, 2e7, np.inf]
    radius = np.array(data.draw(st.lists(st.sampled_from(radii), min_size=m, max_size=m)))
    scale = 1_000_000 if schema.t_type == "timestamp" else 1
    zero = 1577836800 * scale if schema.t_type == "timestamp" else 0
    moments = st.integers(-1, 10).map(lambda s: zero + s * scale)
    spans = data.draw(st.lists(st.tuples(moments, moments), min_size=m, max_size=m))
    k, per_object = data.draw(st.sampled_from([0, 1, 2, 50])), data.draw(st.booleans())
    ids = st.sampled_from(batches[0]["id"].to_pylist() or [None])
    own = data.draw(st.one_of(st.none(), st.lists(ids, min_size=m, max_size=m)))
    kind = np.float64 if schema.t_type == "double" else np.int64
    first, last = (time_keys(np.array([span[side] for span in spans], kind)) for side in (0, 1))
    wanted = NeighbourQuery(
        k, per_object and k > 0, own=None if own is None else pa.array(own, schema.arrow.field("id").type)
    )
    found = told(near(scan_of(home, version), Places(vectors, radius, first, last), wanted))
    assert found == brute(batches, schema, vectors, radius, spans, k, per_object and k > 0, own)


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """20,000 rows of 300 objects in two periods, the first with a place order."""
    schema = schema_of(SPHERE, busy=pa.int8())
    rng = np.random.default_rng(3)
    home, batches = new_home(tmp_path_factory.mktemp("town") / "h"), []
    for i in range(2):
        n = 10_000
        places = np.array([-122.4, 37.7]) + rng.normal(0, 0.03, (n, 2))
        batches.append(
            table_of(schema, rng.integers(0, 300, n), rng.integers(0, 5000, n), places, busy=rng.integers(0, 2, n))
        )
        version = put_batch(home, batches[-1], schema, str(i))
    version = put_place_order(home, batches[0], schema, 0, -122.4)
    return home, version, schema, batches


def asked_in(schema, n, radius, seconds, seed=1):
    rng = np.random.default_rng(seed)
    places = np.array([-122.4, 37.7]) + rng.normal(0, 0.03, (n, 2))
    middle = (1577836800 + rng.integers(0, 5000, n)) * 1_000_000
    span = int(seconds * 1e6)
    return Places(schema.space.vectors(places), np.full(n, radius), middle - span, middle + span)


@pytest.mark.parametrize(("k", "per_object"), [(0, False), (5, False), (5, True)])
def test_a_town_and_a_condition(town, k, per_object):
    """Also where only a few rows of a hundred satisfy it, and the guess finds too few at first."""
    home, version, schema, batches = town
    asked = asked_in(schema, 12, 2000.0 if not k else np.inf, 300)
    condition = condition_on(schema, "busy = 1 and id % 30 = 7 and lon > -122.45")
    found = told(near(scan_of(home, version, condition), asked, NeighbourQuery(k, per_object)))
    spans = list(zip(asked.first.tolist(), asked.last.tolist(), strict=True))

    def where(row):
        return row["busy"] == 1 and row["id"] % 30 == 7 and row["x"] > -122.45

    wanted = brute(batches, schema, asked.vectors, asked.radius, spans, k, per_object, None, where)
    assert found == wanted
    assert len(found) > 12


def test_many_rows_are_asked_in_halves(town):
    """Each place once, all of its rows together."""
    home, version, schema, _ = town
    asked = asked_in(schema, 9, 3000.0, 900)
    whole = told(near(scan_of(home, version), asked, NeighbourQuery()))
    parts = list(near(scan_of(home, version), asked, NeighbourQuery(), most_held=len(whole) // 4))
    assert len(parts) > 3
    assert told(parts) == whole
    places = np.concatenate([np.unique(part.question) for part in parts])
    assert len(places) == len(np.unique(places))


def test_only_blocks_that_concern_a_place_are_read(town):
    """Of a period with two orders the cheaper one."""
    home, version, schema, _ = town
    reads = Reads()
    list(near(Scan(home, version, (), None, reads), asked_in(schema, 1, 100.0, 2), NeighbourQuery()))
    assert 1 <= reads.blocks <= 3
    assert reads.rows < 20_000
    everything = chosen_for(version, asked_in(schema, 1, np.inf, 1e6))
    assert gather_column(version, everything, "rows").sum() == 20_000


def test_runs_of_blocks_cover_all_once():
    """And none is empty."""
    for rows in ([5, 5, 5], [1], [20, 1, 20, 1]):
        runs = cuts(np.array(rows), 8)
        assert [i for begin, end in runs for i in range(begin, end)] == list(range(len(rows)))
