from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceps
from ceps import Patterns, read_patterns, write_patterns
from ceps.model.patterns import content_order, hour_slices, slot_length
from ceps.model.variation import Variation
from tests.ceps import oracles
from tests.ceps.instances import small_patterns, waves


@pytest.mark.parametrize(
    ("slots", "seconds"),
    [(1, 86400), (24, 3600), (32, 2700), (288, 300), (1440, 60), (168, 3600), (2016, 300), (7, 86400)],
)
def test_slots_divide_a_day_or_a_week(slots, seconds):
    """The slot length follows from the number of slots; a day is tried before a week."""
    assert slot_length(slots) == seconds
    made = Patterns(loads=np.ones((2, slots)))
    assert made.slot_seconds == seconds
    assert made.period in (86400, 604800)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loads": [[1.0, -0.5]]}, r"loads\[0, 1\] = -0.5"),
        ({"loads": [[1.0, np.nan]]}, r"loads\[0, 1\] = nan"),
        ({"loads": [[1.0, np.inf]]}, r"loads\[0, 1\] = inf"),
        ({"loads": [1.0, 2.0]}, "1 dimensions"),
        ({"loads": np.ones((2, 0))}, "no slots"),
        ({"loads": np.ones((2, 11))}, "11 slots divide neither"),
        ({"slot_seconds": 60}, "must make a day"),
        ({"sizes": [1.0, 2.0]}, "sizes has shape"),
        ({"sizes": [-1.0]}, r"sizes\[0\] = -1.0 bytes"),
        ({"partitions": [1, 2]}, "partitions has shape"),
        ({"positions": [[0.0, 1.0], [2.0, 3.0]]}, "positions has shape"),
        ({"positions": [[0.0, np.nan]]}, "not finite"),
        ({"weekday": 7}, "weekday = 7"),
        ({"days": 0.0}, "days = 0.0"),
        ({"requests_per_event": -1.0}, "requests_per_event"),
    ],
)
def test_bad_patterns_are_refused_with_the_value_and_its_place(changes, message):
    """An error names what is wrong and where."""
    with pytest.raises(ValueError, match=message):
        Patterns(**({"loads": [[1.0, 2.0]]} | changes))


def test_a_partition_may_appear_once():
    """Two rows of one partition would be two different partitions of the same number."""
    with pytest.raises(ValueError, match="partition 5 appears 2 times"):
        Patterns(loads=np.ones((3, 2)), partitions=[5, 1, 5])


def test_arrays_cannot_be_changed():
    """Patterns are immutable, and do not share the caller's arrays."""
    mine = np.ones((2, 2))
    made = Patterns(loads=mine)
    mine[0, 0] = 7
    assert made.loads[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        made.loads[0, 0] = 3


def test_no_partitions_are_legal():
    """Nothing to place is a legal input."""
    made = Patterns(loads=np.empty((0, 24)))
    assert len(made) == 0
    assert made.peak == 0


@settings(deadline=None)
@given(small_patterns(slots=12), st.integers(0, 86400))
def test_smoothing_is_a_circular_mean(made, seconds):
    """Each slot becomes the mean over an odd number of slots round it; the day's total stays."""
    half = min(int(seconds / 7200 / 2), 5)
    smooth = made.smoothed(seconds)
    for row, expected in zip(smooth.loads, made.loads, strict=True):
        np.testing.assert_allclose(row, oracles.smoothed(list(expected), half), atol=1e-9)
    np.testing.assert_allclose(smooth.loads.sum(), made.loads.sum())


def test_smoothing_longer_than_the_period_is_refused():
    """The period is the longest window."""
    with pytest.raises(ValueError, match="0 to 86400"):
        waves(2, 10).smoothed(86401)


@settings(deadline=None)
@given(small_patterns(), st.randoms(use_true_random=False), st.integers(-20, 20))
def test_content_order_ignores_numbering_and_powers_of_two(made, random, power):
    """Rows in content order are the same whatever order they came in and whatever the unit of load."""
    shuffled = list(range(len(made)))
    random.shuffle(shuffled)
    other = Patterns(loads=made.loads[shuffled] * 2.0**power, sizes=made.sizes[shuffled])
    first, second = content_order(made), content_order(other)
    np.testing.assert_array_equal(made.loads[first] * 2.0**power, other.loads[second])
    np.testing.assert_array_equal(made.sizes[first], other.sizes[second])


@pytest.mark.parametrize("slots", [4, 24, 32, 288, 168, 2016])
def test_hours_cover_all_slots(slots):
    """Every hour has at least one slot, and every slot is in the hours that it overlaps."""
    seconds = slot_length(slots)
    hours = hour_slices(slots, seconds)
    assert len(hours) * 3600 in (86400, 604800)
    for slot in range(slots):
        inside = [h for h, part in enumerate(hours) if part.start <= slot < part.stop]
        expected = [h for h in range(len(hours)) if h * 3600 < (slot + 1) * seconds and (h + 1) * 3600 > slot * seconds]
        assert inside == expected


def same(first: Patterns, second: Patterns) -> bool:
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("loads", "sizes", "partitions", "positions")
    ) and all(
        getattr(first, name) == getattr(second, name)
        for name in ("slot_seconds", "time_zone", "weekday", "days", "requests_per_event", "pivots_hash")
    )


