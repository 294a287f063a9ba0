"""What a manifest says of its parent and its files, read without the schema: also where it is damaged or old."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import Any

from dtoss.commits.chain import Chain, Commit
from dtoss.commits.folder import Folder
from dtoss.commits.ledger_runs import runs_in
from dtoss.errors import StoreError, reading
from dtoss.snapshots.retention import snapshot_of

LOOKED_THROUGH = 1000
"""Of so many of the last commits the hash of a snapshot's manifest is looked for."""


def line_of(folder: Folder, name: str, finished: Sequence[str]) -> Iterator[str]:
    """Yield a snapshot, its parent, the parent's parent, and so on while they are finished."""
    seen = set()
    following: str | None = name
    while following is not None and following not in seen:
        yield following
        seen.add(following)
        following = _parent(folder, following, finished)


def _parent(folder: Folder, name: str, finished: Sequence[str]) -> str | None:
    manifest: Any = None
    try:
        with reading(folder.path("snapshots", name, "manifest.json")), suppress(IsADirectoryError):
            manifest = json.loads(folder.read("snapshots", name, "manifest.json") or b"")
        parent = manifest["parent"]
    except (ValueError, KeyError, TypeError, RecursionError):
        # damaged, or made before manifests named it
        return max((other for other in finished if other < name), default=None)
    return parent if parent in finished else None


def entries_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of all files of a snapshot, with ``file``, ``bytes`` and ``sha256``."""
    found = [*manifest["partitions"], manifest["borders"], *manifest.get("quarantine", ()), *runs_of(manifest)]
    return [*found, manifest["tombstones"]] if manifest.get("tombstones") else found


def runs_of(manifest: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the entries of the runs of a snapshot's ledger; none where there is no snapshot."""
    return runs_in((manifest or {}).get("ledger"))


def files_of(manifest: dict[str, Any]) -> dict[str, int]:
    """Return the files of a snapshot and their bytes."""
    return {entry["file"]: entry["bytes"] for entry in entries_of(manifest)}


def check_committed(chain: Chain, snapshot: str, data: bytes, path: str) -> None:
    """Check that a manifest has the hash that was committed, if one of the last commits names it."""
    with reading(f"the commits of {path}"):
        named = (commit for commit in islice(chain.newest_first(), LOOKED_THROUGH) if snapshot_of(commit) == snapshot)
        commit = next(named, None)
    if commit is not None and commit.document.get("sha256") != sha256(data).hexdigest():
        raise StoreError(f"{path} is damaged: it does not have the checksum of its commit; roll back or rebuild")


def facts_of(data: bytes, *, rolled: bool) -> dict[str, Any]:
    """Return what a commit says of its snapshot, for people: as far as the manifest can be read."""
    try:
        manifest = json.loads(data)
        seconds = round(sum(manifest["timings"].values()), 3)
        cycle = manifest.get("cycle")
        objects = manifest["objects"]
        erased = manifest["counts"].get("erased")
        updated = erased if erased is not None else objects if cycle is None else cycle["updated"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {"kind": "rollback" if rolled else "rebuild", "objects": None, "updated": None, "seconds": None}
    if rolled:
        return {"kind": "rollback", "objects": objects, "updated": None, "seconds": None}
    kind = "forget" if erased is not None else "rebuild" if cycle is None else "cycle"
    return {"kind": kind, "objects": objects, "updated": updated, "seconds": seconds}


def said_by(commit: Commit) -> dict[str, Any]:
    """Return a commit's number, time and writer, and what it says of its snapshot: None where it says nothing."""
    facts = {"number": commit.number, "time": commit.time, "writer": commit.writer}
    said = commit.document
    return facts | {name: said.get(name) for name in ("kind", "snapshot", "objects", "updated", "seconds")}
