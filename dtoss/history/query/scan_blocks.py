"""Rows of chosen blocks, some at a time, and which of them a condition and the interval leave."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.folder import LocalFolder
from dtoss.conditions.parse import Condition, parse_condition
from dtoss.history.query.block_queries import BlockQueries, pairs_of
from dtoss.history.query.read_plan import ChosenBlocks, blocks_of, read_over
from dtoss.history.read_blocks import Reads, read_blocks
from dtoss.history.row_blocks import Blocks, t_numbers
from dtoss.history.schema import Schema
from dtoss.history.versions import Home, Version
from dtoss.row_runs import runs

BLOCKS_AT_ONCE = 64
"""Blocks that are in memory at a time, for each that reads."""
_READERS = 4
"""Files that are read at a time where they are far away."""


@dataclass(frozen=True)
class Scan:
    """What of the rows is looked at."""

    home: Home
    version: Version
    columns: tuple[str, ...]  # Names of the schema that the answer needs
    condition: Condition | None  # That rows have to satisfy; None for all
    reads: Reads  # Counts what is read
    deletions: bool = False  # Whether rows that are deletions are looked at, too

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        schema = self.version.schema
        asked = set() if self.condition is None else {stored_name(name, schema) for name in self.condition.columns}
        return [name for name in schema.arrow.names if name in {"id", "t", "x", "y", "deleted", *self.columns, *asked}]


@dataclass(frozen=True)
class Piece:
    """Some blocks of one file with their rows."""

    blocks: Blocks
    rows: pa.Table  # Of all of them, one after the other
    # bool (rows,). Which rows satisfy the condition, and are no deletions unless those are wanted
    good: NDArray[np.bool_]
    t: NDArray[Any]  # Their times as stored

    def of_questions(self, asked: BlockQueries) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield each question that can have answers here, and the good rows in its interval of blocks that it meets."""
        question, block = pairs_of(self.blocks.low, self.blocks.high, self.blocks.t_from, self.blocks.t_to, asked)
        ends = np.cumsum(self.blocks.rows.astype(np.int64))
        cuts = np.append(np.flatnonzero(np.diff(question, prepend=-1)), len(question))
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            number, mine = int(question[begin]), block[begin:end]
            if len(mine) == len(ends):
                candidates = self.good & (self.t >= asked.spans.first[number]) & (self.t <= asked.spans.last[number])
                yield number, np.flatnonzero(candidates)
                continue
            size = self.blocks.rows[mine].astype(np.int64)
            rows = runs(ends[mine] - size, size)
            kept = self.good[rows] & (self.t[rows] >= asked.spans.first[number])
            kept &= self.t[rows] <= asked.spans.last[number]
            yield number, rows[kept]

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return where some rows are, float64 (n, 2)."""
        x, y = (self.rows.column(name).to_numpy()[rows] for name in ("x", "y"))
        return np.stack([x, y], axis=1)


def pieces_of(scan: Scan, chosen: ChosenBlocks) -> Iterator[Piece]:
    """Yield the rows of chosen blocks, :data:`BLOCKS_AT_ONCE` a piece at most; files far away are read side by side."""
    tasks = [partial(_piece, scan, chosen.take(np.arange(*part))) for part in _parts(chosen)]
    if isinstance(scan.home.folder, LocalFolder) or len(tasks) < 2:
        for task in tasks:
            yield task()
        return
    with ThreadPoolExecutor(_READERS) as pool:
        waiting: deque[Future[Piece]] = deque()
        for task in tasks:
            waiting.append(pool.submit(task))
            if len(waiting) > _READERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def condition_on(schema: Schema, where: str | None) -> Condition | None:
    """Return a condition on rows: on their attributes, id, t and positions (lon and lat, or x and y)."""
    if where is None:
        return None
    own = {name: schema.arrow.field(name).type for name in ("id", "t")}
    places = dict.fromkeys(schema.position_names, pa.float64())
    return parse_condition(where, {**schema.attributes, **own, **places})


def satisfying(condition: Condition, rows: pa.Table, schema: Schema) -> NDArray[np.bool_]:
    """Return which rows satisfy a condition, bool (n,)."""

    def column(name: str) -> pa.Array:
        found = rows.column(stored_name(name, schema)).combine_chunks()
        return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found

    return condition.matches(column, len(rows))


def stored_name(name: str, schema: Schema) -> str:
    """Return as what a column of a condition or answer is stored: lon and lat as x and y."""
    return dict(zip(schema.position_names, ("x", "y"), strict=True)).get(name, name)


def _parts(chosen: ChosenBlocks) -> Iterator[tuple[int, int]]:
    edges = np.append(np.flatnonzero(np.diff(chosen.file, prepend=-1)), len(chosen))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        for first in range(begin, end, BLOCKS_AT_ONCE):
            yield first, min(first + BLOCKS_AT_ONCE, end)


def _piece(scan: Scan, chosen: ChosenBlocks) -> Piece:
    version = scan.version
    blocks = blocks_of(version, chosen)
    file = version.files.name[int(chosen.file[0])]
    rows = read_blocks(scan.home, file, blocks, version.schema, scan.names, scan.reads, read_over(version))
    good = np.ones(len(rows), np.bool_)
    if not scan.deletions and blocks.marks.any():
        good = ~rows.column("deleted").to_numpy(zero_copy_only=False)
    if scan.condition is not None:
        good = good & satisfying(scan.condition, rows, version.schema)
    return Piece(blocks, rows, good, t_numbers(rows.column("t")))


def read_columns(columns: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return as what the columns of an answer are stored."""
    return tuple(dict.fromkeys(stored_name(name, schema) for name in columns))
