"""What a store knows of its sources: its current manifest, and what was read of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dtoss.commits.offsets import Ledger, Source
from dtoss.log.segment_names import sealed_segments
from dtoss.snapshots.store import Store


def current_manifest(home: Store) -> dict[str, Any] | None:
    """Return the manifest of a store's current snapshot; None where there is no snapshot yet."""
    # one of an earlier version has no commit
    there = home.head() is not None or home.folder.is_file("CURRENT") or home.snapshots()
    return home.manifest() if there else None


def read_on(source: Source, ledger: Ledger) -> Ledger:
    """Return a ledger once the rows of a source are read; of a log the newest segment stays known though it has gone.

    So whoever reads the log sees that what is missing behind that was not read.
    """
    after = source.read(ledger)
    known = {**ledger.files, **after.files}
    newest = {one.log: one.path for one in sealed_segments(known)}
    return replace(after, files={**after.files, **{path: known[path] for path in newest.values()}})