@settings(deadline=None)
@given(small_patterns())
def test_a_file_gives_back_every_bit(tmp_path_factory, made):
    """Patterns of all days survive the file unchanged."""
    path = tmp_path_factory.mktemp("patterns") / "patterns.parquet"
    write_patterns(path, made)
    back = read_patterns(path)
    assert np.array_equal(back.loads, made.loads)
    assert np.array_equal(back.sizes, made.sizes)


def test_metadata_and_places_survive(tmp_path):
    """Everything that Patterns holds is in the file."""
    base = waves(5, 100.0)
    made = Patterns(
        loads=base.loads, sizes=base.sizes, positions=base.positions, partitions=[9, 2, 40, 7, 1],
        time_zone="Asia/Tokyo", weekday=3, days=4.0, requests_per_event=10.0, pivots_hash="abc",
    )  # fmt: skip
    write_patterns(tmp_path / "p.parquet", made)
    assert same(read_patterns(tmp_path / "p.parquet"), made)
    assert same(read_patterns(tmp_path / "p.parquet", weekday=3), made)


def test_columns_are_those_of_the_contract(tmp_path):
    """Other programs read partition, weekday (null = all), slot and requests_per_second."""
    import pyarrow.parquet as pq

    write_patterns(tmp_path / "p.parquet", waves(3, 10.0))
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["partition", "weekday", "slot", "requests_per_second"]
    assert table["weekday"].null_count == len(table)


def test_a_week_is_written_by_day_and_read_as_a_week(tmp_path):
    """Seven weekdays make a week again, and each can be read alone."""
    week = Patterns(loads=np.random.default_rng(0).uniform(0, 9, (3, 168)))
    write_patterns(tmp_path / "p.parquet", week)
    np.testing.assert_array_equal(read_patterns(tmp_path / "p.parquet").loads, week.loads)
    np.testing.assert_array_equal(read_patterns(tmp_path / "p.parquet", weekday=2).loads, week.loads[:, 48:72])


def test_all_days_and_weekdays_in_one_file(tmp_path):
    """Without a weekday, the rows of all days are read."""
    mean, monday = waves(3, 10.0), waves(3, 20.0, seed=1)
    monday = Patterns(loads=monday.loads, sizes=mean.sizes, positions=mean.positions, weekday=0)
    write_patterns(tmp_path / "p.parquet", [mean, monday])
    assert read_patterns(tmp_path / "p.parquet").weekday is None
    np.testing.assert_array_equal(read_patterns(tmp_path / "p.parquet", weekday=0).loads, monday.loads)
    with pytest.raises(ValueError, match="holds no weekday 5"):
        read_patterns(tmp_path / "p.parquet", weekday=5)


