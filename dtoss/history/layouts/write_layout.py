"""Files of an order, by time, by place, by object, made of the rows of periods, some at a time.

What questions have cut stays cut: how heavy rows are where leaves were smaller than even ones would be.

An order by place that is made of periods begins even. Where the largest of them has leaves that cover less ground than
even ones would, because questions have paid for those cuts, the new leaves cover as little. A period of eight times the
rows is cut eight times as fine anyhow, so only what was cut further than that counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import join_rows
from dtoss.history.data_file import FILE_BYTES, NewFile, Part, read_blocks, write_file
from dtoss.history.layouts.kd_tree import Tree, even_tree, tree_of_cells
from dtoss.history.row_blocks import BLOCK_ROWS, BY_OBJECT, BY_PLACE, BY_TIME, Blocks, id_words, sorted_rows, t_numbers
from dtoss.history.versions import Home, Version

PART_ROWS = 2_000_000
"""Rows that are in memory at a time, about."""
PART_BYTES = 128 * 2**20
"""What they take there at most, about, once; sorting takes some times as much."""
_LOOKS = 8
"""Blocks that tell how much a row takes in memory."""


@dataclass(frozen=True)
class Source:
    """The blocks of some periods in the order by time."""

    home: Home
    version: Version
    periods: NDArray[np.int32]  # Their numbers, int32
    names: list[str]  # The file of each block
    blocks: Blocks  # All of them, file by file

    @property
    def rows(self) -> int:
        """How many they are."""
        return int(self.blocks.rows.sum())

    def read(self, chosen: NDArray[np.int64], columns: list[str] | None = None) -> pa.Table:
        """Return the rows of some blocks, by their ascending numbers."""
        schema = self.version.schema
        parts = []
        edges = [0, *(i for i in range(1, len(chosen)) if self.names[chosen[i]] != self.names[chosen[i - 1]])]
        for begin, end in zip(edges, [*edges[1:], len(chosen)], strict=True):
            rows = chosen[begin:end]
            if len(rows):
                blocks = _taken(self.blocks, rows)
                parts.append(read_blocks(self.home, self.names[rows[0]], blocks, schema, columns))
        return pa.concat_tables(parts)


def source_of(home: Home, version: Version, periods: NDArray[np.int32], order: int = BY_TIME) -> Source:
    """Return the rows of periods as they lie in an order; each period has to have it."""
    leaves = version.leaves
    mine = np.flatnonzero((leaves.order == order) & np.isin(leaves.period, periods))
    mine = mine[np.lexsort((leaves.offset[mine], leaves.file[mine]))]
    parts = [version.blocks(int(leaf)) for leaf in mine]
    names = [version.files.name[leaves.file[leaf]] for leaf in mine for _ in range(int(leaves.count[leaf]))]
    return Source(home, version, periods, names, join_rows(parts))


def rows_at_a_time(source: Source, most: int, size: int) -> int:
    """Return how many rows take so many bytes in memory, judged by some blocks: at most ``most``, and at least one."""
    if source.rows <= BLOCK_ROWS:
        return most
    chosen = np.unique(np.linspace(0, len(source.blocks) - 1, _LOOKS).astype(np.int64))
    rows = source.read(chosen)
    return max(min(most, size * len(rows) // max(rows.nbytes, 1)), 1)


def by_time(source: Source, most: int = PART_ROWS) -> Iterator[pa.Table]:
    """Yield all rows in the order of (t, id), about so many at a time; equal times stay together.

    Cost: each block is read once, or once more where a cut of time goes through it.
    """
    blocks = source.blocks
    if source.rows <= most:
        yield sorted_rows(source.read(np.arange(len(blocks))), "time")
        return
    cuts = _cuts(blocks, most)
    for first, last in zip([None, *cuts], [*cuts, None], strict=True):
        mine = np.ones(len(blocks), np.bool_)
        mine &= True if first is None else blocks.t_to >= first
        mine &= True if last is None else blocks.t_from < last
        if not mine.any():
            continue
        rows = source.read(np.flatnonzero(mine))
        t = t_numbers(rows.column("t"))
        kept = np.ones(len(rows), np.bool_)
        kept &= True if first is None else t >= first
        kept &= True if last is None else t < last
        if kept.any():
            yield sorted_rows(rows.filter(pa.array(kept)), "time")


def in_buckets(
    parts: Iterator[pa.Table], bucket_of: Callable[[pa.Table], NDArray[np.int64]], count: int
) -> Iterator[pa.Table]:
    """Yield the rows of each bucket, bucket by bucket; within one they are in the order in which they came.

    ``bucket_of``: the bucket of each row of a table, from 0 on.
    """
    if count <= 1:
        yield from ([pa.concat_tables(tables)] if (tables := list(parts)) else [])
        return
    with tempfile.TemporaryDirectory(prefix="dtoss-history-") as folder:
        writers: dict[int, Any] = {}
        try:
            for rows in parts:
                bucket = bucket_of(rows)
                order = np.argsort(bucket, kind="stable")
                edges = np.searchsorted(bucket[order], np.arange(count + 1))
                for number in np.unique(bucket).tolist():
                    mine = rows.take(pa.array(order[edges[number] : edges[number + 1]]))
                    if number not in writers:
                        writers[number] = pa.ipc.new_stream(str(Path(folder) / str(number)), rows.schema)
                    writers[number].write_table(mine)
        finally:
            for writer in writers.values():
                writer.close()
        for number in sorted(writers):
            place = Path(folder) / str(number)
            with pa.OSFile(str(place)) as stream, pa.ipc.open_stream(stream) as reader:
                rows = reader.read_all()
            place.unlink()
            yield rows.combine_chunks()


def _cuts(blocks: Blocks, most: int) -> list[Any]:
    """Return times between which lie about so many rows each, ascending."""
    order = np.argsort(blocks.t_from, kind="stable")
    before = np.cumsum(blocks.rows[order].astype(np.int64))
    turn = before // most
    at = order[np.flatnonzero(np.diff(turn)) + 1]
    return sorted(set(blocks.t_from[at].tolist()))


def _taken(blocks: Blocks, rows: NDArray[np.int64]) -> Blocks:
    return Blocks(*(getattr(blocks, part.name)[rows] for part in fields(Blocks)))


SAMPLE = 1_000_000
"""Positions of which a tree is made."""
LEAST_BYTES = 1.0
"""Of a row, where nothing tells how many it takes."""


@dataclass(frozen=True)
class Sizes:
    """How large things become."""

    leaf_bytes: float  # Of a leaf of the order by place
    file_bytes: int = FILE_BYTES  # Of a file, about which a new one is begun
    # part_rows, part_bytes: rows that are in memory at a time, and what they take there: the lesser of both
    part_rows: int = PART_ROWS
    part_bytes: int = PART_BYTES


def time_files(source: Source, sizes: Sizes) -> list[NewFile]:
    """Return the files of rows by (t, id)."""
    return _files(source, BY_TIME, ((rows, None) for rows in by_time(source, _part_rows(source, sizes))), sizes)


def place_files(source: Source, sizes: Sizes) -> list[NewFile]:
    """Return the files of rows by (leaf, t, id): the leaves of a k-d tree from left to right, each by time.

    Leaves are even, but no larger than those that questions have cut before
    (:mod:`dtoss.history.layouts.write_layout`).
    """
    sample = _sample(source, sizes)
    share = len(sample) / max(source.rows, 1)
    leaf_rows = sizes.leaf_bytes / _row_bytes(source)
    weights = weights_of(source, sample, leaf_rows)
    tree = even_tree(
        sample, max(leaf_rows * share, 1.0), degrees=source.version.schema.space.geographic, weights=weights
    )
    part_rows = _part_rows(source, sizes)
    count = max(-(-source.rows // part_rows), 1)
    bucket_of_leaf = _even_buckets(np.bincount(tree.leaf_of(sample), minlength=len(tree.cells)), count)

    def bucket_of(rows: pa.Table) -> NDArray[np.int64]:
        return bucket_of_leaf[tree.leaf_of(_positions(rows))]

    buckets = in_buckets(by_time(source, part_rows), bucket_of, int(bucket_of_leaf[-1]) + 1)
    return _files(source, BY_PLACE, _leaves(buckets, tree), sizes)


def object_files(source: Source, sizes: Sizes) -> list[NewFile]:
    """Return the files of rows by (id, t)."""
    part_rows = _part_rows(source, sizes)
    count = max(-(-source.rows // part_rows), 1)
    step = max(len(source.blocks) // 64, 1)
    words = np.sort(id_words(source.read(np.arange(0, len(source.blocks), step), ["id"]).column("id")))
    cuts = np.unique(words[np.arange(1, count) * len(words) // count])

    def bucket_of(rows: pa.Table) -> NDArray[np.int64]:
        # equal ids, and texts that begin alike, stay together
        return np.searchsorted(cuts, id_words(rows.column("id")), side="right").astype(np.int64)

    buckets = in_buckets(by_time(source, part_rows), bucket_of, len(cuts) + 1)
    parts: Iterator[Part] = ((sorted_rows(rows, "object"), None) for rows in buckets)
    return _files(source, BY_OBJECT, parts, sizes)


MAKERS: dict[int, Callable[[Source, Sizes], list[NewFile]]] = {
    BY_TIME: time_files,
    BY_PLACE: place_files,
    BY_OBJECT: object_files,
}
"""Of each order what makes its files."""


def _files(source: Source, order: int, parts: Iterable[Part], sizes: Sizes) -> list[NewFile]:
    """Write parts to files of about so many bytes each; parts are in memory one after another."""
    most = max(sizes.file_bytes / _row_bytes(source), 1.0)
    coming = (part for part in parts if len(part[0]))
    part: Part | None = next(coming, None)

    def of_one_file() -> Iterator[Part]:
        nonlocal part
        rows = 0
        while part is not None and (rows == 0 or rows + len(part[0]) <= most):
            rows += len(part[0])
            yield part
            part = next(coming, None)

    done: list[NewFile] = []
    while part is not None:
        # files of the same rows that come from elsewhere have other names
        origin = " ".join([*dict.fromkeys(source.names), str(len(done))])
        done.append(write_file(source.home.folder, order, of_one_file(), source.version.schema, origin))
    return done


def _leaves(buckets: Iterator[pa.Table], tree: Tree) -> Iterator[Part]:
    for rows in buckets:
        leaf = tree.leaf_of(_positions(rows))
        order = np.argsort(leaf, kind="stable")  # within a leaf they stay by time
        numbers, firsts = np.unique(leaf[order], return_index=True)
        ends = [*firsts[1:].tolist(), len(rows)]
        for number, first, end in zip(numbers.tolist(), firsts.tolist(), ends, strict=True):
            cell = tree.cells[number].tolist()
            yield rows.take(pa.array(order[first:end])), (cell[0], cell[1], cell[2], cell[3])


def _sample(source: Source, sizes: Sizes) -> NDArray[np.float64]:
    """Return positions of evenly chosen rows, float64 (n, 2); deletions without one are left out."""
    every = max(source.rows // SAMPLE, 1)
    found = []
    ends = np.cumsum(source.blocks.rows.astype(np.int64))
    turn = (ends - 1) // sizes.part_rows
    for number in np.unique(turn):
        positions = _positions(source.read(np.flatnonzero(turn == number), ["x", "y"]))[::every]
        found.append(positions[np.isfinite(positions).all(axis=1)])
    return np.concatenate(found)


def _even_buckets(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the bucket of each leaf: runs of leaves with about as many rows each, without a gap."""
    before = np.cumsum(rows) - rows
    bucket = before * count // max(int(rows.sum()), 1)
    return np.unique(bucket, return_inverse=True)[1].astype(np.int64)


