"""``dtoss subscribe`` and ``dtoss unsubscribe``: standing questions come and go."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from dtoss.option import Option
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json, Store
from pipelines.command.watch.watch_options import NO_NAME, WatchName
from pipelines.options.reading import MaxBad

if TYPE_CHECKING:
    from collections.abc import Sequence

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
