"""The events of a watch, from Python and as lines of JSON, made column by column.

Events as rows of Python's values.

Events as they are handed to who reads them: so many lines of JSON at a time, and where the reader stands then.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.names import DEFAULT_NAME, position_names
from dtoss.watch.events.event_log import EVENT_COLUMNS, EventPart
from dtoss.watch.events.event_log import events as tables_of_events
from dtoss.watch.events.readers import Cursor
from dtoss.watch.events.watch_document import begun_watch
from dtoss.watch.processing.event_table import CROSS_COLUMNS, OTHER_COLUMN, OTHER_PLACE
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings


def events(
    store: str,
    watch: str = DEFAULT_NAME,
    *,
    after: str | int | Cursor | None = None,
    subscription: str | None = None,
    kinds: Collection[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the events of a watch in their order, each once.

    Parameters
    ----------
    store
        Path or URI of the store.
    watch
        The name of the watch.
    after
        The id of an event, as in ``12-34``: events behind it. Or the number of a batch: events behind all of it. All
        that there are when None.
    subscription
        The id of the only one; all when None.
    kinds
        Of "dwell", "cross", "leave", "enter", "inside" and "reset"; all when None.

    Raises
    ------
    InputError
        If the cursor, the name or a kind is none, or events behind the cursor were removed or are another watch's.
    StoreError
        If there is no such watch, or something of it is missing or damaged.
    OSError
        If something cannot be read.

    Notes
    -----
    A dict has id, subscription, version, kind, object, t, lon and lat (x and y in a plane), distance, batch, reason,
    meta and the carried columns. Events that are committed after it was begun come with the next call, after the last
    id.
    """
    home = Home(str(store), watch)
    at = after if after is None or isinstance(after, Cursor) else Cursor.of(after)
    settings = begun_watch(home).settings
    for table in tables_of_events(home, at, subscription, kinds):
        yield from plain_rows(table, settings)


ROWS_AT_ONCE = 4096
"""Rows of a table that are Python's values at a time."""
_START = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1e6


