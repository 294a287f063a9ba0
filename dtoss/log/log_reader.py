"""The rows of a log for who reads it, with or without the process that writes, and their columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError, StoreError, unreadable
from dtoss.log.open_segment import SLOT_BYTES, Contents, Durable, contents_of, durable_of, records_from, slot_of
from dtoss.log.segment_names import Segment, open_segments, sealed_in, sealed_segments
from dtoss.names import position_names, types_in_input
from dtoss.rows.input_columns import DELETED as DELETED
from dtoss.snapshots.column_types import type_named
from dtoss.snapshots.manifest import space_of_manifest

_TRIES = 5
"""How often a slot is read that was being written, and files are listed that went meanwhile."""


class Gone(StoreError):
    """Rows are no longer in the log, because all snapshots that stand have read them: take the newest snapshot."""


@dataclass
class _Tail:
    """Where :meth:`LogReader.follow` stands in an open segment."""

    number: int  # Of the file, as the system has it
    segment: Segment
    mark: int  # What tells the file from others of its name
    schema: pa.Schema
    at: int  # Bytes that were read
    last: int  # The last sequence number of these


class LogReader:
    """Reads the log of a folder."""

    def __init__(self, folder: str | os.PathLike[str], schema: pa.Schema) -> None:
        self.folder = os.fspath(folder).rstrip("/") or "/"
        self.schema = schema
        self._tail: _Tail | None = None

    def last(self) -> int:
        """Return the sequence number of the last row that was synced; 0 before the first."""
        for _ in range(_TRIES):
            found = open_segments(self.folder)
            if not found:
                return 0
            try:
                with Path(found[-1].path).open("rb", buffering=0) as stream:
                    return _durable(stream.fileno(), found[-1]).last
            except FileNotFoundError:
                continue
        raise _changing(self.folder)

    def rows_unread(self, ledger: Ledger, upto: int | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yield all rows that no sealed segment of a ledger has, up to a sequence number, with the first one's number.

        Segments are known by their names. Rows that are neither there nor in the ledger, and come after all that it
        has, are :class:`Gone`.
        """
        names = {file.rpartition("/")[2]: file not in ledger.refused for file in ledger.files}
        yield from self._rows(1, upto, names)

    def follow(self, after: int) -> tuple[int, pa.Table]:
        """Return the rows behind a sequence number that were synced by now, and the number of the last.

        Costs O(1) where there are none, and else what they take, as long as ``after`` is the number of the last time.
        """
        tables: list[pa.Table] = []
        for _ in range(_TRIES):
            tail = self._tail
            if tail is None or tail.last != after:
                break
            last, some = _more(tail)
            tables += [fit(rows, self.schema, tail.segment.path) for rows in some]
            after = last
            if self._is_newest(tail):
                return after, self._together(tables)
            self._let_go()
            self._take_up(after)
        for first, rows in self._rows(after + 1, None, None):
            tables.append(rows)
            after = first + len(rows) - 1
        self._let_go()
        self._take_up(after)
        return after, self._together(tables)

    def close(self) -> None:
        """Let go of the file that is followed."""
        self._let_go()

    # -- whatever file they are in ------------------------------------------------------------------------------------

    def _rows(self, begin: int, upto: int | None, read: Mapping[str, bool] | None) -> Iterator[tuple[int, pa.Table]]:
        """Yield rows from a sequence number on.

        ``read``: names of segments that a ledger has, and whether their rows count; None where all rows are meant.
        """
        failures = 0
        while upto is None or begin <= upto:
            segment, last = self._segment_at(begin, read)
            if segment is None or (upto is not None and segment.first > upto):
                return
            try:
                for first, rows in _rows_of(segment, max(begin, segment.first), _least(last, upto)):
                    yield first, fit(rows, self.schema, segment.path)
                    begin = first + len(rows)
            except FileNotFoundError:
                # it was sealed meanwhile, or has gone as all have read it
                failures += 1
                if failures == _TRIES:
                    raise _changing(self.folder) from None
                continue
            except OSError as error:
                raise unreadable(segment.path, error) from None
            if segment.last is None and last is None:
                return
            begin = max(begin, (last or 0) + 1)

    def _segment_at(self, begin: int, read: Mapping[str, bool] | None) -> tuple[Segment | None, int | None]:
        """Return the segment of the first rows from a sequence number on, and its last one; None of the newest."""
        # open ones are listed first: one that is sealed meanwhile is then found in either form
        opened = open_segments(self.folder)
        if not opened:
            return None, None
        log = opened[-1].log
        known = [one for one in sealed_segments(read or ()) if one.log == log]
        left_out = {one.first for one in known if read and read[one.name]}
        ends = [*(after.first - 1 for after in opened[1:]), None]
        found = [(one, one.last) for one in sealed_in(self.folder) if one.log == log]
        there = {one.first for one, _ in found}
        found += [(one, end) for one, end in zip(opened, ends, strict=True) if one.first not in there]
        found = [(one, last) for one, last in found if one.first not in left_out and (last is None or last >= begin)]
        found.sort(key=lambda pair: pair[0].first)
        if not found:
            return None, None
        segment, last = found[0]
        self._check_gap(begin, segment.first, known, read)
        return segment, last

    def _check_gap(self, begin: int, first: int, known: list[Segment], read: object) -> None:
        """Check that the rows before a segment are not there because they were read."""
        if read is None:
            missing = begin
        elif known:
            missing = max(begin, max(one.last or 0 for one in known) + 1)
        else:
            return  # whatever stands has read nothing of this log, or was built anew since
        if missing < first:
            raise Gone(
                f"rows {missing:,} to {first - 1:,} of the log of {self.folder} are no longer there: the snapshots "
                "that stand have read them; take the newest one"
            )

    # -- following ----------------------------------------------------------------------------------------------------

    def _take_up(self, after: int) -> None:
        """Stand behind a sequence number in the newest open segment, if that has it."""
        found = open_segments(self.folder)
        if not found or found[-1].first > after + 1:
            return
        segment = found[-1]
        try:
            number = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            held = _contents(number, segment)
            record = next((one for one in held.records if one.first + one.rows - 1 == after), None)
            if after != segment.first - 1 and record is None:
                os.close(number)
                return
            at = held.begin if record is None else record.end
            self._tail = _Tail(number, segment, os.fstat(number).st_ino, held.schema, at, after)
        except BaseException:
            os.close(number)
            raise

    def _is_newest(self, tail: _Tail) -> bool:
        """Return whether an open segment is the newest one, in the file that is read."""
        found = open_segments(self.folder)
        try:
            return bool(found) and found[-1] == tail.segment and os.stat(tail.segment.path).st_ino == tail.mark  # noqa: PTH116
        except FileNotFoundError:
            return False

    def _let_go(self) -> None:
        if self._tail is not None:
            os.close(self._tail.number)
            self._tail = None

    def _together(self, tables: list[pa.Table]) -> pa.Table:
        return pa.concat_tables(tables) if tables else self.schema.empty_table()


