from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from datasets.cities.geonames import EARTH_RADIUS, cities, find_city, on_land
from datasets.cities.taxis import FASTEST, NOISE, REACH, make_fleet, mix, unit, where
from datasets.fleet import START, fleet_at, fleet_updates
from datasets.tables.command import BadInput

PERIOD = 60.0
TAXIS, STEPS = 500, 240


@pytest.fixture(scope="module")
def history():
    fleet = make_fleet(TAXIS, ["San Francisco"], seed=3)
    table = pa.Table.from_batches(fleet_updates(fleet, TAXIS * STEPS, PERIOD))
    assert table.column_names == ["id", "uid", "t", "lon", "lat", "occupied"]
    return table.to_pandas().sort_values(["uid", "t"])


def steps_of(history):
    """Metres and seconds between successive updates of one taxi."""
    by_taxi = history.groupby("uid")
    north = np.radians(by_taxi["lat"].diff()) * EARTH_RADIUS
    east = np.radians(by_taxi["lon"].diff()) * EARTH_RADIUS * np.cos(np.radians(history["lat"]))
    return np.hypot(east, north).dropna(), by_taxi["t"].diff().dt.total_seconds().dropna()


def test_every_taxi_reports_once_a_period(history):
    assert history["id"].is_unique
    assert (history.groupby("uid").size() == STEPS).all()
    _, seconds = steps_of(history)
    assert seconds.to_numpy() == pytest.approx(PERIOD, abs=1e-5)
    since = (history["t"] - START).dt.total_seconds()
    assert since.min() >= 0
    assert since.max() < STEPS * PERIOD
    assert history["t"].dt.second.nunique() == 60


def test_speeds_are_those_of_taxis(history):
    metres, seconds = steps_of(history)
    slack = 2 * 2**0.5 * NOISE + 3
    assert (metres <= FASTEST * seconds + slack).all()
    moving = metres[metres > 0] / seconds[metres > 0]
    assert 5 < moving.median() < 14


def test_many_stand_still_and_share_places_as_in_real_data(history):
    metres, _ = steps_of(history)
    assert 0.4 < (metres == 0).mean() < 0.8
    sites = history[["lon", "lat"]].drop_duplicates()
    assert 2 < len(history) / len(sites) < 5
    taxis_at = history.groupby(["lon", "lat"])["uid"].nunique()
    assert taxis_at.max() > 100  # a rank
    assert ((history[["lon", "lat"]] * 1e5).round(6) % 1).isin([0, 1]).all(axis=None)


def test_passengers_only_while_driving(history):
    fleet = make_fleet(TAXIS, ["San Francisco"], seed=3)
    state = where(fleet, np.arange(TAXIS), np.full(TAXIS, 5_000.0))
    assert not (state.occupied[~state.driving]).any()
    assert 0 < state.occupied.sum() < state.driving.sum()
    assert set(history["occupied"]) == {0, 1}


def test_places_lie_on_land_round_the_city_and_gather_in_hotspots():
    fleet = make_fleet(20_000, ["San Francisco"], seed=1)
    uid = np.arange(20_000)
    state = where(fleet, uid, np.full(20_000, 3_600.0))
    waits = ~state.driving
    lon, lat = state.lon[waits], state.lat[waits]
    assert on_land(lon, lat).mean() > 0.999  # rounding may move one over the shore
    centre = find_city("San Francisco")
    north = np.radians(lat - cities().lat[centre]) * EARTH_RADIUS
    east = np.radians(lon - cities().lon[centre]) * EARTH_RADIUS * np.cos(np.radians(lat))
    assert np.hypot(east, north).max() < REACH + 2_000
    _, cells = np.unique(np.floor(np.column_stack([lon, lat]) * 100), axis=0, return_counts=True)
    assert np.sort(cells)[-10:].sum() > 0.4 * cells.sum()


def test_one_moment_has_one_row_for_each_taxi_and_agrees_with_the_updates():
    fleet = make_fleet(100, 3, seed=9)
    updates = pa.Table.from_batches(fleet_updates(fleet, 300, PERIOD)).to_pylist()
    for row in updates[::37]:
        seconds = (row["t"] - START).total_seconds()
        now = pa.Table.from_batches(fleet_at(fleet, seconds)).to_pylist()
        assert [taxi["uid"] for taxi in now] == [taxi["id"] for taxi in now] == list(range(100))
        mine = now[row["uid"]]
        assert {**mine, "id": row["id"]} == row
    assert len(fleet.cities) == 3


def test_cycles_move_and_a_fleet_may_start_anywhere_in_time():
    fleet = make_fleet(2_000, seed=2)
    start = datetime(2008, 5, 17, 10, tzinfo=UTC)
    first, second = (pa.Table.from_batches(fleet_at(fleet, s, start)).to_pandas() for s in (1e6, 1e6 + 300))
    assert (first["t"] == "2008-05-28 23:46:40+00:00").all()
    assert 0.2 < (first["lon"] != second["lon"]).mean() < 0.7


def test_taxis_share_out_by_population_and_a_city_on_the_antimeridian_is_whole():
    fleet = make_fleet(20_000, ["Beijing", "Paris"], seed=4)
    state = where(fleet, np.arange(20_000), np.zeros(20_000))
    world, (a, b) = cities(), (find_city("Beijing"), find_city("Paris"))
    expected = world.population[a] / (world.population[a] + world.population[b])
    assert (state.lon > 60).mean() == pytest.approx(expected, abs=0.01)
    suva = make_fleet(500, ["Suva"], seed=4)
    for seconds in (0.0, 900.0, 1_800.0):
        state = where(suva, np.arange(500), np.full(500, seconds))
        assert np.abs(state.lon).max() <= 180
        assert np.abs(state.lat + 18.1).max() < 1


def test_hashes_depend_on_every_key_and_spread_evenly():
    uid = np.arange(200_000)
    draws = unit(0, 1, uid)
    assert (draws.min(), draws.max()) == (pytest.approx(0, abs=1e-3), pytest.approx(1, abs=1e-3))
    assert np.histogram(draws, 20)[0] == pytest.approx(10_000, rel=0.05)
    others = [unit(1, 1, uid), unit(0, 2, uid), unit(0, 1, uid, uid), unit(0, 1, uid + 1)]
    for other in others:
        assert abs(np.corrcoef(draws, other)[0, 1]) < 0.01
    assert len(np.unique(mix(0, 0, uid))) == len(uid)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: make_fleet(-1), "taxis -1"),
        (lambda: make_fleet(1, []), "cities 0"),
        (lambda: make_fleet(1, ["Atlantis City Under"]), "no city"),
        (lambda: make_fleet(1, spots=0), "hotspots 0"),
        (lambda: list(fleet_updates(make_fleet(1), 1, period=0)), "period is 0"),
        (lambda: list(fleet_updates(make_fleet(0), 1)), "0 taxis"),
        (lambda: list(fleet_at(make_fleet(1), -1)), "time is -1"),
        (lambda: list(fleet_at(make_fleet(1), 0, datetime(2026, 1, 1))), "no time zone"),
    ],
)
def test_bad_parameters_are_named(call, says):
    with pytest.raises(BadInput, match=says):
        call()


def test_an_empty_fleet_is_legal():
    assert list(fleet_at(make_fleet(0), 0)) == []
    assert list(fleet_updates(make_fleet(0), 0)) == []
