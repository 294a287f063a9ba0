"""What a batch will do, decided before any task runs: which commit it makes, of which state and subscriptions.

The files by which a batch is spread over workers, as a commit says them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.commits.chain import Commit, check_document
from dtoss.commits.file_entry import whole
from dtoss.commits.ledger_runs import read_ledger
from dtoss.commits.offsets import Ledger, Source, is_committed
from dtoss.errors import InputError, StoreError
from dtoss.watch.index.index_changes import Centres, prepare
from dtoss.watch.index.large_and_small import Files, Standing, standing_of
from dtoss.watch.processing.last_rows import Run
from dtoss.watch.processing.state_runs import Asked, ids_until, layers_of, newest
from dtoss.watch.processing.watch_clock import Clock, Heard, clock_at, span_of, time_set_back
from dtoss.watch.subscriptions.current import change_number
from dtoss.watch.watch_folder import WATCH_FORMAT, WATCH_KIND, Home
from dtoss.watch.watch_settings import Settings
from dtoss.witnesses import USUAL_WITNESSES

USUAL_GAP = 600_000_000
"""Microseconds between two rows up to which there is a way from one to the other, where none are said."""


@dataclass(frozen=True)
class Options:
    """What may differ from run to run of a watch."""

    expire: int | None = None  # Microseconds of the clock after which an object that was silent is gone; None for never
    # Microseconds beyond the wall clock from which on a row's time is not believed; None believes all
    max_ahead: int | None = 300_000_000
    carry: tuple[str, ...] = ()  # Columns of the rows that events carry along
    max_gap: int = USUAL_GAP  # Microseconds up to which there is a way from a row of an object to its next one
    max_bad: float = 0.1  # The share of bad rows above which a batch fails
    new_source: bool = False  # Batches of a query that the watch does not know are taken beside those of another
    # How many objects have to reach a time before it is the time: a share such as "1%", or a count such as "3"
    witnesses: str = USUAL_WITNESSES
    # A column that the rows of a batch lack is as the object had it before; the state has all columns that conditions
    # name. Null else
    keep: bool = False
    lacking: tuple[str, ...] = ()  # Such columns of this batch


@dataclass(frozen=True)
class Plan:
    """All that the tasks of a batch, and its commit, need; small, and pickled."""

    home: Home
    settings: Settings
    options: Options
    number: int  # Of the commit that the batch makes
    after: Commit | None  # The commit before; None where there is none
    files: Files | None
    before: Files | None  # What stood for the commit before
    source: Source  # Where the rows come from
    # Microseconds since 1970, up to which the ends of subscriptions have been told; None before the first time
    clock: int | None
    by_rows: Clock  # What the commit before keeps of the clock
    state: tuple[Run, ...]  # Runs, oldest first
    kept: tuple[str, ...]  # The columns that the state keeps
    now_us: int  # The wall clock at the beginning
    held: Standing | None = None  # What stands, where no store has it
    routed: RoutingFiles | None = None  # By which rows are spread over workers; None where tasks judge their own
    # Of a beat: the clock of this machine, which that of the watch follows; None where rows alone move it
    clock_us: int | None = None

    @property
    def changes(self) -> int:
        """The number of the change of subscriptions that rows are judged under."""
        return 0 if self.files is None else self.files.number

    @property
    def changes_before(self) -> int:
        """That of the commit before."""
        return 0 if self.before is None else self.before.number

    @property
    def standing(self) -> Standing:
        """What stands."""
        return standing_of(self.home, self.files) if self.held is None else self.held

    @property
    def timed(self) -> bool:
        """Whether objects are followed: rows have ids and times, and are no messages."""
        return self.settings.timed

    @property
    def kept_types(self) -> dict[str, pa.DataType]:
        """The types of the columns that the state keeps, by name; an object's own id is kept in any case."""
        types = self.settings.columns
        return {name: types[name] for name in self.kept if name in types}

    def document_before(self) -> Mapping[str, Any]:
        """Return the document of the commit before; an empty one where there is none."""
        return {} if self.after is None else self.after.document


def settings_of(home: Home) -> Settings | None:
    """Return the settings of a watch, None where nothing was committed."""
    head = home.batches.head()
    return None if head is None else Settings.of(head.document.get("settings"))


def ledger_of(home: Home) -> Ledger:
    """Return what a watch has read of its sources."""
    head = home.batches.head()
    return Ledger() if head is None else read_ledger(home.folder, head.document.get("ledger"))


