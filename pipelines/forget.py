"""A person out of all that a store holds: what went, what is left, where and until when; and nothing of it rises again.

It needs no Spark: a snapshot without the objects is built in this process, of the partitions that know them.

Files of the user's that speak of somebody: looked through as text or Parquet, and left as they are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.commits.folder import Folder
from dtoss.commits.lease import Writer
from dtoss.commits.ledger_runs import read_ledger
from dtoss.erasure.forgotten import Mentions, allow_ids, forget_ids
from dtoss.errors import InputError
from dtoss.history.maintenance.erase_rows import erase_past
from dtoss.history.versions import Home as PastHome
from dtoss.ids import LARGEST
from dtoss.snapshots.read_file import ledger_of
from dtoss.snapshots.store import Store, on_stderr
from dtoss.watch.events.erase_events import erase_watched
from dtoss.watch.events.watch_document import head_of as watch_head
from dtoss.watch.watch_folder import Home as WatchHome
from dtoss.watch.watch_folder import watches_of
from dtoss.windows.processing.erase_windows import erase_counted
from dtoss.windows.processing.windows_tables import clear_sets
from dtoss.windows.storage.sets import homes_of, sets_of
from dtoss.windows.storage.window_document import Home as WindowsHome
from dtoss.windows.storage.window_document import head_of as windows_head
from dtoss.windows.storage.window_document import windows_of
from pipelines.cycles.erase_objects import erase_objects
from pipelines.loop.batch_report import take_lease

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")


@dataclass(frozen=True)
class Went:
    """Something that went: where it was, what, and how much of it."""

    where: str
    what: str
    count: int


@dataclass(frozen=True)
class Stays:
    """Something that is left: where it is, what, and until when or until what is done."""

    where: str
    what: str
    until: str


@dataclass
class Report:
    """What was done with some ids, none of which it names."""

    ids: int  # How many there were
    remembered: int = 0  # How many of them were not forgotten before
    dry: bool = False  # Whether nothing was changed
    went: list[Went] = field(default_factory=list)  # What went, or would go, and what is left
    stays: list[Stays] = field(default_factory=list)  # What went, or would go, and what is left

    def gone(self, where: str, what: str, count: int) -> None:
        """Say that something went, if it is any."""
        if count:
            self.went.append(Went(where, what, count))

    def left(self, where: str, what: str, until: str) -> None:
        """Say that something is left."""
        self.stays.append(Stays(where, what, until))


def forget(
    store: str | None,
    ids: Sequence[str],
    *,
    histories: Sequence[str] = (),
    updates: Sequence[str] = (),
    dry_run: bool = False,
    warn: Callable[[str], None] = on_stderr,
) -> Report:
    """Remove objects from all that a store and histories hold, keep them away, and return what was done.

    Parameters
    ----------
    store
        Path or URI; with its watches and windows. None where only histories are meant.
    ids
        As texts; whole numbers as their digits.
    histories
        Paths or URIs.
    updates
        Files and folders of the user's, which are looked through and left as they are.
    dry_run
        Change nothing, and return what would be done.
    warn
        Is told what could not be removed.

    Raises
    ------
    InputError
        If there is no id, or nothing is named that could hold one.
    StoreError
        If a store or a history is missing or damaged, or another process writes: who has a lease is named before
        anything is changed.
    OSError
        If something cannot be read or written.

    Notes
    -----
    First it is remembered who is forgotten, so that no row of them counts from then on. Each step after that is whole
    or has changed nothing, and takes up what a step has left that was ended on its way: who is interrupted does it
    again.
    """
    texts = _check_ids(ids)
    if store is None and not histories:
        raise InputError("nothing is named that could hold ids: --store S or --history H")
    home = None if store is None else Store(store).absolute
    if home is not None and not home.folder.there():
        home.current()  # which says so: no store is made where there is none
    pasts = [PastHome(path) for path in histories]
    for past in pasts:
        past.version()  # which says that there is none
    report = Report(len(texts), dry=dry_run)
    asked = _Asked(texts, report, dry_run, warn)
    for file in files_with(updates, asked.mentions(_id_column(home))):
        report.left(file, "a file of yours that speaks of it", "you remove it; its rows are dropped when it is read")
    with ExitStack() as leases:
        writer = None
        if home is not None and not dry_run:
            writer = leases.enter_context(home.writer(warn))
            for folder, name in _others(home.path):
                leases.enter_context(take_lease(folder, name, warn))
        if not dry_run:
            places = [*([] if home is None else [home.path]), *(past.path for past in pasts)]
            report.remembered = max(forget_ids(place, texts) for place in places)
        for past in pasts:
            asked.past(past)
        if home is not None:
            for name in watches_of(home.path):
                asked.watch(WatchHome(home.path, name))
            for name in windows_of(home.path):
                asked.windows(WindowsHome(home.path, name))
            asked.snapshots(home, writer)
    return report


def allow_again(store: str | None, ids: Sequence[str], *, histories: Sequence[str] = ()) -> int:
    """Let ids come again, and return how many were forgotten.

    Parameters
    ----------
    store, ids, histories
        As :func:`forget`.

    Raises
    ------
    InputError, StoreError, OSError
        As :func:`forget`.
    """
    texts = _check_ids(ids)
    places = [*([] if store is None else [store]), *histories]
    if not places:
        raise InputError("nothing is named that could have forgotten ids: --store S or --history H")
    return max(allow_ids(place, texts) for place in places)


def _check_ids(ids: Sequence[str]) -> frozenset[str]:
    texts = frozenset(ids)
    if not texts or "" in texts:
        raise InputError("an id is wanted: --id ID, or --ids FILE with one a line")
    return texts


def _others(store: str) -> Iterator[tuple[Folder, str]]:
    """Yield the folders of all watches and windows of a store whose leases are wanted, each with its name."""
    for name in watches_of(store):
        yield WatchHome(store, name).folder, f"watch {name}"
    for name in windows_of(store):
        yield WindowsHome(store, name).folder, f"windows {name}"


def typed_ids(texts: frozenset[str], kind: str | None) -> pa.Array:
    """Return ids in the type that a place has them in; those that it cannot have are left out.

    Examples
    --------
    >>> typed_ids(frozenset(["7", "007", "anna"]), "int64").to_pylist()
    [7]
    """
    if kind != "int64":
        return pa.array(sorted(texts), pa.large_string())
    numbers = [int(text) for text in texts if _WHOLE.match(text) and text != "-0"]
    return pa.array(sorted(one for one in numbers if -LARGEST - 1 <= one <= LARGEST), pa.int64())


@dataclass(frozen=True)
class _Asked:
    """Who is to go, and what is to be said of it."""

    texts: frozenset[str]
    report: Report
    dry: bool
    warn: Callable[[str], None]

    def mentions(self, column: str | None = None) -> Mentions:
        return Mentions(self.texts, column)

    def named(self, where: str, names: Sequence[str], until: str) -> None:
        """Say that names of files that were read have an id in them."""
        speaks = self.mentions()
        count = sum(1 for name in names if speaks.stands_in(name))
        if count:
            self.report.left(where, f"{count:,} names of input files that have an id in them", until)

    def past(self, home: PastHome) -> None:
        where, version = f"history {home.path}", home.version()
        done = erase_past(home, typed_ids(self.texts, version.schema.id_type), self.mentions(), dry=self.dry)
        self.report.gone(where, "rows", done.rows)
        self.report.gone(where, "rows that were set aside", done.rejected)
        self.report.gone(where, "older versions", done.versions)
        for file, seconds in done.strays:
            until = _moment(seconds) if seconds else "the next gc"
            self.report.left(where, f"{file}, which a writer may be about to commit", until)
        if done.delta:
            self.report.left(
                where, "the log of a Delta table, with rows of before", "you export it again, and vacuum it"
            )
        self.named(where, home.version().ledger().column("source").to_pylist(), "always: name files otherwise")

    def watch(self, home: WatchHome) -> None:
        where, head = f"watch {home.name}", watch_head(home)
        kind = None if head is None else head.settings.id_type
        done = erase_watched(home, typed_ids(self.texts, kind), self.mentions(), time.time_ns() // 1000, dry=self.dry)
        self.report.gone(where, "events have lost their object", done.events)
        self.report.gone(where, "rows before", done.rows)
        self.report.gone(where, "rows that were set aside", done.rejected)
        for name, count in done.unread.items():
            self.report.left(where, f"{count:,} events that reader {name} has yet to read, without object", "it has")
        if done.around:
            what = f"{len(done.around):,} subscriptions around it, with the changes that made them"
            self.report.left(where, what, "they are unsubscribed and the changes are cleared (--retain)")
        if head is not None:
            self.named(
                where, list(read_ledger(home.folder, head.commit.document.get("ledger")).files), "the files are gone"
            )

    def windows(self, home: WindowsHome) -> None:
        where, sets = f"windows {home.name}", sets_of(home)
        for one in homes_of(home, sets):
            head = windows_head(one)
            kind = None if head is None else head.commit.document["id"]
            done = erase_counted(one, typed_ids(self.texts, kind), self.mentions(), dry=self.dry)
            self.report.gone(where, "objects", done.objects)
            self.report.gone(where, "rows that were set aside", done.rejected)
            if done.here:
                self.report.left(where, "counts of here, which has no --expire: nobody's name", "they are counted anew")
            if head is not None:
                self.named(where, list(head.ledger.files), "the files are gone")
        if not self.dry:
            clear_sets(home, 0.0)

    def snapshots(self, home: Store, writer: Writer | None) -> None:
        where = f"store {home.shown}"
        kind = home.manifest()["id_type"] if home.snapshots() else None
        done = erase_objects(home, typed_ids(self.texts, kind), self.mentions, writer, self.warn, dry=self.dry)
        self.report.gone(where, "objects", done.current.objects)
        self.report.gone(where, "deletions that were remembered", done.current.deletions)
        self.report.gone(where, "rows that were set aside", done.current.rejected)
        self.report.gone(where, "snapshots that had it", len(done.removed))
        for name, until in done.waiting:
            self.report.left(
                where, f"snapshot {name}, which readers may be opening", f"{_time_text(until)}, then again"
            )
        for name, why in done.unfinished:
            self.report.left(where, f"folder {name}: {why}", "dtoss gc removes it")
        if done.removed:
            self.report.left(where, "snapshots that a server has open", "it has opened the current one: seconds")
        if home.snapshots():
            self.named(where, list(ledger_of(home, home.manifest()).files), "the files are gone")


def _id_column(home: Store | None) -> str:
    """Return the column of ids in files, as far as a store says it."""
    source = None if home is None or not home.snapshots() else home.manifest().get("source")
    return str((source or {}).get("id") or "id")


def _moment(seconds: float) -> str:
    return _time_text(datetime.now(UTC) + timedelta(seconds=seconds))


def _time_text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_LINES = 1 << 16


def files_with(paths: Sequence[str], mentions: Mentions) -> Iterator[str]:
    """Yield the files among some, and in folders among them, in which an id stands."""
    for path in paths:
        place = Path(path)
        if not place.exists():
            raise InputError(f"{path} is not there: a file or a folder is wanted")
        files = sorted(one for one in place.rglob("*") if one.is_file()) if place.is_dir() else [place]
        for file in files:
            try:
                found = _in_parquet(file, mentions) if file.suffix == ".parquet" else _in_text(file, mentions)
            except (pa.ArrowException, OSError) as error:
                raise InputError(f"{file} cannot be looked through: {str(error).splitlines()[0]}") from None
            if found:
                yield str(file)


def _in_parquet(file: Path, mentions: Mentions) -> bool:
    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(_LINES):
            named = [batch.column(mentions.column)] if mentions.column in batch.schema.names else batch.columns
            for column in named:
                kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
                if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
                    texts = column.cast(kind).cast(pa.large_string()).unique()
                    if not mentions.ids.isdisjoint(texts.to_pylist()):
                        return True
    return False


def _in_text(file: Path, mentions: Mentions) -> bool:
    with pa.input_stream(str(file), compression=_PACKED.get(file.suffix)) as stream:
        rest = b""
        while data := stream.read(1 << 20):
            lines, _, rest = (rest + data).rpartition(b"\n")
            if mentions.stands_in(lines.decode(errors="replace")):
                return True
    return mentions.stands_in(rest.decode(errors="replace"))


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("forget")
