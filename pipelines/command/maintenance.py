"""What keeps a store in order: clearing it, and its log of commits; the standard library is enough on local disks."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from pipelines.command.terminal.options import Json, Keep, KeepFor, Lease, Store, seconds_or_none


def gc(store: Store, keep: Keep = 3, keep_for: KeepFor = "10min", lease: Lease = "on", as_json: Json = False) -> None:
    """Remove old snapshots, and what unfinished work of rebuilds, windows and live patterns left; fold old commits."""
    from dtoss.snapshots.store import Store as StorePlace

    if keep < 1:
        raise ValueError(f"keep is {keep!r}: a whole number of at least 1 is wanted")
    seconds = seconds_or_none(keep_for)
    place = StorePlace(store)
    if not place.folder.there():
        place.current()  # which says so: no store is made where there is none
    removed = place.clear(keep, keep_for=seconds or 0.0, lease=lease == "on")
    windows, patterns = _clear_windows(store), _clear_patterns(store)
    if as_json:
        of_others = {name: gone for name, gone in (("windows", windows), ("patterns", patterns)) if gone}
        print(json.dumps({"removed": removed, "snapshots": place.snapshots(), **of_others}))
        return
    for name in removed:
        print(f"{name} is removed")
    for what, gone in (("windows", windows), ("live patterns", patterns)):
        for name, files in gone.items():
            if files:
                print(f"{files:,} files of {what} {name} are removed")
    print(f"{len(place.snapshots()):,} snapshots stay")


def _clear_windows(store: str) -> dict[str, int]:
    """Remove what nothing needs of all windows of a store, and return how many files of each went."""
    from dtoss.windows.storage.window_folder import Home, windows_of

    names = windows_of(store)
    if not names:
        return {}
    from dtoss.windows.migration.clear_sets import clear_sets

    return {name: clear_sets(Home(store, name)) for name in names}


def _clear_patterns(store: str) -> dict[str, int]:
    """Remove what nothing names of all live patterns of a store, and return how many files of each went."""
    from dtoss.commits.named import names_in, path_in
    from dtoss.snapshots.store_location import folder_of

    names = names_in(folder_of(path_in(store, "patterns")))
    if not names:
        return {}
    from pipelines.load_patterns.pattern_orphans import clear_debris
    from pipelines.load_patterns.patterns_folder import Home

    return {name: clear_debris(Home(store, name)) for name in names}


def log(
    store: Store,
    count: Annotated[int, typer.Option("-n", help="How many of the last commits.", min=1)] = 20,
    as_json: Json = False,
) -> None:
    """Say which commits a store had: when, by whom, what became current."""
    from itertools import islice

    from dtoss.snapshots.lineage import said_by
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.store import on_stderr

    place = StorePlace(store)
    commits = [said_by(commit) for commit in islice(place.chain.newest_first(on_stderr), count)]
    if not commits:
        place.current()
    if as_json:
        print(json.dumps(commits))
        return
    from pipelines.command.terminal.output import print_columns

    print_columns(_COLUMNS, [[_text(commit[name]) for name in _COLUMNS] for commit in commits])


_COLUMNS = ("number", "time", "kind", "snapshot", "objects", "updated", "seconds", "writer")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)
