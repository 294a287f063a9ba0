"""The thread that looks for the next commit and puts its snapshot in the place of the one that answers.

The plan and the list of peers read again: what is new is opened, and what left is let go when others hold it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dtoss.client.endpoint import Peers, read_peers
from dtoss.commits.chain import HINT
from dtoss.errors import InputError, StoreError
from dtoss.index import Index
from dtoss.save_index import SnapshotRecord
from dtoss.serve.answers.open_snapshots import Conditions, ServedSnapshot
from dtoss.serve.cluster.cluster import PeerGroup
from dtoss.serve.cluster.served_plans import Placement, read_placement
from dtoss.serve.core.pool import yield_processor
from dtoss.serve.reload.prepare import ONE_AT_A_TIME, Head, Took, head_of, keep_open, prepare
from dtoss.serve.state.worker_state import WorkerState
from dtoss.snapshots.mapped_file import Source
from dtoss.snapshots.store import Store

if TYPE_CHECKING:
    from dtoss.serve.core.server_settings import Settings

AGAIN_SECONDS = 60.0
"""After which a commit that was refused is tried again: a disk may have been away."""
BREATH_SECONDS = 0.0001
"""That the thread sleeps after each piece of work, so that the loop has its turn."""
SWITCH_SECONDS = 0.0001
"""How long a thread keeps the interpreter from another that waits for it.

