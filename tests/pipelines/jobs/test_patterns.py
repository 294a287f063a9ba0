"""Patterns of raw accesses equal counting them one by one, whatever the time zone, the weights or the reads."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import ceps
import dtoss
from ceps.model.reads import bound_reads, reads_together
from ceps.model.servers import RequestCosts
from datasets.hotspots import hotspots
from dtoss.errors import InputError
from dtoss.geometry.distance import distance
from dtoss.partitioning.partition_bounds import reads_of
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from pipelines.load_patterns.patterns_of_sums import furthest_hits, packed, reads_of_sets, summary
from pipelines.patterns import patterns, summed_rows, urgent_sets
from pipelines.rows import access_rows
from pipelines.rows.access_rows import Asks, access_columns
from pipelines.rows.read_files import read_positions
from tests.ceps.oracles import variation_day_by_day
from tests.dtoss.strategies import lonlat_queries, planar_queries
from tests.pipelines.load_patterns.slow_patterns import by_set, home_of, slow_patterns, slow_reads
from tests.pipelines.stores import made

OBJECTS = 1500
MORE = pytest.mark.deep("more of what others have: a zone, weights, radii")
WINTER = 1_603_490_400  # Saturday 2020-10-24 00:00 in Berlin; its clocks go back the next night


@pytest.fixture(scope="module")
def world():
    """A store of hotspots in nine partitions, and accesses of eleven days round the end of summer time."""
    table = pa.Table.from_batches(hotspots(OBJECTS, seed=3, count=8)).drop(["hotspot"])
    store = made(table, partitions=9)
    index = dtoss.open(store)
    rng = np.random.default_rng(5)
    n = 900
    places = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)[rng.integers(0, OBJECTS, n)]
    places = np.clip(places + rng.normal(0, 2, (n, 2)), (-180, -90), (180, 90))
    t = WINTER + rng.integers(0, 11 * 86_400, n)
    rows = pa.table(
        {
            "lon": places[:, 0],
            "lat": places[:, 1],
            "t": pa.array(t * 1_000_000, pa.timestamp("us", "UTC")),
            "weight": rng.integers(0, 9, n) / 4,
            "k": pa.array(rng.integers(1, 30, n), mask=rng.random(n) < 0.5),
            "radius": pa.array(rng.uniform(0, 3e5, n), mask=rng.random(n) < 0.5),
        }
    )
    return SimpleNamespace(store=store, index=index, table=table, rows=rows, manifest=Store(store).manifest())


def frame(engine, world, order=None):
    """The accesses as an engine takes them, in their order or by a column."""
    return engine.createDataFrame(world.rows if order is None else world.rows.sort_by(order))


@pytest.mark.parametrize(
    ("zone", "slot", "asked"),
    [
        ("Europe/Berlin", 900, {"weight": "weight"}),
        ("America/St_Johns", 3600, {"k": "k"}),
        ("Asia/Kolkata", 1800, {"k": "k", "radius": "radius"}),
        pytest.param("UTC", 300, {}, marks=MORE),
        pytest.param("UTC", 60, {"radius": "radius", "weight": "weight"}, marks=MORE),
    ],
)
def test_patterns_equal_counting_one_by_one(engine, world, zone, slot, asked):
    """Local slots and weekdays over a clock change, weights, the k nearest, radii, and both at once."""
    counted = patterns(
        frame(engine, world), world.store, Asks(time_zone=zone, slot_seconds=slot, by_weekday=True, **asked)
    )
    wanted, sets = slow_patterns(world, zone, slot, **dict.fromkeys(asked, True))
    whole, *days = counted.patterns
    assert len(days) == 7
    assert counted.reads == pytest.approx(wanted.sum(), rel=1e-12)
    np.testing.assert_allclose(whole.loads * slot * whole.days, wanted.sum(axis=0), rtol=1e-9, atol=1e-9)
    for day in days:
        np.testing.assert_allclose(day.loads * slot * day.days, wanted[day.weekday], rtol=1e-9, atol=1e-9)
    assert whole.days == sum(day.days for day in days) == (counted.last - counted.first).days + 1
    asks_for = world.rows["weight"].to_numpy().sum() if "weight" in asked else len(world.rows)
    assert counted.requests == pytest.approx(asks_for)
    assert ("k" in asked or "radius" in asked) == (len(sets) > 0)
    for one in counted.patterns:
        assert one.reads.total == pytest.approx(asks_for / whole.days)
        assert by_set(one.reads) == pytest.approx({rows: n / whole.days for rows, n in sets.items()})
    assert (counted.read, counted.bad, counted.outside) == (len(world.rows), {}, 0)


def test_squares_of_any_size_are_exact():
    """Sums of squares of a millionth of a request and of millions of them, split over batches, equal big integers."""
    rng = np.random.default_rng(4)
    weight = np.r_[1, 999, 7, 10 ** rng.integers(0, 13, 60)] + rng.integers(0, 3, 63)
    first, days, hour = date(2024, 1, 1), 9, rng.integers(0, 24, 63)
    day = (first - date(1970, 1, 1)).days + rng.integers(0, days, 63)
    cells, place = np.unique(access_rows.hour_cells(day, hour, rng.integers(0, 2, 63), 3600, 2), return_inverse=True)
    sums = np.zeros(len(cells), np.int64)
    np.add.at(sums, place, weight)
    found = {}
    for part in (slice(0, 20), slice(20, None)):
        nothing = pa.nulls(len(cells[part]), pa.binary())
        batch = pa.record_batch([pa.array(cells[part]), nothing, pa.array(sums[part])], ["cell", "together", "weight"])
        spread = access_rows.spread(batch, 3600, 2, True)
        for cell, number in zip(spread.column("cell").to_pylist(), spread.column("weight").to_pylist(), strict=True):
            found[cell] = found.get(cell, 0) + number
    parts = {}
    for cell in found:
        if cell >= 1 << 58:
            parts.setdefault((cell - (1 << 58)) // 3, [0, 0, 0])[(cell - (1 << 58)) % 3] = found[cell]
    exact = sum((high << 40) + (between << 21) + low for high, between, low in parts.values())
    assert exact == sum(int(number) ** 2 for number in sums)


@pytest.mark.parametrize("by_weekday", [pytest.param(False, marks=MORE), True])
def test_variation_equals_counting_day_by_day(engine, world, by_weekday):
    """How days differ is that of each day's, hour's and partition's own count, whatever the order of the rows."""
    zone, slot = "Europe/Berlin", 900
    asks = Asks(time_zone=zone, slot_seconds=slot, by_weekday=by_weekday, weight="weight", radius="radius")
    counted = patterns(frame(engine, world), world.store, asks)
    days = (counted.last - counted.first).days + 1
    count = len(world.manifest["partitions"])
    found = np.zeros((days, 24, count))
    for row in world.rows.to_pylist():
        local, place = row["t"].astimezone(ZoneInfo(zone)), (row["lon"], row["lat"])
        read = slow_reads(world.manifest, place, row["radius"]) if row["radius"] is not None else None
        for partition in read or [home_of(world.manifest, place)]:
            found[(local.date() - counted.first).days, local.hour, partition] += row["weight"]
    kind = (np.arange(days) + counted.first.weekday()) % 7 if by_weekday else np.zeros(days, int)
    wanted = variation_day_by_day(found, kind)
    one = counted.patterns[0].variation
    np.testing.assert_allclose(one.levels, wanted.levels, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.own, wanted.own, rtol=1e-6, atol=1e-9)
    assert one.levels.shape[1] == 24
    again = patterns(frame(engine, world, "lat"), world.store, asks)
    assert again.patterns[0].variation.levels.tobytes() == one.levels.tobytes()
    assert again.patterns[0].variation.own.tobytes() == one.own.tobytes()


