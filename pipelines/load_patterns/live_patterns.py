"""Live patterns: new files of an access log are added to panes, of which patterns are made; and all as a table.

Looks at a log, one after the other, and the patterns file that each leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

import ceps
from dtoss.commits.chain import Commit, names_in, path_in
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.lease import Writer, take
from dtoss.commits.offsets import Ledger
from dtoss.commits.process import passing_name
from dtoss.commits.table import Check, NamedFile, Table, tidy, verify
from dtoss.commits.verify_report import Look as FileLook
from dtoss.commits.verify_report import VerifyReport, noting
from dtoss.errors import InputError, StoreError
from dtoss.names import did_you_mean
from dtoss.snapshots.manifest import space_of_manifest
from dtoss.snapshots.store import Store, on_stderr
from dtoss.snapshots.store_location import folder_of, hide_keys
from pipelines.load_patterns.log_files import KEPT, Group, LogFolder
from pipelines.load_patterns.patterns_folder import (
    NAMES,
    NAMES_SCHEMA,
    PANED,
    PATTERNS,
    ROOMS,
    ROWS,
    Home,
    Spec,
    State,
    check_spec,
)
from pipelines.load_patterns.patterns_of_sums import EPOCH, CountedPatterns, Reader
from pipelines.load_patterns.request_panes import PANES, Panes, added, panes_of, patterns_of
from pipelines.loop.stopping import Stopping
from pipelines.rows.access_rows import Asks

DEFAULT_NAME = "live"
"""The name of live patterns where none is said."""
ACCESSES = "accesses"
"""The folder of a store in which its servers keep their log, unless they are told another one."""
ROWS_AT_ONCE = 1_000_000
"""Rows that are counted at a time."""


@dataclass(frozen=True)
class Look:
    """What one look at the log has done."""

    commit: int  # The number of the last commit; 0 where there is none
    state: State
    manifest: dict[str, Any]  # Of the current snapshot, whose pivots these are
    files: int = 0  # How many were added
    rows: int = 0  # How many were added
    recounted: int = 0  # Rows that were counted anew


@dataclass(frozen=True)
class LivePatterns:
    """Live patterns of a store; to be used by who holds their lease, :func:`leased`."""

    home: Home
    asks: Asks  # How requests are counted, and which days count
    log: str | None = None  # Path or URI of the log's folder; the store's own when None
    patient: bool = False  # Leave out files of the log that cannot be read, and tell of each once, instead of failing
    warn: Callable[[str], None] = on_stderr  # Is told what looks wrong

    @property
    def log_path(self) -> str:
        """Path or URI of the log's folder."""
        return self.log or path_in(self.home.store, ACCESSES)

    @cached_property
    def _log(self) -> LogFolder:
        return LogFolder(self.log_path, self.log is not None, self.patient, self.warn)

    def look(self, lease: Writer, *, recount: bool = False, stop: Callable[[], bool] = lambda: False) -> Look:
        """Add what is new in the log, and return what was done.

        All is counted anew where the pivots are others than those by which it was counted.
        """
        manifest = Store(self.home.store).manifest()
        head = self.home.chain.head(self.warn)
        state = self._begun(manifest, head)
        if not recount:
            check_spec(self.home, state, Spec.of(self.asks))
        done = Look(0 if head is None else head.number, state, manifest)
        if head is not None and (recount or state.pivots != manifest["pivots_hash"]):
            before, state = state, self._recounted(manifest, state)
            head = self._commit(lease, before, state, head)
            done = Look(head.number, state, manifest, recounted=state.rows)
        if stop():
            return done
        for group in self._log.groups(self._ledger(state), space_of_manifest(manifest)):
            before, state = state, self._with(manifest, state, group)
            head = self._commit(lease, before, state, head)
            files, rows = done.files + len(group.names), done.rows + len(group.rows)
            done = replace(done, commit=head.number, state=state, files=files, rows=rows)
            if stop():
                break
        return done

    def last(self) -> Look:
        """Return what the last look has left; without a lease, for who only reads."""
        head = self.home.chain.head(self.warn)
        if head is None:
            raise InputError(
                f"nothing is counted in live patterns {self.home.name!r} of {hide_keys(self.home.store)}: dtoss "
                "patterns --live counts what servers log"
            )
        manifest = Store(self.home.store).manifest()
        return Look(head.number, self._begun(manifest, head), manifest)

    def counted(self, done: Look, max_bad: float, now: datetime | None = None) -> CountedPatterns:
        """Return the patterns of all that was added: of the days that have ended, or as ``asks`` says.

        ``max_bad``: the share of bad rows from which on this fails; ``now``: the clock's time when None.
        """
        state = done.state
        panes = added([Panes.from_arrow(table) for table in self.home.tables(state, PANED)])
        today = running_day(self.asks.time_zone, now)
        return patterns_of(panes, state.read, dict(state.bad), done.manifest, self.asks, today, max_bad)

    def _begun(self, manifest: dict[str, Any], head: Commit | None) -> State:
        if head is None:
            return self._fresh(manifest)
        state = State.of(head, self.home.chain.path(head.number))
        if (state.crs, state.metric) != (manifest["crs"], manifest["metric"]):
            raise InputError(
                f"places of live patterns {self.home.name!r} are in {state.crs} ({state.metric}), the store is in "
                f"{manifest['crs']} ({manifest['metric']}) now: begin others (--name NAME)"
            )
        return state

    def _fresh(self, manifest: dict[str, Any]) -> State:
        spec = Spec.of(self.asks)
        return State(spec, manifest["pivots_hash"], manifest["crs"], manifest["metric"], manifest["snapshot"])

    def _ledger(self, state: State) -> Ledger:
        files: dict[str, int] = {}
        for table in self.home.tables(state, NAMES):
            files |= zip(table.column("name").to_pylist(), table.column("bytes").to_pylist(), strict=True)
        return Ledger(files)

    def _panes(self, manifest: dict[str, Any], rows: pa.Table) -> Panes:
        nearest = rows.column("k").null_count < len(rows)
        reader = Reader.of(self.home.store, manifest, nearest, self.asks.costs)
        parts = [rows.slice(begin, ROWS_AT_ONCE) for begin in range(0, len(rows), ROWS_AT_ONCE)]
        return added([panes_of(part, reader, self.asks.slot_seconds, self.asks.time_zone) for part in parts])

    def _recounted(self, manifest: dict[str, Any], state: State) -> State:
        """Return the state once all rows are counted anew, by the current snapshot."""
        panes = added([])
        for file in state.listed[ROWS]:
            panes = added([panes, self._panes(manifest, self.home.table(ROWS, file))])
        kept = replace(self._fresh(manifest), files=state.files, read=state.read, rows=state.rows, bad=state.bad)
        kept = replace(kept, listed={**state.listed, PANED: ()})
        return self.home.with_more(kept, PANED, panes.to_arrow())

    def _with(self, manifest: dict[str, Any], state: State, group: Group) -> State:
        """Return the state once more files are in, all of which are written."""
        snapshot, rows = manifest["snapshot"], group.rows
        state = replace(
            state,
            snapshot=snapshot,
            earlier=state.earlier if snapshot == state.snapshot else state.rows,
            files=state.files + len(group.names),
            read=state.read + len(rows) + sum(group.bad.values()),
            rows=state.rows + len(rows),
            bad=dict(Counter(state.bad) + Counter(group.bad)),
        )
        names = sorted(group.names.items())
        table = pa.table([[name for name, _ in names], [size for _, size in names]], schema=NAMES_SCHEMA)
        state = self.home.with_more(state, NAMES, table)
        if len(rows) == 0:
            return state
        state = self.home.with_more(state, ROWS, rows)
        return self.home.with_more(state, PANED, self._panes(manifest, rows).to_arrow(), _added_tables)

    def _commit(self, lease: Writer, before: State, state: State, after: Commit | None) -> Commit:
        lease.check()
        commit = self.home.chain.append(state.as_json(), after)
        with suppress(StoreError):  # whoever has the lease by now goes on from this commit
            lease.check()
            old = before.paths
            # others are what somebody has left who was killed, or somebody's who goes on from there
            tidy(table_of(self.home), lambda path: 0.0 if path in old else self.home.idle_seconds, self.warn)
            self.home.forget(state)
        return commit


