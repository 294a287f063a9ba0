"""Events are made some at a time: how many does not show, and a row with more than that has room."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dtoss.watch.processing.object_rows import by_id_and_time
from dtoss.watch.watch_folder import Home, Limits
from tests.dtoss.watch.processing.held import held_equal
from tests.dtoss.watch.streams import change, circle, run, settings_of, told
from tests.examples import examples

pytestmark = pytest.mark.checked


@pytest.mark.parametrize("first", [0, pytest.param(4, marks=pytest.mark.deep("more seeds of the same kind"))])
@pytest.mark.parametrize("room", [1, 3])
def test_events_made_some_at_a_time_are_the_loops(tmp_path, room, first):
    """Groups of a few rows of a file; subscriptions that came since the large index stand in the order of ids."""
    few = Limits(event_group_rows=room, least_delta=3)
    total = [
        held_equal(tmp_path / str(seed), seed, tasks=2, expire=20, limits=few)
        for seed in range(first, first + examples(4, 2))
    ]
    assert sum(map(len, total)) > 15 * len(total)


def test_events_of_a_row_stand_by_the_ids_of_both_indexes(tmp_path):
    """Those of the small index between those of the large one, in each kind."""
    home, settings = Home(str(tmp_path)), settings_of()
    names = [f"s{number:02}" for number in range(20)]
    chosen = np.random.default_rng(2).permutation(20)
    row = {"id": 1, "t": 1_700_000_000_000_000, "x": 0.0, "y": 0.0, "attributes": {}}
    change(home, [circle(names[one], 0.0, 0.0, 500.0) for one in chosen[:12]])
    run(home, settings, [row])
    change(home, [circle(names[one], 0.0, 0.0, 400.0) for one in chosen[10:]])
    commit = run(home, settings, [row | {"t": row["t"] + 1_000_000}])
    assert len(commit.document["standing"]["delta"]["name"]) > 0
    events = [event[:2] for event in told(home, commit.number)]
    again = sorted(names[one] for one in chosen[10:])
    assert events == [
        *(("reset", name) for name in sorted(names[one] for one in chosen[10:12])),
        *(("enter", name) for name in again),
        *(("inside", name) for name in names),
    ]


@pytest.mark.parametrize("far", [1, 1 << 62, (1 << 63) - 1])
def test_rows_are_put_in_the_order_of_objects_and_times(far):
    """Of ids and times that are as far apart as numbers can be too, of texts, of none; equal ones stay as they came."""
    rng = np.random.default_rng(far % 7)
    numbers = rng.integers(-3, 4, 60)
    ids, t = np.clip(numbers * (far // 3), -far, far), rng.integers(-3, 4, 60) * (far // 3)
    wanted = sorted(range(60), key=lambda row: (ids[row], t[row]))
    assert by_id_and_time(pa.array(ids), t).tolist() == wanted
    texts = [f"{number + 3}" for number in numbers]
    wanted = sorted(range(60), key=lambda row: (texts[row], t[row]))
    assert by_id_and_time(pa.array(texts), t).tolist() == wanted
    assert by_id_and_time(pa.array([], pa.int64()), t[:0]).tolist() == []