def plan_batch(
    home: Home,
    settings: Settings,
    source: Source,
    options: Options,
    now_us: int,
    centres: Centres | None = None,
    centred: str | None = None,
    newer: Files | None = None,
    patience: int = 1,
) -> Plan | None:
    """Return what a batch will do; None where it is committed already, or a beat has nothing to do.

    A batch without files and without a query is a beat: it adopts subscriptions and lets objects expire.

    ``now_us``: the wall clock, in microseconds since 1970.
    """
    head = home.batches.head()
    said: Mapping[str, Any] = {} if head is None else head.document
    if head is not None:
        check_document(home.batches.path(head.number), said, WATCH_KIND, (WATCH_FORMAT,))
        _check_same(home, Settings.of(said.get("settings")), settings)
    for name in options.carry:
        if name not in settings.columns:
            there = ", ".join(sorted(settings.columns)) or "none"
            raise InputError(f"--carry {name}: the rows of watch {home.name} have no such column, they have {there}")
    if source.query:
        ledger = read_ledger(home.folder, said.get("ledger"))
        if is_committed("watch", home.name, "--watch", ledger, source, options.new_source):
            return None
    before = Files.of(said.get("standing"))
    files = prepare(home, change_number(home), settings, before, centres, centred, newer, patience)
    standing = standing_of(home, files)
    state = tuple(Run.of(one) for one in said.get("state", ()))
    clock, by_rows = said.get("clock"), Clock.of(said)
    if by_rows is None:
        # of an older version: one object may have moved it, and what it had ended was told by the next commit
        clock = said.get("clock_before")
        by_rows = clock_at(None, lasts_of(home, state, settings), span_of(options.expire))
    return Plan(
        home,
        settings,
        options,
        1 if head is None else head.number + 1,
        head,
        files,
        before,
        source,
        clock,
        by_rows,
        state,
        standing.columns_named if options.keep else standing.columns_kept,
        now_us,
    )


def _check_same(home: Home, held: Settings, asked: Settings) -> None:
    for name, is_, was in (
        ("crs", asked.space.crs, held.space.crs),
        ("metric", asked.space.metric, held.space.metric),
        ("type of ids", asked.id_type, held.id_type),
        ("time", asked.time, held.time),
        ("text", asked.text, held.text),
        ("messages", asked.messages, held.messages),
        ("columns", dict(asked.attributes), dict(held.attributes)),
    ):
        if is_ != was:
            raise InputError(
                f"watch {home.name} has {name} {_short(was)}, these rows have {_short(is_)}: give the same options, or "
                "another name (--watch NAME)"
            )


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {kind}" for name, kind in value.items()) or "none"
    return "none" if value is None else str(value)


def set_back(plan: Plan, heard: Sequence[Heard]) -> Plan | None:
    """Return the plan of a batch whose tasks have heard that the clock was wrong; None where it stands.

    Tasks run again by it: by a wrong clock good rows are over when they come.
    """
    moment = time_set_back(plan.by_rows, heard, plan.options.witnesses)
    if moment is None:
        return None
    by_rows = clock_at(moment, lasts_of(plan.home, plan.state, plan.settings), span_of(plan.options.expire))
    return replace(plan, clock=by_rows.now, by_rows=by_rows)


def lasts_of(home: Home, runs: Sequence[Run], settings: Settings) -> NDArray[np.int64]:
    """Return the last times of all objects of a state, int64 (n,), in any order. Cost O(n log n)."""
    layers = layers_of(home, runs, np.arange(BUCKETS))
    ids = ids_until(layers, np.iinfo(np.int64).max, pa.int64() if settings.id_type == "int64" else pa.string())
    return np.concatenate([np.zeros(0, np.int64), *(one.t for one in newest(layers, Asked.of(ids)))])


@dataclass(frozen=True)
class RoutingFiles:
    """A layout, and what each worker stores under it of what stands."""

    strategy: str  # Its name, with the parameters that were said
    workers: int  # How many there are
    layout: Mapping[str, Any]  # The file of the routing
    # base, delta: the files that say which subscriptions of the large and of the small index each worker stores; None
    # where there is no such index
    base: Mapping[str, Any] | None
    delta: Mapping[str, Any] | None
    # Files of workers' own indexes of the large one, by a key of what they hold
    indexes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    memory: Mapping[str, Any] | None = None  # The file of what the strategy keeps; None for nothing
    columns: tuple[str, ...] = ()  # Columns of rows that workers are sent
    round: int = 0  # Number of the round, from 0 on
    since: int = 0  # The commit with which the round has begun
    moved: int = 0  # Bytes of subscriptions that workers have to store now and did not before
    # The file of the load of a round after which the layout may change; None where there is none to be looked at
    ended: Mapping[str, Any] | None = None
    # The file of the words that are counted in rows; None where no strategy wants to know
    words: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what a commit's document holds of it."""
        return asdict(self) | {"columns": list(self.columns)}

    @classmethod
    def of(cls, said: Any) -> RoutingFiles | None:
        """Return what :meth:`as_json` has made; None where rows are not spread."""
        if not said:
            return None
        try:
            files = (said["layout"], said["base"], said["delta"], said["memory"], said["ended"], said["words"])
            for entry in (*files, *said["indexes"].values()):
                if entry is not None and not isinstance(entry["name"], str):
                    raise ValueError("names of files")
            for name in ("workers", "round", "since", "moved"):
                whole(said[name], name)
            return cls(**{one.name: said[one.name] for one in fields(cls)} | {"columns": tuple(said["columns"])})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"the layout of a commit is damaged: {error}; restore the commit from a copy") from None