def _more(tail: _Tail) -> tuple[int, list[pa.Table]]:
    """Return the last number and the rows that were synced since an open segment was read."""
    durable = _durable(tail.number, tail.segment)
    if durable.last <= tail.last:
        return tail.last, []
    data = memoryview(os.pread(tail.number, durable.end - tail.at, tail.at))
    records = tuple(records_from(tail.segment.log, data, 0, tail.last + 1))
    held = Contents(tail.schema, records, 0, 0, 0)
    if held.last != durable.last:
        raise StoreError(f"{tail.segment.path} is damaged behind byte {tail.at:,}: restore it from a copy")
    rows = [pa.Table.from_batches([rows]) for _, rows in held.batches(tail.last + 1)]
    tail.at, tail.last = durable.end, durable.last
    return tail.last, rows


def _rows_of(segment: Segment, begin: int, last: int | None) -> Iterator[tuple[int, pa.Table]]:
    if segment.last is not None:
        yield begin, _sealed_rows(segment, begin, last)
        return
    number = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        held = _contents(number, segment)
    finally:
        os.close(number)
    # many small requests are one table
    if rows := [rows for _, rows in held.batches(begin, last)]:
        yield begin, pa.Table.from_batches(rows)


def _sealed_rows(segment: Segment, begin: int, last: int | None) -> pa.Table:
    import pyarrow.parquet as pq

    end = segment.last or 0
    try:
        with Path(segment.path).open("rb") as stream, pq.ParquetFile(stream) as reader:
            rows = reader.read()
    except pa.ArrowException as error:
        raise StoreError(f"{segment.path} is damaged: {str(error).splitlines()[0]}; restore it from a copy") from None
    if len(rows) != end - segment.first + 1:
        raise StoreError(f"{segment.path} has {len(rows):,} rows, its name says others: restore it from a copy")
    return rows.slice(begin - segment.first, (end if last is None else min(end, last)) - begin + 1)


