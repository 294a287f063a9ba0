"""Windows that end now, of lengths that nobody declared, against the oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from dtoss.windows.aggregation.windows_at_watermark import flow_between, window_now
from dtoss.windows.durations import duration_text
from tests.dtoss.windows import brute
from tests.dtoss.windows.aggregation.test_groups_step import QUICK, SECOND, keys_at, played, spec, specs, streams


def visitors(accepted, end, length):
    """Return keys and how many different objects each had."""
    ids = {}
    for (who, t), place in brute.counted(accepted).items():
        if end - length <= t < end:
            for key in keys_at(*place):
                ids.setdefault(key, set()).add(who)
    return np.array(sorted(ids), np.int64), np.array([len(ids[key]) for key in sorted(ids)], np.int64)


@given(specs, streams)
@QUICK
def test_any_length_that_ends_now_is_as_the_oracle_says(spec, batches):
    """Every multiple of the pane up to the longest, and the flow of it."""
    _, accepted, reached, state = played(spec, batches)
    if reached is None:
        return
    world = brute.World(spec, accepted, keys_at, math.dist)
    for length in range(spec.pane, spec.lengths[-1] + 1, max(1, spec.longest // 4) * spec.pane):
        name = duration_text(length)
        got = window_now(spec, state, reached, length, name, visitors(accepted, reached, length))
        assert {row.pop("key"): row for row in got.to_pylist()} == world.at(reached, {name: length})
        if "flow" in spec.measures:
            for end in (reached, reached - spec.late // spec.pane * spec.pane):
                flow = flow_between(spec, state, end, length).to_pylist()
                assert {(row["from"], row["to"]): row["moves"] for row in flow} == world.flow(end, length)


def test_a_length_that_is_not_kept_is_named_with_the_nearest_two():
    """Not a multiple of the pane, longer than the longest, none at all."""
    one = spec(lengths="2s,10s", slide="2s", measures="rows,flow")
    _, _, reached, state = played(one, [[(1, 40 * SECOND, 1.0, 0.0)]])
    none = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for length, said in [(5, "4s and 6s"), (11, "10s"), (12, "10s"), (0, "2s"), (1, "2s")]:
        with pytest.raises(ValueError, match=f"of {length}s is not kept: lengths are multiples of 2s up to 10s"):
            window_now(one, state, reached, length * SECOND, "x", none)
        with pytest.raises(ValueError, match=f"the nearest are {said}$"):
            flow_between(one, state, reached, length * SECOND)
    with pytest.raises(ValueError, match="that ends at 30000000 is not kept: those that end from 34000000 on are"):
        flow_between(one, state, 30 * SECOND, 10 * SECOND)
