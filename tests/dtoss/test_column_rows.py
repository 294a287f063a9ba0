"""Rows of frozen objects of columns, beside numpy and Arrow asked column by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dtoss.column_rows import begin_of, join_rows, take_rows
from dtoss.row_runs import offsets, runs


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


@dataclass(frozen=True)
class Ways:
    """Objects with runs of places, each with labels of its own; numbers of places that nobody wants are none."""

    names: pa.Array
    first: NDArray[np.int64] = field(metadata=begin_of("places", "labels", "numbers"))
    places: NDArray[np.float64]
    labels: Labels
    numbers: NDArray[np.int64]

    take = take_rows


@dataclass(frozen=True)
class Labels:
    of: NDArray[np.int64]
    first: NDArray[np.int64] | None = field(default=None, metadata=begin_of("of"))

    def __len__(self) -> int:
        return len(self.of) if self.first is None else len(self.first) - 1

    take = take_rows


SIZES = (2, 0, 3, 1)


def ways(sizes=SIZES, several=True) -> tuple[Ways, list[tuple[str, list[float], list[list[int]]]]]:
    """Return ways of so many places, and the same as lists: a name, places, and the labels of each place."""
    count = sum(sizes)
    labels = [[10 * at, 10 * at + 1][: at % 3 if several else 1] for at in range(count)]
    held = Labels(np.array([one for some in labels for one in some]), offsets([*map(len, labels)]) if several else None)
    made = Ways(
        pa.array([f"way {i}" for i in range(len(sizes))], pa.string()), offsets(sizes), np.arange(count) * 0.5, held,
        np.zeros(0, np.int64),
    )  # fmt: skip
    return made, listed(made)


def listed(some: Ways) -> list[tuple[str, list[float], list[list[int]]]]:
    first = some.labels.first
    own = np.split(some.labels.of, np.arange(1, len(some.places)) if first is None else first[1:-1])
    bounds = pairwise(some.first.tolist())
    return [
        (name, some.places[low:high].tolist(), [one.tolist() for one in own[low:high]])
        for name, (low, high) in zip(some.names.to_pylist(), bounds, strict=True)
    ]


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize(
    "rows",
    [np.array([2, 0, 3]), np.array([1]), np.zeros(0, np.int64), np.array([True, False, True, True]), slice(1, 3)],
)
def test_rows_take_their_runs_with_them(rows, several):
    made, expected = ways(several=several)
    some = made.take(rows)
    chosen = np.arange(len(SIZES))[rows].tolist()
    assert listed(some) == [expected[row] for row in chosen]
    assert len(some.numbers) == 0
    assert some.first.dtype == np.int64


def test_runs_of_several_objects_follow_one_another():
    (one, first), (none, _), (other, second) = ways(), ways(()), ways((1, 4))
    assert listed(join_rows([one, none, other])) == [*first, *second]


def test_runs_are_rows_one_after_another():
    begin, sizes = np.array([5, 0, 7], np.int32), np.array([2, 0, 3], np.int32)
    assert runs(begin, sizes).tolist() == [5, 6, 7, 8, 9]
    assert offsets(sizes).tolist() == [0, 2, 2, 5]
    assert runs(begin[:0], sizes[:0]).tolist() == []
    assert (offsets([]).tolist(), offsets([3], np.int32).dtype) == ([0], np.int32)