def test_requests_count_as_what_they_cost(engine, world):
    """Each partition that a request reads gets its share of the cost, one request at least; reads stay the same."""
    costs = RequestCosts(((1.0, 0.5), (8.0, 1.0), (16.0, 40.0)), ((1e4, 0.25), (3e5, 90.0)))
    asked = {"k": "k", "radius": "radius", "weight": "weight"}
    plain = patterns(frame(engine, world), world.store, Asks(**asked))
    counted = patterns(frame(engine, world), world.store, Asks(costs=costs, by_weekday=True, **asked))
    wanted = np.zeros(len(world.manifest["partitions"]))
    shared = 0
    for row in world.rows.to_pylist():
        place, limit = (row["lon"], row["lat"]), np.inf if row["radius"] is None else row["radius"]
        whole = float(costs.weights(np.array([row["k"] or 0.0]), np.array([limit]))[0])
        far = furthest_hits(world.index, np.array([place]), np.array([limit]), np.array([row["k"] or 0]))[0]
        read = slow_reads(world.manifest, place, far) if far < np.inf else [home_of(world.manifest, place)]
        for partition in read:
            wanted[partition] += row["weight"] * max(whole / len(read), min(whole, 1.0))
        shared += len(read) > 1 and whole > len(read)
    assert shared > 20
    found = counted.patterns[0]
    np.testing.assert_allclose(found.loads.sum(axis=1) * 300 * found.days, wanted, rtol=1e-6)
    assert counted.reads == pytest.approx(plain.reads)
    assert by_set(found.reads) == pytest.approx(by_set(plain.patterns[0].reads))
    assert counted.weighed == pytest.approx(wanted.sum() / plain.reads)
    assert ("weighed", f"{counted.weighed:.3g} base requests for each partition that a request reads") in summary(
        counted
    )
    assert "weighed" not in dict(summary(plain))


