"""``dtoss subscriptions``: what a watch is asked, and how many events each question had."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from dtoss.option import Option
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json, Limit, Store
from pipelines.command.watch.watch_options import NO_NAME, WatchName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from dtoss.watch.watch_folder import Home

_LISTED_AT_ONCE = 10_000
_LONGEST_CELL = 60
"""Characters of a text in a table."""


def subscriptions(
    store: Store,
    watch: WatchName = NO_NAME,
    ids: Annotated[list[str] | None, Option("Only this one; may be repeated.", name="--id")] = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """List the subscriptions of a watch by id, with counts of their events."""
    from dtoss.watch.subscriptions.current import change_number, table_at
    from dtoss.watch.subscriptions.known_columns import known_of
    from dtoss.watch.watch_folder import Home, check_there
    from pipelines.command.terminal.output import print_columns

    home = Home(store, watch)
    check_there(home)
    table = table_at(home, change_number(home))
    if ids:
        import pyarrow as pa
        import pyarrow.compute as pc

        table = table.filter(pc.is_in(table.column("id"), pa.array(ids, pa.string())))
    table = table if limit is None else table.slice(0, limit)
    counts = _counts(home)
    unanswered = _unanswered(home)
    if as_json:
        for row in _rows(table):
            row = {name: value for name, value in row.items() if value is not None}
            why = {"unanswered": unanswered[row["id"]]} if row["id"] in unanswered else {}
            print(json.dumps(row | why if counts is None else row | why | {"counts": counts.get(row["id"], {})}))
        return
    geographic = known_of(home).space.metric == "sphere"
    names = ["id", "where it is", "where", "words", "events", "expires", "version"]
    lines = [_cells(row, geographic) for row in _rows(table)]
    if counts is not None:
        names.append("had")
        lines = [[*line, _had(counts.get(name, {}))] for line, name in zip(lines, table["id"].to_pylist(), strict=True)]
    print_columns(names, lines)
    for name in table["id"].to_pylist():
        if name in unanswered:
            note(f"{_short(name)} tells nothing: {unanswered[name]}")


def _counts(home: Home) -> Mapping[str, Mapping[str, int]] | None:
    """Return how many events of each kind each subscription had; None before the first batch."""
    if not home.folder.there() or home.batches.head() is None:
        return None
    from dtoss.watch.events.event_counts import event_counts

    return event_counts(home)


def _unanswered(home: Home) -> dict[str, str]:
    """Return why the rows of the last batch could not be held against some subscriptions, by id."""
    head = home.batches.head() if home.folder.there() else None
    return {} if head is None else {one["id"]: one["reason"] for one in head.document.get("unanswered", ())}


def _had(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()) if count) or "none"


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield subscriptions as people write them."""
    from dtoss.watch.subscriptions.subscription_text import write_rows

    for first in range(0, len(table), _LISTED_AT_ONCE):
        yield from write_rows(table.slice(first, _LISTED_AT_ONCE))


def _cells(row: dict[str, Any], geographic: bool) -> list[str]:
    from dtoss.watch.subscriptions.subscription_text import place_in_words

    cells = [row["id"], place_in_words(row, geographic), row.get("where") or "", row.get("words") or ""]
    cells += [" ".join(row["events"]), row.get("expires") or "", str(row["version"])]
    return [_short(" ".join(cell.split())) for cell in cells]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"
