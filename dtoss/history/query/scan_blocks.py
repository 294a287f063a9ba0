"""Rows of chosen blocks, which of them answer, how these become hits, and what was read, as facts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.commits.folder import LocalFolder
from dtoss.conditions.parse import Condition, parse_condition
from dtoss.history.data_file import Reads, read_blocks
from dtoss.history.query.block_queries import BlockQueries, pairs_of
from dtoss.history.query.read_plan import ChosenBlocks, blocks_of, read_over
from dtoss.history.row_blocks import Blocks, order_keys, t_numbers
from dtoss.history.schema import OWN, Schema
from dtoss.history.versions import Home, Version
from dtoss.hits import Hits
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


@dataclass(frozen=True)
class FoundRows:
    """Rows that answer questions; (n,)."""

    question: NDArray[np.int64]  # int64
    distance: NDArray[np.float64]  # float64
    rows: pa.Table  # id, t, x, y, and the columns that were read

    def __len__(self) -> int:
        return len(self.question)

    take = take_rows


@dataclass(frozen=True)
class PastOrigin:
    """What hits of a history know of where they come from: the CRS; positions are among their columns."""

    crs: str
    names: tuple[str, str]

    def positions_of(self, ids: NDArray[Any], /) -> NDArray[np.float64]:
        """Refuse: an object of a history has many positions."""
        raise ValueError(f"{len(ids)} ids of a history have many positions: {' and '.join(self.names)} are columns")


def joined_found(parts: Sequence[FoundRows], names: Sequence[str], schema: Schema) -> FoundRows:
    """Return what was found in several pieces as one."""
    wanted = pa.schema([schema.arrow.field(name) for name in names])
    tables = [part.rows.select(list(names)) for part in parts]
    return FoundRows(
        np.concatenate([np.zeros(0, np.int64), *(part.question for part in parts)]),
        np.concatenate([np.zeros(0), *(part.distance for part in parts)]),
        pa.concat_tables([wanted.empty_table(), *tables]).combine_chunks(),
    )


def in_order(found: FoundRows, *, by_id: bool = False) -> FoundRows:
    """Return it in the order (question, distance, id, t), or (question, id, t); ties by position and then by values.

    So answers do not depend on where rows lie. Cost O(n log n).
    """
    if len(found) < 2:
        return found
    keys = [_keys(found.rows, "id"), t_numbers(found.rows.column("t"))]
    first = [found.question] if by_id else [found.question, found.distance]
    order = np.lexsort((*reversed(keys), *reversed(first)))
    major = [key[order] for key in (*first, *keys)]
    equal = np.logical_and.reduce([key[1:] == key[:-1] for key in major])
    if equal.any():
        order = _settled(found, order, equal)
    return found.take(order)


def _settled(found: FoundRows, order: NDArray[np.int64], equal: NDArray[np.bool_]) -> NDArray[np.int64]:
    tied = np.flatnonzero(np.append(equal, [False]) | np.append([False], equal))
    group = np.cumsum(np.append([True], ~equal))[tied]
    some = found.rows.take(pa.array(order[tied]))
    rest = ["x", "y", *(name for name in some.column_names if name not in OWN)]
    keys = [_keys(some, name) for name in rest]
    order = order.copy()
    order[tied] = order[tied[np.lexsort((*reversed(keys), group))]]
    return order


def _keys(rows: pa.Table, name: str) -> NDArray[np.int64]:
    column = rows.column(name).combine_chunks()
    return order_keys(pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column)


def as_hits(found: FoundRows, schema: Schema, columns: Sequence[str], having: Condition | None = None) -> Hits:
    """Return hits with t, the positions and the columns that were asked for; of those that satisfy a condition."""
    if having is not None:
        found = found.take(np.flatnonzero(satisfying(having, found.rows, schema)))
    ids = found.rows.column("id")
    held: NDArray[Any] = ids.to_numpy().astype(object) if schema.id_type == "string" else np.array(ids.to_numpy())
    names = dict.fromkeys(["t", *schema.position_names, *columns])
    taken: dict[str, pa.Array] = {}
    for name in names:
        column = found.rows.column(stored_name(name, schema)).combine_chunks()
        taken[name] = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    return Hits(found.question, held, found.distance, taken, PastOrigin(schema.space.crs, schema.position_names))


QUESTIONS = ("range", "box", "within", "knn", "trajectory", "at", "count", "count_box", "count_within")


@dataclass(frozen=True)
class Told:
    """A question that was answered."""

    question: str
    asked: BlockQueries  # Which places and times it was about; of the nearest ones the disc of the furthest hit
    facts: Mapping[str, Any]  # Of its plan: what each order would read, and which of them were used
    scan: Scan  # What was looked at, with what was read
    hits: int  # How many answers it had; -1 where they were only counted
    seconds: float  # How long it took

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        version = self.scan.version
        reads = self.scan.reads
        all_blocks = int(version.leaves.count[version.leaves.order == 0].sum())
        return {
            "question": self.question,
            "version": version.number,
            "hits": None if self.hits < 0 else self.hits,
            "milliseconds": round(1e3 * self.seconds, 3),
            "read": asdict(reads),
            "pruned": {"blocks": all_blocks - reads.blocks, "of": all_blocks},
            **self.facts,
        }
