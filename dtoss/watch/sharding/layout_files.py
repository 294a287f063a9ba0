"""Layouts as files: which worker has which cells, which of these a subscription touches, and who stores it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.columnar_files import decoding, encode_arrow
from dtoss.commits.file_entry import map_entry, write_entry
from dtoss.errors import StoreError
from dtoss.geometry.space import Space
from dtoss.row_runs import offsets, runs
from dtoss.watch.index.build_index import covers_of
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.sharding.routing_grid import SIDE, Routing, RoutingGrid, grid_of, rects_in
from dtoss.watch.watch_folder import LAYOUTS, Home
from dtoss.watch.words.formula_programs import compile_words
from dtoss.watch.words.messages import Vocabulary, vocabulary_of

_OPEN = 8
_REMEDY = "restore it from a copy, or run the watch with another --strategy"
_GRID = tuple(RoutingGrid.__dataclass_fields__)
_SHAPES = b"dtoss.shapes"
_PARTS = ("begin", "worker", "share", "word_cell", "word", "word_worker")


def write_arrays(home: Home, arrays: Mapping[str, NDArray[Any]], begin: str) -> dict[str, Any] | None:
    """Write arrays by name as a file of layouts, and return what a commit says of it; None where there are none.

    ``arrays``: of numbers or truths, of any shape.
    """
    if not arrays:
        return None
    columns = {
        name: pa.array([np.ascontiguousarray(array).ravel()], pa.large_list(pa.from_numpy_dtype(array.dtype)))
        for name, array in arrays.items()
    }
    shapes = json.dumps({name: list(array.shape) for name, array in arrays.items()}, sort_keys=True)
    return write_batch(home, pa.record_batch(columns).replace_schema_metadata({_SHAPES: shapes}), begin)


def open_arrays(home: Home, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of :func:`write_arrays`."""
    batch = read_batch(home, name)
    shapes = json.loads((batch.schema.metadata or {}).get(_SHAPES, b"{}"))
    return {
        column: batch.column(column).flatten().to_numpy(zero_copy_only=False).reshape(shapes[column])
        for column in batch.schema.names
    }


def write_batch(home: Home, batch: pa.RecordBatch, begin: str) -> dict[str, Any]:
    """Write a batch of Arrow as a file of layouts, and return what a commit says of it.

    ``batch``: what is written.
    """
    return write_entry(home.asked, encode_arrow(batch), batch.num_rows, "arrow", LAYOUTS, begin=begin)


def read_batch(home: Home, name: str) -> pa.RecordBatch:
    """Return the batch of :func:`write_batch`, mapped."""
    data = map_entry(home.asked, LAYOUTS, name, _REMEDY)
    with decoding(home.asked.path(LAYOUTS, name)):
        return pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)


def write_routing(home: Home, routing: Routing) -> dict[str, Any]:
    """Write where rows go as a file, and return what a commit says of it."""
    arrays: dict[str, NDArray[Any]] = {
        "begin": routing.begin,
        "worker": routing.worker,
        "share": routing.share,
        "word_cell": routing.word_cell,
        "word_worker": routing.word_worker,
    }
    columns = {name: pa.array([array], pa.list_(pa.from_numpy_dtype(array.dtype))) for name, array in arrays.items()}
    columns["word"] = pa.array([routing.word.to_pylist()], pa.list_(pa.large_string()))
    columns["workers"] = pa.array([routing.workers])
    columns |= {f"grid_{name}": pa.array([value]) for name, value in asdict(routing.grid).items()}
    return write_batch(home, pa.record_batch(columns), "layout-")


@lru_cache(maxsize=_OPEN)
def open_routing(home: Home, name: str) -> Routing:
    """Return where rows go, of its file; the last few are kept."""
    batch = read_batch(home, name)
    try:
        grid = RoutingGrid(*(batch.column(f"grid_{name}")[0].as_py() for name in _GRID))
        parts = {column: batch.column(column).flatten() for column in _PARTS}
        made = Routing(
            grid,
            batch.column("workers")[0].as_py(),
            parts["begin"].to_numpy(),
            parts["worker"].to_numpy(),
            parts["share"].to_numpy(),
            parts["word_cell"].to_numpy(),
            parts["word"],
            parts["word_worker"].to_numpy(),
        )
    except KeyError as error:
        raise StoreError(f"{home.asked.path(LAYOUTS, name)} is damaged: it has no {error}") from None
    if len(made.begin) != grid.cells + 1 or made.begin[-1] != len(made.worker):
        raise StoreError(f"{home.asked.path(LAYOUTS, name)} is damaged: its parts do not cover its cells")
    return made


@dataclass(frozen=True, eq=False)
class Stored:
    """Which subscriptions of an index a worker stores."""

    key: str  # Of the index and of these rows: what is equal is stored once
    rows: NDArray[np.int64]  # int64, rising. Of the index's table
    # list of large_string, one for each row: the words that decide who tells of it where cells are split; null where
    # none do
    covers: pa.ListArray


