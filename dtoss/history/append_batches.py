"""Batches: what is appended by one commit, with keys by which it counts once, however often it is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.errors import InputError
from dtoss.history.change import Change, Entry, NewPeriod
from dtoss.history.data_file import NewFile
from dtoss.history.history_commit import commit, keys_known
from dtoss.history.row_blocks import BY_TIME
from dtoss.history.schema import Schema
from dtoss.history.versions import Home, Version

OF_FILE, OF_STREAM, OF_CALLER = "file", "stream", "given"
"""Kinds of keys: the SHA-256 of a file, a stream's query and batch, or one that the caller gives."""


@dataclass(frozen=True)
class Key:
    """What tells a batch from others."""

    key: str  # The text by which it is known
    kind: str = OF_CALLER  # "file", "stream" or "given"
    source: str = ""  # The path, or what the stream reads
    batch: int = -1  # The number of a stream's batch; else -1

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not self.key.strip():
            raise ValueError(f"batch is {self.key!r}: a text that tells this batch from all others is wanted")


@dataclass(frozen=True)
class AppendResult:
    """What an append did."""

    version: int | None  # Of the history now; None where there is none, because nothing was there to append
    rows: int
    repeated: int  # Keys that stood in the history already, and were skipped
    rejected: Mapping[str, int] = field(default_factory=dict)  # Rows that were set aside, by their reasons
    files: tuple[str, ...] = ()  # Paths of files that hold those rows
    forgotten: int = 0  # Rows that were dropped, as those of whom they are were forgotten


def unknown(version: Version | None, keys: Sequence[Key]) -> list[Key]:
    """Return the keys that do not stand in the history, each once. Cost O(entries of the ledger)."""
    known = set(keys_known(version, [key.key for key in keys]))
    fresh: dict[str, Key] = {}
    for key in keys:
        if key.key not in known:
            fresh.setdefault(key.key, key)
    return list(fresh.values())


def changed_sources(version: Version | None, keys: Sequence[Key]) -> list[str]:
    """Return the paths of files under which other bytes were appended before."""
    if version is None:
        return []
    sources = _said(version, OF_FILE).column("source")
    asked = pa.array([key.source for key in keys if key.kind == OF_FILE], sources.type)
    return sorted(set(sources.filter(pc.is_in(sources, asked)).to_pylist()))


def sources_below(version: Version | None, folder: str) -> list[str]:
    """Return the paths below a folder from which files were appended, sorted. Cost O(entries of the ledger)."""
    if version is None:
        return []
    sources = _said(version, OF_FILE).column("source")
    return sorted(set(sources.filter(pc.starts_with(sources, f"{folder.rstrip('/')}/")).to_pylist()))


def check_stream(version: Version | None, query: str, source: str) -> None:
    """Check that a stream is one whose batches are known, or the first one of its source.

    A query that begins anew, because its checkpoint was deleted, reads its source again: all of it would be doubled.
    """
    if version is None:
        return
    said = _said(version, OF_STREAM)
    keys = said.column("key").filter(pc.equal(said.column("source"), source))
    if len(keys) and not pc.any(pc.starts_with(keys, f"{query}:")).as_py():
        other = keys[0].as_py().rpartition(":")[0]
        raise InputError(
            f"the history has batches of another query ({other}) that led to {source}: was the checkpoint deleted? all "
            "would be appended twice; new_source=True says that this one reads another source"
        )


def _said(version: Version, kind: str) -> pa.Table:
    """Return the entries of the ledger of one kind."""
    ledger = version.ledger()
    return ledger.filter(pc.equal(ledger.column("kind"), kind))


def commit_batch(home: Home, schema: Schema, files: Sequence[NewFile], keys: Sequence[Key]) -> Version:
    """Commit the files of a batch as a period of its own, and return the version.

    ``home``: the history; made where it is not there; ``keys``: of the batch, at least one. Where there are several,
    the rows are those of all, and stand with the first.
    """
    rows = sum(file.rows for file in files)
    total = sum(file.sum for file in files)
    entries = [Entry(key.key, key.kind, key.source, key.batch, 0, 0) for key in keys]
    first = keys[0]
    entries[0] = Entry(first.key, first.kind, first.source, first.batch, rows, total)
    assert all(file.order == BY_TIME for file in files)
    change = Change(
        "append",
        tuple((file, -1) for file in files),
        periods=(NewPeriod(0),) if files else (),
        entries=tuple(entries),
        schema=schema,
        detail={"rows": rows, "batches": len(keys)},
    )
    return commit(home, change, home.head())
