"""One generation after another, by a child process: rows that came merged with what stands, and made known.

Two threads: one makes generations, the other one looks for commits of the store and prepares what stands upon them.

It begins when it is told to, and ends with its parent.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from dtoss.commits.chain import COMMITS, Commit, file_of
from dtoss.errors import DtossError, StoreError
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.standing import Standing, merge_rows, standing_of
from dtoss.geometry.space import Space
from dtoss.log.log_reader import LogReader, log_schema
from dtoss.merge_rows import record_of
from dtoss.partition import Partition, values_of
from dtoss.save_index import SnapshotRecord, copy_snapshot, write_snapshot
from dtoss.snapshots.manifest import write_borders, write_partition, write_tombstones
from dtoss.snapshots.read_file import ledger_of
from dtoss.snapshots.retention import remove_snapshot, warning
from dtoss.snapshots.store import Store, on_stderr


class FreshPaces(NamedTuple):
    """Seconds of a builder."""

    generation: float = 0.1  # From the beginning of a generation to that of the next one, at least
    follow: float = 0.05  # Between two looks for rows that another process has written
    base: float = 0.5  # Between two looks for a commit of the store
    again: float = 60.0  # After which a snapshot that was refused is tried again
    failed: float = 1.0  # For which it waits when a generation could not be made


FRESH_PACES = FreshPaces()
BASES_TRIED = 20
"""Snapshots that are tried at the beginning, as a cycle may replace each and take away what it has read."""


class OtherColumns(StoreError):
    """The objects of a snapshot have other columns than the rows of the log, or another CRS."""


@dataclass
class Generations:
    """What stands, and is published, for one process; ``event`` is told what goes wrong."""

    store: Store
    home: Store  # In memory: where generations are published
    reader: LogReader  # Of the thread that makes generations, and of that which looks for bases
    other: LogReader
    schema: pa.Schema  # Of the log
    counts: FreshCounts
    event: Callable[..., None]
    threads: int = 1
    server: int | None = None  # That of a plan for which it makes them; None for one that is alone
    standing: Standing = field(init=False)
    # When the generation in hand was begun, by the monotonic clock and the process' time; None where none is
    since: tuple[float, float] | None = None
    published: Published | None = None
    _space: Space | None = None
    _offered: Standing | None = None
    _refused: tuple[int, float] = (0, 0.0)  # commit, and until when it is not tried again

    def begin(self) -> None:
        """Take the newest snapshot and all rows that it has not read, and publish the first generation."""
        for left in reversed(range(BASES_TRIED)):
            head = self._head()
            try:
                self.standing = self._upon(head)
            except StoreError:
                if left == 0 or self._head().number == head.number:
                    raise
                continue  # another snapshot has taken its place meanwhile
            break
        self._publish(self.standing, time.perf_counter())

    def step(self) -> bool:
        """Make a generation if there is something new, and return whether there was."""
        began = time.perf_counter()
        offered, self._offered = self._offered, None
        standing = self.standing if offered is None else offered
        last, rows = self.reader.follow(standing.seq)
        if last > self.counts.of("seq"):  # else who writes the log has said it
            self.counts.note_seq(last)
        if offered is None and last == standing.seq:
            return False
        if last > standing.seq:
            standing, came = merge_rows(standing, rows, last, self.threads)
            self.counts.add_unusable(came.unusable)
        self._publish(standing, began)
        return True

    def waiting_time(self) -> float:
        """Return for how many seconds the generation in hand has had no processor; 0 where none is in hand."""
        since = self.since
        return 0.0 if since is None else time.monotonic() - since[0] - (time.process_time() - since[1])

    def look(self) -> bool:
        """Prepare what stands upon the snapshot that is current now, unless it is this one; return whether it did."""
        head = self._head()
        if head.number == (self._offered or self.standing).commit:
            return False
        if head.number == self._refused[0] and time.monotonic() < self._refused[1]:
            return False
        try:
            self._offered = self._upon(head)
        except DtossError as error:
            if self._head().number != head.number:
                return False  # the next look finds what follows
            self._refused = head.number, time.monotonic() + FRESH_PACES.again
            self.counts.add_base_refused()
            self.event("base refused", commit=head.number, detail=str(error))
            return False
        return True

    def _head(self) -> Commit:
        head = self.store.head()
        if head is None:
            raise StoreError(f"{self.store.shown} has no commit: dtoss rebuild makes one")
        return head

    def _upon(self, head: Commit) -> Standing:
        """Return what stands by a snapshot, and all rows of the log that it has not read."""
        manifest = self.store.manifest(head.document["snapshot"])
        if not log_schema(manifest).equals(self.schema):
            raise OtherColumns(
                f"the objects of snapshot {manifest['snapshot']} have other columns than the log: restart the server"
            )
        standing, upto = standing_of(self.store, head), self.other.last()
        space = self._space = self._space or standing.index.space
        if standing.index.space != space:
            raise OtherColumns(
                f"snapshot {manifest['snapshot']} is in {standing.index.crs}, rows of the log in {space.crs}: restart "
                "the server"
            )
        unread = self.other.rows_unread(ledger_of(self.store, manifest), upto)
        # all in one: each sync is a piece, and a merge of few rows costs nearly what one of many does
        rows = pa.concat_tables([self.schema.empty_table(), *(some for _, some in unread)])
        # what the snapshot has read is in as well
        return merge_rows(standing, rows, upto, self.threads)[0]

    def _publish(self, standing: Standing, began: float) -> None:
        self.published = publish(standing, self.home, self.published, threads=self.threads, server=self.server)
        self.standing = standing
        self.counts.add_generation(standing.seq, standing.commit, time.perf_counter() - began)


def make_generations(
    made: Generations, news: threading.Event, stop: threading.Event, paces: FreshPaces = FRESH_PACES
) -> None:
    """Make generations until told to stop; ``news`` is set when there may be rows."""
    while not stop.is_set():
        began = time.monotonic()
        news.clear()
        yield_to_all()
        made.since = began, time.process_time()
        try:
            busy = made.step()
        except Exception as error:
            made.event("no generation", detail=f"{type(error).__name__}: {error}")
            stop.wait(paces.failed)
            continue
        finally:
            made.since = None
        if busy:
            stop.wait(max(began + paces.generation - time.monotonic(), 0.0))
        else:
            news.wait(paces.follow)


def look_for_bases(
    made: Generations, news: threading.Event, stop: threading.Event, paces: FreshPaces = FRESH_PACES
) -> None:
    """Look for snapshots that become current until told to stop."""
    while not stop.wait(paces.base):
        yield_to_all()
        try:
            if made.look():
                news.set()
        except Exception as error:
            made.event("no base", detail=f"{type(error).__name__}: {error}")


def yield_to_all() -> None:
    """Let this thread run where no other wants to: who wakes is put on its processor, as if that were idle.

    Behind others by ``nice`` alone it would hold a processor while two that answer share the other one. It does nothing
    but on Linux.
    """
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def take_share() -> None:
    """Let all threads of this process have as much of the processors as others, until they yield again."""
    with suppress(AttributeError, OSError):
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
            with suppress(ProcessLookupError):
                os.sched_setscheduler(int(thread), os.SCHED_OTHER, os.sched_param(0))


WORKS = (make_generations, look_for_bases)
LATE_SECONDS = 0.5
"""For which a generation is kept from the processors by others; after that it takes its share."""
_WORDS = 1 << 12
"""Words that are read at once: one for each sync."""


@dataclass(frozen=True)
class Maker:
    """The process, as its parent knows it."""

    link: socket.socket  # At its end when the process has ended

    def tell(self) -> None:
        """Say that there may be rows; the first time, that generations are to be made."""
        with suppress(OSError):  # it has been told often, or is gone, which is seen at the link
            self.link.send(b"r")

    async def has_begun(self) -> bool:
        """Return whether the first generation was published, once it was; False where the process has ended."""
        with suppress(ConnectionError):
            return bool(await asyncio.get_running_loop().sock_recv(self.link, 1))
        return False

    def has_ended(self) -> bool:
        """Return whether the process is gone."""
        with suppress(ConnectionError):
            try:
                return not self.link.recv(1)
            except BlockingIOError:
                return False
        return True


@contextmanager
def start_maker(
    made: Callable[[], Generations],
    counts: FreshCounts,
    event: Callable[..., None],
    expires: Callable[..., None] | None = None,
) -> Iterator[Maker]:
    """Run the process that makes generations; it ends with this.

    ``made``: returns what makes generations, before it has begun; ``expires``: deletes what has expired, for a thread.
    To be called while the process has no other threads.
    """
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        here.close()
        _work(made, there, counts, event, expires)
    there.close()
    here.setblocking(False)
    try:
        yield Maker(here)
    finally:
        here.close()
        os.waitpid(pid, 0)


def _work(
    made: Callable[[], Generations],
    parent: socket.socket,
    counts: FreshCounts,
    event: Callable[..., None],
    expires: Callable[..., None] | None,
) -> NoReturn:
    """Make generations as long as the parent is there, and end the process: nothing of its stack may go on here."""
    code = 1
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with its parent, which is told, too
    try:
        if parent.recv(1):
            generations, news, stop = made(), threading.Event(), threading.Event()
            generations.begin()
            counts.begin()
            standing = generations.standing
            event("builder started", pid=os.getpid(), seq=standing.seq, base=standing.base)
            parent.send(b"b")
            for work in WORKS:
                threading.Thread(target=work, args=(generations, news, stop), daemon=True).start()
            if expires is not None:
                threading.Thread(target=expires, args=(generations,), kwargs={"stop": stop}, daemon=True).start()
            parent.settimeout(LATE_SECONDS / 2)
            while _has_word(parent, news):
                if generations.waiting_time() > LATE_SECONDS:
                    take_share()
        code = 0
    except ConnectionError:  # the parent is gone
        code = 0
    except BaseException as error:
        event("no generation", detail=f"{type(error).__name__}: {error}")
    finally:
        os._exit(code)


def _has_word(parent: socket.socket, news: threading.Event) -> bool:
    """Wait for a word of the parent for a while, and return whether it is still there."""
    with suppress(TimeoutError):
        if not parent.recv(_WORDS):
            return False
        news.set()
    return True


KEPT_GENERATIONS = 12
"""How many stay in the store: more than a worker has open, for who lets go of a file's last pages frees them."""
KEPT_COMMITS = 100
"""More than there are generations: each has its commit."""


