"""Where live patterns are: the folder ``STORE/patterns/NAME``, and what a commit of them says.

::

    STORE/patterns/NAME/
      CURRENT, commits/        the chain of commits: which files of the log count, and which files hold their sums
      LEASE                    who adds
      names/<hash>.parquet     names and bytes of the log's files that are in
      rows/<hash>.parquet      their rows: places, so that they can be counted by other pivots
      panes/<hash>.parquet     sums by day, slot and partition
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from ceps.model.servers import RequestCosts
from dtoss.commits.chain import Chain, Commit, check_document, check_name, path_in
from dtoss.commits.columnar_files import encode_parquet, read_parquet
from dtoss.commits.file_entry import FileEntry, whole, write_entry
from dtoss.commits.folder import Folder
from dtoss.commits.lease import LEASE_SECONDS
from dtoss.commits.table import Join, compact
from dtoss.errors import InputError, StoreError
from dtoss.snapshots.store_location import folder_of
from pipelines.rows.access_rows import Asks

PATTERNS = "patterns"
"""The folder of a store that holds its live patterns."""
NAMES, ROWS, PANED = "names", "rows", "panes"
ROOMS = (NAMES, ROWS, PANED)
"""Folders of files that commits list."""
NAMES_SCHEMA = pa.schema([("name", pa.string()), ("bytes", pa.int64())])
KIND, FORMAT = "patterns", 1
MOST_ROWS = 1_000_000
"""Rows of a file of places; what is larger is not written anew with others."""


@dataclass(frozen=True)
class Spec:
    """How requests are counted: what cannot be changed without counting them anew."""

    slot_seconds: int
    time_zone: str
    costs: RequestCosts | None

    @classmethod
    def of(cls, asks: Asks) -> Spec:
        """Return that of what was asked for."""
        return cls(asks.slot_seconds, asks.time_zone, asks.costs)

    def as_json(self) -> dict[str, Any]:
        """Return what a commit says of it."""
        costs = None
        if self.costs is not None:
            curves = {"by_k": self.costs.by_k, "by_radius": self.costs.by_radius}
            costs = {name: [list(at) for at in curve] for name, curve in curves.items()}
        return {"slot_seconds": self.slot_seconds, "time_zone": self.time_zone, "costs": costs}

    @classmethod
    def read(cls, said: Any) -> Spec:
        """Return what a commit says."""
        costs = said["costs"]
        if costs is not None:
            costs = RequestCosts(*(tuple((k, w) for k, w in costs[name]) for name in ("by_k", "by_radius")))
        return cls(whole(said["slot_seconds"], "slot_seconds", 1), str(said["time_zone"]), costs)

    def difference(self, other: Spec) -> str:
        """Return in what another one differs, and both values; "" where it does not."""
        parts = []
        if self.slot_seconds != other.slot_seconds:
            parts.append(f"slots of {self.slot_seconds / 60:g} and not {other.slot_seconds / 60:g} minutes")
        if self.time_zone != other.time_zone:
            parts.append(f"days of {self.time_zone} and not {other.time_zone}")
        if self.costs != other.costs:
            words = ["no costs" if one.costs is None else "costs" for one in (self, other)]
            parts.append("other costs" if words[0] == words[1] else f"{words[0]} and not {words[1]}")
        return ", ".join(parts)


@dataclass(frozen=True)
class State:
    """What a commit of live patterns says."""

    spec: Spec  # How requests are counted
    pivots: str  # Of the snapshots by which they were counted
    crs: str  # Of the snapshots by which they were counted
    metric: str  # Of the snapshots by which they were counted
    snapshot: str  # The last of these
    earlier: int = 0  # Rows that were counted by earlier ones, of the same pivots
    files: int = 0  # files, read, rows: files of the log, their rows, and how many of these are good
    read: int = 0
    rows: int = 0
    bad: Mapping[str, int] = field(default_factory=dict)  # How many were set aside, by reason
    # The files of each of :data:`ROOMS`, oldest first
    listed: Mapping[str, tuple[FileEntry, ...]] = field(default_factory=lambda: dict.fromkeys(ROOMS, ()))

    @property
    def paths(self) -> set[str]:
        """The files that it lists, each with its folder."""
        return {f"{room}/{file.name}" for room in ROOMS for file in self.listed[room]}

    def as_json(self) -> dict[str, Any]:
        """Return the document of a commit."""
        return {
            "kind": KIND,
            "format": FORMAT,
            "spec": self.spec.as_json(),
            "pivots": self.pivots,
            "crs": self.crs,
            "metric": self.metric,
            "snapshot": self.snapshot,
            "counts": {"earlier": self.earlier, "files": self.files, "read": self.read, "rows": self.rows},
            "bad": dict(sorted(self.bad.items())),
            "listed": {room: [one.as_json() for one in self.listed[room]] for room in ROOMS},
        }

    @classmethod
    def of(cls, commit: Commit, path: str) -> State:
        """Return what a commit says."""
        said = commit.document
        check_document(path, said, KIND, (FORMAT,))
        try:
            counts = said["counts"]
            return cls(
                spec=Spec.read(said["spec"]),
                pivots=str(said["pivots"]),
                crs=str(said["crs"]),
                metric=str(said["metric"]),
                snapshot=str(said["snapshot"]),
                earlier=whole(counts["earlier"], "earlier"),
                files=whole(counts["files"], "files"),
                read=whole(counts["read"], "read"),
                rows=whole(counts["rows"], "rows"),
                bad={str(reason): whole(count, str(reason)) for reason, count in said["bad"].items()},
                listed={room: tuple(FileEntry.of(one) for one in said["listed"][room]) for room in ROOMS},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{path} is no commit of live patterns: {error}; begin others (--name NAME)") from None


@dataclass(frozen=True)
class Home:
    """Where live patterns are."""

    store: str  # Path or URI of the store
    name: str
    idle_seconds: float = LEASE_SECONDS  # After which a file that no commit lists is nobody's

    def __post_init__(self) -> None:
        check_name("name", self.name)

    @cached_property
    def folder(self) -> Folder:
        """Their folder."""
        return folder_of(path_in(self.store, PATTERNS, self.name))

    @property
    def chain(self) -> Chain:
        """Their commits."""
        return Chain(self.folder, kept=True)

    @cached_property
    def _read(self) -> dict[str, pa.Table]:
        return {}

    def table(self, room: str, file: FileEntry) -> pa.Table:
        """Return what a file holds that a commit lists.

        Those of names and panes are kept, as each look asks for them.
        """
        found = self._read.get(file.name)
        if found is None:
            found = read_parquet(self.folder, room, file)
            if room != ROWS:
                self._read[file.name] = found
        return found

    def tables(self, state: State | None, room: str) -> list[pa.Table]:
        """Return what all files of a room hold that a commit lists."""
        return [] if state is None else [self.table(room, file) for file in state.listed[room]]

    def with_more(self, state: State, room: str, table: pa.Table, join: Join = pa.concat_tables) -> State:
        """Write what comes to a room, with the newest files there where they are not much larger, and list it."""
        read, most = partial(self.table, room), MOST_ROWS if room == ROWS else None
        files = compact(state.listed[room], table, read, partial(self._write, room), join, most)
        return replace(state, listed={**state.listed, room: files})

    def _write(self, room: str, table: pa.Table) -> FileEntry:
        return FileEntry.of(write_entry(self.folder, encode_parquet(table), len(table), "parquet", room))

    def forget(self, state: State) -> None:
        """Keep of what was read only what a commit lists."""
        names = {path.partition("/")[2] for path in state.paths}
        for name in [name for name in self._read if name not in names]:
            del self._read[name]


def check_spec(home: Home, state: State, spec: Spec) -> None:
    """Check that requests are to be counted as they were."""
    difference = state.spec.difference(spec)
    if difference:
        raise InputError(
            f"live patterns {home.name!r} are counted with {difference}: give others a name of their own "
            "(--name NAME), or count all of these anew (--recount)"
        )