def _added_tables(tables: list[pa.Table]) -> pa.Table:
    return added([Panes.from_arrow(table) for table in tables]).to_arrow()


def running_day(time_zone: str, now: datetime | None = None) -> int:
    """Return the day, since 1970, that has not ended yet.

    ``time_zone``: where days begin; ``now``: the clock's time when None.
    """
    zone = UTC if time_zone == "UTC" else ZoneInfo(time_zone)
    return ((now or datetime.now(UTC)).astimezone(zone).date() - EPOCH).days


def leased(home: Home, warn: Callable[[str], None] = on_stderr) -> Writer:
    """Return the right to add to live patterns, whose folder is made."""
    try:
        home.folder.make()
        return take(home.folder, f"live patterns {home.name} of {hide_keys(home.store)}", warn, lambda: None)
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"live patterns of {hide_keys(home.store)} cannot be written: {why}") from None


FAILURES_IN_A_ROW = 3
"""Looks that may fail in a row; the last of them ends the following."""


@dataclass(frozen=True)
class Following:
    """What is done with live patterns after each look."""

    live: LivePatterns
    out: str  # The patterns file: local, and never seen half written
    max_bad: float = 0.10  # The share of bad rows from which on no patterns are made
    # Is told of each file that was written
    say: Callable[[Look, CountedPatterns], None] = field(default=lambda look, counted: None)

    def once(self, *, recount: bool = False) -> None:
        """Add what is new in the log, and write the file. ``recount``: count all anew first."""
        with leased(self.live.home, self.live.warn) as lease:
            done = self.live.look(lease, recount=recount)
            if done.commit == 0:
                raise InputError(
                    f"no file of a log is in {hide_keys(self.live.log_path)}: dtoss serve writes one a minute; name "
                    "its --access-log where that is elsewhere"
                )
            self._write(done)

    def on_and_on(self, every: float, *, recount: bool = False, stopping: Stopping | None = None) -> None:
        """Do so until somebody asks to end; the file is written where anything has changed, or a day has ended.

        ``every``: seconds from look to look; ``recount``: count all anew first; ``stopping``: whether somebody has
        asked to end; signals when None.
        """
        if not every > 0.0:
            raise InputError(f"--every is {every:g} s: more than 0 is wanted")
        stopping = stopping or Stopping()
        with leased(self.live.home, self.live.warn) as lease, stopping.listening():
            written: tuple[int, int] | None = None
            failed = 0
            while not stopping.asked:
                try:
                    with stopping.cycle():
                        written = self._look(lease, recount, stopping, written)
                    recount, failed = False, 0
                except (OSError, StoreError) as error:
                    failed += 1
                    if failed >= FAILURES_IN_A_ROW:
                        raise
                    self.live.warn(f"{error}; the next look is in {every:g} s")
                stopping.wait(every)

    def _look(
        self, lease: Writer, recount: bool, stopping: Stopping, written: tuple[int, int] | None
    ) -> tuple[int, int] | None:
        """Return the commit and the day that the file is of."""
        done = self.live.look(lease, recount=recount, stop=lambda: stopping.asked)
        of = done.commit, running_day(self.live.asks.time_zone)
        if of == written or done.commit == 0:
            return written
        try:
            self._write(done)
        except InputError as error:
            self.live.warn(str(error))  # no day has ended, say: it will
        return of

    def _write(self, done: Look) -> None:
        counted = self.live.counted(done, self.max_bad)
        target = Path(self.out)
        aside = target.with_name(f".{target.name}.{passing_name()}")
        try:
            ceps.write_patterns(aside, counted.patterns)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
        self.say(done, counted)


