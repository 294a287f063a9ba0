"""Rows of frozen objects of columns, beside numpy and Arrow asked column by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dtoss.column_rows import join_rows, take_rows


@dataclass(frozen=True)
class World:
    places: NDArray[np.float64]
    ids: pa.Array
    table: pa.Table
    t: NDArray[np.int64] | None = None
    name: str = "world"
    attributes: Mapping[str, pa.Array] = field(default_factory=dict)

    take = take_rows


def world(n: int, begin: int = 0) -> World:
    rows = np.arange(begin, begin + n)
    texts = pa.array([str(row) if row % 3 else None for row in rows.tolist()], pa.string())
    # columns of a wider array, in the other order of memory
    places = np.asfortranarray(np.stack([rows, rows * 0.5, -rows], axis=1))[:, :2]
    return World(places, texts, pa.table({"row": rows}), attributes={"text": texts})


@pytest.mark.parametrize(
    "rows",
    [
        np.array([3, 0, 3]), np.zeros(0, np.int64), np.arange(7) % 2 == 0, np.zeros(7, np.bool_),
        slice(2, 5), slice(5, 2), slice(None, None, 2), slice(-3, None), slice(None, None, -1),
    ],
)  # fmt: skip
def test_some_rows(rows):
    whole = world(7)
    some, expected = whole.take(rows), np.arange(7)[rows]
    assert isinstance(some, World)
    assert np.array_equal(some.places, whole.places[rows])
    assert some.table["row"].to_pylist() == expected.tolist()
    texts = [whole.ids[int(row)].as_py() for row in expected]
    assert some.ids.to_pylist() == some.attributes["text"].to_pylist() == texts
    assert some.t is None
    assert some.name == "world"


def test_what_is_a_view():
    """A slice copies nothing; numbers and masks make rows that lie one after another, as kernels want them."""
    whole = world(7)
    assert np.shares_memory(whole.take(slice(1, 3)).places, whole.places)
    for rows in (np.array([1, 2]), np.arange(7) > 3):
        assert not np.shares_memory(whole.take(rows).places, whole.places)
        assert whole.take(rows).places.flags.c_contiguous


def test_objects_one_after_another():
    parts = [world(3), world(0), world(4, 3)]
    whole = join_rows(parts)
    assert np.array_equal(whole.places, world(7).places)
    assert whole.ids.to_pylist() == whole.attributes["text"].to_pylist() == world(7).ids.to_pylist()
    assert whole.table.equals(world(7).table)
    assert whole.t is None
    assert whole.name == "world"
    assert join_rows(parts[:1]) is parts[0]
