"""What a snapshot has read of files and streams: in its manifest, and of many files in files that it has links to."""

from __future__ import annotations

from functools import partial
from typing import Any

from dtoss.commits.ledger_runs import Run, decode_run, encode_run, fold_ledger, whole_ledger
from dtoss.commits.offsets import Ledger
from dtoss.errors import StoreError
from dtoss.snapshots.lineage import runs_of
from dtoss.snapshots.manifest import write_file
from dtoss.snapshots.store import Store


def ledger_of(store: Store, manifest: dict[str, Any] | None) -> Ledger:
    """Return what was read of the sources of a snapshot; nothing where there is none. Cost O(files)."""
    loose = dict((manifest or {}).get("ledger") or {"files": {}, "batches": {}})
    loose.pop("runs", None)
    found = Ledger.of(loose)
    if manifest is None or not (runs := runs_of(manifest)):
        return found
    return whole_ledger(found, map(partial(_read_run, store, manifest["snapshot"]), runs))


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
    try:
        return decode_run(source.data)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{source.path} is no run of a ledger ({error}); roll back or rebuild") from None
