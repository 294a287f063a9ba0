"""The command that looks at everything in a store."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from pipelines.command.options import Json, Snapshot, Store
from pipelines.command.output import print_table

Watch = Annotated[
    str | None,
    typer.Option(
        "--watch", help="Look at a watch instead of the snapshots; default if none is named.", metavar="[NAME]"
    ),
]
Windows = Annotated[
    str | None, typer.Option("--windows", help="Look at windows instead of the snapshots.", metavar="NAME")
]
Patterns = Annotated[
    str | None, typer.Option("--patterns", help="Look at live patterns instead of the snapshots.", metavar="NAME")
]


def verify(
    store: Store,
    snapshot: Snapshot = None,
    watch: Watch = None,
    windows: Windows = None,
    patterns: Patterns = None,
    as_json: Json = False,
) -> None:
    """Compare all checksums through the chain of commits, and what files hold; name each file that is damaged."""
    kinds = {"snapshot": snapshot, "watch": watch, "windows": windows, "patterns": patterns}
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"--{given[0]} and --{given[1]} are both given: one of them is wanted")
    if windows is not None:
        _verify_windows(store, windows, as_json)
        return
    if watch is not None:
        _verify_watch(store, watch, as_json)
        return
    if patterns is not None:
        _verify_patterns(store, patterns, as_json)
        return
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.verify import verify_store

    found = verify_store(StorePlace(store), snapshot)
    rows = [
        ("snapshots", ", ".join(found.snapshots)),
        ("commits", f"{found.commits:,}"),
        ("files", f"{found.files:,} of {found.bytes:,} bytes"),
        ("objects", f"{found.objects:,}"),
    ]
    _tell(found, rows, as_json)


def _verify_watch(store: str, name: str, as_json: bool) -> None:
    from dtoss.watch.home import Home
    from dtoss.watch.told.verify import verify_watch

    found = verify_watch(Home(store, name))
    rows = [
        ("commits", f"{found.commits:,} of batches, {found.changes:,} of subscriptions"),
        ("files", f"{found.files:,} of {found.bytes:,} bytes"),
        ("events", f"{found.events:,}"),
    ]
    _tell(found, rows, as_json)


def _verify_windows(store: str, name: str, as_json: bool) -> None:
    from dtoss.windows.stored.home import Home
    from dtoss.windows.stored.verify import verify_windows

    found = verify_windows(Home(store, name))
    rows = [
        ("commits", f"{found.commits:,}"),
        ("files", f"{found.files:,} of {found.bytes:,} bytes"),
        ("results", f"{found.results:,}"),
    ]
    _tell(found, rows, as_json)


def _verify_patterns(store: str, name: str, as_json: bool) -> None:
    from pipelines.requests.home import Home
    from pipelines.requests.verify import verify_live

    found = verify_live(Home(store, name))
    rows = [
        ("commits", f"{found.commits:,}"),
        ("files", f"{found.files:,} of {found.bytes:,} bytes"),
        ("rows", f"{found.rows:,}"),
    ]
    _tell(found, rows, as_json)


def _tell(found: Any, rows: list[tuple[str, str]], as_json: bool) -> None:
    """Print what was looked at, and end with 2 where anything is damaged."""
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        for line in found.damaged:
            print(line, file=sys.stderr)
        damaged = f"{len(found.damaged):,} things, named on stderr" if found.damaged else "nothing"
        print_table([*rows, ("damaged", damaged)])
    if found.damaged:
        raise typer.Exit(2)
