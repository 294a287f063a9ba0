"""Moves and visits of objects as patches of panes: whatever the order, batches and buckets, the oracle's windows."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.windows.trajectories import cell_table
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.map_step import objects_step
from dtoss.windows.watermark import add_counts, horizon_of, watermark_of
from tests.dtoss.windows.brute import World, replayed
from tests.dtoss.windows.summed import Summed, rows_of
from tests.dtoss.windows.window_streams import streams
from tests.examples import examples


def ends_of(spec, rows, beyond):
    """Return the ends to look at: from before the first row until nothing may change any more."""
    if not rows:
        return [0]
    times = [t for _, t, *_ in rows]
    first = min(times) // spec.slide
    last = (max(times) + spec.lengths[-1] + (spec.expire or 0)) // spec.slide + 2
    every = max((last - first) // beyond, 1)
    return [number * spec.slide for number in range(first, last + 1, every)]


def held_to_the_oracle(stream, tasks, text, beyond=12):
    """Replay a stream in so many tasks, and compare every measure after each batch."""
    spec, keys = stream.spec, stream.keys
    id_type = pa.string() if text else pa.int64()
    states = [ObjectState.none(id_type, keys.single) for _ in range(tasks)]
    summed, watermark, duplicates, jumps, seen = Summed(spec), None, 0, 0, 0
    for batch, (accepted, late, reached) in zip(stream.batches, replayed(spec, stream.batches), strict=True):
        good = accepted[seen:]
        assert len(good) + late == len(batch)
        seen = len(accepted)
        steps = []
        for task in range(tasks):
            mine = rows_of([row for row in good if row[0] % tasks == task], lambda who: who % (2 * tasks), text)
            steps.append(objects_step(spec, keys, states[task], mine, horizon_of(spec, watermark)))
            states[task] = ObjectState.from_arrow(steps[-1].after.to_arrow())
            summed.add(steps[-1].patches)
        watermark = watermark_of(spec, add_counts([step.reached for step in steps]), watermark)
        assert watermark == reached
        duplicates += sum(step.duplicates for step in steps)
        jumps += sum(step.jumps for step in steps)
        world = World(spec, accepted, stream.keys_at, stream.far)
        assert duplicates == world.duplicates
        assert jumps == (world.jumps if spec.moves else 0)
        for end in ends_of(spec, accepted, beyond):
            assert summed.at(end) == world.at(end)
            if "flow" in spec.measures:
                for length in spec.lengths:
                    assert summed.flow(end, length) == world.flow(end, length)


@pytest.mark.checked
@settings(max_examples=examples(60), deadline=None)
@given(streams(), st.sampled_from([1, 2, 7]), st.booleans(), st.booleans())
def test_patches_add_up_to_the_windows_of_all_rows(stream, tasks, text, hashed):
    """Also where panes and keys are so many that cells are found by their hash, in a table that has to grow."""
    if hashed:
        with mock.patch.multiple(cell_table, _FEWEST=-1, _OF_ROW=0, _SLOTS=4):
            held_to_the_oracle(stream, tasks, text)
    else:
        held_to_the_oracle(stream, tasks, text)
