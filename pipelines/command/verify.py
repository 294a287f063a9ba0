"""The command that looks at everything in a store."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from pipelines.command.options import Json, Snapshot, Store
from pipelines.command.output import print_table

Watch = Annotated[
    str | None,
    typer.Option(
        "--watch", help="Look at a watch instead of the snapshots; default if none is named.", metavar="[NAME]"
    ),
]


def verify(store: Store, snapshot: Snapshot = None, watch: Watch = None, as_json: Json = False) -> None:
    """Compare all checksums through the chain of commits, and what files hold; name each file that is damaged."""
    if watch is not None:
        if snapshot is not None:
            raise ValueError("--snapshot and --watch are both given: one of them is wanted")
        _verify_watch(store, watch, as_json)
        return
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.verify import verify_store

    found = verify_store(StorePlace(store), snapshot)
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        for line in found.damaged:
            print(line, file=sys.stderr)
        rows = [
            ("snapshots", ", ".join(found.snapshots)),
            ("commits", f"{found.commits:,}"),
            ("files", f"{found.files:,} of {found.bytes:,} bytes"),
            ("objects", f"{found.objects:,}"),
            ("damaged", f"{len(found.damaged):,} things, named on stderr" if found.damaged else "nothing"),
        ]
        print_table(rows)
    if found.damaged:
        raise typer.Exit(2)


def _verify_watch(store: str, name: str, as_json: bool) -> None:
    from dtoss.watch.home import Home
    from dtoss.watch.told.verify import verify_watch

    found = verify_watch(Home(store, name))
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        for line in found.damaged:
            print(line, file=sys.stderr)
        rows = [
            ("commits", f"{found.commits:,} of batches, {found.changes:,} of subscriptions"),
            ("files", f"{found.files:,} of {found.bytes:,} bytes"),
            ("events", f"{found.events:,}"),
            ("damaged", f"{len(found.damaged):,} things, named on stderr" if found.damaged else "nothing"),
        ]
        print_table(rows)
    if found.damaged:
        raise typer.Exit(2)