The loop gives it away with each call of the system, some four times a request: with 0.001 it would answer no more than
300 requests a second while a snapshot is taken.
"""


class Watcher:
    """Watches a store for one worker.

    ``verified``: int64 (1,), shared by the processes of a server: the mark of the commit whose files one of them has
    verified (:attr:`.prepare.Head.mark`), which the others need not do again; ``pages``: returns how many pages follow
    the worker's snapshots. If there are any, what they ask for first is made as soon as a snapshot answers.
    """

    def __init__(
        self,
        state: WorkerState,
        loop: asyncio.AbstractEventLoop,
        verified: NDArray[np.int64],
        pages: Callable[[], int] = lambda: 0,
    ) -> None:
        self._state = state
        self._loop = loop
        self._verified = verified
        self._pages = pages
        self._store = Store(state.settings.served_store).absolute
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dtoss-watcher", daemon=True)
        self._known: Head | None = None
        self._refused: Head | None = None
        self._again, self._why = 0.0, ""
        self._told = ""
        circle = state.circle
        self._plan = None if circle is None else PlanFollower(state.settings, circle, self._on_loop, state.log.event)

    def _on_loop(self, work: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(work)

    def start(self) -> None:
        """Begin to look each second; nothing if the server serves one snapshot whatever becomes current."""
        sys.setswitchinterval(SWITCH_SECONDS)
        if self._state.settings.snapshot is None or self._plan is not None:
            self._thread.start()

    def stop(self, seconds: float = 1.0) -> None:
        """Look no more, and wait so long for a look in hand."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def look(self, *, loop_runs: bool = True) -> bool:
        """Look once, and return whether another snapshot answers now. What is wrong is told, and never raised."""
        serving = self._state.serving
        try:
            head = self._pinned() or head_of(self._store, self._warned)
        except Exception as error:
            self._refuse(f"{error}; snapshot {serving.now.name} goes on answering")
            return False
        if head == self._known and self._holds_what_it_should():
            if serving.refused is not None:
                serving.refused = None
            return False
        if head == self._refused and time.monotonic() < self._again:
            serving.refused = self._why
            return False
        began = time.perf_counter()
        try:
            if serving.now.seq is None or self._plan is None:
                fresh, took = self._prepared(head)
            else:
                with ONE_AT_A_TIME:
                    fresh, took = self._prepared(head)
                    keep_open(serving, fresh)  # others may have it already, and ask for it
        except Exception as error:
            if self._stop.is_set():
                return False
            with suppress(Exception):
                if head_of(self._store, self._warned) != head:
                    return False  # it has gone meanwhile: the next look finds what follows
            self._refused, self._again = head, time.monotonic() + AGAIN_SECONDS
            what = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
            named = f"snapshot {head.name} of commit {head.number}"
            if serving.now.seq is not None:
                named = "a generation"  # the next one is refused for the same reason, which is told once
            self._why = f"{named} is refused: {what}"
            self._refuse(self._why)
            return False
        self._known = head
        if fresh is serving.now or _is_back(fresh, serving.now):
            serving.refused = None
            return False
        return self._replaced(fresh, took, began, loop_runs)

    def _prepared(self, head: Head) -> tuple[ServedSnapshot, Took]:
        """Return what is to answer: what answers already, what is open from before, or what is opened now."""
        serving = self._state.serving
        now = serving.now
        opened: list[ServedSnapshot | None] = [serving.before, serving.opened.get(head.name)]
        if not self._holds_what_it_should():
            opened = []
        elif head.name == now.name:
            return (now if head.number == now.commit else _as_of(now, head, now.conditions)), Took()
        for one in opened:
            if one is not None and head.name == one.name and _held_by(one) == _held_by(now):
                # a rollback, or another server asked for it: it is open, and was verified
                return _as_of(one, head, now.conditions.carried_to(one.index, self._breathe)), Took()

        def conditions(index: Index) -> Conditions:
            return now.conditions.carried_to(index, self._breathe)

        moved = head.name == now.name  # what it holds changes by another plan, of the same snapshot
        known = int(self._verified[0]) == head.mark and not moved
        verify = self._state.settings.verify and not known
        fresh, took = prepare(
            self._store, head, conditions, verify=verify, breathe=self._breathe, held=self._held,
            trusted=frozenset(now.share.held) if moved and now.share is not None else frozenset(),
            before=now.generation,
        )  # fmt: skip
        ours, its = now.index.space, fresh.index.space
        if ours != its:  # routes have the names and bounds of coordinates
            this = f"this server answers in {ours.crs} ({ours.metric})"
            raise StoreError(f"its CRS is {its.crs} ({its.metric}), and {this}: restart it")
        if verify:
            self._verified[0] = head.mark
        return fresh, took

    def _pinned(self) -> Head | None:
        """Return the snapshot that is served whatever becomes current; None where the current one is."""
        now = self._state.serving.now
        return None if self._state.settings.snapshot is None else Head(now.commit, now.name, "")

    def _holds_what_it_should(self) -> bool:
        """Return whether the share of the snapshot that answers is that of the plan in force."""
        now = self._state.serving.now
        if self._plan is None or now.share is None:
            return True
        try:
            wanted = self._plan.wanted(now, now.share.index.partitioning.digest, len(now.share.furthest))
        except InputError:  # of other pivots: it is told when their snapshot is to be served
            return True
        return wanted == frozenset(now.share.held)

    def _held(self, manifest: dict[str, Any]) -> Iterable[int] | None:
        """Return which partitions of a snapshot are held; None for all."""
        if self._plan is None:
            return None
        return self._plan.wanted(self._state.serving.now, manifest["pivots_hash"], len(manifest["partitions"]))

    def _replaced(self, fresh: ServedSnapshot, took: Took, began: float, loop_runs: bool) -> bool:
        serving, done = self._state.serving, threading.Event()
        before = serving.now
        going = [serving.before]  # what goes now goes in this thread

        def replace() -> None:
            going.extend(serving.replace(fresh))
            done.set()

        try:
            if loop_runs:
                self._loop.call_soon_threadsafe(replace)
            else:
                replace()
        except RuntimeError:  # the loop has ended
            return False
        while not done.wait(0.1):
            if self._stop.is_set():
                return False
        _free_pages(going, serving.all())
        going.clear()
        seconds = time.perf_counter() - began
        self._state.metrics.swapped(seconds)
        if self._state.fresh is not None and fresh.seq is not None and before.seq is not None:
            self._state.metrics.seen(self._state.fresh.acknowledged_between(before.seq, fresh.seq))
        if fresh.seq is None or before.commit_of_base != fresh.commit_of_base:
            self._tell_of(fresh, took, seconds)
        if self._pages() and fresh.seq is None:  # of generations there are many: what pages ask for is made then
            with suppress(StoreError):  # the server ends
                fresh.tiles.shapes.make_early()
                fresh.map_facts.told(self._breathe)
        return True

    def _tell_of(self, fresh: ServedSnapshot, took: Took, seconds: float) -> None:
        self._state.log.event(
            "swapped",
            snapshot=fresh.name,
            commit=fresh.commit,
            seconds=round(seconds, 4),
            open_seconds=round(took.open, 4),
            verify_seconds=round(took.verify, 4),
            warm_seconds=round(took.warm, 4),
        )

    def _refuse(self, why: str) -> None:
        serving = self._state.serving
        if serving.refused != why:
            serving.refused = why
            self._state.metrics.refused()
            self._state.log.event("refused", why=why)

    def _warned(self, message: str) -> None:
        if message != self._told:
            self._told = message
            self._state.log.event("warning", detail=message)

    def _breathe(self) -> None:
        if self._stop.is_set():
            raise StoreError("the server ends")
        time.sleep(BREATH_SECONDS)

    def _run(self) -> None:
        paces, generations = self._state.paces, self._state.settings.generations
        yield_processor()
        pace = paces.look if generations is None else paces.fresh
        # one worker after another: what the first has verified the others need not
        self._stop.wait(pace * self._state.number / max(self._state.settings.workers, 1))
        seen, due = None, 0.0
        while not self._stop.is_set():
            stands = None if generations is None else _state_of(f"{generations}/{HINT}")
            if stands != seen or time.monotonic() >= due:
                seen, due = stands, time.monotonic() + (paces.look if pace < paces.look else 0.0)
                with suppress(Exception):  # a full disk may keep the log from being written
                    self.look()
            self._stop.wait(pace)


