"""What arrived: the latest row of each id among a cycle's updates, on disk while the cycle runs.

Tasks share the updates by the hash of their ids. Each writes its rows, a batch for each partition that is to know them,
and beside these id, time and home of each, in the order of ids, which every task of the cycle maps.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import hashes_of
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.history.row_blocks import latest, places_among
from dtoss.partition import Ids
from dtoss.partitioning.assign import assign
from dtoss.partitioning.regions import Regions
from dtoss.rows.input_columns import DELETED
from dtoss.snapshots.store import Store

SCRATCH = "cycle"
"""The folder in a snapshot that is being made where a cycle's passing files are."""
NONE = -1
"""Stands where an object has no update."""


@dataclass(frozen=True)
class Batches:
    """A file of rows: a batch for each number, of a partition or of a task, that has some."""

    file: str
    numbers: NDArray[np.int32]  # int32, rising


@dataclass(frozen=True)
class Place:
    """Where a cycle's passing files are: a folder of the snapshot that it makes."""

    store: Store
    snapshot: str

    def make(self) -> None:
        """Make the folder."""
        self.store.folder.make("snapshots", self.snapshot, SCRATCH)

    def write(self, stem: str, data: pa.Buffer) -> str:
        """Write a file, and return its name."""
        name = f"{SCRATCH}/{stem}-{uuid.uuid4().hex[:8]}"
        self.store.write(self.snapshot, name, data)
        return name

    def write_batches(self, stem: str, rows: pa.Table, row: NDArray[np.int64], number: NDArray[np.int32]) -> Batches:
        """Write a file of rows by their numbers, each as often as ``row`` says, and return it."""
        numbers = np.flatnonzero(np.bincount(number)).astype(np.int32)
        order = np.argsort(number, kind="stable")
        ends = np.append(np.searchsorted(number[order], numbers), len(order))
        return Batches(self.write(stem, _encode_batches(rows.take(pa.array(row[order])), ends)), numbers)

    def write_table(self, stem: str, rows: pa.Table) -> str:
        """Write a file of rows, of one at least, that are one batch, and return its name."""
        return self.write(stem, _encode_batches(rows, np.array([0, len(rows)])))

    def read(self, name: str) -> pa.Buffer:
        """Return a file's bytes, mapped where they are local."""
        return self.store.source(self.snapshot, name).data

    def open(self, name: str) -> pa.RecordBatchFileReader:
        """Return the batches of a file."""
        return pa.ipc.open_file(self.read(name))

    def clear(self) -> None:
        """Remove the folder."""
        self.store.folder.remove_folder("snapshots", self.snapshot, SCRATCH)


def _encode_batches(rows: pa.Table, ends: NDArray[np.int64]) -> pa.Buffer:
    """Return a file of batches of rows, each from one end to the next."""
    rows, sink = rows.combine_chunks(), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        for begin, end in pairwise(ends):
            some = rows.slice(begin, end - begin).combine_chunks().to_batches()
            if len(some) != 1:
                raise InputError(
                    f"{end - begin:,} rows for one partition are more than 2 GB: carry fewer or smaller attributes"
                )
            writer.write_batch(some[0])
    return sink.getvalue()


@dataclass(frozen=True)
class Parcels:
    """The updates of one task, in the order of their ids, which number them."""

    task: int  # Of those among which ids are shared
    rows: int
    sent: Batches  # By partition: what each is to know, ``row`` being the number of each; deletions are in none
    ids: str  # The file of id, t, deleted and home of each, home being -1 of deletions
    newest: pa.Scalar  # The latest time among them