SCHEMAS = {NAMES: NAMES_SCHEMA, ROWS: KEPT, PANED: PANES}
"""The columns of the files of each room."""


def table_of(home: Home) -> Table:
    """Return the table of live patterns."""
    return Table(f"live patterns {home.name}", home.chain, ROOMS, partial(_files_of, home), said=_facts_of)


def verify_live(home: Home) -> VerifyReport:
    """Return what is wrong with live patterns, and what could not be read; nothing of what is found is an error.

    Looked at are the table of them (:func:`dtoss.commits.table.verify`), as the last commit has it; the columns of its
    files; that files of the log are named once, and as many as it says; and that sums are of as many rows and requests
    as are kept. Memory: names and sums, and the largest file of places.
    """
    look = FileLook()
    with noting(look.found):
        if not home.folder.there():
            names = names_in(folder_of(path_in(home.store, PATTERNS)))
            known = f"; there are {', '.join(names)}" if names else "; dtoss patterns --live begins some"
            near = did_you_mean(home.name, names) or known
            raise InputError(f"there are no live patterns {home.name!r} in {hide_keys(home.store)}{near}")
        look.found.held["rows"] = 0
        verify([table_of(home)], look)
    return look.found


def _facts_of(commit: Commit) -> dict[str, Any]:
    return {"what": "count", **commit.document["counts"]}


def _files_of(home: Home, look: FileLook | None, numbers: range) -> Iterator[NamedFile]:
    if not numbers:
        return
    path = home.chain.path(numbers[-1])
    state = State.of(home.chain.read(numbers[-1]), path)
    tables: dict[str, list[pa.Table]] = {room: [] for room in ROOMS}
    for room in ROOMS:
        for file in state.listed[room]:
            yield NamedFile(room, file, check=_of_room(room, tables[room]))
    if look is not None:
        look.found.hold("rows", state.rows)
        if all(len(tables[room]) == len(state.listed[room]) for room in ROOMS):
            _agree(look, path, state, tables)


def _of_room(room: str, tables: list[pa.Table]) -> Check:
    """Return what looks at the columns of a file, and keeps what it holds: of places only their weights."""

    def check(look: FileLook, path: str, data: bytes, file: FileEntry) -> None:
        table = look.parquet(path, data, file)
        if table is not None and table.schema.remove_metadata() != SCHEMAS[room]:
            look.wrong(f"{path} is damaged: its columns are {', '.join(table.column_names)}")
        elif table is not None:
            tables.append(table.select(["weight"]) if room == ROWS else table)

    return check


def _agree(look: FileLook, path: str, state: State, tables: dict[str, list[pa.Table]]) -> None:
    names = pa.concat_tables([NAMES_SCHEMA.empty_table(), *tables[NAMES]]).column("name")
    if not len(names) == len(names.unique()) == state.files:
        look.wrong(f"{path} is damaged: it says {state.files:,} files, {len(names.unique()):,} are named")
    rows = sum(map(len, tables[ROWS]))
    requests = sum(pc.sum(table.column("weight")).as_py() or 0 for table in tables[ROWS])
    panes = added([Panes.from_arrow(table) for table in tables[PANED]])
    sums = int(panes.rows.sum()), int(panes.requests.sum())
    if not state.rows == rows == sums[0] or requests != sums[1]:
        look.wrong(
            f"{path} is damaged: it says {state.rows:,} rows, {rows:,} are kept and {sums[0]:,} are counted; --recount "
            "counts anew what is kept"
        )
