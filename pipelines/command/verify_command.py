"""The command that looks at everything in a store."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.command.terminal.options import Json, Snapshot, Store
from pipelines.command.terminal.output import print_table

if TYPE_CHECKING:
    from dtoss.commits.verify_report import VerifyReport

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
        from dtoss.windows.processing.verify_windows import verify_windows
        from dtoss.windows.storage.window_folder import Home as WindowsHome

        _tell_chain(verify_windows(WindowsHome(store, windows)), as_json)
    elif watch is not None:
        from dtoss.watch.events.verify_watch import verify_watch
        from dtoss.watch.watch_folder import Home as WatchHome

        _tell_chain(verify_watch(WatchHome(store, watch)), as_json)
    elif patterns is not None:
        from pipelines.load_patterns.patterns_folder import Home as PatternsHome
        from pipelines.load_patterns.verify_patterns import verify_live

        _tell_chain(verify_live(PatternsHome(store, patterns)), as_json)
    else:
        _verify_snapshots(store, snapshot, as_json)


def _verify_snapshots(store: str, snapshot: str | None, as_json: bool) -> None:
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.verify_store import verify_store

    found = verify_store(StorePlace(store), snapshot)
    rows = [
        ("snapshots", ", ".join(found.snapshots)),
        ("commits", f"{found.commits:,}"),
        ("files", f"{found.files:,} of {found.bytes:,} bytes"),
        ("objects", f"{found.objects:,}"),
    ]
    _tell(found, rows, as_json)


def _tell_chain(found: VerifyReport, as_json: bool) -> None:
    rows = [
        ("commits", f"{found.commits:,}"),
        ("files", f"{found.files:,} of {found.bytes:,} bytes"),
        *((name, f"{count:,}") for name, count in found.held.items()),
    ]
    _tell(found, rows, as_json)


def _tell(found: Any, rows: list[tuple[str, str]], as_json: bool) -> None:
    """Print what was looked at, and end with 2 where anything is damaged, with 1 where something could not be read."""
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        for line in [*found.damaged, *found.unread]:
            print(line, file=sys.stderr)
        nothing = "nothing of what could be read" if found.unread else "nothing"
        rows = [*rows, ("damaged", _count_text(found.damaged) or nothing)]
        print_table([*rows, ("could not be read", _count_text(found.unread))] if found.unread else rows)
    if found.damaged or found.unread:
        raise typer.Exit(2 if found.damaged else 1)


def _count_text(lines: list[str]) -> str:
    return f"{len(lines):,} things, named on stderr" if lines else ""
