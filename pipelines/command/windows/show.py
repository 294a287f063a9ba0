"""``dtoss windows show``: one window of all keys, one key over its windows, or flows between keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dtoss.option import Option
from pipelines.command.terminal import options
from pipelines.command.terminal.notes import note
from pipelines.command.windows.run_windows import Name

if TYPE_CHECKING:
    import pyarrow as pa

    from dtoss.windows.query.window_query import Windows

_HIDDEN = ("end", "revision", "final")
"""Columns that are the same in all rows of one window, or said beside them."""
_NUMBERS = ("key", "from", "to")
_KEYS = (*_NUMBERS, "name", "from_name", "to_name")


@dataclass(frozen=True)
class View:
    """What of windows is shown."""

    title: ClassVar[str] = "What is shown"
    at: Annotated[
        str,
        Option("Where it ends: a time such as 2026-01-31T12:00, or now.", "TIME"),
    ] = "now"
    window: Annotated[
        str | None,
        Option("Its length: of the windows, or, now, any up to the longest; the first if not given."),
    ] = None
    key: Annotated[str | None, Option("Only this key: its number, or what the place is called.", "KEY")] = None
    top: Annotated[int, Option("Rows, those of most first; 0 for all, by key.", "N", more={"min": 0})] = 20
    flow: Annotated[bool, Option("Moves between keys instead.")] = False
    wide: Annotated[bool, Option("All declared lengths side by side.")] = False
    changed: Annotated[bool, Option("Only keys with other values than at the end before, or --since.")] = False
    since: Annotated[
        str | None,
        Option("With --changed: an end of before, or the number of a batch.", "TIME|N"),
    ] = None


def show(
    store: options.Store,
    name: Name,
    view: View,
    as_json: options.Json = False,
) -> None:
    """Print what happened in each place in the time up to now, or up to an end of before."""
    from dtoss.windows.durations import time_text
    from dtoss.windows.query.window_query import open_windows

    _check(view.flow, view.wide, view.changed, view.window, view.since)
    end = None if view.at.strip() == "now" else view.at
    found = open_windows(store, name).of_end(end)
    length = found.spec.names[0] if view.window is None else view.window
    if view.flow:
        table = found.flow(end, length)
    elif view.changed:
        table = found.changed(end, None if view.wide else length, **_compared(view.since))
    else:
        table = found.wide(end) if view.wide else found.at(end, length)
    if view.key is not None:
        table = _of_key(found, table, view.key)
    table = _first(table, view.top, "moves" if view.flow else _leading(table))
    if as_json:
        for row in table.to_pylist():
            print(json.dumps({"end": time_text(row.pop("end")), **row} if "end" in row else row, ensure_ascii=False))
        return
    _print(found, table, ", ".join(found.spec.names) if view.wide else length, view.flow)


def _check(flow: bool, wide: bool, changed: bool, window: str | None, since: str | None) -> None:
    """Refuse what does not go together."""
    from dtoss.errors import InputError

    if flow and (wide or changed):
        raise InputError(
            f"--flow and --{'wide' if wide else 'changed'} are given: moves have one length; leave one out"
        )
    if wide and window is not None:
        raise InputError(f"--wide and --window {window} are given: wide rows have all lengths; leave one out")
    if since is not None and not changed:
        raise InputError(f"--since {since} is given without --changed, which says what is compared with it")


def _compared(since: str | None) -> dict[str, Any]:
    """Return what is compared with: whole numbers are batches, anything else is a time."""
    if since is None:
        return {}
    text = since.strip()
    return {"commit": int(text)} if text.isascii() and text.isdigit() and len(text) < _SECONDS else {"since": since}


_SECONDS = 9
"""Digits of seconds since 1970, since 1973: a batch has less."""


def _of_key(found: Windows, table: pa.Table, key: str) -> pa.Table:
    import pyarrow.compute as pc

    from dtoss.windows.patches import NO_KEY

    if "from" in table.column_names:
        number = NO_KEY if key.strip() == str(NO_KEY) else found.names.key_of(key)
        return table.filter(pc.or_(pc.equal(table["from"], number), pc.equal(table["to"], number)))
    return table.filter(pc.equal(table["key"], found.names.key_of(key)))


def _leading(table: pa.Table) -> str | None:
    """Return the first measure, by which rows are in order."""
    return next((name for name in table.column_names if name not in (*_KEYS, *_HIDDEN)), None)


def _first(table: pa.Table, top: int, by: str | None) -> pa.Table:
    if top == 0 or by is None:
        return table
    labels = [(name, "ascending") for name in ("key", "from", "to") if name in table.column_names]
    return table.sort_by([(by, "descending"), *labels]).slice(0, top)


def _print(found: Windows, table: pa.Table, length: str, flow: bool) -> None:
    from dtoss.windows.durations import time_text
    from dtoss.windows.migration.migration_text import under_way
    from dtoss.windows.storage.group_placement import in_words
    from pipelines.command.terminal.output import print_columns

    hexadecimal = found.spec.by.startswith("h3:")
    names = [name for name in table.column_names if name not in _HIDDEN and not (hexadecimal and name in _NUMBERS)]
    print_columns(names, [[_cell(name, row[name]) for name in names] for row in table.to_pylist()])
    mark = found.watermark
    ends = {} if flow or not len(table) else {table["end"][0].as_py()}
    which = f"{length} up to {time_text(next(iter(ends)))}" if ends else length
    note(f"{which}; due up to {'nothing yet' if mark is None else time_text(mark)}")
    if (change := under_way(found.sets)) is not None:
        note(change)
    if (workers := in_words(found.head.commit.document)) is not None:
        note(workers)
    quarantined = found.counts.get("quarantined", 0)
    if quarantined:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
        note(f"{quarantined:,} of {found.counts['rows']:,} rows were set aside: {reasons}")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value) if name in _KEYS else f"{value:,}"
