"""A snapshot made ready to be served: its files mapped, verified and warm, before anybody waits for it.

Of snapshots that another server names, too: those that are open, or opened now while the store has them.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import dtoss.building
import dtoss.cells
import dtoss.conditions
import dtoss.queries
import dtoss.tiles
from dtoss.commits.chain import Commit, silent
from dtoss.compiled.compiling import expect
from dtoss.compiled.kernel import DECLARED
from dtoss.errors import InputError, StoreError, reading
from dtoss.index import Index
from dtoss.kinds.all_kinds import OF_PLACES
from dtoss.locks import Lock
from dtoss.mapped_index import index_of_files, map_files, verify_files
from dtoss.queries.open_snapshot import runs_of
from dtoss.save_index import SnapshotRecord
from dtoss.serve.answers.open_snapshots import Conditions, ServedSnapshot, Serving, untold
from dtoss.serve.cluster.served_plans import all_of_it, facts_of_share, held_by_plan
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.tiles.tiling import MapFacts, Tiles, length_unit
from dtoss.shards.share import Share
from dtoss.snapshots.lineage import LOOKED_THROUGH
from dtoss.snapshots.retention import snapshot_of
from dtoss.snapshots.store import Store

if TYPE_CHECKING:
    from dtoss.serve.state.worker_state import WorkerState

SOME_K = (1, 8, 32, 64)
"""Numbers of nearest objects that are asked for in turn."""
_OF_CELLS = 3
"""Questions at the end of all that are about cells."""
TOGETHER = 64
"""Places asked about at once."""


def load_kernels() -> int:
    """Load, or compile, every kernel that a question may need; return how many.

    A second of processor time where all are kept, a minute where none is.
    """
    for room in (dtoss.queries, dtoss.cells, dtoss.building, dtoss.conditions, dtoss.tiles):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    ours = [name for name in DECLARED if name.startswith("dtoss.")]
    expect(ours)
    for name in ours:
        DECLARED[name].ready()
    return len(ours)


def hold() -> None:
    """Go on at once."""


def warm(index: Index, breathe: Callable[[], None] = hold, *, alone: bool = True, ask: bool = True) -> None:
    """Read all of a snapshot, check its structure, and ask it a question of each kind, so that nothing is left to do.

    ``breathe``: is called every few milliseconds, so that other threads may have their turn; ``ask``: whether questions
    are asked: of one of which many are opened a second they would take longer than all else.
    """
    for number in range(len(index.parts)):
        runs_of(index.parts[number].blocks)
        breathe()
    for step in (lambda: index.border, lambda: index.partitioning.borders, lambda: 0 in index, lambda: "" in index):
        step()
        breathe()
    if not ask:
        return
    if len(index) == 0:
        index.knn(np.zeros((1, 2)), 1)
        return
    partition = next(part for part in index.parts.all() if part.owned_objects)
    place = np.ascontiguousarray(partition.positions[0])
    questions = _questions(index, place, partition.ids[0])
    for question in questions if alone else questions[:-_OF_CELLS]:
        question()
        breathe()


def _questions(index: Index, place: NDArray[np.float64], number: Any) -> list[Callable[[], Any]]:
    """Return a question of each kind about a place, and about the object of an id."""
    object_id = number.as_py() if index.string_ids else int(number)
    x, y = place.tolist()
    places, one = np.repeat(place[None], TOGETHER, axis=0), place[None]
    near, far = 1e-3, 1e3
    columns = index.column_names
    box = [x, y, x, y]
    corners = _triangle(index, x, y)
    asked: list[Callable[[], Any]] = []
    for k in SOME_K:
        asked += [
            lambda k=k: index.knn([x, y], k),  # type: ignore[misc]
            lambda k=k: index.knn(places, k, max_distance=far),  # type: ignore[misc]
            lambda k=k: index.search(places, np.full(TOGETHER, np.inf), k, places=False),  # type: ignore[misc]
            lambda k=k: index.search(one, np.full(1, np.inf), k, places=True),  # type: ignore[misc]
        ]
    return [
        *asked,
        lambda: index.knn(places, 2, columns=columns, having="id is not null"),
        lambda: index.range([x, y], near),
        *(partial(index.ask, kind.name, one, **kind.tried(near)) for kind in OF_PLACES),
        lambda: index.range(places, near, columns=columns),
        lambda: index.search(places, np.full(TOGETHER, near), 0, places=False),
        lambda: index.count([x, y], far),
        lambda: index.count(places, near),
        lambda: index.box(box, columns=columns),
        lambda: index.count_box(box),
        lambda: index.within(corners),
        lambda: index[object_id],
        lambda: index.neighbours(object_id),
        lambda: index.cell(object_id),
        lambda: index.area(object_id),
    ]


def _triangle(index: Index, x: float, y: float) -> list[list[float]]:
    """Return a triangle of some metres, or of some CRS units, at a place."""
    gap = 1e-4 if index.space.geographic else max(abs(x), abs(y), 1.0) * 1e-6
    inward = -gap if y > 0 else gap
    return [[x, y], [x + (gap if x < 0 else -gap), y], [x, y + inward]]


_OPENINGS = 100


@dataclass(frozen=True)
class Head:
    """What a store says is current."""

    number: int  # Of the commit; 0 in a store of an earlier version, which has none
    name: str
    sha256: str  # Of the commit's file; empty where there is none

    @property
    def mark(self) -> int:
        """63 bits that stand for this commit, not 0: in shared memory they say that its files were verified."""
        made = hashlib.sha256(f"{self.sha256} {self.name}".encode()).digest()
        return (int.from_bytes(made[:8]) >> 1) | 1


def head_of(store: Store, warn: Callable[[str], None] = silent) -> Head:
    """Return what is current in a store. Cost O(1)."""
    with reading(f"the commits of {store.shown}"):
        commit = store.chain.head(warn)
    return Head(0, store.current(), "") if commit is None else _head(store, commit)


def _head(store: Store, commit: Commit) -> Head:
    name = snapshot_of(commit)
    if name is None:
        raise StoreError(f"version {commit.number} of {store.shown} names no snapshot; roll back or rebuild")
    return Head(commit.number, name, commit.sha256)


@dataclass
class Took:
    """Seconds that the steps of making a snapshot ready took, and whether its checksums were compared here."""

    open: float = 0.0
    verify: float = 0.0
    warm: float = 0.0
    verified: bool = False

    @property
    def all(self) -> float:
        """The sum."""
        return self.open + self.verify + self.warm


def prepare(
    store: Store,
    head: Head,
    conditions: Callable[[Index], Conditions],
    *,
    verify: bool,
    breathe: Callable[[], None] = hold,
    held: Callable[[dict[str, Any]], Iterable[int] | None] = all_of_it,
    trusted: frozenset[int] = frozenset(),
    before: Index | None = None,
) -> tuple[ServedSnapshot, Took]:
    """Return a snapshot that can be served, and how long that took.

    ``held``: returns which partitions are held, by the manifest; None for all; ``trusted``: partitions whose files were
    verified before, of those that are held by a plan; ``before``: the index of the generation that answers, of which
    the partitions are taken that are the same; None for what is no generation, or the first.
    """
    took, began = Took(verified=verify), time.perf_counter()
    store = store.absolute
    manifest = store.manifest(head.name)
    mine = held(manifest)
    numbers = None if mine is None else sorted(set(mine))
    known = before._record.held if before is not None and isinstance(before._record, SnapshotRecord) else {}
    files = map_files(store, manifest, numbers, known)
    whole = index_of_files(store, manifest, files, before=before)
    share = None if numbers is None else Share(whole, numbers)
    index = whole if share is None else share.here
    breathe()
    took.open = (now := time.perf_counter()) - began
    if verify:
        fresh = None if numbers is None else [number for number in numbers if number not in trusted]
        verify_files(store, manifest, files, breathe, fresh)
    took.verify = (then := time.perf_counter()) - now
    warm(index, breathe, alone=share is None, ask=before is None)
    evaluated = conditions(index)
    took.warm = time.perf_counter() - then
    tiles = Tiles(index)
    served = ServedSnapshot(
        index,
        head.name,
        head.number,
        _seconds(manifest["created"]),
        evaluated,
        _facts(index, head, manifest) | ({} if share is None else facts_of_share(share)),
        tiles,
        MapFacts(index, tiles, [entry["bytes"] for entry in manifest["partitions"]]),
        {name: said for name, said in manifest.items() if name not in ("partitions", "ledger")},
        share,
    )
    return served, took


def first_snapshot(
    settings: Settings, verified: NDArray[np.int64] | None = None, breathe: Callable[[], None] = hold
) -> ServedSnapshot:
    """Return the snapshot that a server begins with; all kernels are loaded as well.

    ``verified``: int64 (1,), shared by its processes: is told that the files of this commit were verified.
    """
    load_kernels()
    store, held = Store(settings.served_store), held_by_plan(settings)
    head = _pinned(store, settings.snapshot) if settings.snapshot else head_of(store)
    for _ in range(_OPENINGS):
        try:
            served, took = prepare(store, head, _for_nobody, verify=settings.verify, breathe=breathe, held=held)
        except StoreError:
            # another one may have become current, and this one gone
            if settings.snapshot or (following := head_of(store)) == head:
                raise
            head = following
            continue
        if took.verified and verified is not None:
            verified[0] = head.mark
        # made before the fork, the workers share it
        served.tiles.sampled(breathe)
        served.tiles.shapes.make_early()
        served.map_facts.told(breathe)
        return served
    raise StoreError(f"{store.shown} is replaced faster than it can be opened: keep more snapshots (--keep)")


def adopt_snapshot(
    served: ServedSnapshot,
    evaluations: int,
    later: Callable[[Callable[[], None]], None],
    evaluated: Callable[[float], None] = untold,
) -> ServedSnapshot:
    """Return a snapshot that the parent made ready, as a worker serves it: with conditions that its pool evaluates."""
    turns = threading.Semaphore(evaluations)
    return replace(served, conditions=Conditions(served.index, turns, later, evaluated))


def _for_nobody(index: Index) -> Conditions:
    def full(work: Callable[[], None]) -> None:
        raise Problem(503, "there is no pool yet")

    return Conditions(index, threading.Semaphore(1), full)


def _pinned(store: Store, name: str) -> Head:
    with suppress(StoreError, OSError):
        for commit in islice(store.chain.newest_first(), LOOKED_THROUGH):
            if snapshot_of(commit) == name:
                return _head(store, commit)
    return Head(0, name, "")


def _seconds(created: str) -> float:
    """Return when a snapshot was made, seconds since 1970; 0 where its manifest says something else."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _facts(index: Index, head: Head, manifest: dict[str, Any]) -> dict[str, Any]:
    return {
        "commit": head.number,
        "objects": len(index),
        "sites": index.sites,
        "partitions": len(index.parts),
        "crs": index.crs,
        "metric": index.space.metric,
        "unit": length_unit(index.space),
        "bounds": index.bounds,
        "id_type": manifest["id_type"],
        "columns": {name: str(column.type) for name, column in index.parts[0].attributes.items()},
        "created": manifest["created"],
        "version": dtoss.__version__,
        **({"fresh": manifest["fresh"]} if "fresh" in manifest else {}),
    }