def write_stored(
    home: Home, index: str, rows: Sequence[NDArray[np.int64]], asked: AskedCells, by_words: NDArray[np.bool_]
) -> dict[str, Any]:
    """Write which subscriptions of an index each worker stores as a file, and return what a commit says of it.

    ``rows``: of each worker, int64, rising; ``by_words``: bool (n,). Subscriptions that touch a cell which is split by
    words, and stand under words.
    """
    sizes = np.diff(asked.cover_begin) * by_words
    text = texts_of(asked).take(pa.array(asked.cover[runs(asked.cover_begin[:-1], sizes)]))
    whole = pa.LargeListArray.from_arrays(pa.array(offsets(sizes)), text)
    mine = [pa.array(some, pa.int64()) for some in rows]
    keys = [
        hashlib.sha256(index.encode() + np.ascontiguousarray(some, np.int64).tobytes()).hexdigest() for some in rows
    ]
    flat = pa.concat_arrays([pa.array([], pa.int64()), *mine])
    batch = pa.record_batch(
        {
            "key": pa.array(keys, pa.string()),
            "rows": pa.array([some.to_numpy() for some in mine], pa.large_list(pa.int64())),
            "covers": pa.LargeListArray.from_arrays(pa.array(offsets([*map(len, mine)])), whole.take(flat)),
        }
    )
    return write_batch(home, batch, "stored-")


def texts_of(asked: AskedCells) -> pa.Array:
    """Return the words of a vocabulary, large_string, by their numbers."""
    offsets, letters = asked.vocabulary.offsets, asked.vocabulary.letters
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(np.ascontiguousarray(letters))]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


def open_stored(home: Home, name: str, worker: int) -> Stored:
    """Return which subscriptions of an index a worker stores."""
    batch = _opened_stored(home, name)
    try:
        key = batch.column("key")[worker].as_py()
        return Stored(key, batch.column("rows")[worker].values.to_numpy(), batch.column("covers")[worker].values)
    except (KeyError, IndexError) as error:
        raise StoreError(f"{home.asked.path(LAYOUTS, name)} is damaged: {error}") from None


@lru_cache(maxsize=_OPEN)
def _opened_stored(home: Home, name: str) -> pa.RecordBatch:
    return read_batch(home, name)


_KEY_BYTES = 8


class AskedCells(NamedTuple):
    """Subscriptions of an index on a grid; n of them."""

    # int64 (p, 4). First column, first row, last column and last row of the cells that a part of a place touches
    rects: NDArray[np.int64]
    # int64 (p,). The row of the index's table, rising. One whose place is not known, or that is not answered, has none
    owner: NDArray[np.int64]
    bytes: NDArray[np.float64]  # float64 (n,). What each takes in an index, about
    cover_begin: NDArray[np.int64]  # int64 (n + 1,). Where the words of each begin in ``cover``
    cover: NDArray[np.int64]  # int64. Numbers of words, of ``vocabulary``
    vocabulary: Vocabulary


def grid_of_standing(standing: Standing, space: Space, side: int = SIDE) -> RoutingGrid:
    """Return a grid over where the subscriptions that stand are, of ``side`` rows and columns."""
    rects = [covers_of(built).rects for _, built in standing.parts]
    return grid_of(space, np.concatenate([np.zeros((0, 4)), *rects]), side, side)


def asked_cells(built: SubscriptionIndex, grid: RoutingGrid) -> AskedCells:
    """Return what the subscriptions of an index ask, by routing cells. Cost O(n), and that of reading their words."""
    covers = covers_of(built)
    touched = rects_in(grid, built.space, covers.rects)
    every = _everywhere(built)
    placed = ~np.isin(covers.owner[touched.of], every)
    whole = np.tile([0, 0, grid.columns - 1, grid.rows - 1], (len(every), 1)).astype(np.int64)
    owner = np.concatenate([covers.owner[touched.of][placed].astype(np.int64), every])
    order = np.argsort(owner, kind="stable")
    answered = np.ones(len(built), np.bool_)
    answered[[one.row for one in built.unanswered]] = False
    order = order[answered[owner[order]]]
    vocabulary, begin, words = _covers(built)
    rects = np.concatenate([touched.rects[placed], whole])[order]
    return AskedCells(rects, owner[order], _bytes(built), begin, words, vocabulary)


def _everywhere(built: SubscriptionIndex) -> NDArray[np.int64]:
    """Return the subscriptions that have no place, and those that ask about all outside of theirs, int64."""
    from dtoss.watch.subscription import COMPLEMENT, EVERYWHERE

    return np.flatnonzero((built.arrays["kind"] == EVERYWHERE) | ((built.arrays["events"] & COMPLEMENT) != 0))


def _bytes(built: SubscriptionIndex) -> NDArray[np.float64]:
    """Return what each subscription takes, float64 (n,): an equal share of all but polygons, and its own corners."""
    count = len(built)
    if count == 0:
        return np.zeros(0)
    corners = np.zeros(count)
    sizes = built.arrays["polygon/corners"] * _KEY_BYTES * built.space.dimension
    if len(sizes):
        corners += np.bincount(np.repeat(np.arange(count), np.diff(built.arrays["parts"])), sizes, count)
    return (built.bytes - corners.sum()) / count + corners


def _covers(built: SubscriptionIndex) -> tuple[Vocabulary, NDArray[np.int64], NDArray[np.int64]]:
    """Return the words under which subscriptions stand: all of them, where those of each begin, and their numbers."""
    column = built.table.column("words")
    said = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    begin = np.zeros(len(built) + 1, np.int64)
    if len(said) == 0:
        return vocabulary_of(pa.array([], pa.large_string())), begin, np.zeros(0, np.int64)
    texts = column.take(pa.array(said)).combine_chunks().cast(pa.large_string())
    vocabulary, compiled = compile_words(texts)
    sizes = (compiled.cover[:, 1] - compiled.cover[:, 0]).astype(np.int64)
    counts = np.zeros(len(built), np.int64)
    counts[said] = sizes
    return vocabulary, offsets(counts), compiled.covers[runs(compiled.cover[:, 0], sizes)].astype(np.int64)
