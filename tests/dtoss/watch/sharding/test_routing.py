"""Where rows go: shares are kept, a row always goes the same way, words send rows to workers; files and damage."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dtoss.errors import StoreError
from dtoss.watch.sharding.layout_files import open_arrays, open_routing, write_arrays, write_routing
from dtoss.watch.sharding.routing_grid import Routing, RoutingGrid, drawn
from dtoss.watch.watch_folder import LAYOUTS, Home
from dtoss.watch.watch_settings import Rows

GRID = RoutingGrid(1, 3, -180.0, 0.0, -90.0, 360.0, 180.0)


def routing(words=()):
    """Cell 0 is worker 2's, cell 1 is shared 1 to 3 by workers 0 and 1, cell 2 is split by words; the rest is 0."""
    return Routing(
        GRID,
        3,
        np.array([0, 1, 3, 4]),
        np.array([2, 0, 1, 0], np.int32),
        np.array([1.0, 0.25, 0.75, 1.0]),
        np.full(len(words), 2),
        pa.array([word for word, _ in words], pa.large_string()),
        np.array([worker for _, worker in words], np.int32),
    )


def rows(count, seed=0, ids=True, times=True, text=None):
    """Rows at drawn places."""
    rng = np.random.default_rng(seed)
    return Rows(
        np.stack([rng.uniform(-180, 180, count), rng.uniform(-90, 90, count)], axis=1),
        pa.array(rng.integers(0, 50, count)) if ids else None,
        rng.integers(0, 1 << 50, count) if times else None,
        text,
    )


@pytest.mark.parametrize(("ids", "times"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_shared_cell_gives_each_worker_its_share(ids, times):
    """Of 20,000 rows within five standard deviations; the other cells are whole; order does not matter."""
    some = rows(20_000, ids=ids, times=times)
    found = routing().worker_of(np.full(len(some), 1), some)
    first = int((found == 0).sum())
    assert abs(first - 5_000) < 5 * np.sqrt(20_000 * 0.25 * 0.75)
    assert set(found.tolist()) == {0, 1}
    assert (routing().worker_of(np.zeros(len(some), int), some) == 2).all()
    order = np.random.default_rng(1).permutation(len(some))
    again = routing().worker_of(np.full(len(some), 1), some.take(order))
    assert (again == found[order]).all()


def test_the_draw_of_a_row_is_of_its_id_and_time_alone():
    """Where it has both: the place does not count, so a repeated row goes where the first one went."""
    some = rows(500)
    moved = Rows(some.positions[::-1].copy(), some.ids, some.t)
    assert (drawn(some) == drawn(moved)).all()
    later = Rows(some.positions, some.ids, some.t + 1)
    assert (drawn(some) != drawn(later)).all()
    alone = rows(500, ids=False, times=False)
    assert len(np.unique(drawn(alone))) == 500
    assert ((drawn(alone) >= 0.0) & (drawn(alone) < 1.0)).all()


def test_rows_go_to_the_workers_of_their_words_and_to_the_rest():
    """Each worker once, whatever case words have; a word that goes to the rest sends nobody elsewhere."""
    words = (("cake", 1), ("coffee", 2), ("tea", 0))
    made = routing(words)
    text = pa.array(["Coffee COFFEE", "cake, coffee", "tea", None, "milk", "cake"])
    cell = np.array([2, 2, 2, 2, 2, 0])
    found = made.spoken(cell, text)
    assert list(zip(found.row.tolist(), found.worker.tolist(), strict=True)) == [(0, 2), (1, 1), (1, 2)]
    whose = made.workers_of_words(np.array([2, 2, 2, 0]), pa.array(["cake", "milk", "tea", "cake"]))
    assert whose.tolist() == [1, 0, 0, 2]


def test_a_layout_is_read_as_it_was_written(tmp_path):
    """Under a name of its bytes: the same one is the same file."""
    home = Home(str(tmp_path), "w")
    made = routing((("cake", 1), ("東京", 2)))
    entry = write_routing(home, made)
    assert write_routing(home, made) == entry
    read = open_routing(home, entry["name"])
    assert read.grid == GRID
    for name in ("begin", "worker", "share", "word_cell", "word_worker"):
        assert getattr(read, name).tolist() == getattr(made, name).tolist()
    assert read.word.to_pylist() == ["cake", "東京"]
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False]), "none": np.zeros((0, 4), np.int32)}
    held = open_arrays(home, write_arrays(home, arrays, "memory-")["name"])
    assert {name: (one.dtype, one.shape, one.tolist()) for name, one in held.items()} == {
        name: (one.dtype, one.shape, one.tolist()) for name, one in arrays.items()
    }
    assert write_arrays(home, {}, "memory-") is None


def test_a_flipped_byte_of_a_layout_is_no_layout(tmp_path):
    """It is said which file; one that is gone too."""
    home = Home(str(tmp_path), "w")
    name = write_routing(home, routing())["name"]
    data = bytearray(home.asked.read(LAYOUTS, name))
    data[len(data) // 2] ^= 1
    home.asked.write(pa.py_buffer(bytes(data)), LAYOUTS, name)
    with pytest.raises(StoreError, match=f"{name} is damaged"):
        open_routing(home, name)
    home.asked.remove(LAYOUTS, name)
    with pytest.raises(StoreError, match=f"{name} is missing"):
        open_routing(home, name)
