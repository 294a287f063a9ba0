"""Windows in process, both steps, against the oracle: any order, batches, keys, chunks; and what callers do wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtoss.geometry.space import space_of
from dtoss.windows.durations import duration_text
from dtoss.windows.keys import site_keys
from dtoss.windows.query.wide import answer_of
from dtoss.windows.spec import MM_OF_METRE, spec_of
from dtoss.windows.watermark import IN_FUTURE, TOO_LATE
from tests.dtoss.windows import brute
from tests.dtoss.windows.aggregation.pane_worlds import final_rows
from tests.dtoss.windows.in_memory_windows import Live
from tests.dtoss.windows.window_streams import streams
from tests.examples import examples

SECOND = 1_000_000
QUICK = settings(max_examples=examples(40, 40), deadline=None, suppress_health_check=list(HealthCheck))


def played(stream, piece=1000):
    """Return the windows and the results of each advance."""
    live, tables = Live(stream.spec, stream.keys, piece=piece, clock=lambda: 1 << 61), []
    for batch in stream.batches:
        live.add(*columns(batch))
        tables.append(live.advance())
    return live, tables


def columns(batch):
    """Return ids, times and positions of rows."""
    return (
        np.array([row[0] for row in batch], np.int64),
        np.array([row[1] for row in batch], "M8[us]"),
        np.array([row[2:] for row in batch], np.float64).reshape(-1, 2),
    )


def differences(stream, piece):
    """Play a stream, and say what differs from the oracle, a line each."""
    live, tables = played(stream, piece)
    accepted, late, reached = [], 0, None
    for accepted, more, reached in brute.replayed(stream.spec, stream.batches):  # noqa: B007
        late += more
    wrong = [] if live.watermark == reached else [f"watermark {live.watermark}, not {reached}"]
    rows = sum(map(len, stream.batches))
    counts = live.counts
    if counts["counted"] + counts["losers"] + late != rows or counts.get(TOO_LATE, 0) != late:
        wrong.append(f"{rows} rows, {late} late: {counts}")
    if reached is None:
        return wrong
    world = brute.World(stream.spec, accepted, stream.keys_at, stream.far)
    slide = stream.spec.slide
    first = min(row[1] for row in accepted) // slide * slide
    expected = {(end, key): row for end in range(first, reached + 1, slide) for key, row in world.at(end).items()}
    got = final_rows(tables)
    wrong += [
        f"{at}: {got.get(at)}, not {expected.get(at)}" for at in {*got, *expected} if got.get(at) != expected.get(at)
    ]
    return [*wrong, *asked_differences(stream, live, world, reached)]


def asked_differences(stream, live, world, reached):
    """Say what is answered otherwise than by the oracle: the last end, an older one, a length that nobody declared."""
    spec, wrong = stream.spec, []
    last = reached // spec.slide * spec.slide
    asked = [(spec.lengths[-1], last, None), (spec.lengths[0], last - spec.slide, last - spec.slide)]
    if spec.longest > 1:
        length = (spec.longest // 2) * spec.pane
        asked.append((length, last if length in spec.lengths else reached, None))
    for length, at, end in asked:
        if at <= reached - spec.lengths[-1]:
            continue
        got = {row.pop("key"): row for row in live.at(duration_text(length), end).to_pylist()}
        rows = world.at(at, {"w": length})
        named = {key: shown(spec, row) for key, row in rows.items()}
        for row in got.values():
            del row["revision"]
            if row.pop("end") != at or row.pop("final") != (at <= reached - spec.late):
                wrong.append(f"{at}: {row}")
        if got != named:
            wrong.append(f"at {at}, {length}: {got}, not {named}")
        if "flow" in spec.measures and at - length >= reached - spec.late - spec.lengths[-1]:
            flow = live.flow(duration_text(length), at).to_pylist()
            if {(row["from"], row["to"]): row["moves"] for row in flow} != world.flow(at, length):
                wrong.append(f"flow at {at}, {length}: {flow}")
    return wrong


def shown(spec, row):
    """Return a row of the oracle as it is shown: speeds in metres a second."""
    found = {}
    for measure in spec.measures:
        if measure == "speed":
            moving = row["moving_us_w"]
            found["speed"] = float(row["distance_mm_w"]) / MM_OF_METRE / (moving / 1e6) if moving else None
        elif measure.endswith("_speed"):
            value = row[f"{measure}_w"]
            found[measure] = None if value is None else float(value) / MM_OF_METRE
        elif measure != "flow":
            found[measure] = row["here" if measure == "here" else f"{measure}_w"]
    return found


@given(streams(), st.sampled_from([1, 7, 1000]))
@QUICK
def test_every_measure_at_every_end_is_as_the_oracle_says(stream, piece):
    """By every kind of key, plane and sphere, whatever comes late, twice or elsewhere at the same time."""
    assert not differences(stream, piece)


@given(streams(), st.randoms(use_true_random=False))
@QUICK
def test_batches_change_no_final_value_while_nothing_is_late(stream, chance):
    """The same rows in one batch, and one by one: where none was set aside, what is due by both is the same."""
    rows = [row for batch in stream.batches for row in batch]
    whole, tables = played(replace(stream, batches=[rows]))
    chance.shuffle(rows)
    rows.sort(key=lambda row: row[1] // (1 + stream.spec.late))  # about in order
    single, one_by_one = played(
        type(stream)(stream.spec, stream.keys, [[row] for row in rows], stream.keys_at, stream.far)
    )
    if single.counts.get(TOO_LATE) or single.watermark != whole.watermark:
        return
    assert final_rows(one_by_one) == final_rows(tables)


def made(measures="rows,objects,flow", **more):
    keys = site_keys(space_of(None, "plane"), np.array([[0.0, 0.0], [100.0, 0.0]]))
    return spec_of("2s,6s", "2s", measures, "sites:shops.csv", keys.space, keys.digest, **{"late": "4s", **more}), keys


@pytest.mark.parametrize(("metres", "seconds", "speed", "greatest"), [
    (928.881, 100, 9.28881, 9.288), (6.275, 1000, 0.006275, 0.006),
    (0.0625, 1, 0.062, 0.062), (0.0635, 1, 0.064, 0.064), (0.0009, 2, 0.0005, 0.0),
])  # fmt: skip
def test_the_greatest_speed_is_rounded_down_and_distances_half_to_even(metres, seconds, speed, greatest):
    """To whole mm/s and whole mm; ``speed`` has all digits; a limit is held against the rounded one."""
    keys = site_keys(space_of(None, "plane"), np.array([[0.0, 0.0]]))
    measures = "rows,speed,max_speed,p50_speed"

    def asked(limit=None):
        spec = spec_of(
            "2h", "1h", measures, "sites:a.csv", keys.space, keys.digest, max_gap="1h", max_speed=limit, witnesses="1"
        )
        live = Live(spec, keys)
        live.add([1, 1, 1], [7200, 7200 + seconds, 14_400], [[0, 0], [metres, 0], [0, 0]])
        live.advance()
        return live.at("2h", 10_800 * SECOND).to_pylist()[0], live.counts["jumps"]

    row, jumps = asked()
    assert (row["speed"], row["max_speed"], jumps) == (speed, greatest, 0)
    if greatest:
        row, jumps = asked(greatest)
        assert (row["max_speed"], jumps) == (greatest, 0)
        row, jumps = asked(max(greatest - 0.001, 0.001))
        assert (row["max_speed"], jumps) == (None, 1)


def test_rows_are_set_aside_with_a_reason():
    """Late ones and those ahead of the clock; all rows are counted."""
    spec, keys = made(max_ahead="10s", witnesses="1")
    live = Live(spec, keys, clock=lambda: 100 * SECOND)
    live.add(["a", "b"], [90, 111], [[0, 0], [1, 1]])
    live.advance()
    live.add(pa.array(["a", "c"]), [85.9999, 86.0], [[0, 0], [1, 1]])
    live.advance()
    assert live.counts == {"counted": 2, "losers": 0, "jumps": 0, IN_FUTURE: 1, TOO_LATE: 1}
    assert live.watermark == 90 * SECOND


def test_what_callers_do_wrong_is_said():
    """Each names the value, and what is wanted."""
    spec, keys = made()
    live = Live(spec, keys)
    for said, ask in [
        ("no row yet", lambda: live.at("2s")),
        ("row 1 has no id", lambda: live.add([1, None], [1, 2], [[0, 0], [1, 1]])),
        ("ids are of type double", lambda: live.add([1.5], [1], [[0, 0]])),
        ("there are 1 ids, 2 times and 1 positions", lambda: live.add([1], [1, 2], [[0, 0]])),
        ("times are <U4", lambda: live.add([1], ["noon"], [[0, 0]])),
        ("row 0 has the time nan", lambda: live.add([1], [float("nan")], [[0, 0]])),
        ("row 0 has the time NaT", lambda: live.add([1], np.array(["NaT"], "M8[us]"), [[0, 0]])),
        ("positions row 0 is", lambda: live.add([1], [1], [[float("nan"), 0]])),
    ]:
        with pytest.raises(ValueError, match=said):
            ask()
    live.add([1], [100], [[0, 0]])
    with pytest.raises(ValueError, match="ids are string, and those before are int64"):
        live.add(["a"], [100], [[0, 0]])
    live.advance()
    for said, ask in [
        ("ids are string, and those before are int64", lambda: live.add(["a"], [100], [[0, 0]])),
        ("a window of 3s is not kept", lambda: live.at("3s")),
        ("no window that ends at 101000000 is kept", lambda: live.at("2s", 101 * SECOND)),
        ("no window that ends at 94000000 is kept", lambda: live.at("2s", 94 * SECOND)),
        ("a window of 4s was not declared", lambda: live.at("4s", 98 * SECOND)),
        ("no window ends at 102000000", lambda: live.flow("2s", 102 * SECOND)),
    ]:
        with pytest.raises(ValueError, match=said):
            ask()
    with pytest.raises(ValueError, match="there is no flow: the measures are rows"):
        Live(made("rows")[0], keys).flow("2s")
    with pytest.raises(ValueError, match="give those"):
        Live(spec, site_keys(spec.space, np.array([[5.0, 5.0]])))


def test_nothing_added_changes_nothing():
    """No rows, empty arrays, and all rows set aside."""
    spec, keys = made(witnesses="1")
    live = Live(spec, keys)
    live.add([], [], np.zeros((0, 2)))
    assert live.advance().num_rows == 0
    assert live.watermark is None
    live.add([1], [100], [[0, 0]])
    live.advance()
    live.add([1], [50], [[0, 0]])
    assert live.advance().num_rows == 0
    assert live.at("2s").num_rows == 0
    assert live.counts[TOO_LATE] == 1


def test_results_can_be_handed_on_in_pieces():
    """Then they are not kept: only what is known from the panes is answered."""
    spec, keys = made(witnesses="1", measures="rows")
    whole, pieces = Live(spec, keys), []
    other = Live(spec, keys, piece=1)
    for live in (whole, other):
        live.add([1, 1, 2], [100, 103, 110], [[0, 0], [90, 0], [0, 0]])
    table = whole.advance()
    assert other.advance(pieces.append).num_rows == 0
    assert len(pieces) > 2
    assert pa.concat_tables(pieces).to_pylist() == table.to_pylist()
    assert answer_of(spec, table, "2s", ("end", "key")).num_rows == 2