@dataclass(frozen=True)
class Published:
    """A generation that was made known."""

    name: str  # Of its snapshot
    commit: Commit
    partitions: tuple[Partition, ...]  # In the order of their numbers
    tombstones: pa.Table | None
    manifest: Mapping[str, Any]

    @property
    def number(self) -> int:
        """Which generation it is; the numbers rise, also over builders."""
        return self.commit.number


def publish(
    standing: Standing,
    home: Store,
    before: Published | None,
    keep: int = KEPT_GENERATIONS,
    commits: int = KEPT_COMMITS,
    threads: int = 1,
    server: int | None = None,
) -> Published:
    """Make what stands the current snapshot of a store, and return it; who writes to it meanwhile is a conflict.

    ``before``: what this process published last; a partition that is the same object as there is a link to its file;
    ``keep``, ``commits``: how many generations and commits stay; ``threads``: write files side by side; ``server``:
    that of a plan which makes it, None for one that is alone. The manifest's ``fresh`` says ``base``, ``commit``,
    ``seq``, ``generation`` and ``server``. Cost O(n) in the objects of the other partitions, O(b) for all borders, and
    O(d) for the deletions that are remembered, where one is new or ends.
    """
    last = home.last() if before is None else before.commit
    partitions = standing.index.parts.all()
    same: dict[int, dict[str, Any]] = {}
    if before is not None:
        pairs = zip(partitions, before.partitions, before.manifest["partitions"], strict=False)
        same = {one.number: entry for one, other, entry in pairs if one is other}
    with home.fresh() as snapshot:

        def entry_of(partition: Partition, area: float) -> dict[str, Any]:
            entry = same.get(partition.number)
            if entry is None or before is None:
                return write_partition(home, snapshot, partition, area, lasts=False)
            home.link(snapshot, entry["file"], before.name)
            return entry

        def entry_of_borders() -> dict[str, Any]:
            table = standing.index.border  # whose cells are cut now
            assert table is not None  # all partitions are there
            return write_borders(home, snapshot, table, lasts=False)

        opened = standing.index._record
        if isinstance(opened, SnapshotRecord) and not same:
            manifest = copy_snapshot(opened, home, snapshot)
        else:
            record = record_of(standing.index)
            with ThreadPoolExecutor(threads) as pool:
                borders = pool.submit(entry_of_borders)
                entries = list(pool.map(entry_of, partitions, record.areas))
            manifest = write_snapshot(
                home,
                snapshot,
                standing.index,
                record,
                partitions,
                record.source.time,
                entry_of=lambda partition, area: entries[partition.number],
                borders=borders.result(),
            )
        # also of what was copied: rows may have deleted what does not stand
        manifest["tombstones"] = _entry_of_tombstones(standing, home, snapshot, before)
        manifest["fresh"] = {
            "base": standing.base,
            "commit": standing.commit,
            "seq": standing.seq,
            "generation": 1 if last is None else last.number + 1,
        }
        if server is not None:
            manifest["fresh"]["server"] = server
        commit = home.finish(snapshot, manifest, None, last, sync=False)
    with warning(on_stderr, home.shown):
        _clear(home, keep, commit.number - commits)
    return Published(snapshot, commit, partitions, standing.tombstones, manifest)


def _entry_of_tombstones(
    standing: Standing, home: Store, snapshot: str, before: Published | None
) -> dict[str, Any] | None:
    """See to the file of the deletions that are remembered, and return its entry; None where there were never any."""
    gone = standing.tombstones
    if gone is None:
        return None
    if before is not None and gone is before.tombstones:
        entry: dict[str, Any] = before.manifest["tombstones"]
        home.link(snapshot, entry["file"], before.name)
        return entry
    ids, times = (gone.column(name).combine_chunks() for name in ("id", "t"))
    since = None if standing.too_old is None else standing.too_old.since
    held = ids if standing.index.string_ids else values_of(ids)
    return write_tombstones(home, snapshot, held, times, since)


def _clear(home: Store, keep: int, gone: int) -> None:
    """Remove all but the last ``keep`` generations, and the commits up to ``gone``: there are a million a day."""
    for name in sorted(home.folder.folders("snapshots"))[:-keep]:
        remove_snapshot(home.folder, name, lambda: None)
    for number in home.chain.listed()[0]:
        if number <= gone:
            home.folder.remove(COMMITS, file_of(number))
