"""What is known of objects: split by bucket and put together, folded, and what no longer matters dropped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from dtoss.partitioning.regions import Regions
from dtoss.windows.keys import region_keys
from dtoss.windows.measures import MEASURES
from dtoss.windows.patches import Patches
from dtoss.windows.spec import spec_of
from dtoss.windows.trajectories.fold_horizon import fold_state
from dtoss.windows.trajectories.known_rows import ObjectState, newest
from dtoss.windows.trajectories.map_step import objects_step
from dtoss.windows.watermark import PaneCounts, add_counts, horizon_of, watermark_of
from tests.dtoss.windows.summed import rows_of
from tests.dtoss.windows.window_streams import SPACES, streams
from tests.examples import examples

SECOND = 1_000_000
PLANE = SPACES["plane"]
KEYS = region_keys(PLANE, Regions(np.array([[0.0, 0.0], [10.0, 0.0]]), np.zeros(2)))


def spec(**options):
    measures = options.pop("measures", ",".join(MEASURES))
    given_options = {"late": "0s", "max_gap": "5s", **options}
    return spec_of("2s,4s", "1s", measures, "partition", PLANE, KEYS.digest, **given_options)


def same(a, b):
    """Whether two states hold the same."""
    tables = zip(a.to_arrow().values(), b.to_arrow().values(), strict=True)
    return all(one.equals(other) for one, other in tables)


@settings(max_examples=examples(15), deadline=None)
@given(streams())
def test_a_state_split_by_buckets_is_put_together_again(stream):
    rows = [row for batch in stream.batches for row in batch]
    none = ObjectState.none(pa.string(), stream.keys.single)
    step = objects_step(stream.spec, stream.keys, none, rows_of(rows, lambda who: who % 3, True), None)
    parts = [step.after.of_buckets(np.array([bucket])) for bucket in (2, 0, 1)]
    assert sum(map(len, parts)) == len(step.after)
    assert same(newest(parts), step.after)
    assert same(ObjectState.from_arrow(step.after.to_arrow()), step.after)
    again = Patches.from_arrow(stream.spec, step.patches.to_arrow(stream.spec))
    for name in ("sums", "flow", "bins", "maxima"):
        one, other = getattr(again, name), getattr(step.patches, name)
        for part in ("offsets", "pane", "labels", "values"):
            assert (getattr(one, part) == getattr(other, part)).all()


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, [-6, 9]),
        ({"expire": "3s"}, [9]),
        ({"expire": "20s"}, [-6, 9]),
        ({"measures": "rows,flow"}, [9]),
        ({"measures": "rows,flow", "max_gap": "20s"}, [-6, 9]),
        ({"measures": "rows"}, [9]),
    ],
)
def test_a_last_row_is_kept_as_long_as_it_may_matter(options, kept):
    """While the object is somewhere still, a move may follow, or it is one of those whose clocks count."""
    rows = [(1, -9, 0.0, 0.0), (1, -6, 9.0, 0.0), (2, 8, 0.0, 0.0), (2, 9, 9.0, 0.0)]
    rows = [(who, t * SECOND, x, y) for who, t, x, y in rows]
    wanted = spec(**options)
    after = objects_step(wanted, KEYS, ObjectState.none(pa.int64(), True), rows_of(rows, abs), None).after
    found = fold_state(wanted, after, 10 * SECOND)
    assert (found.t // SECOND).tolist() == kept
    visits = list(zip(found.visit_key.tolist(), found.visit_pane.tolist(), strict=True))
    assert visits == ([(0, 8), (1, 9)] if "objects" in wanted.measures else [])
    assert fold_state(wanted, after, None) is after


def test_a_visit_is_kept_as_long_as_the_longest_window_may_hold_it():
    wanted = spec(measures="objects")
    last = 10 - wanted.longest
    rows = rows_of([(1, last * SECOND, 0.0, 0.0), (2, (last - 1) * SECOND, 0.0, 0.0)], abs)
    after = objects_step(wanted, KEYS, ObjectState.none(pa.int64(), True), rows, None).after
    assert fold_state(wanted, after, 10 * SECOND).visit_pane.tolist() == [last]


def test_a_cell_whose_only_move_is_gone_has_no_greatest_speed():
    """Which another place of an object at the same time has taken elsewhere."""
    wanted, none = spec(measures="max_speed"), ObjectState.none(pa.int64(), True)
    moved = objects_step(wanted, KEYS, none, rows_of([(1, 0, 0.0, 0.0), (1, SECOND, 1.0, 0.0)], abs), None)
    again = objects_step(wanted, KEYS, moved.after, rows_of([(1, SECOND, 9.0, 0.0)], abs), None)
    found = [dict(zip(one.labels[:, 0].tolist(), one.values[:, 0].tolist(), strict=True))
             for one in (moved.patches.maxima, again.patches.maxima)]  # fmt: skip
    assert found == [{0: 1_000}, {0: -1, 1: 9_000}]


@pytest.mark.parametrize("single", [True, False])
def test_a_state_of_no_objects_is_written_and_split_as_others_are(single):
    none = ObjectState.none(pa.string(), single)
    assert same(ObjectState.from_arrow(none.to_arrow()), none)
    assert same(none.of_buckets(np.arange(9)), none)


def test_keys_that_are_known_are_not_looked_up():
    rows = rows_of([(2, 0, 0.0, 0.0), (1, 5 * SECOND, 9.0, 0.0), (1, 3 * SECOND, 1.0, 0.0)], abs)

    def refuse(*_):
        raise AssertionError

    none = ObjectState.none(pa.int64(), True)
    step = objects_step(spec(), KEYS, none, rows, None)
    other = objects_step(spec(), replace(KEYS, find=refuse), none, rows, None, KEYS.of(rows.positions))
    assert same(step.after, other.after)
    assert step.after.labels.key.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("witnesses", "delay", "panes", "objects", "before", "expected"),
    [
        ("1%", "0s", [], [], None, None),
        ("1%", "0s", [], [], 5, 5),
        ("1%", "0s", [3, 7], [1, 1], None, 3),
        ("1%", "0s", [3, 7, 9], [9, 2, 1], None, 7),
        ("1%", "0s", [3, 7, 9], [9, 2, 1], 8, 8),
        ("1", "0s", [3, 7, 9], [9, 2, 1], 8, 9),
        ("1", "1.5s", [3, 7, 9], [9, 2, 1], None, 7),
        ("2", "0s", [-9, 7], [9, 1], 6, 7),
        ("2", "0s", [2, 7], [9, 1], 6, 6),
        ("100%", "0s", [2, 7], [9, 1], 2, 2),
    ],
)
def test_a_watermark_is_what_enough_objects_have_reached(witnesses, delay, panes, objects, before, expected):
    """Objects a longest window behind the last one do not count, and it never goes back."""
    wanted = spec(witnesses=witnesses, delay=delay)
    reached = PaneCounts(np.array(panes, np.int64), np.array(objects, np.int64))
    whole = add_counts([reached, PaneCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))])
    found = watermark_of(wanted, whole, None if before is None else before * SECOND)
    assert found == (None if expected is None else expected * SECOND)


def test_the_horizon_is_the_beginning_of_a_pane_that_late_rows_reach():
    assert horizon_of(spec(late="2.5s"), 10 * SECOND) == 7 * SECOND
    assert horizon_of(spec(), -3 * SECOND) == -3 * SECOND
    assert horizon_of(spec(), None) is None