def _is_back(fresh: ServedSnapshot, now: ServedSnapshot) -> bool:
    """Return whether a generation lacks rows that what answers holds."""
    return fresh.seq is not None and now.seq is not None and fresh.seq < now.seq


def _free_pages(going: list[ServedSnapshot | None], stay: list[ServedSnapshot]) -> None:
    """Free the memory of what is let go but for files that are also of what stays."""
    kept = {id(source) for served in stay for source in _files_of(served)}
    for source in (source for served in going if served is not None for source in _files_of(served)):
        if id(source) not in kept:
            source.free_pages()


def _files_of(served: ServedSnapshot) -> list[Source]:
    record = served.whole._record
    return list(record.held.values()) if isinstance(record, SnapshotRecord) else []


def _held_by(served: ServedSnapshot) -> tuple[int, ...] | None:
    return None if served.share is None else served.share.held


def _as_of(served: ServedSnapshot, head: Head, conditions: Conditions) -> ServedSnapshot:
    """Return an open snapshot as a later commit has made it current again."""
    facts = {**served.facts, "commit": head.number}
    return replace(served, commit=head.number, conditions=conditions, facts=facts)


LETTING_GO_SECONDS = 3.0
"""For which all that leaves is held by others before it goes: all have heard of it by then."""


class PlanFollower:
    """Says what a server is to hold; for one thread."""

    def __init__(
        self,
        settings: Settings,
        circle: PeerGroup,
        on_loop: Callable[[Callable[[], None]], None],
        event: Callable[..., None],
    ) -> None:
        self._settings, self._circle, self._on_loop, self._event = settings, circle, on_loop, event
        self._seen: tuple[object, ...] = ()
        self._refused = ""
        self._agreed: float | None = None

    def wanted(self, served: ServedSnapshot, pivots_hash: str, partitions: int) -> frozenset[int]:
        """Return the partitions that are to be held: those of the plan, and those that nobody else holds yet."""
        share, circle = served.share, self._circle
        assert share is not None
        self._read(pivots_hash, partitions)
        placement = circle.placement
        mine = placement.held_by(circle.me)
        if placement.pivots_hash != pivots_hash:
            raise InputError(self._refused or f"the plan is for pivots {placement.pivots_hash}, not {pivots_hash}")
        if share.index.partitioning.digest != pivots_hash:
            return mine
        leaving = frozenset(share.held) - mine
        held_of = {server: held for server, held in [*circle.held_of.items()] if server in circle.said}
        elsewhere = all(
            any(number in held_of.get(server, ()) for server in placement.holders[number]) for number in leaving
        )
        now = time.monotonic()
        self._agreed = None if not elsewhere else self._agreed or now
        if leaving and (self._agreed is None or now - self._agreed < LETTING_GO_SECONDS):
            return mine | frozenset(share.held)
        return mine

    def _read(self, pivots_hash: str, partitions: int) -> None:
        """Read both files where one has changed; what is no good changes nothing."""
        plan, peers = self._settings.plan, self._settings.peers
        assert plan is not None
        assert peers is not None
        seen = (_state_of(plan), _state_of(peers), pivots_hash)
        if seen == self._seen:
            return
        try:
            read = read_placement(plan, pivots_hash, partitions)
            where = read_peers(peers)
        except InputError as error:
            if str(error) != self._refused:
                self._refused = str(error)
                self._event("plan kept", detail=str(error))
            return
        first = not self._seen
        self._seen, self._refused, self._agreed = seen, "", None
        if first and read == self._circle.placement and where == self._circle.peers:
            return
        self._event("plan read", servers=len(read.servers))
        self._follow(where, read)

    def _follow(self, where: Peers, read: Placement) -> None:
        self._circle.placement = read
        self._on_loop(lambda: self._circle.follow(where, read))


def _state_of(path: str) -> tuple[int, int, int] | None:
    """Return what changes when a file is written anew."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