def _positions(rows: pa.Table) -> NDArray[np.float64]:
    return np.stack([rows.column(name).to_numpy() for name in ("x", "y")], axis=1)


def _part_rows(source: Source, sizes: Sizes) -> int:
    return rows_at_a_time(source, sizes.part_rows, sizes.part_bytes)


def _row_bytes(source: Source) -> float:
    return max(float(source.blocks.bytes.sum()) / max(source.rows, 1), LEAST_BYTES)


def weights_of(source: Source, positions: NDArray[np.float64], leaf_rows: float) -> NDArray[np.float64] | None:
    """Return as how many rows each of some positions counts, float64 (n,), at least 1; None where all count as one.

    ``source``: the rows of which an order by place is made; ``positions``: float64 (n, 2). A sample of them;
    ``leaf_rows``: rows of an even leaf. None becomes smaller than a block.
    """
    leaves = source.version.leaves
    placed = (leaves.order == BY_PLACE) & np.isin(leaves.period, source.periods)
    if not placed.any() or not len(positions):
        return None
    numbers, place = np.unique(leaves.period[placed], return_inverse=True)
    mine = placed & (leaves.period == numbers[np.bincount(place, leaves.rows[placed]).argmax()])
    rows = dict(zip(map(tuple, leaves.cell[mine].tolist()), leaves.rows[mine].tolist(), strict=True))
    try:
        tree = tree_of_cells(leaves.cell[mine])
    except ValueError:  # leaves that no tree has made
        return None
    held = np.array([rows[tuple(cell)] for cell in tree.cells.tolist()], np.float64)
    as_many = held * (source.rows / held.sum())
    heavy = np.clip(leaf_rows / as_many, 1.0, max(leaf_rows / BLOCK_ROWS, 1.0))
    return None if (heavy == 1.0).all() else heavy[tree.leaf_of(positions)]
