"""The second step of windows against the oracle: every end, whatever comes late, in any batches and pieces."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtoss.geometry.space import Space
from dtoss.windows.aggregation.pane_state import Columns, Layers, PaneState
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.measures import MEASURES
from dtoss.windows.patches import KEY_GROUPS, group_of, groups_of_labels
from dtoss.windows.spec import spec_of
from tests.dtoss.windows import brute
from tests.dtoss.windows.aggregation.pane_worlds import difference, final_rows, held
from tests.examples import examples

ALL = ",".join(MEASURES)
EMPTY = ({}, {}, {}, {})


def spec(lengths="2s,4s,10s", slide="2s", measures=ALL, **more):
    given = {"late": "6s", "max_gap": "8s", "witnesses": "1", **more}
    return spec_of(lengths, slide, measures, "partition", Space("none", "plane"), "", **given)


def keys_at(x, y):
    """Stripes; none below 0."""
    return [] if x < 0 else [int(x // 10)]


def overlapping(x, y):
    """Stripes, and one over some of them."""
    return [*keys_at(x, y), *([77] if 5 <= x < 25 else [])]


def played(spec, batches, keys_at=keys_at, piece=64, through=lambda state: state):
    """Play batches, and return all results, rows accepted, the last watermark and state."""
    state, had, accepted, reached, tables = PaneState.none(spec), EMPTY, [], None, []
    for batch in batches:
        accepted = accepted + [row for row in batch if reached is None or row[1] >= reached - spec.late]
        has, after = held(spec, accepted, keys_at, math.dist), brute.watermark(spec, accepted, reached)
        step = groups_step(spec, state, difference(spec, had, has), reached, after, piece=piece)
        tables.append(step.results)
        assert step.rows == len(step.results)
        check_ends(spec, step, reached, after)
        state, had, reached = through(step.after), has, after
    return tables, accepted, reached, state


def check_ends(spec, step, reached, after):
    """Late rows touch only ends that are due and not final."""
    ends = step.results.column("end").to_pylist()
    final = step.results.column("final").to_pylist()
    assert all(end % spec.slide == 0 and end <= after for end in ends)
    old = [end for end in ends if reached is not None and end <= reached]
    assert step.revised == len(old)
    assert all(end > reached - spec.late - spec.pane for end in old)
    assert final == [end <= after - spec.late for end in ends]
    at = list(zip(ends, step.results.column("key").to_pylist(), strict=True))
    assert at == sorted(set(at))


def expected(spec, accepted, reached, keys_at=keys_at):
    """Return what the oracle says of every end that is due."""
    found = {}
    if not accepted:
        return found
    world = brute.World(spec, accepted, keys_at, math.dist)
    first = min(row[1] for row in accepted) // spec.slide * spec.slide
    for end in range(first, reached + 1, spec.slide):
        for key, row in world.at(end).items():
            found[end, key] = row
    return found


SECOND = 1_000_000
rows = st.tuples(
    st.integers(0, 4),
    st.integers(0, 60).map(lambda half: half * SECOND // 2) | st.integers(0, 30 * SECOND),
    st.sampled_from([-5.0, 0.0, 3.0, 9.5, 10.0, 15.25, 31.0]),
    st.sampled_from([0.0, 1.0]),
)
streams = st.lists(st.lists(rows, max_size=8), min_size=1, max_size=6)
specs = st.builds(
    spec,
    lengths=st.sampled_from(["2s", "2s,4s,10s", "3s,5s", "1s,20s", "500ms,2500ms,4s,7s"]),
    slide=st.sampled_from(["1s", "2s", "500ms", "5s"]),
    measures=st.sampled_from([ALL, ALL, "rows", "objects,here", "max_speed", "p50_speed", "speed,flow,p95_speed"]),
    late=st.sampled_from(["0s", "1s", "6s", "700ms", "30s"]),
    max_gap=st.sampled_from(["1s", "8s"]),
    expire=st.sampled_from([None, "1500ms", "4s"]),
    witnesses=st.sampled_from(["1", "2", "1%"]),
    max_speed=st.sampled_from([None, 5.0]),
)
QUICK = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
FEW = settings(QUICK, max_examples=examples(60))


@given(specs, streams, st.sampled_from([1, 5, 1000]), st.booleans())
@QUICK
def test_every_end_is_as_the_oracle_says(spec, batches, piece, overlap):
    """All measures, any order within the bound, duplicates and corrections; the last revision of each end."""
    places = overlapping if overlap and "flow" not in spec.measures else keys_at
    tables, accepted, reached, _ = played(spec, batches, places, piece)
    assert final_rows(tables) == expected(spec, accepted, reached, places)


@given(specs, streams)
@FEW
def test_a_state_that_was_written_goes_on_as_it_is(spec, batches):
    """Tables of a state and back, after each batch: the same results and the same state."""

    def through(state):
        tables = {name: pa.table(table.to_pydict(), schema=table.schema) for name, table in state.to_arrow().items()}
        again = PaneState.from_arrow(spec, tables)
        assert {name: table.to_pydict() for name, table in again.to_arrow().items()} == {
            name: table.to_pydict() for name, table in state.to_arrow().items()
        }
        return again

    assert played(spec, batches, through=through)[0] == played(spec, batches)[0]


def of_groups(state, groups):
    """The state of the keys and moves of some groups."""
    wanted = np.zeros(KEY_GROUPS, np.bool_)
    wanted[list(groups)] = True

    def some(cells, flow=False):
        there = wanted[groups_of_labels(cells.labels, flow=flow)]
        return cells if there.all() else cells.take(there)

    def layers(of, flow=False):
        closed = (some(cells, flow) for cells in of.closed)
        return Layers(tuple(cells for cells in closed if len(cells)), some(of.open, flow))

    mine = wanted[group_of(state.keys)]
    return PaneState(
        state.base,
        state.keys[mine],
        np.ascontiguousarray(state.running[:, mine]),
        tuple(cells for cells in map(some, state.closed_sums) if len(cells)),
        some(state.sums),
        layers(state.flow, flow=True),
        layers(state.bins),
        *(some(cells) for cells in (state.bin_counts, state.queues, state.maxima, state.revisions)),
    )


@given(specs, streams)
@FEW
def test_groups_of_keys_are_states_of_their_own(spec, batches):
    """Split by group after each batch and joined: the same results; each group alone gives those of its keys."""

    def through(state):
        parts = [of_groups(state, [group]) for group in sorted({*group_of(np.arange(-1, 4)).tolist(), 7})]
        halves = [of_groups(state, range(0, KEY_GROUPS, 2)), of_groups(state, range(1, KEY_GROUPS, 2))]
        for again in (PaneState.joined(spec, parts), PaneState.joined(spec, halves)):
            assert {name: table.to_pydict() for name, table in again.to_arrow().items()} == {
                name: table.to_pydict() for name, table in state.to_arrow().items()
            }
        return again

    assert played(spec, batches, through=through)[0] == played(spec, batches)[0]


@pytest.mark.checked
@pytest.mark.parametrize("piece", [1, 1000])
def test_all_measures_of_a_small_stream(piece):
    """Late rows, a correction, a queue that is emptied, percentiles that move both ways."""
    rows = [(i % 3, i * SECOND * 3 // 4, float(i * i % 29), float(i % 2)) for i in range(20)]
    late = [(1, 11 * SECOND, 28.0, 0.0), (0, 9 * SECOND, 3.0, 1.0), (7, 13 * SECOND, 12.0, 0.0)]
    one = spec(lengths="2s,4s,10s", slide="2s", late="8s")
    tables, accepted, reached, _ = played(one, [rows[:8], rows[8:], late, [(2, 40 * SECOND, 1.0, 1.0)]], piece=piece)
    assert final_rows(tables) == expected(one, accepted, reached)


@pytest.mark.checked
def test_a_late_row_is_a_new_revision_of_the_ends_it_touches_only():
    """And a key that becomes empty has a row of zeros."""
    one = spec(lengths="2s", slide="2s", measures="rows,max_speed", late="6s")
    moving = [(1, 0, 1.0, 0.0), (1, 3 * SECOND, 1.0, 0.0), (1, 9 * SECOND, 1.0, 0.0), (1, 12 * SECOND, 1.0, 0.0)]
    tables, *_ = played(one, [moving, [(2, 9 * SECOND, 1.0, 0.0)], [(2, 9 * SECOND, 15.0, 0.0)]])
    assert [row["end"] // SECOND for row in tables[0].to_pylist()] == [2, 4, 10]
    assert [(row["end"] // SECOND, row["key"], row["revision"], row["rows_2s"]) for row in tables[1].to_pylist()] == [
        (10, 0, 1, 2)
    ]
    assert [(row["key"], row["revision"], row["rows_2s"]) for row in tables[2].to_pylist()] == [(0, 2, 1), (1, 1, 1)]


def test_a_key_that_becomes_empty_has_a_row_of_zeros():
    """So whoever reads only changes knows."""
    one = spec(lengths="2s", slide="2s", measures="rows,max_speed", late="6s")
    first = [(1, 9 * SECOND, 1.0, 0.0), (2, 12 * SECOND, 1.0, 0.0)]
    tables, *_ = played(one, [first, [(1, 9 * SECOND, 15.0, 0.0)]])
    told = [(row["key"], row["revision"], row["rows_2s"], row["max_speed_2s"]) for row in tables[1].to_pylist()]
    assert told == [(0, 1, 0, None), (1, 1, 1, None)]


def test_an_empty_century_costs_no_ends():
    """A clock that was 30 years behind: ends without anything are not swept one by one."""
    one = spec(lengths="2s", slide="2s", measures="rows,objects", late="6s", witnesses="1")
    far = 30 * 365 * 86_400 * SECOND
    tables, *_ = played(one, [[(1, 0, 1.0, 0.0), (2, far, 1.0, 0.0), (3, far + 5 * SECOND, 1.0, 0.0)]])
    assert [row["end"] for row in tables[0].to_pylist()] == [2 * SECOND, far + 2 * SECOND]


def test_a_watermark_never_goes_back_and_closed_panes_stay():
    """Both are faults of the caller."""
    one = spec(measures="rows", late="2s")
    _, _, reached, state = played(one, [[(1, 20 * SECOND, 1.0, 0.0)]])
    nothing = difference(one, EMPTY, EMPTY)
    with pytest.raises(ValueError, match="the watermark goes back from 20000000 to 3"):
        groups_step(one, state, nothing, reached, 3)
    early = difference(one, EMPTY, held(one, [(1, 0, 1.0, 0.0)], keys_at, math.dist))
    with pytest.raises(ValueError, match="a patch changes pane 0, and those before 9 are closed"):
        groups_step(one, state, early, reached, reached)


def test_results_have_the_columns_that_the_measures_need():
    """In the order of the lengths."""
    assert Columns(spec(lengths="2s,4s", measures="max_speed,here,speed")).results.names == [
        "end", "key", "revision", "final", "here", "distance_mm_2s", "moving_us_2s", "max_speed_2s", "distance_mm_4s",
        "moving_us_4s", "max_speed_4s",
    ]  # fmt: skip
