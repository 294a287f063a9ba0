"""Versions: what a commit says of a history. Its document is small JSON, its tables are segments.

The files, leaves and periods of a version, as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.commits.chain import Chain, Commit, check_format, silent
from dtoss.commits.folder import Folder
from dtoss.errors import StoreError
from dtoss.history.row_blocks import BY_TIME, Blocks
from dtoss.history.schema import Schema
from dtoss.history.segments import SEGMENTS, Segment, columns_in, read_segment
from dtoss.snapshots.store_location import folder_of, hide_keys

HISTORY_FORMAT = 1
"""Of the documents, segments and files; a reader knows this one and those before."""
KIND = "history"
"""What a document says of itself, so that a store is not taken for a history."""
LEDGER = pa.schema(
    [
        ("key", pa.large_string()),
        ("kind", pa.large_string()),
        ("source", pa.large_string()),
        ("batch", pa.int64()),
        ("rows", pa.int64()),
        ("sum", pa.uint64()),
        ("number", pa.int64()),
    ]
)
"""Of a batch: its key, what it is of ("file", "stream", "given", "forget", "retain"), the path or query, the number of
a stream's batch (else -1), its rows and their sum (of those that went negative, modulo 2^64), and the version."""


@dataclass(frozen=True)
class Version:
    """A version of a history: immutable, and readable as long as gc leaves its files."""

    folder: Folder
    commit: Commit  # Whose document it is
    schema: Schema

    @classmethod
    def of(cls, folder: Folder, commit: Commit) -> Version:
        """Return the version that a commit says."""
        document = commit.document
        where = f"version {commit.number} of {folder.path()}"
        if document.get("kind") != KIND:
            raise StoreError(f"{where} is no version of a history: is it a store?")
        check_format(where, document.get("format"), (HISTORY_FORMAT,))
        return cls(folder, commit, Schema.of(document.get("schema")))

    @property
    def number(self) -> int:
        """Of the commit, from 1 on."""
        return self.commit.number

    @property
    def document(self) -> Mapping[str, Any]:
        """What the commit holds."""
        return self.commit.document

    @property
    def options(self) -> Mapping[str, Any]:
        """What was chosen for the history, such as ``leaf_bytes``; what is not there has its default."""
        return dict(self.document["options"])

    @property
    def rows(self) -> int:
        """All rows, deletions too."""
        return int(self.document["rows"])

    @property
    def sum(self) -> int:
        """Of all rows."""
        return int(self.document["sum"], 16)

    @property
    def what(self) -> str:
        """What made the version: "append", "settle", "adapt" and so on."""
        return str(self.document["what"])

    @property
    def detail(self) -> Mapping[str, Any]:
        """What that says of itself."""
        return dict(self.document["detail"])

    @property
    def time(self) -> str:
        """When it was committed, ISO 8601."""
        return self.commit.time

    @cached_property
    def files(self) -> Files:
        """Its files."""
        return columns_in(Files, self._table("files"))

    @cached_property
    def leaves(self) -> Leaves:
        """Its leaves."""
        return columns_in(Leaves, self._table("leaves"))

    @cached_property
    def periods(self) -> Periods:
        """Its periods."""
        said = self.document["periods"]
        held = np.array([one["number"] for one in said], np.int32)
        leaves = self.leaves
        at = np.searchsorted(held, leaves.period)
        rows, size = np.zeros(len(held), np.int64), np.zeros(len(held), np.int64)
        total, orders = np.zeros(len(held), np.uint64), np.zeros(len(held), np.uint8)
        truth = leaves.order == BY_TIME
        np.add.at(rows, at[truth], leaves.rows[truth])
        np.add.at(size, at[truth], leaves.bytes[truth])
        np.add.at(total, at[truth], leaves.sum[truth])
        np.bitwise_or.at(orders, at, np.uint8(1) << leaves.order.astype(np.uint8))
        return Periods(held, np.array([one["tier"] for one in said], np.int16), rows, size, total, orders)

    @cached_property
    def block_segments(self) -> tuple[Segment, ...]:
        """The segments of blocks, as leaves number them."""
        return tuple(map(Segment.of, self.document["blocks"]))

    @cached_property
    def _opened(self) -> dict[int, Blocks]:
        return {}

    def segment_blocks(self, segment: int) -> Blocks:
        """Return all blocks of a segment, live or not; read once."""
        if segment not in self._opened:
            self._opened[segment] = columns_in(Blocks, read_segment(self.folder, self.block_segments[segment]))
        return self._opened[segment]

    def blocks(self, leaf: int) -> Blocks:
        """Return the blocks of a leaf, as views."""
        leaves = self.leaves
        begin = int(leaves.first[leaf])
        return self.segment_blocks(int(leaves.segment[leaf])).take(slice(begin, begin + int(leaves.count[leaf])))

    def ledger(self) -> pa.Table:
        """Return all entries of the ledger, oldest first: :data:`LEDGER`. Cost O(entries)."""
        parts = [read_segment(self.folder, Segment.of(said)) for said in self.document["ledger"]]
        return pa.concat_tables([LEDGER.empty_table(), *parts])

    def segments(self) -> list[Segment]:
        """Return all segments that it needs."""
        said = [self.document["files"], self.document["leaves"], *self.document["blocks"], *self.document["ledger"]]
        return [Segment.of(one) for one in said]

    def _table(self, kind: str) -> pa.Table:
        return read_segment(self.folder, Segment.of(self.document[kind]))


