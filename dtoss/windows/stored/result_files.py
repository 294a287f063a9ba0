"""Results of an end, or of one key over many: which commits have said something of them, and what was said last."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.commits.listed import Listed, checked_bytes
from dtoss.errors import StoreError
from dtoss.windows.sliding.columns import Columns
from dtoss.windows.spec import Spec
from dtoss.windows.stored.document import Document, document_of, documents
from dtoss.windows.stored.home import RESULTS, Home


def first_due(home: Home, head: Document, end: int) -> int:
    """Return the number of the commit with which an end became due; that of the head where it is not due. O(log n).

    Raises
    ------
    StoreError
        If a commit is missing or damaged.
    """
    low, high = 1, head.number
    while low < high:
        middle = (low + high) // 2
        mark = document_of(home, home.batches.read(middle)).watermark
        if mark is not None and mark >= end:
            high = middle
        else:
            low = middle + 1
    return low


def results_between(
    home: Home, spec: Spec, head: Document, first: int, last: int, columns: list[str], key: int | None = None
) -> pa.Table:
    """Return the last word on each end and key, by end and key.

    Parameters
    ----------
    home
        Of the windows.
    spec
        Their spec.
    head
        The newest commit.
    first, last
        Ends, both included.
    columns
        Wanted, beside end, key, revision and final.
    key
        Only this one; all when None.

    Raises
    ------
    StoreError
        If a commit or a file is missing or damaged; the message names it.
    OSError
        If one cannot be read.
    """
    names = ["end", "key", "revision", "final", *columns]
    schema = pa.schema([Columns(spec).results.field(name) for name in names])
    parts = [schema.empty_table()]
    for document in _saying(home, spec, head, first, last):
        for part in document.files["results"]:
            if part.of[0] <= last and part.of[1] >= first:
                parts.append(_read(home, part.file, first, last, key, names))
    return _last(pa.concat_tables(parts))


def _saying(home: Home, spec: Spec, head: Document, first: int, last: int) -> Iterator[Document]:
    """Yield the commits that may say something of ends, in their order."""
    for document in documents(home, first_due(home, head, first), head.number):
        before = document.watermark_before
        if before is not None and before - spec.late >= last:
            return
        yield document


def _read(home: Home, file: Listed, first: int, last: int, key: int | None, names: list[str]) -> pa.Table:
    path = home.folder.path(RESULTS, file.name)
    data = checked_bytes(home.folder.read(RESULTS, file.name), file, path)
    wanted = [("end", ">=", first), ("end", "<=", last)]
    if key is not None:
        wanted.append(("key", "=", key))
    try:
        return pq.read_table(pa.BufferReader(data), columns=names, filters=wanted, use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
        raise StoreError(f"{path} is damaged: {str(error).splitlines()[0]:.200}") from None


def _last(table: pa.Table) -> pa.Table:
    """Return of each end and key the row of the highest revision, by end and key."""
    table = table.combine_chunks()
    if len(table) == 0:
        return table
    end, key, revision = (table[name].to_numpy() for name in ("end", "key", "revision"))
    order = np.lexsort((revision, key, end))
    end, key = end[order], key[order]
    newest = np.append((end[1:] != end[:-1]) | (key[1:] != key[:-1]), True)
    return table.take(pa.array(order[newest]))


def with_final(spec: Spec, table: pa.Table, watermark: int | None) -> pa.Table:
    """Return results with what is final by now."""
    if watermark is None:
        return table
    final = pc.less_equal(table["end"], watermark - spec.late)
    return table.set_column(table.column_names.index("final"), "final", final)