def test_each_day_keeps_how_often_it_was_observed(tmp_path):
    """All days 10 times, Mondays twice, the other weekdays less; a week is as sure as its rarest day."""
    given = [replace(waves(3, 10.0), days=10.0)]
    given += [replace(waves(3, 10.0, seed=day), weekday=day, days=2.0 if day == 0 else 1.5) for day in range(7)]
    write_patterns(tmp_path / "p.parquet", given)
    assert read_patterns(tmp_path / "p.parquet", week=False).days == 10.0
    assert read_patterns(tmp_path / "p.parquet").days == 1.5
    assert read_patterns(tmp_path / "p.parquet", weekday=0).days == 2.0
    week = read_patterns(tmp_path / "p.parquet", week=True)
    assert (week.days, week.slots, week.weekday) == (1.5, 7 * 24, None)
    np.testing.assert_array_equal(week.loads[:, 24:48], given[2].loads)
    write_patterns(tmp_path / "days.parquet", given[:3])
    filled = read_patterns(tmp_path / "days.parquet")
    np.testing.assert_array_equal(filled.loads[:, :48], week.loads[:, :48])
    np.testing.assert_array_equal(filled.loads[:, 48:72], given[0].loads)
    write_patterns(tmp_path / "bare.parquet", given[1:3])
    with pytest.raises(ValueError, match="holds no weekday 2"):
        read_patterns(tmp_path / "bare.parquet")


def test_files_that_are_no_patterns(tmp_path):
    """Each says what is wrong with the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(FileNotFoundError):
        read_patterns(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("partition,slot")
    with pytest.raises(ValueError, match="not a Parquet file"):
        read_patterns(tmp_path / "text.parquet")
    pq.write_table(pa.table({"partition": [1]}), tmp_path / "bare.parquet")
    with pytest.raises(ValueError, match="not a patterns file"):
        read_patterns(tmp_path / "bare.parquet")
    with pytest.raises(ValueError, match="no patterns to write"):
        write_patterns(tmp_path / "x.parquet", [])
    with pytest.raises(ValueError, match="each day may be written once"):
        write_patterns(tmp_path / "x.parquet", [waves(2, 1.0), waves(2, 1.0)])


def test_a_later_format_and_unknown_rows_are_refused(tmp_path):
    """A file of tomorrow is not read as one of today, and no row is dropped."""
    import json

    import pyarrow.parquet as pq

    write_patterns(tmp_path / "p.parquet", waves(2, 10.0))
    table = pq.read_table(tmp_path / "p.parquet")
    about = json.loads(table.schema.metadata[b"ceps.patterns"])
    later = table.replace_schema_metadata({b"ceps.patterns": json.dumps(about | {"format": 99})})
    pq.write_table(later, tmp_path / "later.parquet")
    with pytest.raises(ValueError, match="format 99 is later"):
        read_patterns(tmp_path / "later.parquet")
    fewer = about | {"partitions": [0], "bytes": [1.0], "positions": None}
    pq.write_table(table.replace_schema_metadata({b"ceps.patterns": json.dumps(fewer)}), tmp_path / "fewer.parquet")
    with pytest.raises(ValueError, match="partition 1 has rows but no bytes"):
        read_patterns(tmp_path / "fewer.parquet")


def test_days_that_say_nothing_of_variation_are_read_back(tmp_path):
    """A single day knows no level: patterns with none, and their plans, come back from their files."""
    made = replace(Patterns(np.full((2, 24), 100.0)), variation=Variation(np.empty((0, 24)), np.zeros(2)))
    write_patterns(tmp_path / "p.parquet", made)
    back = read_patterns(tmp_path / "p.parquet")
    assert back.variation is not None
    assert len(back.variation.levels) == 0
    assert back.variation.own.tolist() == [0.0, 0.0]
    plan = ceps.plan(back, None, ceps.load_servers("m3-2015"))
    plan.save(tmp_path / "plan.json")
    assert ceps.load_plan(tmp_path / "plan.json").risk == plan.risk
