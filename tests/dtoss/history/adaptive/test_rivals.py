"""Modelled rivals: their blocks hold every row once, and what questions read of them is what brute force counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoss.history.adaptive.layout_reads import layout_reads, leaf_rows, order_of
from dtoss.history.adaptive.rivals import (
    FINE_GROUP,
    WIDE_GROUP,
    Sample,
    StorePrices,
    rival_layouts,
    rows_of_group,
    sample_of,
)
from dtoss.history.data_file import READ_OVER
from dtoss.history.row_blocks import BLOCK_ROWS, BY_PLACE, BY_TIME
from tests.dtoss.history.placed import discs_asked, put_places
from tests.dtoss.history.worlds import PLANE, SPHERE, new_home, put_batch, schema_of, table_of

DAY = 86_400.0


def sample(n, space=PLANE, stands_for=1000.0, seed=0, days=3.0):
    """Rows of a few clusters over some days."""
    rng = np.random.default_rng(seed)
    positions = rng.integers(-3, 4, (n, 2)) * 10.0 + rng.normal(0, 1, (n, 2))
    t = np.sort(rng.integers(0, int(days * DAY), n)).astype(float)
    return Sample(t, positions, space.vectors(positions), 12.0, stands_for)


def slow_reads(layout, asked, gap):
    """Ranges and bytes of each question and group, block after block."""
    out = np.zeros((len(asked), layout.groups, 2), np.int64)
    for row in range(len(asked)):
        pieces = range(asked.begin[row], asked.begin[row + 1])
        for group in range(layout.groups):
            before = None
            for i in np.flatnonzero(layout.group == group):
                met = layout.t_from[i] <= asked.last[row] and layout.t_to[i] >= asked.first[row]
                away = [
                    np.linalg.norm(
                        np.maximum(np.maximum(layout.low[i] - asked.high[j], asked.low[j] - layout.high[i]), 0)
                    )
                    <= asked.reach[j]
                    for j in pieces
                ]
                if not met or (len(pieces) and not any(away)):
                    continue
                end = layout.offset[i] + layout.bytes[i]
                if before is None or before[0] != layout.file[i] or layout.offset[i] - before[1] > gap:
                    out[row, group] += (1, layout.bytes[i])
                else:
                    out[row, group, 1] += end - before[1]
                before = layout.file[i], end
    return out


def asked_of(space, m, seed, span=3 * DAY):
    """Discs of all sizes at all times, some of them everywhere."""
    rng = np.random.default_rng(seed)
    first = rng.uniform(-DAY, span, m)
    spans = np.stack([first, first + rng.choice([0.0, 3600.0, DAY, 2 * span], m)], axis=1)
    radii = rng.choice([-1.0, 0.0, 5.0, 20.0, 100.0], m) * (100_000 if space.metric == "sphere" else 1)
    return discs_asked(space, rng.uniform(-35, 35, (m, 2)), radii, spans)


@pytest.mark.checked
@pytest.mark.parametrize("space", [PLANE, SPHERE], ids=["plane", "sphere"])
@pytest.mark.parametrize("gap", [0, READ_OVER])
def test_reads_equal_brute_force(space, gap):
    """Of all rivals, with and without gaps that are read over."""
    rows = sample(700, space)
    asked = asked_of(space, 40, 1)
    for layout in rival_layouts(rows).values():
        assert layout_reads(layout, asked, gap).tolist() == slow_reads(layout, asked, gap).tolist()
        assert layout_reads(layout, asked, gap).any()


@given(n=st.integers(1, 60), seed=st.integers(0, 5), stands_for=st.sampled_from([1.0, 300.0, 20_000.0]))
def test_blocks_hold_every_row_once(n, seed, stands_for):
    """Nothing is lost at the ends of files; no file is longer than its hour or day; all is read by one who asks all."""
    rows = sample(n, stands_for=stands_for, seed=seed)
    layouts = rival_layouts(rows)
    everything = discs_asked(PLANE, [(0, 0)], [-1], [(-np.inf, np.inf)])
    for name, layout in layouts.items():
        assert layout.rows.sum() == pytest.approx(n * stands_for)
        assert layout.bytes.sum() == pytest.approx(n * stands_for * rows.row_bytes, abs=len(layout))
        assert (np.diff(layout.file) >= 0).all()
        files = len(np.unique(layout.file))
        assert layout_reads(layout, everything).tolist() == [[[files, layout.bytes.sum()]]]
        most = WIDE_GROUP if name == "hours" else FINE_GROUP
        assert layout.rows.max() <= rows_of_group(rows, most) * stands_for + 1
        for file in range(files):
            mine = layout.file == file
            start = layout.offset[mine]
            assert start[0] == 0
            assert (start[1:] == np.cumsum(layout.bytes[mine])[:-1]).all()
    for name, length in (("hours", 3600.0), ("days", DAY)):
        layout = layouts[name]
        assert (np.floor(layout.t_from / length) == np.floor(layout.t_to / length)).all()
        assert len(np.unique(layout.file)) == len(np.unique(np.floor(rows.t / length)))


def test_what_each_rival_is_good_at():
    """Files by hour for all places at once, those sorted by place for one place: or the model is none."""
    rows = sample(20_000, stands_for=500.0)
    layouts = rival_layouts(rows)
    replay = discs_asked(PLANE, [(0, 0)], [-1], [(DAY, DAY + 600)])
    place = discs_asked(PLANE, [(10.0, 10.0)], [1.0], [(0, DAY - 1)])
    cost = {
        name: [int(layout_reads(layout, asked)[0, 0, 1]) for asked in (replay, place)]
        for name, layout in layouts.items()
    }
    assert cost["hours"][0] < cost["days"][0]
    assert cost["days"][1] < cost["hours"][1] / 3
    assert cost["z_order"][1] < cost["hours"][1] / 3


@pytest.fixture
def placed(tmp_path):
    """A history of two periods, one of them with an order by place."""
    schema = schema_of(PLANE)
    home = new_home(tmp_path / "H")
    rng = np.random.default_rng(3)
    n = 3 * BLOCK_ROWS
    rows = [
        table_of(schema, rng.integers(0, 50, n), rng.integers(0, 200_000, n), rng.normal(0, 20, (n, 2)))
        for _ in range(2)
    ]
    put_batch(home, rows[0], schema, "a")
    put_places(home, 4)
    return home, put_batch(home, rows[1], schema, "b"), schema


def test_orders_of_a_history_are_layouts(placed):
    """Its blocks, counted by periods; rows of leaves are those of the blocks that are read."""
    _, version, _ = placed
    epoch = float(version.leaves.t_from.min())
    asked = asked_of(PLANE, 30, 4)
    asked = discs_asked(
        PLANE, asked.low[:20], asked.reach[:20],
        np.stack([asked.first[:20], asked.last[:20]], axis=1) * 1e6 + epoch,
    )  # fmt: skip
    for order in (BY_TIME, BY_PLACE):
        layout = order_of(version, order)
        assert layout.groups == 2
        assert layout.rows.sum() == (version.rows if order == BY_TIME else version.rows // 2)
        assert layout_reads(layout, asked).tolist() == slow_reads(layout, asked, READ_OVER).tolist()
    used = np.ones((len(asked), 2), np.bool_)
    used[0] = False
    weights = np.arange(1.0, len(asked) + 1)
    want = np.zeros(len(version.leaves))
    for row in range(1, len(asked)):
        for i in range(len(layout)):
            met = slow_reads(block_of(layout, i), asked.take(np.array([row])), 0).any()
            want[layout.leaf[i]] += met * weights[row] * layout.rows[i]
    assert leaf_rows(layout, asked, len(version.leaves), used, weights) == pytest.approx(want)
    assert want.any()


def block_of(layout, i):
    """A layout of one block."""
    parts = {name: getattr(layout, name)[i : i + 1] for name in type(layout).__dataclass_fields__ if name != "groups"}
    return type(layout)(**parts, groups=layout.groups)


def test_a_sample_is_all_rows_or_spread_over_them(placed):
    """All of a small history; of a larger one as many as are wanted, which stand for all and fill its time."""
    home, version, _ = placed
    every = sample_of(home, version)
    assert len(every) == version.rows
    assert every.stands_for == 1
    assert every.second == 1e6
    assert (np.diff(every.t) >= 0).all()
    few = sample_of(home, version, most_rows=1000, most_blocks=2)
    assert 500 <= len(few) <= 1000
    assert few.stands_for * len(few) == version.rows
    assert few.t[0] < every.t[0] + 0.05 * np.ptp(every.t)
    assert few.t[-1] > every.t[-1] - 0.05 * np.ptp(every.t)
    assert few.row_bytes == every.row_bytes > 1


def test_a_sample_flatters_the_rivals_a_little():
    """From an eighth of the rows nearly the same cost as from all of them, and hardly ever more."""
    every = sample(40_000, stands_for=25.0)
    part = Sample(every.t[::8], every.positions[::8], every.vectors[::8], every.row_bytes, 8 * every.stands_for)
    asked = asked_of(PLANE, 200, 5)
    costs = [
        {name: (layout_reads(layout, asked)[:, 0] @ (50_000, 1)).mean() for name, layout in rival_layouts(one).items()}
        for one in (every, part)
    ]
    for name, whole in costs[0].items():
        assert 0.75 * whole < costs[1][name] < 1.05 * whole, name


def test_a_sample_has_no_deletions(tmp_path):
    """Nor a place for them; one of nothing is empty."""
    schema = schema_of()
    home = new_home(tmp_path / "H")
    nowhere = (np.nan, np.nan)
    rows = table_of(schema, [1, 2, 3], [0, 1, 2], [(1.0, 2.0), nowhere, (3.0, 4.0)], [False, True, True])
    found = sample_of(home, put_batch(home, rows, schema, "a"))
    assert found.positions.tolist() == [[1.0, 2.0]]
    assert found.stands_for == 1
    none = new_home(tmp_path / "N")
    assert len(sample_of(none, put_batch(none, rows.slice(0, 0), schema, "a"))) == 0


def test_prices_are_sums():
    """Of requests, of the machine's time, and of what is kept."""
    prices = StorePrices(1.0, 2.0, 3600.0, 0.5, 1000.0)
    assert prices.for_reading(2000, 0) == pytest.approx(2.0 + 1000.0)
    assert prices.for_reading(0, 4000) == pytest.approx(4.0)
    assert prices.for_keeping(30.44e9) == pytest.approx(2.0)
