"""A frame that is merged with a store: the same bytes as a cycle's, and what it says where it cannot be."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import dtoss
from dtoss import InputError, StoreError
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from tests.pipelines.stores import snapshot_bytes

ROWS = {"id": [1, 2, 3], "lon": [8.0, 9.0, 10.0], "lat": [50.0, 51.0, 52.0], "t": [10, 10, 10]}
MOVED = {"id": [2, 4, 3], "lon": [9.5, 11.0, 0.0], "lat": [51.0, 53.0, 0.0], "t": [12, 12, 5], "gone": [False] * 3}


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    dtoss.build(ROWS).save(path)
    return path


@pytest.mark.parametrize("make", [dict, pa.table, pd.DataFrame])
def test_it_is_a_cycle_of_the_frame(store, tmp_path, make):
    """The same bytes; an older row changes nothing, and the name is that of the snapshot that is current."""
    other = tmp_path / "other"
    dtoss.build(ROWS).save(other)
    frame = {name: values for name, values in MOVED.items() if name != "gone"}
    name = dtoss.update(store, make(frame), now=20)
    assert Store(str(store)).current() == name
    cycle(make(frame), str(other), now=20)
    assert snapshot_bytes(store) == snapshot_bytes(other)
    found = dtoss.open(store).objects()
    places = dict(zip(found.id.tolist(), found.geometry.x.tolist(), strict=True))
    assert places == {1: 8.0, 2: 9.5, 3: 10.0, 4: 11.0}


def test_rows_delete_objects_and_objects_expire(store):
    dtoss.update(store, {**MOVED, "gone": [True, False, False]}, deleted="gone", now=20)
    assert sorted(dtoss.open(store).objects().id.tolist()) == [1, 3, 4]
    dtoss.update(store, {"id": [4], "lon": [11.0], "lat": [53.0], "t": [80]}, now=90, expire=30)
    assert dtoss.open(store).objects().id.tolist() == [4]


def test_what_cannot_be_merged_leaves_what_was_current(store, tmp_path):
    name = Store(str(store)).current()
    with pytest.raises(StoreError, match="is not a store, or holds no snapshot yet"):
        dtoss.update(tmp_path / "nothing", MOVED)
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(ValueError, match="store is 7: a path or a URI is wanted"):
        dtoss.update(7, MOVED)
    with pytest.raises(TypeError, match="int is no frame"):
        dtoss.update(store, 7)
    with pytest.raises(InputError, match="lat"):
        dtoss.update(store, {"id": [1], "lon": [1.0], "t": [30]}, now=40)
    with pytest.raises(InputError, match="1 of 1 rows"):
        dtoss.update(store, {"id": [1], "lon": [500.0], "lat": [0.0], "t": [30]}, now=40, max_bad=0.0)
    assert Store(str(store)).current() == name
