"""What arrived: the latest row of each id among a cycle's updates, on disk while the cycle runs.

Each task that looked for the latest rows writes one file of parcels, a batch of rows for each partition that is to
know them. The ids and times of all lie in one more file, sorted by id, which every task of the cycle maps.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.history.row_blocks import latest
from dtoss.partitioning.assign import assign
from dtoss.partitioning.regions import Regions
from dtoss.rows.input_columns import DELETED
from dtoss.snapshots.store import Store

SCRATCH = "cycle"
"""The folder in a snapshot that is being made where a cycle's passing files are."""


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

    def read(self, name: str) -> pa.Buffer:
        """Return a file's bytes, mapped where they are local."""
        return self.store.source(self.snapshot, name).data

    def clear(self) -> None:
        """Remove the folder."""
        self.store.folder.remove_folder("snapshots", self.snapshot, SCRATCH)


@dataclass(frozen=True)
class Parcels:
    """A file of parcels: its name, how many rows it was made of, and the number of each partition's batch."""

    file: str
    rows: int
    batches: dict[int, int]


def send(
    place: Place, updates: Iterable[pa.RecordBatch], carried: Sequence[str], regions: Regions, reach: Any, space: Space
) -> tuple[Parcels, pa.Table] | None:
    """Write the latest rows among those of some ids as parcels, and return them with their ids; None of no rows.

    The file, and a table of id, t, deleted, home (int32, -1 of deletions) and row (int32), in the order of rows.

    A deletion is in no parcel. Cost O(n).
    """
    batches = [batch for batch in updates if batch.num_rows]
    if not batches:
        return None
    rows = latest(pa.Table.from_batches(batches), [DELETED, "x", "y", *carried]).combine_chunks()
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
    numbers, data = _parcels(
        known,
        np.concatenate([np.arange(len(standing)), sent.row]),
        np.concatenate([sent.home, sent.partition]),
    )
    file = place.write("parcels", data)
    ids = rows.select(["id", "t", DELETED])
    ids = ids.append_column("home", pa.array(home)).append_column("row", pa.array(np.arange(count, dtype=np.int32)))
    return Parcels(file, count, {int(number): i for i, number in enumerate(numbers)}), ids


def _parcels(
    rows: pa.Table, row: NDArray[np.int64], partition: NDArray[np.int32]
) -> tuple[NDArray[np.int64], pa.Buffer]:
    numbers = np.flatnonzero(np.bincount(partition))
    order = np.argsort(partition, kind="stable")
    ends = np.append(np.searchsorted(partition[order], numbers), len(order))
    sorted_rows = rows.take(pa.array(row[order])).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        for begin, end in pairwise(ends):
            some = sorted_rows.slice(begin, end - begin).combine_chunks().to_batches()
            if len(some) != 1:
                raise InputError(
                    f"{end - begin:,} rows for one partition are more than 2 GB: carry fewer or smaller attributes"
                )
            writer.write_batch(some[0])
    return numbers, sink.getvalue()


@dataclass(frozen=True)
class Arrivals:
    """The updates of a cycle: u rows, numbered file by file, and the same sorted by id."""

    place: Place  # Where the files are
    parcels: tuple[Parcels, ...]
    index: str | None  # The name of the file of ids: id, t, deleted, home and number of each row, sorted by id

    @classmethod
    def gathered(cls, place: Place, sent: Iterable[tuple[Parcels, pa.Table]]) -> Arrivals:
        """Return what several tasks have sent, after writing all ids in one order. Cost O(u log u)."""
        files, tables, offset = [], [], 0
        for parcels, ids in sent:
            number = pa.array(np.arange(offset, offset + parcels.rows, dtype=np.int32))
            tables.append(ids.drop_columns(["row"]).append_column("number", number))
            files.append(parcels)
            offset += parcels.rows
        if not files:
            return cls(place, (), None)
        table = pa.concat_tables(tables).combine_chunks()
        if pa.types.is_string(table.schema.field("id").type):
            table = table.set_column(0, "id", table.column("id").cast(pa.large_string()))
        table = table.take(pc.array_sort_indices(table.column("id").combine_chunks())).combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return cls(place, tuple(files), place.write("ids", sink.getvalue()))

    def __len__(self) -> int:
        return sum(parcels.rows for parcels in self.parcels)

    @cached_property
    def ids(self) -> pa.Table:
        """Columns id, t, deleted, home and number of all rows, sorted by id."""
        assert self.index is not None
        return pa.ipc.open_file(self.place.read(self.index)).read_all()

    @cached_property
    def place_in_order(self) -> NDArray[np.int64]:
        """Where each row stands among the ids, by its number, int64 (u,)."""
        place = np.empty(len(self), np.int64)
        place[self.ids.column("number").to_numpy()] = np.arange(len(self))
        return place

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The number of each file's first row, and one more, int64 (files + 1,)."""
        return np.cumsum([0, *(parcels.rows for parcels in self.parcels)])

    def of_partition(self, number: int) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """Yield the rows that a partition is to know, file by file, with the number of each row."""
        for i, parcels in enumerate(self.parcels):
            if number in parcels.batches:
                batch = self._reader(i).get_batch(parcels.batches[number])
                yield batch, batch.column("row").to_numpy().astype(np.int64) + self.offsets[i]

    def counted(self, file: int, dropped: NDArray[np.uint8] | None, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that count, each once, in columns of these names; deletions are none."""
        for partition, batch in self.parcels[file].batches.items():
            rows = self._reader(file).get_batch(batch)
            counts = rows.column("home").to_numpy() == partition
            if dropped is not None:
                counts &= dropped[rows.column("row").to_numpy() + self.offsets[file]] == 0
            table = pa.table([rows.column(name).filter(pa.array(counts)) for name in names], names=list(names))
            if pa.types.is_large_string(table.schema.field("id").type):
                table = table.set_column(0, "id", table.column("id").cast(pa.string()))
            yield from table.to_batches(max_chunksize=100_000)

    def rows(self, numbers: NDArray[np.int64], home: NDArray[np.int32]) -> pa.Table:
        """Return rows by their numbers, in that order; ``home`` says which partition owns each. Cost O(parcels)."""
        file = np.searchsorted(self.offsets, numbers, side="right") - 1
        found, order = [], []
        for i in np.unique(file):
            for owner in np.unique(home[file == i]):
                wanted = np.flatnonzero((file == i) & (home == owner))
                batch = self._reader(int(i)).get_batch(self.parcels[i].batches[int(owner)])
                # copies stand there too; owned rows and copies ascend by row, each by themselves
                row = batch.column("row").to_numpy()
                sorter = np.argsort(row, kind="stable")
                at = sorter[np.searchsorted(row, numbers[wanted] - self.offsets[i], sorter=sorter)]
                found.append(batch.take(pa.array(at)))
                order.append(wanted)
        table = pa.Table.from_batches(found)
        back = np.empty(len(numbers), np.int64)
        back[np.concatenate(order)] = np.arange(len(numbers))
        return table.take(pa.array(back))

    def _reader(self, file: int) -> pa.RecordBatchFileReader:
        readers = self.__dict__.setdefault("_readers", {})
        if file not in readers:
            readers[file] = pa.ipc.open_file(self.place.read(self.parcels[file].file))
        return readers[file]

    def __reduce__(self) -> tuple[Any, ...]:
        return Arrivals, (self.place, self.parcels, self.index)
