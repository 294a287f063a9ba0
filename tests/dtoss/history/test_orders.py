"""Tiers, trees and derived orders: no row is lost, cells hold their rows, and memory is bounded by parts."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.errors import InputError
from dtoss.history.data_file import read_blocks, write_file
from dtoss.history.history_commit import Change, commit
from dtoss.history.layouts import write_layout
from dtoss.history.layouts.compaction import make_order, settle
from dtoss.history.layouts.kd_tree import even_tree, tree_of_cells
from dtoss.history.layouts.write_layout import MAKERS, Sizes, by_time, in_buckets, rows_at_a_time, source_of
from dtoss.history.row_blocks import BY_OBJECT, BY_PLACE, BY_TIME, ORDER_NAMES, sorted_rows
from dtoss.history.sums import sum_of
from tests.dtoss.history.drop_orders import drop_orders
from tests.dtoss.history.worlds import PLANE, new_home, put_batch, schema_of, small_rows, table_of
from tests.examples import examples

SCHEMA = schema_of(PLANE)


def many_rows(n, seed=0, places=None):
    random = np.random.default_rng(seed)
    positions = random.normal(0, 1, (n, 2)).round(2) if places is None else places
    return table_of(SCHEMA, random.integers(0, 20, n), random.integers(0, n // 3 + 1, n), positions)


def read_order(home, version, order, period=None):
    """All rows of an order with the number of their leaf, in the order of files."""
    leaves = version.leaves
    for leaf in np.flatnonzero(leaves.order == order):
        if period is None or leaves.period[leaf] == period:
            yield leaf, read_blocks(home, version.files.name[leaves.file[leaf]], version.blocks(leaf), version.schema)


coordinates = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 3.0])


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=40), st.integers(1, 10))
def test_cells_of_a_tree_hold_their_points_and_split_no_place(points, most):
    """Half-open, each point in one; a leaf with too many points is one place."""
    points = np.array(points)
    tree = even_tree(points, most, degrees=False)
    leaf = tree.leaf_of(points)
    for row, (x, y) in enumerate(points):
        inside = [x0 < x <= x1 and y0 < y <= y1 for x0, y0, x1, y1 in tree.cells]
        assert np.flatnonzero(inside).tolist() == [leaf[row]]
    for number in range(len(tree.cells)):
        mine = points[leaf == number]
        assert len(mine) <= most or len(np.unique(mine, axis=0)) == 1
        assert len(mine)
    again = tree_of_cells(tree.cells)
    assert np.array_equal(again.cells[again.leaf_of(points)], tree.cells[leaf])


def test_cells_that_are_no_tree_are_refused():
    """Two that overlap."""
    with pytest.raises(ValueError, match="2 cells are no leaves of a tree"):
        tree_of_cells(np.array([[-np.inf, -np.inf, 1.0, np.inf], [0.0, -np.inf, np.inf, np.inf]]))


def test_longitudes_are_measured_where_they_are():
    """At 80 degrees north a box of 2 by 1 degrees is higher than wide."""
    points = np.stack([np.linspace(0, 2, 50), np.linspace(80, 81, 50)], axis=1)
    assert even_tree(points, 25, degrees=True).axis[0] == 1
    assert even_tree(points, 25, degrees=False).axis[0] == 0


@pytest.mark.checked
@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(small_rows(SCHEMA, most=25), min_size=1, max_size=5),
    st.integers(1, 9),
    st.sampled_from([BY_TIME, BY_PLACE, BY_OBJECT]),
)
def test_every_order_has_the_same_rows_however_small_the_parts(tmp_path_factory, batches, most, order):
    """Sorted as the order says; what goes through the disk is what would have stayed in memory."""
    home = new_home(tmp_path_factory.mktemp("h") / "h")
    for i, rows in enumerate(batches):
        version = put_batch(home, rows, SCHEMA, str(i))
    whole = pa.concat_tables(batches)
    if not len(whole):
        return
    source = source_of(home, version, version.periods.number)
    sizes = Sizes(leaf_bytes=200.0, file_bytes=2000, part_rows=most)
    files = MAKERS[order](source, sizes)
    assert sum(file.rows for file in files) == len(whole)
    assert sum(file.sum for file in files) % 2**64 == sum_of(whole)
    found = [
        read_blocks(home, file.name, file.blocks.take(slice(leaf.first, leaf.first + leaf.count)), SCHEMA)
        for file in files
        for leaf in file.leaves
    ]
    if order == BY_PLACE:
        for rows, leaf in zip(found, [leaf for file in files for leaf in file.leaves], strict=True):
            assert repr(rows.to_pylist()) == repr(sorted_rows(rows, "time").to_pylist())
            for row in rows.to_pylist():
                if not np.isnan(row["x"]):
                    assert leaf.cell[0] < row["x"] <= leaf.cell[2]
                    assert leaf.cell[1] < row["y"] <= leaf.cell[3]
        return
    rows = pa.concat_tables(found)
    assert list(map(repr, rows.to_pylist())) == list(
        map(repr, sorted_rows(whole, "time" if order == BY_TIME else "object").to_pylist())
    )


def test_time_is_cut_between_equal_times_only(tmp_path):
    """Parts of a period are bounded where times differ, and hold all of a time where they do not."""
    home = new_home(tmp_path / "h")
    rows = many_rows(3000)
    for i in range(3):
        version = put_batch(home, rows.slice(i * 1000, 1000), SCHEMA, str(i))
    source = source_of(home, version, version.periods.number)
    parts = list(by_time(source, 100))
    assert pa.concat_tables(parts).equals(sorted_rows(rows, "time"))
    buckets = list(in_buckets(iter(parts), lambda part: part.column("id").to_numpy() % 3, 3))
    assert [set(np.asarray(one.column("id").to_numpy() % 3).tolist()) for one in buckets] == [{0}, {1}, {2}]


@pytest.mark.parametrize(
    "n", [75, pytest.param(150, marks=pytest.mark.deep("twice as many appends settle in the same tiers"))]
)
def test_appends_settle_in_tiers_of_eight(tmp_path, n):
    """After n appends a tier has at most seven periods, and a row was written once a tier."""
    home = new_home(tmp_path / "h")
    rows, written = many_rows(2 * n), 0
    for i in range(n):
        put_batch(home, rows.slice(2 * i, 2), SCHEMA, str(i))
        done = settle(home)
        written += done.rows
    version = done.version
    assert np.bincount(version.periods.tier).tolist() == [n % 8, n // 8 % 8, n // 64]
    assert len(version.files.name) == n % 8 + n // 8 % 8 + n // 64
    assert written == 2 * 8 * (n // 8) + 2 * 64 * (n // 64)
    assert (version.rows, version.sum) == (2 * n, sum_of(rows))


def test_full_periods_get_their_orders_and_lose_them(tmp_path):
    """Made when full, also in the change that merges; dropping them changes no row; what is wanted is remembered."""
    home = new_home(tmp_path / "h")
    rows = many_rows(2000)
    for i in range(8):
        put_batch(home, rows.slice(250 * i, 250), SCHEMA, str(i))
    done = settle(home, orders=["object", "place"], period_bytes=1.0, leaf_bytes=2000.0)
    version = done.version
    assert done.merged == ((tuple(range(8)), 8),)
    assert version.periods.orders.tolist() == [0b111]
    assert version.options["orders"] == ["time", "place", "object"]
    assert version.number == 9  # one change
    for code in range(3):
        assert sum(sum_of(part) for _, part in read_order(home, version, code)) % 2**64 == sum_of(rows)
    assert (version.leaves.order == BY_PLACE).sum() > 4
    dropped = drop_orders(home, ["place"])
    assert dropped.periods.orders.tolist() == [0b101]
    assert settle(home).version.number == dropped.number  # wanted no more
    again = make_order(home, 8, "place", leaf_bytes=1e9)
    assert (again.leaves.order == BY_PLACE).sum() == 1
    assert settle(home).version.number == again.number  # nothing is left to do


def test_what_was_cut_finer_stays_so_when_periods_merge(tmp_path, monkeypatch):
    """A corner with small leaves has as small ones afterwards; elsewhere leaves are even."""
    monkeypatch.setattr(write_layout, "BLOCK_ROWS", 4)
    places = np.stack(np.meshgrid(np.arange(40.0), np.arange(40.0)), axis=-1).reshape(-1, 2)
    corner = (places < 10).all(axis=1)
    counts = {}
    for finer in (False, True):
        home = new_home(tmp_path / str(finer))
        for i in range(8):
            version = put_batch(home, many_rows(1600, seed=i, places=places), SCHEMA, str(i))
        if finer:
            source = source_of(home, version, np.array([0], np.int32))
            rows = source.read(np.arange(len(source.blocks)))
            tree = even_tree(places, 1.0, degrees=False, weights=np.where(corner, 0.25, 0.002))
            leaf = tree.leaf_of(np.stack([rows.column(name).to_numpy() for name in ("x", "y")], axis=1))
            parts = [(rows.filter(pa.array(leaf == i)), tuple(cell)) for i, cell in enumerate(tree.cells.tolist())]
            version = commit(home, Change("adapt", ((write_file(home.folder, BY_PLACE, parts, SCHEMA), 0),)), version)
        size = float(version.periods.bytes.sum()) / 12  # sixteen leaves, if they are even
        version = settle(home, orders=["place"], period_bytes=1.0, leaf_bytes=size).version
        assert version.leaves.rows[version.leaves.order == BY_PLACE].sum() == 8 * 1600
        cells = version.leaves.cell[version.leaves.order == BY_PLACE]
        inside = (cells[:, 2:] < 10).all(axis=1)
        counts[finer] = int(inside.sum()), len(cells)
    assert counts[False][1] == 16
    assert counts[True][0] >= 25
    assert counts[True][1] - counts[True][0] <= 40


def test_parts_are_smaller_where_rows_are_wide(tmp_path):
    """What is in memory is bounded by bytes, not by rows alone; a file ends where it is full, whatever the parts."""
    home = new_home(tmp_path / "h")
    version = put_batch(home, many_rows(20_000), SCHEMA, "a")
    source = source_of(home, version, version.periods.number)
    wide = source.read(np.arange(len(source.blocks))).nbytes / 20_000
    assert rows_at_a_time(source, 5000, 10**9) == 5000
    assert rows_at_a_time(source, 5000, int(100 * wide)) == pytest.approx(100, abs=2)
    assert rows_at_a_time(source, 5000, 1) == 1
    held = []

    def watched(folder, order, parts, schema, of):
        assert not isinstance(parts, list)
        held.append(0)

        def counted():
            for part in parts:
                held[-1] += len(part[0])
                yield part

        return write_file(folder, order, counted(), schema, of)

    with mock.patch.object(write_layout, "write_file", watched):
        sizes = Sizes(leaf_bytes=1e9, file_bytes=version.files.bytes[0] // 3, part_rows=1000)
        files = MAKERS[BY_TIME](source, sizes)
    assert held == [file.rows for file in files]
    assert len(files) >= 3
    assert max(held) <= 20_000 / 3 + 1000


def test_one_place_is_one_leaf(tmp_path):
    """However small leaves are to be."""
    home = new_home(tmp_path / "h")
    put_batch(home, many_rows(500, places=np.zeros((500, 2))), SCHEMA, "a")
    version = make_order(home, 0, "place", leaf_bytes=1.0)
    assert (version.leaves.order == BY_PLACE).sum() == 1


def test_what_cannot_be_settled_is_one_line(tmp_path):
    """Orders that are not known, or are the truth; sizes that are none; no history."""
    home = new_home(tmp_path / "h")
    put_batch(home, many_rows(5), SCHEMA, "a")
    for call, said in (
        (lambda: settle(home, orders=["z"]), "orders name 'z': time, place, object are known"),
        (lambda: settle(home, leaf_bytes=0), "leaf_bytes is 0: a positive number"),
        (lambda: make_order(home, 0, "time"), "order is 'time': one of place, object"),
    ):
        with pytest.raises(InputError, match=said):
            call()
    assert ORDER_NAMES[BY_TIME] == "time"