def send(
    place: Place,
    task: int,
    updates: Iterable[pa.RecordBatch],
    carried: Sequence[str],
    regions: Regions,
    reach: Any,
    space: Space,
) -> Parcels | None:
    """Write the latest rows among those of a task's ids as parcels, and return these; None of no rows. Cost O(n)."""
    batches = [batch for batch in updates if batch.num_rows]
    if not batches:
        return None
    rows = latest(pa.Table.from_batches(batches), [DELETED, "x", "y", *carried])
    rows = rows.take(pc.sort_indices(rows.column("id"))).combine_chunks()
    count = len(rows)
    deleted = rows.column(DELETED).to_numpy(zero_copy_only=False).astype(np.bool_)
    standing = np.flatnonzero(~deleted).astype(np.int64)
    kept = rows.take(pa.array(standing)) if len(standing) < count else rows
    places = np.stack([kept.column(name).to_numpy().astype(np.float64) for name in ("x", "y")], axis=1)
    sent = assign(space.vectors(places), regions, np.asarray(reach, dtype=np.float64))
    home = np.full(count, -1, np.int32)
    home[standing] = sent.home
    known = kept.drop_columns([DELETED]).append_column("home", pa.array(sent.home))
    known = known.append_column("row", pa.array(standing.astype(np.int32)))
    to = place.write_batches(
        "parcels",
        known,
        np.concatenate([np.arange(len(standing)), sent.row]),
        np.concatenate([sent.home, sent.partition]),
    )
    ids = rows.select(["id", "t"]).append_column(DELETED, pa.array(deleted)).append_column("home", pa.array(home))
    if pa.types.is_string(ids.schema.field("id").type):
        ids = ids.set_column(0, "id", ids.column("id").cast(pa.large_string()))
    return Parcels(task, count, to, place.write_table("ids", ids), pc.max(rows.column("t")))