def test_patterns_carry_what_the_manifest_says(engine, world):
    """Numbers, bytes and the hash of the pivots; places of the pivots."""
    one = patterns(frame(engine, world), world.store).patterns[0]
    entries = world.manifest["partitions"]
    assert one.partitions.tolist() == [entry["number"] for entry in entries]
    assert one.sizes.tolist() == [entry["bytes"] for entry in entries]
    assert one.pivots_hash == world.manifest["pivots_hash"]
    homes = [home_of(world.manifest, place) for place in one.positions]
    space, regions = space_of_manifest(world.manifest), regions_of_manifest(world.manifest)
    assert homes == regions.nearest(space.vectors(one.positions)).tolist()


def test_splits_of_the_input_and_the_engine_change_nothing(session, world, tmp_path):
    """The same bytes in the file, whatever the order of the rows, the number of files, and the engine."""
    asks = Asks(weight="weight", k="k", radius="radius", by_weekday=True, smooth_seconds=1800, time_zone="Asia/Kolkata")
    pq.write_table(world.rows, tmp_path / "whole.parquet")
    mixed = world.rows.take(pa.array(np.random.default_rng(1).permutation(len(world.rows))))
    for part in range(5):
        pq.write_table(mixed.slice(180 * part, 180), tmp_path / f"part-{part}.parquet", row_group_size=50)
    made = []
    for one, files in ((None, "whole"), (session, "part-*")):
        read = read_positions(one, [str(tmp_path / f"{files}.parquet")], access_columns(asks))
        ceps.write_patterns(tmp_path / "patterns", patterns(read, world.store, asks).patterns)
        made.append((tmp_path / "patterns").read_bytes())
    assert made[0] == made[1]


