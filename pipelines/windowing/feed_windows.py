"""Windows that get the rows of a loop which reads them for a store: each file once, in a commit of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from dtoss.commits.lease import Writer
from dtoss.commits.offsets import Ledger, Source
from dtoss.errors import DtossError, InputError
from dtoss.snapshots.store import Store
from dtoss.windows.migration.take_over import read_by_all
from dtoss.windows.storage.sets import current_home
from dtoss.windows.storage.spec_file import fixed_of
from dtoss.windows.storage.window_document import Home
from pipelines.loop.arriving import Arrivals
from pipelines.loop.batch_report import Ran, clock_of
from pipelines.loop.known_sources import current_manifest
from pipelines.options.snapshot_options import Reading
from pipelines.rows.position_frame import Positions, placed_rows
from pipelines.windowing.begin_windows import WindowOptions, lease_windows, stands_for
from pipelines.windowing.running_sets import How, Running, running_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION = "partition"


@dataclass
class Feed:
    """Windows that a loop feeds, and the right to commit to them."""

    asked: WindowOptions  # What is asked for
    home: Home
    by: str  # What their keys are
    lease: Writer  # Held until the loop ends
    begin: Callable[[], Running]  # Makes them, as soon as their keys can be made
    running: Running | None = None  # Those; None until then

    def ledger(self) -> Ledger:
        """Return what the windows have read: all sets of them that run."""
        return read_by_all(self.home)

    def batches(self, some: Arrivals) -> list[Arrivals]:
        """Return files that the windows have not read as their next batches: one that a set lacks comes first."""
        first = None if self.running is None else self.running.first(some.fresh)
        if not first or len(first) == len(some.fresh):
            return [some]
        others = {file: size for file, size in some.fresh.items() if file not in first}
        return [replace(some, fresh=first), replace(some, fresh=others)]


def feeds_of(
    asked: Sequence[WindowOptions],
    store: Store,
    reading: Reading,
    unit: str | None,
    say: Callable[[str, Ran], None],
    warn: Callable[[str], None],
    lease: bool = True,
) -> list[Feed]:
    """Return windows that are ready to be fed, their leases taken.

    ``reading``: its space is the store's, or degrees, where none is named; windows may say another ``max_bad``;
    ``unit``: of times that are numbers: "ms", or seconds when None; ``lease``: whether other runs of these windows are
    kept out meanwhile.
    """
    names = [one.name for one in asked]
    for one in asked:
        if names.count(one.name) > 1:
            raise InputError(f"--windows {one.file} names {one.name!r}, as another file does: each wants its own name")
    found: list[Feed] = []
    try:
        for one in asked:
            home = Home(store.path, one.name)
            by = key_kind(one, store)

            def begin(one: WindowOptions = one, home: Home = home) -> Running:
                stands = stands_for(home, one.wanted, reading.space, one.replacing)
                share, clock = reading.max_bad if one.max_bad is None else one.max_bad, clock_of(one.clock)
                told = partial(say, one.name)
                how = How(share, False, one.retain, reading.wrap, unit, told, warn, clock=clock)
                found = running_of(home, stands, how)
                for text in stands.asked.notes:
                    warn(f"windows {one.name}: {text}")
                return found

            feed = Feed(one, home, by, lease_windows(home, warn, lease), begin)
            found.append(feed)
            if by != PARTITION or current_manifest(store) is not None:
                _begun(feed)
    except BaseException:
        release(found)
        raise
    return found


def key_kind(asked: WindowOptions, store: Store) -> str:
    """Return what the keys of windows are: as they are asked for, or as they are there."""
    if asked.wanted is not None:
        return str(asked.wanted["by"])
    held = fixed_of(current_home(store.path, asked.name))
    if held is None:
        raise InputError(
            f"{asked.file}: there are no windows {asked.name!r} in {store.shown} yet: say which are wanted "
            '(lengths = "5min,1h")'
        )
    return held.spec.by


def _begun(feed: Feed) -> Running:
    """Return windows, which begin now where they have not."""
    if feed.running is None:
        try:
            feed.running = feed.begin()
        except InputError as error:
            raise InputError(f"{feed.asked.file}: {error}") from None
    return feed.running


def feed(
    feed: Feed, session: SparkSession | None, positions: Positions, source: Source, check: Callable[[], None]
) -> Ran | None:
    """Count rows in windows that begin now where they have not, in one commit; None where it was made before.

    ``check``: raises if files are not those that were read.
    """
    running = _begun(feed)
    try:
        return running.batch(session, placed_rows(positions), source, check)
    except DtossError as error:
        raise type(error)(f"windows {feed.asked.name}: {error}") from None


def beat(feed: Feed) -> Ran | None:
    """Let the watermark of windows follow the clock, where it does; None where nothing becomes due."""
    try:
        return None if feed.running is None else feed.running.beat()
    except DtossError as error:
        raise type(error)(f"windows {feed.asked.name}: {error}") from None


def refuse(feed: Feed, found: Arrivals, refused: Mapping[str, str]) -> None:
    """Commit to windows that have begun that files are refused, and why, where they do not know it."""
    sizes = {file: found.there[file] for file in refused}
    unknown = feed.ledger().fresh(sizes, found.where.stamps)
    if unknown and feed.running is not None:
        feed.running.note(found.some({}).source({file: refused[file] for file in unknown}))


def release(feeds: Sequence[Feed]) -> None:
    """Let go of the leases."""
    for one in feeds:
        one.lease.release()