OPENED_KEPT = 2
"""Snapshots that were opened for others and are kept."""
ONE_AT_A_TIME = Lock()
"""Held by who opens a snapshot that somebody else may be opening, too."""


def open_named(state: WorkerState, name: str) -> ServedSnapshot | None:
    """Return a snapshot that another server names, None where it is gone; in a thread of a pool.

    It holds what the one that answers holds, too, or is opened again.
    """
    serving = state.serving
    found = serving.open_one(name)
    if found is not None and _holds_as_now(state, found):
        return found
    with ONE_AT_A_TIME:
        found = serving.open_one(name)
        if found is not None and _holds_as_now(state, found):
            return found
        fresh = _opened_now(state, name)
        if fresh is None:
            return None
        keep_open(serving, fresh)
        return fresh


def keep_open(serving: Serving, fresh: ServedSnapshot) -> None:
    """Keep a snapshot open for other servers, the latest ones."""
    serving.opened[fresh.name] = fresh
    for old in [*serving.opened][:-OPENED_KEPT]:
        serving.opened.pop(old, None)


def _holds_as_now(state: WorkerState, served: ServedSnapshot) -> bool:
    now, share = state.serving.now.share, served.share
    if now is None or share is None or served is state.serving.now:
        return True
    other_regions = served.facts.get("pivots_hash") != state.serving.now.facts.get("pivots_hash")
    return other_regions or set(share.held) >= set(now.held)


def _opened_now(state: WorkerState, name: str) -> ServedSnapshot | None:
    serving = state.serving
    now = serving.now

    def held(manifest: dict[str, object]) -> object:
        if now.share is not None and manifest["pivots_hash"] == now.facts.get("pivots_hash"):
            return now.share.held
        return held_by_plan(state.settings)(manifest)

    try:
        fresh, _ = prepare(
            Store(state.settings.served_store),
            Head(0, name, ""),
            lambda index: now.conditions.on(index),
            verify=state.settings.verify,
            held=held,  # type: ignore[arg-type]
            before=now.generation,
        )
    except (StoreError, InputError):
        return None
    return fresh
