"""All that is done once for a snapshot or a process, done before anybody waits for it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dtoss.building
import dtoss.cells
import dtoss.conditions
import dtoss.queries
import dtoss.tiles
from dtoss.compiled.kernel import DECLARED
from dtoss.index import Index
from dtoss.queries.block_runs import runs_of

SOME_K = (1, 8, 32, 64)
"""Numbers of nearest objects that are asked for in turn."""
_OF_CELLS = 3
"""Questions at the end of all that are about cells."""
TOGETHER = 64
"""Places asked about at once."""


def load_kernels() -> int:
    """Load, or compile, every kernel that a question may need; return how many.

    A second of processor time where all are kept, a minute where none is.
    """
    for room in (dtoss.queries, dtoss.cells, dtoss.building, dtoss.conditions, dtoss.tiles):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    ours = [kernel for name, kernel in DECLARED.items() if name.startswith("dtoss.")]
    for kernel in ours:
        kernel.ready()
    return len(ours)


def hold() -> None:
    """Go on at once."""


def warm(index: Index, breathe: Callable[[], None] = hold, *, alone: bool = True) -> None:
    """Read all of a snapshot, check its structure, and ask it a question of each kind, so that nothing is left to do.

    ``breathe``: is called every few milliseconds, so that other threads may have their turn.
    """
    for number in range(len(index.parts)):
        runs_of(index.parts[number].blocks)
        breathe()
    for step in (lambda: index.border, lambda: index.partitioning.borders, lambda: 0 in index, lambda: "" in index):
        step()
        breathe()
    if len(index) == 0:
        index.knn(np.zeros((1, 2)), 1)
        return
    partition = next(part for part in index.parts.all() if part.owned_objects)
    place = np.ascontiguousarray(partition.positions[0])
    questions = _questions(index, place, partition.ids[0])
    for question in questions if alone else questions[:-_OF_CELLS]:
        question()
        breathe()


def _questions(index: Index, place: NDArray[np.float64], number: Any) -> list[Callable[[], Any]]:
    """Return a question of each kind about a place, and about the object of an id."""
    object_id = number.as_py() if index.string_ids else int(number)
    x, y = place.tolist()
    places, one = np.repeat(place[None], TOGETHER, axis=0), place[None]
    near, far = 1e-3, 1e3
    columns = index.column_names
    box = [x, y, x, y]
    corners = _triangle(index, x, y)
    asked: list[Callable[[], Any]] = []
    for k in SOME_K:
        asked += [
            lambda k=k: index.knn([x, y], k),  # type: ignore[misc]
            lambda k=k: index.knn(places, k, max_distance=far),  # type: ignore[misc]
            lambda k=k: index.search(places, np.full(TOGETHER, np.inf), k, places=False),  # type: ignore[misc]
            lambda k=k: index.search(one, np.full(1, np.inf), k, places=True),  # type: ignore[misc]
        ]
    return [
        *asked,
        lambda: index.knn(places, 2, columns=columns, having="id is not null"),
        lambda: index.range([x, y], near),
        lambda: index.range(places, near, columns=columns),
        lambda: index.search(places, np.full(TOGETHER, near), 0, places=False),
        lambda: index.count([x, y], far),
        lambda: index.count(places, near),
        lambda: index.box(box, columns=columns),
        lambda: index.count_box(box),
        lambda: index.within(corners),
        lambda: index.locate(places),
        lambda: index.reverse_nearest(one),
        lambda: index[object_id],
        lambda: index.neighbours(object_id),
        lambda: index.cell(object_id),
        lambda: index.area(object_id),
    ]


def _triangle(index: Index, x: float, y: float) -> list[list[float]]:
    """Return a triangle of some metres, or of some CRS units, at a place."""
    gap = 1e-4 if index.space.geographic else max(abs(x), abs(y), 1.0) * 1e-6
    inward = -gap if y > 0 else gap
    return [[x, y], [x + (gap if x < 0 else -gap), y], [x, y + inward]]