@dataclass(frozen=True)
class Arrivals:
    """The updates of a cycle: u rows, numbered file by file."""

    place: Place  # Where the files are
    parcels: tuple[Parcels, ...] = ()
    tasks: int = 1  # Among which ids are shared by their hash
    _open: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return sum(parcels.rows for parcels in self.parcels)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The number of each file's first row, and one more, int64 (files + 1,)."""
        return np.cumsum([0, *(parcels.rows for parcels in self.parcels)])

    def ids(self, file: int) -> pa.Table:
        """Return id, t, deleted and home of the rows of a file, sorted by id."""
        name = self.parcels[file].ids
        if name not in self._open:
            self._open[name] = self.place.open(name).read_all()
        table: pa.Table = self._open[name]
        return table

    def known(self, numbers: NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """Return columns of :meth:`ids` of rows by their numbers, of one at least, in that order."""
        files = self._files_of(numbers)
        found = [
            self.ids(file).select(names).take(pa.array(numbers[at] - self.offsets[file])) for file, at in files
        ]  # fmt: skip
        return _in_order(found, [at for _, at in files])

    def find(self, ids: Ids | pa.ChunkedArray, order: NDArray[np.int32] | None = None) -> NDArray[np.int64]:
        """Return the number of the update of each id, int64 (n,), -1 where there is none.

        ``order``: that of whole numbers, as far as they have one: looking for them in it spares the memory.
        Cost O(n log u) of whole numbers, O(n + u) of strings.
        """
        found = np.full(len(ids), NONE, np.int64)
        begun = np.empty(0, np.int32) if order is None else order
        some = np.concatenate([begun, np.arange(len(begun), len(ids), dtype=np.int32)])
        for file, rows in self._rows_by_file(ids, some):
            if isinstance(ids, np.ndarray):
                sought: Ids | pa.ChunkedArray = ids[rows]
            else:
                sought = ids if self.tasks == 1 else ids.take(pa.array(rows))
            at = places_among(sought, self.ids(file).column("id").combine_chunks())
            found[rows] = np.where(at >= 0, at + self.offsets[file], NONE)
        return found

    def of_partition(self, number: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows that a partition is to know, with the file of each batch."""
        for file in range(len(self.parcels)):
            batch = self._sent(file, number)
            if batch is not None:
                yield file, batch

    def counted(self, file: int, dropped: str | None, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that count, each once, in columns of these names; deletions are none."""
        for partition in self.parcels[file].sent.numbers.tolist():
            rows = self._sent(file, partition)
            assert rows is not None
            rows = rows.filter(pa.array(rows.column("home").to_numpy() == partition))
            if dropped is not None:
                rows = rows.filter(self.stay(dropped, rows))
            table = pa.table([rows.column(name) for name in names], names=list(names))
            if pa.types.is_large_string(table.schema.field("id").type):
                table = table.set_column(0, "id", table.column("id").cast(pa.string()))
            yield from table.to_batches(max_chunksize=100_000)

    def write_by_file(self, stem: str, numbers: NDArray[np.int64], order: NDArray[np.int8]) -> Batches | None:
        """Write what is said of rows by their numbers, row and order, and return it by file; None of no rows."""
        if len(numbers) == 0:
            return None
        file = np.searchsorted(self.offsets, numbers, side="right") - 1
        row = pa.array((numbers - self.offsets[file]).astype(np.int32))
        said = pa.table([row, pa.array(order)], names=["row", "order"])
        return self.place.write_batches(stem, said, np.arange(len(numbers)), file.astype(np.int32))

    def said_of(self, file: int, said: Iterable[Batches | None]) -> Iterator[pa.RecordBatch]:
        """Yield what :meth:`write_by_file` has written of the rows of a file."""
        for one in said:
            if one is not None and (batch := _batch_of(self.place.open(one.file), one, file)) is not None:
                yield batch

    def stay(self, dropped: str, rows: pa.RecordBatch) -> pa.Array:
        """Return which rows of a batch count by the file that says of each row of theirs whether it does not, uint8."""
        if dropped not in self._open:
            self._open[dropped] = np.frombuffer(self.place.read(dropped), np.uint8)
        return pa.array(self._open[dropped][rows.column("row").to_numpy()] == 0)

    def rows(self, numbers: NDArray[np.int64], home: NDArray[np.int32]) -> pa.Table:
        """Return rows by their numbers, in that order; ``home`` says which partition owns each. Cost O(parcels)."""
        found, order = [], []
        for file, at in self._files_of(numbers):
            for owner in np.unique(home[at]):
                wanted = at[home[at] == owner]
                batch = self._sent(file, int(owner))
                assert batch is not None
                # copies stand there too; owned rows and copies ascend by row, each by themselves
                row = batch.column("row").to_numpy()
                sorter = np.argsort(row, kind="stable")
                place = sorter[np.searchsorted(row, numbers[wanted] - self.offsets[file], sorter=sorter)]
                found.append(pa.Table.from_batches([batch.take(pa.array(place))]))
                order.append(wanted)
        return _in_order(found, order)

    def _rows_by_file(
        self, ids: Ids | pa.ChunkedArray, rows: NDArray[np.int32]
    ) -> Iterator[tuple[int, NDArray[np.int32]]]:
        """Yield each file with those of some ids whose updates it holds, in their order."""
        if self.tasks == 1:
            yield 0, rows
            return
        chunks = [pa.array(ids)] if isinstance(ids, np.ndarray) else getattr(ids, "chunks", [ids])
        task = np.concatenate([hashes_of(one) % self.tasks for one in chunks])[rows].astype(np.uint16)
        order = np.argsort(task, kind="stable")
        ends = np.searchsorted(task[order], np.arange(self.tasks + 1))
        for file, parcels in enumerate(self.parcels):
            yield file, rows[order[ends[parcels.task] : ends[parcels.task + 1]]]

    def _files_of(self, numbers: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
        """Return each file that has some of the rows, with those."""
        file = np.searchsorted(self.offsets, numbers, side="right") - 1
        return [(int(one), np.flatnonzero(file == one)) for one in np.unique(file)]

    def _sent(self, file: int, number: int) -> pa.RecordBatch | None:
        """Return the batch of a file for a partition; None where it has none."""
        sent = self.parcels[file].sent
        if sent.file not in self._open:
            self._open[sent.file] = self.place.open(sent.file)
        return _batch_of(self._open[sent.file], sent, number)

    def __reduce__(self) -> tuple[Any, ...]:
        return Arrivals, (self.place, self.parcels, self.tasks)


def _batch_of(reader: pa.RecordBatchFileReader, batches: Batches, number: int) -> pa.RecordBatch | None:
    at = int(np.searchsorted(batches.numbers, number))
    there = at < len(batches.numbers) and batches.numbers[at] == number
    return reader.get_batch(at) if there else None


def _in_order(found: Sequence[pa.Table], order: Sequence[NDArray[np.int64]]) -> pa.Table:
    """Return rows of several tables in the order that their places say."""
    back = np.empty(sum(map(len, order)), np.int64)
    back[np.concatenate(order)] = np.arange(len(back))
    return pa.concat_tables(found).take(pa.array(back))
