"""A file of results, open: which of its pieces have an end, and the rows of a piece by end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.commits.listed import Listed, opened
from dtoss.errors import StoreError
from dtoss.locks import Lock
from dtoss.windows.asking.recent import Recent
from dtoss.windows.stored.home import RESULTS, Home

_FEW = 8
"""Pieces that are read whole and held; of more only what is asked for is read."""
_OPEN_BYTES = 1 << 16
"""What a file that is open counts for, besides what is held of its bytes."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of a row group.

    Parameters
    ----------
    rows
        Those, each column whole.
    end
        int64 (n,). Their ends.
    rising
        Whether these are in order.
    """

    rows: pa.Table
    end: NDArray[np.int64]
    rising: bool

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
    """A file of results.

    Parameters
    ----------
    path
        For messages.
    file
        As a commit lists it.
    parquet
        The file; one thread reads it at a time.
    first, last
        int64 (pieces,). The ends of each row group.
    lock
        Of whoever reads.
    rows
        Where pieces that were read are held.
    bytes
        That it holds.
    """

    path: str
    file: Listed
    parquet: pq.ParquetFile
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    lock: Lock
    rows: Recent[Piece]
    bytes: int

    @classmethod
    def opened(cls, home: Home, file: Listed, rows: Recent[Piece]) -> ResultFile:
        """Return a file of results: a small one was hashed, of a large one the pages are checked as they are read.

        Raises
        ------
        StoreError
            If it is missing or damaged; the message names it.
        OSError
            If it cannot be read.
        """
        path = home.folder.path(RESULTS, file.name)
        source = opened(home.folder, RESULTS, file)
        try:
            parquet = pq.ParquetFile(source, page_checksum_verification=True)
            at = parquet.schema_arrow.names.index("end")
            told = [parquet.metadata.row_group(i).column(at).statistics for i in range(parquet.metadata.num_row_groups)]
            first, last = (np.array([getattr(one, side) for one in told], np.int64) for side in ("min", "max"))
        except (pa.ArrowException, OSError, ValueError, AttributeError, TypeError) as error:
            raise _damaged(path, error) from None
        held = file.bytes if isinstance(source, pa.BufferReader) else 0
        return cls(path, file, parquet, first, last, Lock(), rows, _OPEN_BYTES + held)

    def between(self, first: int, last: int, names: Sequence[str], key: int | None) -> Iterator[pa.Table]:
        """Yield the rows of ends, both included, of all keys or one.

        Raises
        ------
        StoreError
            If the file is damaged.
        """
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
        try:
            with self.lock:
                table = self.parquet.read_row_group(piece, columns=names, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(self.path, error) from None
        return table.combine_chunks()


def _damaged(path: str, error: Exception) -> StoreError:
    return StoreError(f"{path} is damaged: {' '.join(str(error).split())[:200]}")