def files_of(version: Version) -> set[str]:
    """Return the names of all files that a version needs."""
    return {*version.files.name, *(f"{SEGMENTS}/{segment.file.name}" for segment in version.segments())}


@dataclass(frozen=True)
class Home:
    """Where a history is."""

    path: str

    def __reduce__(self) -> tuple[type[Home], tuple[str]]:
        return Home, (self.path,)

    @cached_property
    def folder(self) -> Folder:
        """Its folder."""
        return folder_of(self.path)

    @property
    def chain(self) -> Chain:
        """Its commits."""
        return Chain(self.folder)

    @property
    def shown(self) -> str:
        """The path without keys, for messages."""
        return hide_keys(self.path)

    def head(self, warn: Callable[[str], None] = silent) -> Version | None:
        """Return the newest version; None where there is no history yet."""
        commit = self.chain.head(warn)
        if commit is None:
            return None
        return Version.of(self.folder, commit)

    def version(self, number: int | None = None) -> Version:
        """Return a version, the newest one if None."""
        head = self.head()
        if head is None:
            raise StoreError(
                f"{self.shown} is no history: dtoss history append FILES --history {self.shown} begins one"
            )
        if number is None or number == head.number:
            return head
        oldest = int(head.document.get("oldest", 1))
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or not oldest <= number <= head.number:
            raise StoreError(f"version {number!r} of {self.shown} is not there: versions {oldest} to {head.number} are")
        return Version.of(self.folder, self.chain.read(int(number)))

    def exists(self) -> bool:
        """Whether there is a version."""
        return self.chain.head() is not None


@dataclass(frozen=True)
class Files:
    """The files of a version, in no order that means anything; arrays (n,)."""

    name: list[str]
    sha256: list[str]
    order: NDArray[np.int8]  # int8
    bytes: NDArray[np.int64]  # int64, of the whole file, live or not
    rows: NDArray[np.int64]  # int64, of the whole file, live or not
    sum: NDArray[np.uint64]  # uint64


@dataclass(frozen=True)
class Leaves:
    """The leaves of a version: runs of blocks of a file, which are live. Arrays (n,)."""

    file: NDArray[np.int32]  # int32. Its number in :class:`Files`
    order: NDArray[np.int8]  # int8
    period: NDArray[np.int32]  # int32. The number of its period
    # segment, first, count: int32, int64, int32. Which blocks of which of the version's segments of blocks
    segment: NDArray[np.int32]
    first: NDArray[np.int64]
    count: NDArray[np.int32]
    rows: NDArray[np.int64]  # rows, bytes, offset: int64. Of its blocks, and where the first one begins in the file
    bytes: NDArray[np.int64]
    offset: NDArray[np.int64]
    sum: NDArray[np.uint64]  # uint64
    t_from: NDArray[Any]  # int64 or float64
    t_to: NDArray[Any]  # int64 or float64
    id_from: NDArray[np.int64]  # id_from, id_to: int64. As of :class:`dtoss.history.row_blocks.Blocks`
    id_to: NDArray[np.int64]
    low: NDArray[np.float64]  # float64 (n, dimension). The box of its blocks
    high: NDArray[np.float64]  # float64 (n, dimension). The box of its blocks
    cell: NDArray[np.float64]  # float64 (n, 4). x0, y0, x1, y1 of the tree, half-open: x0 < x <= x1
    since: NDArray[np.int64]  # int64. The number of the version that it was made in
    marks: NDArray[np.int64]  # int64. Its deletions

    def __len__(self) -> int:
        return len(self.rows)

    take = take_rows


@dataclass(frozen=True)
class Periods:
    """The periods of a version by ascending number; arrays (n,)."""

    number: NDArray[np.int32]  # int32. Never used again
    tier: NDArray[np.int16]  # int16. 0 for an append, k + 1 for what eight of tier k have become
    rows: NDArray[np.int64]  # int64. Of its time order
    bytes: NDArray[np.int64]  # int64. Of its time order
    sum: NDArray[np.uint64]  # uint64
    orders: NDArray[np.uint8]  # uint8. ``1 << code`` of each order that it has

    def __len__(self) -> int:
        return len(self.number)
