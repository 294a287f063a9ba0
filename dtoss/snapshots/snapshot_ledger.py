"""What a snapshot has read of files and streams: in its manifest, and of many files in files that it has links to."""

from __future__ import annotations

from functools import partial
from typing import Any

from dtoss.commits.ledger_runs import Run, decode_run, decode_whole, encode_run, fold_ledger, open_ledger
from dtoss.commits.offsets import Ledger
from dtoss.snapshots.lineage import runs_of
from dtoss.snapshots.manifest import write_file
from dtoss.snapshots.store import Store


def ledger_of(store: Store, manifest: dict[str, Any] | None) -> Ledger:
    """Return what was read of the sources of a snapshot; nothing where there is none. Cost O(files)."""
    if manifest is None:
        return Ledger()
    return open_ledger(manifest.get("ledger"), lambda run: _read_run(store, manifest["snapshot"], run))


def write_ledger(store: Store, snapshot: str, ledger: Ledger, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the manifest of a new snapshot says of a ledger; ``before``: the one that its runs are taken from."""

    def write(files: Ledger) -> Run:
        return {"rows": len(files.files), **write_file(store, snapshot, "ledger", encode_run(files), "json.zst").fields}

    if before is None:
        loose, runs = fold_ledger(ledger, (), decode_run, write)
    else:
        old = runs_of(before)
        loose, runs = fold_ledger(ledger, old, partial(_read_run, store, before["snapshot"]), write)
        link_runs(store, snapshot, before["snapshot"], [run for run in old if run in runs])
    return loose.as_json() | ({"runs": runs} if runs else {})


def link_runs(store: Store, snapshot: str, of: str, runs: list[Run]) -> None:
    """Give a snapshot runs of another one."""
    for run in runs:
        store.link(snapshot, run["file"], of)


def _read_run(store: Store, snapshot: str, run: Run) -> Ledger:
    from dtoss.snapshots.read_file import check_sum

    source = store.source(snapshot, run["file"], run["bytes"])
    check_sum(source, run)
    return decode_whole(source.data, source.path, "roll back or rebuild")
