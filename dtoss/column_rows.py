"""Rows of frozen objects whose fields are columns: some of them, and several objects one after another.

A row may have runs of other columns, as a polygon has corners: one field says where those of each row begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.partition import numbers
from dtoss.row_runs import offsets, runs

_T = TypeVar("_T")
_ARROW = (pa.Array, pa.ChunkedArray, pa.Table, pa.RecordBatch)
_RUNS = "runs"


def begin_of(*names: str) -> dict[str, tuple[str, ...]]:
    """Return the metadata of a field that says where runs begin: row i has ``first[i]:first[i + 1]`` of each name.

    ``names``: of other fields. Where it is None these are columns as others are, and one without any value has no runs.
    """
    return {_RUNS: names}


def take_rows(columns: _T, rows: NDArray[Any] | slice) -> _T:
    """Return some rows of each column: views of a slice; of numbers from 0 or a mask in memory of their own.

    A field that is no array, Arrow column or table, mapping of such, or object with ``take``, is no column and stays. A
    class that writes ``take = take_rows`` has it as a method.
    """
    at = np.flatnonzero(rows) if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ else rows
    names, declared = _fields_and_runs(type(columns))  # type: ignore[arg-type]
    found = {name: getattr(columns, name) for name in names}
    begins = {begin: of for begin, of in declared.items() if found[begin] is not None}
    places = dict.fromkeys(names, (at, None if isinstance(at, slice) else numbers(at)))
    for begin, of in begins.items():
        sizes = np.diff(found[begin])[at]
        of_runs = runs(found[begin][:-1][at], sizes)
        places |= {name: (of_runs, numbers(of_runs)) if len(found[name]) else (slice(0), None) for name in of}
        found[begin] = offsets(sizes)
    for name in names:
        if name not in begins:
            found[name] = _take(found[name], *places[name])
    return type(columns)(**found)


def join_rows(parts: Sequence[_T]) -> _T:
    """Return the rows of one or more objects as one; what is no column is the first one's. One part is not copied."""
    if len(parts) == 1:
        return parts[0]
    names, declared = _fields_and_runs(type(parts[0]))  # type: ignore[arg-type]
    found = {name: [getattr(part, name) for part in parts] for name in names}
    begins = {name for name in declared if found[name][0] is not None}
    return type(parts[0])(**{
        name: offsets(np.concatenate([*map(np.diff, some)])) if name in begins else _join(some)
        for name, some in found.items()
    })  # fmt: skip


@cache
def _fields_and_runs(kind: Any) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the names of a class's fields; which of them say where runs begin, and of which others."""
    every = fields(kind)
    return tuple(one.name for one in every), {one.name: one.metadata[_RUNS] for one in every if _RUNS in one.metadata}


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece; one that is in one piece already is not copied."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _take(column: Any, rows: Any, same: pa.Array | None) -> Any:
    """Return some rows of a column; ``same``: their numbers as Arrow has them, None of a slice."""
    if isinstance(column, np.ndarray):
        return column[rows] if same is None else column.take(rows, axis=0)
    if isinstance(column, Mapping):
        return {name: _take(one, rows, same) for name, one in column.items()}
    if not isinstance(column, _ARROW):
        return column.take(rows) if is_dataclass(column) and hasattr(column, "take") else column
    if same is not None:
        return column.take(same)
    begin, end, step = rows.indices(len(column))
    return column.slice(begin, max(end - begin, 0)) if step == 1 else column.take(numbers(np.arange(begin, end, step)))


def _join(columns: list[Any]) -> Any:
    first = columns[0]
    if isinstance(first, Mapping):
        return {name: _join([column[name] for column in columns]) for name in first}
    if isinstance(first, np.ndarray):
        return np.concatenate(columns)
    if isinstance(first, pa.Table):
        return pa.concat_tables(columns)
    if isinstance(first, pa.Array):
        return pa.concat_arrays(columns)
    return join_rows(columns) if is_dataclass(first) and hasattr(first, "take") else first