def test_of_very_many_sets_each_task_keeps_what_a_sample_may_need():
    """The sample of what tasks keep is the sample of all, however sets fall on tasks and batches."""
    rng = np.random.default_rng(4)
    rows = [np.sort(rng.choice(50, rng.integers(2, 7), replace=False)) for _ in range(3000)]
    request = np.repeat(np.arange(3000), [len(row) for row in rows])
    whole = reads_together(request, np.concatenate(rows), rng.integers(1, 2000, 3000))
    wanted = by_set(bound_reads(whole, 200))
    sets = summed_rows(np.full(len(whole), -1), packed(whole.start, whole.row), whole.weight.astype(np.int64))
    cells = summed_rows(np.arange(7), pa.nulls(7, pa.binary()), np.ones(7, np.int64))
    for tasks in (1, 3):
        kept = []
        for task in range(tasks):
            mine = sets.take(pa.array(np.arange(task, len(sets), tasks)))
            kept += urgent_sets(201, iter([cells, mine.slice(0, 5), mine.slice(5, 400), mine.slice(405)]))
        table = pa.Table.from_batches(kept)
        is_set = table.column("together").is_valid()
        assert table.filter(pc.invert(is_set)).num_rows == 7 * tasks
        assert table.filter(is_set).num_rows <= 201 * tasks
        found = reads_of_sets(table.filter(is_set), 1.0, 1)
        scale = 1e6  # weights are millionths
        assert by_set(bound_reads(found, 200)) == pytest.approx({rows: w / scale for rows, w in wanted.items()})


def test_halves_of_millionths_are_rounded_up(engine, world):
    """As Spark's own rounding does."""
    rows = world.rows.slice(0, 2).set_column(3, "weight", pa.array([0.0000005, 2.4999995]))
    assert patterns(engine.createDataFrame(rows), world.store, Asks(weight="weight")).requests == 2.500001


def test_each_access_may_stand_for_many_requests(engine, world):
    """A sample of the requests is scaled up and stays as unsure as it is; its sets of partitions scale with it."""
    one, many = (patterns(frame(engine, world), world.store, Asks(k=20, requests_per_access=n)) for n in (1.0, 50.0))
    few, more = one.patterns[0], many.patterns[0]
    np.testing.assert_allclose(more.loads, 50 * few.loads)
    assert (few.requests_per_event, more.requests_per_event) == (1.0, 50.0)
    assert more.reads.total == pytest.approx(50 * few.reads.total)
    np.testing.assert_allclose(more.reads.weight, 50 * few.reads.weight)
    assert f"; {len(few.reads):,} sets of partitions are read together" in dict(summary(one))["reads"]
    assert len(few.reads) > 3


def test_days_that_count(engine, world):
    """From since on and before until, in local time; the others are counted as outside. Days without one count too."""
    begin = datetime.fromtimestamp(WINTER, UTC).astimezone(ZoneInfo("Europe/Berlin")).date()
    asks = Asks(since=begin + timedelta(days=2), until=begin + timedelta(days=5), time_zone="Europe/Berlin")
    counted = patterns(frame(engine, world), world.store, asks)
    local = [t.astimezone(ZoneInfo("Europe/Berlin")).date() for t in world.rows["t"].to_pylist()]
    inside = sum(asks.since <= day < asks.until for day in local)
    assert (counted.requests, counted.outside) == (inside, len(local) - inside)
    assert (counted.first, counted.last, counted.patterns[0].days) == (asks.since, begin + timedelta(days=4), 3)
    empty = Asks(since=date(1999, 1, 1), until=date(1999, 1, 11))
    counted = patterns(frame(engine, world), world.store, empty)
    assert (counted.requests, counted.patterns[0].days, counted.patterns[0].peak) == (0, 10, 0.0)
    with pytest.raises(InputError, match=r"none of 900 accesses can be used \(900 outside"):
        patterns(frame(engine, world), world.store, Asks(until=date(1999, 1, 11)))


