"""``dtoss subscribe``, ``unsubscribe`` and ``subscriptions``: standing questions come, go and are listed."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from dtoss.option import Option
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json, Limit, Store
from pipelines.command.watch.watch_command import NO_NAME, WatchName
from pipelines.options.snapshot_options import MaxBad

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from dtoss.watch.subscriptions.changes import Change
    from dtoss.watch.subscriptions.validation import Bad
    from dtoss.watch.watch_folder import Home


NAMED_BAD = 20
"""Bad rows that are printed; of more the count is said."""
LOOK_SECONDS = 0.2
"""How often a wait looks for a batch."""
Wait = Annotated[bool, Option("Return when a committed batch has used the change.", name="--wait")]


@dataclass(frozen=True)
class Places:
    """Where subscriptions are."""

    title: ClassVar[str] = "Places"
    crs: Annotated[str | None, Option("CRS of the places; that of the watch or the store, else EPSG:4326.")] = None
    metric: Annotated[str | None, Option("sphere compares a projected CRS on the sphere.")] = None


def subscribe(
    store: Store,
    places: Places,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="JSON lines, GeoJSON features or Parquet: id, circle, box, polygon or around, and more."),
    ] = None,
    watch: WatchName = NO_NAME,
    replace: Annotated[bool, Option("Those that the files do not hold are removed.")] = False,
    max_bad: MaxBad = 0.0,
    allow_everything: Annotated[bool, Option("Words may be all negated where no place is named.")] = False,
    upgrade: Annotated[
        bool,
        Option(
            "No files: polygons of before have their borders decided as those of today, without an event.",
            name="--upgrade",
        ),
    ] = False,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Add subscriptions of files to a watch; one bad row, and nothing changes."""
    from dtoss.errors import InputError
    from dtoss.watch.subscriptions.changes import subscribe as add
    from dtoss.watch.subscriptions.changes import upgrade as upgraded
    from dtoss.watch.subscriptions.known_columns import known_of
    from dtoss.watch.subscriptions.subscription_files import read_files
    from dtoss.watch.watch_folder import Home, check_there

    if upgrade == bool(files):
        raise InputError("one of FILES of subscriptions and --upgrade is wanted, which takes no files")
    home = Home(store, watch)
    if files is None or upgrade:
        check_there(home)
        done = upgraded(home)
        if wait:
            _wait(home, done.number)
        _say(done, 0, as_json)
        return
    known = known_of(home, crs=places.crs, metric=places.metric, allow_everything=allow_everything)
    read = read_files(
        files, known.space, known.schema, text=known.text, time=known.time, allow_everything=allow_everything
    )
    _judge(read.bad, read.rows, max_bad)
    done = add(home, read.table, replace=replace, space=known.space)
    if wait:
        _wait(home, done.number)
    _say(done, len(read.bad), as_json)


def unsubscribe(
    store: Store,
    ids: Annotated[list[str] | None, typer.Argument(help="Of subscriptions.", show_default=False)] = None,
    file: Annotated[str | None, Option("Ids, one on each line; - is standard input.", "FILE")] = None,
    watch: WatchName = NO_NAME,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Remove subscriptions from a watch; ids that it does not have are named."""
    from dtoss.errors import InputError
    from dtoss.watch.subscriptions.changes import unsubscribe as remove
    from dtoss.watch.watch_folder import Home, check_there

    named = [*(ids or ()), *(() if file is None else _ids_in(file))]
    if not named:
        raise InputError("no ids are given: name at least one, or give --file FILE with one on each line")
    home = Home(store, watch)
    check_there(home)
    done = remove(home, named)
    if missing := len(set(named)) - done.removed:
        note(f"{missing:,} of the ids have no subscription")
    if wait:
        _wait(home, done.number)
    _say(done, 0, as_json)


def _ids_in(path: str) -> list[str]:
    from pathlib import Path

    from dtoss.errors import InputError

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    # an id may hold what else Python splits lines at
    return [line for one in text.split("\n") if (line := one.strip(" \t\r"))]


def _judge(bad: Sequence[Bad], rows: int, max_bad: float) -> None:
    """Tell of bad rows, and refuse the files where they are too many."""
    from dtoss.errors import InputError

    for one in bad[:NAMED_BAD]:
        print(f"bad: {one}", file=sys.stderr)
    if len(bad) > NAMED_BAD:
        print(f"bad: {len(bad) - NAMED_BAD:,} more", file=sys.stderr)
    if len(bad) > max_bad * rows:
        raise InputError(
            f"{len(bad):,} of {rows:,} subscriptions are bad, more than --max-bad {100 * max_bad:g}% allows; nothing "
            "has changed"
        )


def _wait(home: Home, number: int) -> None:
    """Return when a batch has been committed that has used a change."""
    told = False
    while True:
        head = home.batches.head() if home.folder.there() else None
        if head is not None and int(head.document.get("changes", 0)) >= number:
            return
        if not told:
            note(
                f"waiting for a batch of watch {home.name} that uses change {number}, which is made: dtoss watch has "
                "to run"
            )
            told = True
        time.sleep(LOOK_SECONDS)


def _say(done: Change, bad: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(done) | {"bad": bad}))
        return
    counts = {"added": done.added, "changed": done.changed, "removed": done.removed, "as before": done.same, "bad": bad}
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing to do"
    print(f"change {done.number}: {said}")


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
    unanswered = _reasons(home)
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


def _reasons(home: Home) -> dict[str, str]:
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