def plain_rows(events: pa.Table, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield events as dicts.

    The keys are those of the JSON lines. t is a datetime in UTC, or seconds where the watch has numbers; meta is what
    its JSON means. A time of a year that Python has not, before 1 or after 9999, is a text as in the JSON lines.
    """
    x, y = position_names(settings.space.geographic)
    carried = carried_columns(events.column_names)
    metas: dict[str, Any] = {}
    for begin in range(0, events.num_rows, ROWS_AT_ONCE):
        some = events.slice(begin, ROWS_AT_ONCE)
        columns = {name: _values(some.column(name)) for name in events.column_names}
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            meta = row["meta"]
            if meta is not None and meta not in metas:
                if len(metas) >= ROWS_AT_ONCE:
                    metas.clear()
                metas[meta] = json.loads(meta)
            found = {
                "id": str(Cursor(row["batch"], row["number"])),
                "subscription": row["subscription"],
                "version": row["version"],
                "kind": row["kind"],
                "object": row["object"],
                "t": moment_of(row["t"], settings.time),
                x: row["x"],
                y: row["y"],
                "distance": row["distance"],
                "batch": row["batch"],
                "reason": row["reason"],
                "meta": None if meta is None else metas[meta],
            }
            found.update((name, moment_of(row[name], settings.time)) for name in CROSS_COLUMNS if name in row)
            near = {OTHER_COLUMN: OTHER_COLUMN, **dict(zip(OTHER_PLACE, (f"near_{x}", f"near_{y}"), strict=True))}
            found.update((said, row[name]) for name, said in near.items() if name in row)
            found.update((name, row[name]) for name in carried)
            yield found


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; those that Python has not are texts as in the JSON lines."""
    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        texts = pa.chunked_array([json_values(chunk) for chunk in column.chunks]).to_pylist()
        found = [_value(one, text) for one, text in zip(column, texts, strict=True)]
    return found


def _value(one: pa.Scalar, text: str | None) -> Any:
    try:
        return one.as_py()
    except (OverflowError, ValueError):
        return None if text is None else json.loads(text)


def moment_of(microseconds: int | None, time: str | None) -> datetime | float | str | None:
    """Return a time as the rows of a watch have theirs.

    ``microseconds``: since 1970; None where there is none.
    """
    if microseconds is None:
        return None
    if time == "double":
        return microseconds / _SECOND
    try:
        return _START + timedelta(microseconds=microseconds)
    except OverflowError:
        text: str = json.loads(json_values(pa.array([microseconds], pa.timestamp("us", "UTC")))[0].as_py())
        return text


_ESCAPED = '["\\\\\\x00-\\x1f\\x7f]'
_NULL = "null"
DEFAULT_TARGET = "default"
"""The target of a subscription whose meta names none."""


def carried_columns(names: list[str]) -> list[str]:
    """Return the columns of a table of events that were carried along."""
    return [name for name in names if name not in EVENT_COLUMNS]


def json_lines(events: pa.Table, settings: Settings) -> pa.Buffer:
    """Return events as JSON lines, in UTF-8.

    ``settings``: of the watch: what times are, and what coordinates are called.

    A line has id, subscription, version, kind, object, t, lon and lat (x and y in a plane), distance, batch, reason,
    meta as the JSON that was given, t_before, t_cross, near and its place where there are any, and the carried columns;
    what there is not is null. Cost O(events).
    """
    if not events.num_rows:
        return pa.py_buffer(b"")
    return join_lines(_lines(events, settings, "}\n"))


def line_column(events: pa.Table, settings: Settings) -> pa.Array:
    """Return events as JSON, a large string (n,) without ends of lines."""
    return _lines(events, settings, "}")


def _lines(events: pa.Table, settings: Settings, end: str) -> pa.Array:
    events = events.combine_chunks()
    columns = {name: _chunk(events, name) for name in events.column_names}
    x, y = position_names(settings.space.geographic)
    parts: list[Any] = ['{"id":"', _whole(columns["batch"]), "-", _whole(columns["number"]), '"']

    def add(name: str, values: pa.Array) -> None:
        parts.extend((f",{json.dumps(name, ensure_ascii=False)}:", values))

    add("subscription", _text(columns["subscription"]))
    add("version", _whole(columns["version"]))
    add("kind", _text(columns["kind"]))
    add("object", json_values(columns["object"]))
    add("t", _times(columns["t"], settings.time))
    add(x, _real(columns["x"]))
    add(y, _real(columns["y"]))
    add("distance", _real(columns["distance"]))
    add("batch", _whole(columns["batch"]))
    add("reason", _text(columns["reason"]))
    add("meta", _raw(columns["meta"]))
    for name in CROSS_COLUMNS:
        if name in columns:
            add(name, _times(columns[name], settings.time))
    if OTHER_COLUMN in columns:
        add(OTHER_COLUMN, json_values(columns[OTHER_COLUMN]))
    for axis, name in zip((x, y), OTHER_PLACE, strict=True):
        if name in columns:
            add(f"{OTHER_COLUMN}_{axis}", _real(columns[name]))
    for name in carried_columns(events.column_names):
        add(name, json_values(columns[name]))
    parts.append(end)
    large = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(
        *large, pa.scalar("", pa.large_string()), null_handling="replace", null_replacement=_NULL
    )


def _chunk(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _whole(values: pa.Array) -> pa.Array:
    return values.cast(pa.large_string())


def _real(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_finite(values), values, None).cast(pa.large_string())


def _text(values: pa.Array) -> pa.Array:
    """Return texts between quotation marks."""
    return _by_value(values, _quoted)


def _raw(values: pa.Array) -> pa.Array:
    """Return texts that are JSON, on one line."""

    def one_line(texts: pa.Array) -> pa.Array:
        # a line end in JSON is between values, never in one
        return pc.replace_substring_regex(texts.cast(pa.large_string()), "[\r\n]", " ")

    return _by_value(values, one_line)


def _by_value(values: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Change the values of a dictionary instead of those of all rows, where there is one."""
    if isinstance(values, pa.DictionaryArray):
        return change(values.dictionary).take(values.indices)
    return change(values)


def _quoted(texts: pa.Array) -> pa.Array:
    texts = texts.cast(pa.large_string())
    if pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        known = texts.dictionary_encode()
        made = [None if text is None else json.dumps(text, ensure_ascii=False) for text in known.dictionary.to_pylist()]
        return pa.array(made, pa.large_string()).take(known.indices)
    mark = pa.scalar('"', pa.large_string())
    return pc.binary_join_element_wise(mark, texts, mark, pa.scalar("", pa.large_string()))


def _times(values: pa.Array, time: str | None) -> pa.Array:
    """Return microseconds as ISO 8601, or as seconds, as the rows of the watch have their time."""
    if time == "double":
        # times after 2255 have more microseconds than a float64 has digits for
        return _real(pc.divide(values.cast(pa.float64(), safe=False), _SECOND))
    return _moments(values.cast(pa.timestamp("us")), "Z")


def _moments(values: pa.Array, zone: str) -> pa.Array:
    """Return times as ISO 8601, without fractions of a second where none has one."""
    texts = values.cast(pa.string()).cast(pa.large_string())
    texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    texts = pc.replace_substring_regex(texts, r"\.0+(Z?)$", r"\1")
    texts = pc.replace_substring_regex(texts, "Z$", "")
    quote = pa.scalar('"', pa.large_string())
    end = pa.scalar(f'{zone}"', pa.large_string())
    return pc.binary_join_element_wise(quote, texts, end, pa.scalar("", pa.large_string()))


def json_values(values: pa.Array) -> pa.Array:
    """Return values of whatever type as JSON, a large string (n,); what there is not is null."""
    kind = values.type.value_type if isinstance(values, pa.DictionaryArray) else values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text(values)
    if isinstance(values, pa.DictionaryArray):
        values = values.cast(kind)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _whole(values)
    if pa.types.is_floating(kind):
        return _real(values)
    if pa.types.is_timestamp(kind):
        return _moments(values.cast(pa.timestamp(kind.unit)), "Z" if kind.tz else "")
    if pa.types.is_date(kind):  # Python knows the years 1 to 9999 only
        return _text(values.cast(pa.date32()).cast(pa.string()))
    made = [None if value is None else _json(value) for value in values.to_pylist()]
    return pa.array(made, pa.large_string())


def _json(value: Any) -> str:
    try:
        return json.dumps(value, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=str)


def _finite(value: Any) -> Any:
    """Return a value without what is no number in JSON."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def join_lines(lines: pa.Array) -> pa.Buffer:
    """Return the text of all rows of a large string column, of which none is null, one behind the other."""
    _, offsets, data = lines.buffers()
    bounds = memoryview(offsets).cast("q")
    return data.slice(bounds[lines.offset], bounds[lines.offset + len(lines)] - bounds[lines.offset])


@dataclass(frozen=True)
class Lines:
    """Some events as lines of JSON, none perhaps, and where a reader stands behind them."""

    pieces: tuple[bytes, ...]  # The lines, in UTF-8, one piece after the other
    tables: tuple[pa.Table, ...]  # The same events, a table for each piece
    upto: Cursor  # All events that were asked for up to this cursor are in these lines or in those before

    @property
    def events(self) -> int:
        """How many there are."""
        return sum(table.num_rows for table in self.tables)

    @property
    def first(self) -> Cursor:
        """The cursor of the first event."""
        return _cursor(self.tables[0], 0)

    @property
    def last(self) -> Cursor:
        """The cursor of the last event."""
        return _last(self.tables[-1])

    @property
    def each(self) -> Iterator[tuple[Cursor, bytes]]:
        """The cursor and the line of each event."""
        for piece, table in zip(self.pieces, self.tables, strict=True):
            batches, numbers = table.column("batch").to_pylist(), table.column("number").to_pylist()
            for batch, number, line in zip(batches, numbers, piece.splitlines(keepends=True), strict=True):
                yield Cursor(batch, number), line


def line_parts(
    look: Iterator[EventPart],
    settings: Callable[[], Settings],
    most: int,
    share: tuple[int, int] = (1, 1),
    target: str | None = None,
) -> Iterator[Lines]:
    """Yield the events of a look as lines: as many as may be at a time, and what is left at its end.

    ``share`` and ``target``: whose events are told. Stretches without an event are told of too, for the reader to move
    on. Memory: the lines of ``most`` events, and a table of the look.
    """
    pieces: list[bytes] = []
    tables: list[pa.Table] = []
    count, upto = 0, None
    for part in look:
        events = None if part.events is None else events_of_share(events_of_target(part.events, target), share)
        begin, rows = 0, 0 if events is None else events.num_rows
        while events is not None and begin < rows:
            table = events.slice(begin, most - count)
            pieces.append(bytes(json_lines(table, settings())))
            tables.append(table)
            begin, count = begin + table.num_rows, count + table.num_rows
            if count == most:
                yield Lines(tuple(pieces), tuple(tables), part.upto if begin == rows else _last(table))
                pieces, tables, count = [], [], 0
        upto = part.upto
        if not count and not rows:
            yield Lines((), (), upto)
    if upto is not None:
        yield Lines(tuple(pieces), tuple(tables), upto)


def events_of_share(events: pa.Table, share: tuple[int, int]) -> pa.Table:
    """Return the events of those subscriptions that are a share's: by the CRC-32 of their ids, modulo the shares."""
    number, of = share
    if of == 1:
        return events
    ids = events.column("subscription").cast(pa.large_string())
    mine = [one for one in pc.unique(ids).to_pylist() if zlib.crc32(one.encode()) % of == number - 1]
    return events.filter(pc.is_in(ids, value_set=pa.array(mine, pa.large_string())))


def events_of_target(events: pa.Table, target: str | None) -> pa.Table:
    """Return the events of subscriptions whose meta has ``{"deliver": {"to": target}}``; all when it is None."""
    if target is None:
        return events
    metas = events.column("meta").cast(pa.large_string())
    mine = [one for one in pc.unique(metas).to_pylist() if _target_of(one) == target]
    return events.filter(pc.is_in(metas, value_set=pa.array(mine, pa.large_string())))


def _target_of(meta: str | None) -> Any:
    said = None if meta is None else json.loads(meta)
    named = said.get("deliver") if isinstance(said, dict) else None
    return named.get("to", DEFAULT_TARGET) if isinstance(named, dict) else DEFAULT_TARGET


def _last(table: pa.Table) -> Cursor:
    return _cursor(table, table.num_rows - 1)


def _cursor(table: pa.Table, row: int) -> Cursor:
    return Cursor(table.column("batch")[row].as_py(), table.column("number")[row].as_py())