def _contents(number: int, segment: Segment) -> Contents:
    """Return what was synced of an open segment."""
    durable = _durable(number, segment)
    # the slot may say more by now
    data = slot_of(segment.log, durable) + os.pread(number, durable.end - SLOT_BYTES, SLOT_BYTES)
    return contents_of(segment.log, segment.first, data, segment.path)


def _durable(number: int, segment: Segment) -> Durable:
    for _ in range(_TRIES):
        if (found := durable_of(segment.log, os.pread(number, SLOT_BYTES, 0))) is not None:
            return found
    raise StoreError(f"{segment.path} is damaged at byte 0: whoever writes the log next mends it")


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _changing(folder: str) -> StoreError:
    return StoreError(f"the log of {folder} changes without end: try again")


META = b"dtoss.log"
"""Under this key the metadata of a schema say which column is what (:func:`roles_of`)."""


def log_schema(manifest: Mapping[str, Any]) -> pa.Schema:
    """Return the columns of a log of a store: id, x, y, time, the attributes, ``deleted``.

    They are called as in the input that the snapshot was built of, so that a cycle reads them as it reads that, and
    have the store's types. A store without times, or with an attribute ``deleted``, is an InputError.
    """
    time = manifest.get("time")
    if time is None:
        raise InputError(
            f"snapshot {manifest['snapshot']} has no times, by which of two rows of an id one counts: rebuild it with "
            "--time COLUMN"
        )
    source = manifest.get("source") or {}
    x, y = position_names(space_of_manifest(dict(manifest)).geographic)
    attributes = types_in_input(manifest)
    roles = {
        "id": source.get("id") or "id",
        "x": source.get("x") or x,
        "y": source.get("y") or y,
        "time": source.get("time") or time["column"],
        "deleted": DELETED,
    }
    if any(name.casefold() == DELETED for name in (*attributes, *list(roles.values())[:-1])):
        raise InputError(
            f"the objects of snapshot {manifest['snapshot']} carry a column {DELETED!r}, which says of rows that are "
            "told whether they delete: rebuild it without (--columns), or with --deleted"
        )
    fields = [
        pa.field(roles["id"], pa.string() if manifest["id_type"] == "string" else pa.int64(), nullable=False),
        pa.field(roles["x"], pa.float64()),
        pa.field(roles["y"], pa.float64()),
        pa.field(roles["time"], type_named(time["type"]), nullable=False),
    ]
    known = {field.name for field in fields}
    fields += [pa.field(name, type_named(kind)) for name, kind in attributes.items() if name not in known]
    fields.append(pa.field(DELETED, pa.bool_(), nullable=False))
    return pa.schema(fields, metadata={META: json.dumps(roles)})


def roles_of(schema: pa.Schema) -> dict[str, str]:
    """Return the names of the columns of a log by what they are: id, x, y, time, deleted.

    Examples
    --------
    >>> roles_of(pa.schema([], metadata={META: '{"id": "id", "x": "lon", "y": "lat", "time": "t"}'}))["x"]
    'lon'
    """
    roles: dict[str, str] = json.loads((schema.metadata or {})[META])
    return roles


def fit(rows: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """Return rows in the columns of a schema: those that it has beside theirs are null, those that it lacks go.

    A segment may have been written before the columns of the store changed.
    """
    if rows.schema.equals(schema):
        return rows.replace_schema_metadata(schema.metadata)
    columns = []
    for field in schema:
        if field.name not in rows.schema.names:
            if not field.nullable:
                raise StoreError(
                    f"{where} has no column {field.name!r}: its rows cannot be taken for those of the store"
                )
            columns.append(pa.nulls(len(rows), field.type))
            continue
        try:
            columns.append(rows.column(field.name).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            kind = rows.schema.field(field.name).type
            raise StoreError(
                f"column {field.name!r} is {kind} in {where} and {field.type} in the store: its rows cannot be taken "
                "for those of the store"
            ) from None
    return pa.table(columns, schema=schema)
