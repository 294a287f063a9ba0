"""Hour after hour, what many commits have said of its ends becomes one file; what is no longer kept is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import encode_parquet, read_parquet
from dtoss.commits.file_entry import FileEntry, write_entry
from dtoss.locks import Recent
from dtoss.windows.query.open_files import ResultFile, last_words
from dtoss.windows.spec import Spec
from dtoss.windows.state.hour_files import (
    A_DAY,
    NO_TIME,
    Hours,
    Steps,
    commit_hours,
    hours_of,
    without_old,
)
from dtoss.windows.storage.window_document import RESULTS, SET_ASIDE, Document, Home, Part, documents

_ROWS = 1 << 15
"""Rows of a piece of a file."""


def merge_hours(
    home: Home, spec: Spec, head: Document, retain: int | None = None, steps: Steps = A_DAY
) -> Commit | None:
    """Merge the results of hours that are past, drop what is no longer kept, and commit both; None where nothing is.

    ``retain``: microseconds: results of ends so long behind the watermark go, by whole hours; None keeps all.

    An hour is past once all its ends are final. At most a day is merged at once, and no other hour is begun after half
    a million results: who asks again goes on. Cost: the commits and results of these hours are read.
    """
    if head.watermark is None:
        return None
    before = hours_of(home, head)
    past = steps.hour_of(head.watermark - spec.late)
    rebuilt = [number for number in head.rebuilds(NO_TIME, before.until - 1) if number > before.commit]
    hours = before
    if past > before.until or rebuilt:
        hours = _merged(home, head, before, past, rebuilt, spec.late, steps)
    if retain is not None:
        hours = without_old(hours, head.watermark - retain, steps)
    return None if hours == before else commit_hours(home, head, hours)


def _merged(
    home: Home, head: Document, before: Hours, past: int, rebuilt: Sequence[int], late: int, steps: Steps
) -> Hours:
    """Return the hours with more of them: those that a rebuild has changed, and those that are past."""
    scanned: list[Document] = []
    target = past
    for document in documents(home, before.since, head.number):
        first = _first_end(home, document.files[RESULTS], before.until, steps) if target == past else None
        if first is not None:
            target = min(past, steps.hour_of(first) + steps.most_hours * steps.hour_us)
        mark = document.watermark_before
        if mark is not None and mark - late >= target:
            break
        scanned.append(document)
    extra = [one for number in rebuilt for one in documents(home, number, number)]
    known = {document.number for document in scanned}
    parts = [part for one in scanned for part in one.files[RESULTS]]
    parts += [part for one in extra if one.number not in known for part in one.files[RESULTS]]
    parts += _rebuilt_later(home, head, scanned, target, known | set(rebuilt))
    begin = _first_end(home, parts, before.until, steps)
    wanted = [] if begin is None else _hours_in(parts, steps.hour_of(begin), target, steps)
    again = _hours_in([part for one in extra for part in one.files[RESULTS]], NO_TIME, before.until, steps)
    files, rows = list(before.files), 0
    if before.until == NO_TIME and not wanted:
        return before
    for hour in again + wanted:
        if hour >= before.until and rows > steps.most_results:
            target = hour
            break
        mine = [part for part in files if steps.hour_of(part.of[0]) == hour]
        merged = _of_hour(home, mine + parts, hour, hour + steps.hour_us - 1)
        if merged is not None:
            files = [part for part in files if part not in mine] + [merged]
            rows += merged.file.rows
    target = max(target, before.until)
    later = [one.number for one in scanned if any(part.of[1] >= target for part in one.files[RESULTS])]
    since = min([*later, (scanned[-1].number if scanned else before.since - 1) + 1])
    aside = [one for one in scanned if before.set_aside < one.number < since]
    return Hours(
        target, since, head.number, before.kept_from, tuple(sorted(files, key=lambda part: part.of)),
        before.quarantine + _set_aside(home, aside), before.aside_to,
    )  # fmt: skip


def _rebuilt_later(
    home: Home, head: Document, scanned: Sequence[Document], target: int, known: set[int]
) -> Iterable[Part]:
    """Yield results of rebuilds after the commits that were looked at, which are about ends before a time."""
    last = scanned[-1].number if scanned else 0
    for number in head.rebuilds(NO_TIME, target - 1):
        if number > last and number not in known:
            yield from (part for one in documents(home, number, number) for part in one.files[RESULTS])


def _first_end(home: Home, parts: Sequence[Part], since: int, steps: Steps) -> int | None:
    """Return a time from which on files have ends, of those from another one on; None of none.

    It is exact where a file spans days: after a silence there are no steps of a day each.
    """
    found: list[int] = []
    for part in parts:
        if part.of[1] >= since > part.of[0] and part.of[1] - since > steps.most_hours * steps.hour_us:
            found.append(pc.min(_read(home, part.file, since, part.of[1], ["end"])["end"]).as_py())
        elif part.of[1] >= since:
            found.append(max(part.of[0], since))
    return min(found, default=None)


def _hours_in(parts: Sequence[Part], since: int, until: int, steps: Steps) -> list[int]:
    """Return the hours from one time to another that files may have ends of, rising."""
    found: set[int] = set()
    for part in parts:
        first, last = max(part.of[0], since), min(part.of[1], until - 1)
        found |= set(range(steps.hour_of(first), last + 1, steps.hour_us))
    return sorted(found)


def _of_hour(home: Home, parts: Sequence[Part], hour: int, last: int) -> Part | None:
    """Write the last word on each end and key of an hour, up to its last moment; None where there is none."""
    tables: list[pa.Table] = []
    for part in parts:
        if part.of[0] <= last and part.of[1] >= hour:
            tables.append(_read(home, part.file, hour, last))
    if sum(map(len, tables)) == 0:
        return None
    table = last_words(pa.concat_tables(tables), False)
    table = table.set_column(table.column_names.index("final"), "final", pa.array([True] * len(table)))
    bounds = pc.min_max(table["end"]).as_py()
    return Part(_written(home, RESULTS, table), (bounds["min"], bounds["max"]))


def _read(home: Home, file: FileEntry, first: int, last: int, columns: list[str] | None = None) -> pa.Table:
    """Return the results of ends, both included."""
    found = ResultFile.opened(home, file, Recent(0))
    schema = found.schema
    names = columns or schema.names
    nothing = pa.schema([schema.field(name) for name in names]).empty_table()
    return pa.concat_tables([nothing, *found.between(first, last, names, None)])


def _set_aside(home: Home, scanned: Sequence[Document]) -> tuple[Part, ...]:
    """Write the rows that commits have set aside in one file; none where there are none."""
    parts = [part for document in scanned for part in document.files[SET_ASIDE]]
    tables = [read_parquet(home.folder, SET_ASIDE, part.file) for part in parts]
    if not tables:
        return ()
    return (written_aside(home, pa.concat_tables(tables), scanned[0].number, scanned[-1].number),)


def written_aside(home: Home, rows: pa.Table, first: int, last: int) -> Part:
    """Write rows that commits have set aside, from the first to the last, and return their file."""
    return Part(_written(home, SET_ASIDE, rows), (first, last))


def _written(home: Home, room: str, table: pa.Table) -> FileEntry:
    data = encode_parquet(table, row_group_size=_ROWS, write_page_checksum=True)
    return FileEntry.of(write_entry(home.folder, data, len(table), "parquet", room))
