"""A file of results that was looked at: which of its pieces have an end, and the rows of a piece by end.

What was made lately, up to so many bytes; threads share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.commits.columnar_files import decoding
from dtoss.commits.file_entry import FileEntry, open_entry
from dtoss.recent import Recent
from dtoss.windows.storage.window_folder import RESULTS, Home

_FEW = 8
"""Pieces that are read whole and held; of more only what is asked for is read."""
_OPEN_BYTES = 1 << 16
"""What a file that is held counts for, besides its bytes."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of a row group."""

    rows: pa.Table  # Those, each column whole
    end: NDArray[np.int64]  # int64 (n,). Their ends
    rising: bool  # Whether these are in order

    @classmethod
    def of(cls, rows: pa.Table) -> Piece:
        """Return rows as a piece."""
        end = rows["end"].to_numpy()
        return cls(rows, end, bool((end[1:] >= end[:-1]).all()))

    def between(self, first: int, last: int, names: list[str]) -> pa.Table:
        """Return some columns of the rows of ends, both included."""
        some = self.rows.select(names)
        if self.rising:
            low, high = self.end.searchsorted(first), self.end.searchsorted(last, "right")
            return some.slice(int(low), int(high - low))
        return some.filter(pa.array((self.end >= first) & (self.end <= last)))


@dataclass(frozen=True, eq=False)
class ResultFile:
    """A file of results. A large one is opened for each read: of those that are held none has a descriptor."""

    home: Home
    file: FileEntry  # As a commit lists it
    data: pa.Buffer | None  # The bytes of a small one; None of a large one
    footer: pq.FileMetaData  # What it says of its pieces
    first: NDArray[np.int64]  # int64 (pieces,). The ends of each row group
    last: NDArray[np.int64]  # int64 (pieces,). The ends of each row group
    rows: Recent[Piece]  # Where pieces that were read are held
    bytes: int

    @classmethod
    def opened(cls, home: Home, file: FileEntry, rows: Recent[Piece]) -> ResultFile:
        """Return a file of results: a small one was hashed, of a large one the pages are checked as they are read."""
        with open_entry(home.folder, RESULTS, file) as source, decoding(home.folder.path(RESULTS, file.name)):
            data = source.read_buffer() if isinstance(source, pa.BufferReader) else None
            source.seek(0)
            footer = pq.read_metadata(source)
            at = footer.schema.to_arrow_schema().names.index("end")
            told = [footer.row_group(i).column(at).statistics for i in range(footer.num_row_groups)]
            first, last = (np.array([getattr(one, side) for one in told], np.int64) for side in ("min", "max"))
        return cls(home, file, data, footer, first, last, rows, _OPEN_BYTES + (0 if data is None else data.size))

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.footer.schema.to_arrow_schema()

    def between(self, first: int, last: int, names: Sequence[str], key: int | None) -> Iterator[pa.Table]:
        """Yield the rows of ends, both included, of all keys or one."""
        there = np.flatnonzero((self.first <= last) & (self.last >= first)).tolist()
        few, wanted = len(there) <= _FEW, list(names)
        for piece in there:
            held = self._piece(piece) if few else Piece.of(self._read(piece, wanted))
            found = held.between(first, last, wanted)
            yield found if key is None else found.filter(pc.equal(found["key"], key))

    def _piece(self, piece: int) -> Piece:
        def read() -> tuple[Piece, int]:
            found = self._read(piece, None)
            return Piece.of(found), found.nbytes

        return self.rows.of((self.file.sha256, piece), read)

    def _read(self, piece: int, names: list[str] | None) -> pa.Table:
        folder = self.home.folder
        source = open_entry(folder, RESULTS, self.file) if self.data is None else pa.BufferReader(self.data)
        with source, decoding(folder.path(RESULTS, self.file.name)):
            parquet = pq.ParquetFile(source, metadata=self.footer, page_checksum_verification=True)
            return parquet.read_row_group(piece, columns=names, use_threads=False).combine_chunks()
