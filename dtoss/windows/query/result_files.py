"""Results of an end, or of one key over many: which commits have said something of them, and what was said last."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.windows.aggregation.columns import Columns
from dtoss.windows.query.open_files import Reader, Said
from dtoss.windows.spec import Spec
from dtoss.windows.state.hour_files import Hours, read_hours
from dtoss.windows.storage.window_document import Document, Part
from dtoss.windows.storage.window_folder import HOURS


def first_due(reader: Reader, head: Document, end: int) -> int:
    """Return the number of the commit with which an end became due; that of the head where it is not due.

    Cost O(log n) commits, of those since then: the head is looked at first.
    """
    high, step = head.number, 1
    while high > 1 and _is_due(reader, high - step, end):
        high, step = high - step, min(2 * step, high - step - 1)
    low = max(high - step, 0)
    while high - low > 1:
        middle = (low + high) // 2
        if _is_due(reader, middle, end):
            high = middle
        else:
            low = middle
    return max(high, 1)


def _is_due(reader: Reader, number: int, end: int) -> bool:
    mark = reader.said(number).watermark
    return mark is not None and mark >= end


def results_between(
    reader: Reader, spec: Spec, head: Document, first: int, last: int, columns: list[str], key: int | None = None
) -> pa.Table:
    """Return the last word on each end and key, by end and key.

    ``key``: only this one; all when None.
    """
    names = ["end", "key", "revision", "final", *columns]
    parts: list[pa.Table] = []
    for part in _files(reader, spec, head, first, last):
        if part.of[0] <= last and part.of[1] >= first:
            parts += reader.file(part.file).between(first, last, names, key)
    if not parts:
        known = Columns(spec).results
        return pa.schema([known.field(name) for name in names]).empty_table()
    return last_words(pa.concat_tables(parts), first == last)


def _files(reader: Reader, spec: Spec, head: Document, first: int, last: int) -> Iterator[Part]:
    """Yield the files that may have ends: of past hours, of rebuilds since these were merged, of commits."""
    hours = hours_read(reader, head)
    if first < hours.until:
        yield from hours.between(first, last)
        for number in head.rebuilds(first, min(last, hours.until - 1)):
            if number > hours.commit:
                yield from reader.said(number).results
    if last >= hours.until:
        for said in _saying(reader, spec, head, max(first, hours.until), last):
            yield from said.results  # a rebuild may be given twice: of equal revisions one stays


def hours_read(reader: Reader, head: Document) -> Hours:
    """Return the results of past hours that a commit names; they are read once."""
    found = head.files[HOURS]
    if not found:
        return Hours()
    file = found[0].file
    return reader.made("hours", file.sha256, lambda: read_hours(reader.home, file))


def _saying(reader: Reader, spec: Spec, head: Document, first: int, last: int) -> Iterator[Said]:
    """Yield the commits that may say something of ends, in their order."""
    for said in reader.between(first_due(reader, head, first), head.number):
        before = said.watermark_before
        if before is not None and before - spec.late >= last:
            yield from (reader.said(number) for number in head.rebuilds(first, last) if number >= said.number)
            return
        yield said


def last_words(table: pa.Table, one_end: bool) -> pa.Table:
    """Return of each end and key the row of the highest revision, by end and key."""
    table = table.combine_chunks()
    if len(table) == 0:
        return table
    end, key, revision = (table[name].to_numpy() for name in ("end", "key", "revision"))
    order = np.lexsort((revision, key) if one_end else (revision, key, end))
    end, key = end[order], key[order]
    newest = np.append((end[1:] != end[:-1]) | (key[1:] != key[:-1]), True)
    return table.take(pa.array(order[newest]))


def with_final(spec: Spec, table: pa.Table, watermark: int | None) -> pa.Table:
    """Return results with what is final by now."""
    if watermark is None:
        return table
    final = pc.less_equal(table["end"], watermark - spec.late)
    return table.set_column(table.column_names.index("final"), "final", final)