DIRTY = """lon,lat,when,n,k
2.35,48.85,2020-03-02 12:00:00,1,3
2.36,48.86,2020-03-02T12:01:00Z,2.5,
91.0,181.0,2020-03-02 12:02:00,1,3
2.35,48.85,yesterday,1,3
2.35,48.85,,1,3
,48.85,2020-03-02 12:00:00,1,3
2.35,48.85,2020-03-02 12:00:00,-1,3
2.35,48.85,2020-03-02 12:00:00,many,3
2.35,48.85,2020-03-02 12:00:00,1,0
2.35,48.85,2020-03-02 12:00:00,1,2.5
"""


def test_bad_rows_are_counted_by_reason(session, world, tmp_path):
    """Nothing is dropped in silence; too many fail, and say why."""
    file = tmp_path / "log.csv"
    file.write_text(DIRTY)
    asks = Asks(weight="n", k="k")
    columns = access_columns(asks, time="when")
    read = read_positions(session, [str(file)], columns)
    counted = patterns(read, world.store, asks, max_bad=0.9)
    assert counted.read == 10
    assert counted.requests == 3.5
    assert counted.bad == {
        "no time": 1,
        "time cannot be read": 1,
        "no position": 1,
        "latitude out of range": 1,
        "n is not a number from 0 to 1e9": 2,
        "k is not a whole number of at least 1": 2,
    }
    assert dict(summary(counted)[1:2]) == {"bad": "1 no time"}
    with pytest.raises(InputError, match=r"8 of 10 accesses are bad .* more than --max-bad 10% allows"):
        patterns(read, world.store, asks)


def test_times_in_numbers_and_text(engine, world):
    """Seconds, milliseconds, ISO text and text of a pattern mean the same; numbers alone could be anything."""
    seconds = [WINTER + 17 * i for i in range(50)]
    places = {"lon": [2.35] * 50, "lat": [48.85] * 50}
    moments = [datetime.fromtimestamp(s, UTC) for s in seconds]
    given = [
        (pa.array(seconds), "epoch_s"),
        (pa.array([1000.0 * s for s in seconds]), "epoch_ms"),
        (pa.array([m.isoformat() for m in moments]), None),
        (pa.array([f"{m.month}/{m.day}/{m:%Y %H:%M:%S}" for m in moments]), "M/d/yyyy HH:mm:ss"),
        (pa.array(moments, pa.timestamp("us", "UTC")), None),
    ]
    found = []
    for column, form in given:
        rows = engine.createDataFrame(pa.table({**places, "at": column}))
        found.append(patterns(rows, world.store, time="at", time_format=form).patterns[0])
    for other in found[1:]:
        np.testing.assert_array_equal(other.loads, found[0].loads)
    numbers = engine.createDataFrame(pa.table({**places, "at": given[0][0]}))
    with pytest.raises(InputError, match="holds numbers: say what they are"):
        patterns(numbers, world.store, time="at")
    with pytest.raises(InputError, match="accesses have no time"):
        patterns(numbers, world.store)
    days = engine.createDataFrame(pa.table({**places, "t": [date(2020, 1, 1)] * 50}))
    with pytest.raises(InputError, match="holds dates"):
        patterns(days, world.store)
    with pytest.raises(InputError, match="no column 'n'"):
        patterns(numbers, world.store, Asks(weight="n"), time="at")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slot_seconds": 7 * 60}, "420 s do not divide a day"),
        ({"slot_seconds": 0}, "0 s do not divide a day"),
        ({"time_zone": "Mars/Olympus"}, "time zone 'Mars/Olympus' is not known"),
        ({"k": 0}, "k is 0"),
        ({"radius": -1.0}, "radius is -1.0"),
        ({"smooth_seconds": -5}, "smoothing over -5 s"),
        ({"requests_per_access": 0.0}, "requests per access are 0.0"),
        ({"since": date(2020, 1, 2), "until": date(2020, 1, 2)}, "no day lies from"),
    ],
)
def test_bad_arguments(options, message):
    """Each names the value and the way out, before anything is read."""
    with pytest.raises(ValueError, match=message):
        Asks(**options)


