"""The command that looks at everything in a store."""

from __future__ import annotations

import json
import sys

import typer

from pipelines.command.options import Json, Snapshot, Store
from pipelines.command.output import print_table


def verify(store: Store, snapshot: Snapshot = None, as_json: Json = False) -> None:
    """Compare all checksums through the chain of commits, and what files hold; name each file that is damaged."""
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
