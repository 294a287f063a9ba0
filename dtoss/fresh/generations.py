"""One generation after another: rows that came merged with what stands, and a newer snapshot in the place of its base.

Two threads: one makes generations, the other one looks for commits of the store and prepares what stands upon them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from dtoss.commits.chain import Commit
from dtoss.errors import DtossError, StoreError
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.publish import Published, publish
from dtoss.fresh.standing import Standing, merge_rows, standing_of
from dtoss.geometry.space import Space
from dtoss.log.log_reader import LogReader
from dtoss.log.log_schema import log_schema
from dtoss.snapshots.snapshot_ledger import ledger_of
from dtoss.snapshots.store import Store


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
        try:
            busy = made.step()
        except Exception as error:
            made.event("no generation", detail=f"{type(error).__name__}: {error}")
            stop.wait(paces.failed)
            continue
        if busy:
            stop.wait(max(began + paces.generation - time.monotonic(), 0.0))
        else:
            news.wait(paces.follow)


def look_for_bases(
    made: Generations, news: threading.Event, stop: threading.Event, paces: FreshPaces = FRESH_PACES
) -> None:
    """Look for snapshots that become current until told to stop."""
    while not stop.wait(paces.base):
        try:
            if made.look():
                news.set()
        except Exception as error:
            made.event("no base", detail=f"{type(error).__name__}: {error}")