@pytest.mark.parametrize("crs", ["EPSG:32610", "none"])
def test_a_plane(engine, crs):
    """Accesses in CRS units; pivots are placed on the map by lon and lat where there is a CRS."""
    rng = np.random.default_rng(8)
    places = rng.uniform((5.4e5, 4.1e6), (5.6e5, 4.2e6), (400, 2))
    table = pa.table({"id": np.arange(400), "x": places[:, 0], "y": places[:, 1]})
    store = made(table, crs=crs, partitions=5)
    index = dtoss.open(store)
    asked = pa.table({"x": places[:50, 0], "y": places[:50, 1], "t": pa.array([0] * 50, pa.timestamp("us", "UTC"))})
    found = patterns(engine.createDataFrame(asked), store, Asks(k=4)).patterns[0]
    manifest = Store(store).manifest()
    wanted = np.zeros(5)
    for place in places[:50]:
        far = index.knn(place, 4).distance[-1]
        wanted[slow_reads(manifest, place, far)] += 1
    np.testing.assert_allclose(found.loads[:, 0] * 300, wanted)
    inside = (np.abs(found.positions) <= (180, 90)).all()
    assert inside == (crs != "none")


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
@pytest.mark.parametrize("crs", ["EPSG:4326", "none"])
def test_reads_cover_every_owner_in_reach(crs, partitions):
    """Whoever owns an object in the disc is read or known at home, and the engine reads one partition where we do."""
    rng = np.random.default_rng(partitions)
    places = rng.normal(20, 8, (600, 2))
    index = dtoss.build(np.arange(600), places, crs=crs, partitions=partitions)
    regions, count = index.partitioning, len(index.partitioning)
    facts = [index.parts[number] for number in range(count)]
    manifest = {
        "partitions": [{"furthest": part.furthest} for part in facts],
        "reach": [None if np.isinf(value) else value for value in index.reach.tolist()],
        "metric": index.space.metric, "crs": index.space.crs, "to_lonlat": False,
        "pivots": regions.pivots.tolist(), "weights": regions.weights.tolist(), "pivots_hash": regions.digest,
    }  # fmt: skip
    queries = (lonlat_queries if index.space.metric == "sphere" else planar_queries)(rng, places, 60)
    vectors = index.space.vectors(queries)
    home = regions.nearest(vectors)
    k = rng.integers(0, 40, len(queries))
    limit = np.where(rng.random(len(queries)) < 0.5, np.inf, rng.uniform(0, 5, len(queries)))
    limit *= 1e5 if crs == "EPSG:4326" else 1.0
    far = furthest_hits(index, queries, limit, k)
    for q in np.flatnonzero(k > 0):
        hits = index.knn(queries[q], int(k[q]), max_distance=None if np.isinf(limit[q]) else float(limit[q]))
        assert far[q] == (hits.distance[-1] if len(hits.id) == k[q] else limit[q])
    request, partition = reads_of(manifest, regions, vectors, home, far)
    found = [set(partition[request == q].tolist()) for q in range(len(queries))]
    owner = regions.nearest(index.space.vectors(places))
    for q, place in enumerate(vectors):
        assert found[q] == set(slow_reads(manifest, queries[q], far[q]))
        near = set(owner[distance(index.space.vectors(places), place) <= far[q]].tolist())
        if len(found[q]) > 1:
            assert near <= found[q]
    looks = np.flatnonzero(far < np.inf)
    engine = index.search(queries[looks], far[looks], 0)
    alone = np.array([len(found[q]) == 1 for q in looks], dtype=bool)
    assert (engine.reads[alone] == 1).all()


def test_a_missing_store_is_named(engine, world, tmp_path):
    """Before anything is read."""
    with pytest.raises(dtoss.errors.StoreError, match="nowhere"):
        patterns(frame(engine, world), str(Path(tmp_path) / "nowhere"))
