"""Windows counted anew over a time, from the files that are there now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dtoss.buckets import BUCKETS
from dtoss.commits.chain import Commit
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from dtoss.watch.subscriptions.forms import instant_said
from dtoss.watch.watch_settings import Settings
from dtoss.windows.backfill.backfill_commit import ReadSources, check_there, commit_rebuild, plan_rebuild, reads_of
from dtoss.windows.backfill.recount import Rebuild, rebuild_of, recount
from dtoss.windows.durations import time_text
from dtoss.windows.processing.window_task import ReduceResult
from dtoss.windows.spec import Spec
from dtoss.windows.storage.group_placement import Placement, even, placement_of
from dtoss.windows.storage.sets import current_home, sets_of
from dtoss.windows.storage.spec_file import FixedSpec, read_spec
from dtoss.windows.storage.window_document import Document, Home, begun_windows
from dtoss.windows.storage.window_plan import Options
from pipelines.local_joins.first_look import check_columns
from pipelines.loop.arriving import YOUNG_SECONDS, Arrivals, Patience, list_arrivals
from pipelines.loop.arriving_batches import Sources
from pipelines.rows.inputs import look_in
from pipelines.rows.position_frame import Positions, without_forgotten
from pipelines.rows.read_files import read_positions
from pipelines.spark.session import cores
from pipelines.watching.typed_rows import fit_rows, of_time, span_of, types_wanted
from pipelines.windowing.begin_windows import Which, lease_windows, spec_wanted
from pipelines.windowing.running_sets import How
from pipelines.windowing.window_batches import in_parts, light, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOKS, _PAUSE = 12, 0.25
"""How often a file that is being written is looked at again, and after how many seconds."""


@dataclass(frozen=True)
class Rebuilt:
    """What a rebuild has done."""

    commit: Commit
    rebuild: Rebuild  # What was counted anew
    seconds: float

    @property
    def counts(self) -> Mapping[str, int]:
        """By name, as those of a batch: of the rows that were needed."""
        counts: Mapping[str, int] = self.commit.document["counts"]
        return counts


@dataclass(frozen=True)
class _Files:
    """The files that are there, and how they are read."""

    store: str
    found: Arrivals
    columns: Columns
    schema: str
    settings: Settings
    wrap: bool
    unit: str | None

    def rows(self, session: SparkSession | None, files: list[str]) -> Positions:
        """Return the rows of some of them but of those who are forgotten."""
        assert self.found.kind is not None
        inputs = look_in(self.found.where, files, self.found.kind, schema=self.schema, encoding=self.columns.encoding)
        wanted = types_wanted(self.settings, self.columns)
        positions = read_positions(session, inputs, self.columns, schema=self.schema, wanted=wanted)
        positions = without_forgotten(positions, self.store)
        return fit_rows(positions, self.settings, self.wrap, self.unit)

    def times(self, session: SparkSession | None, files: list[str]) -> tuple[int, int] | None:
        """Return the first and the last time of the good rows of some of them; None of none."""
        if not files:
            return None
        rows = self.rows(session, files)
        try:
            return span_of(rows)
        finally:
            rows.release()


def span_asked(since: str, until: str) -> tuple[int, int]:
    """Return the time that a rebuild is asked for, in microseconds since 1970.

    Examples
    --------
    >>> span_asked("1970-01-01T00:01", "90")
    (60000000, 90000000)
    """
    found = []
    for text in (since, until):
        moment = instant_said(text)
        if moment is None:
            raise InputError(
                f"--rebuild {text}: a time such as 2026-01-31T12:00:00 (UTC) or seconds since 1970 is wanted"
            )
        found.append(moment)
    return found[0], found[1]


def rebuild_windows(
    which: Which,
    sources: Sources,
    how: How,
    sessions: Callable[[], SparkSession | None],
    span: tuple[int, int],
) -> Rebuilt:
    """Count windows anew over a time, from the files that are there now, and return what was done.

    ``span``: rows from the one on and before the other are meant, in microseconds since 1970.

    Rows of files that were never read, or have other bytes than when they were, count with all others. Such a file
    counts as read from then on where no later batch could count any more of it.
    """
    home = current_home(which.home.store, which.home.name)
    fixed = read_spec(home)
    if which.wanted is not None:
        spec_wanted(home, which.wanted, which.space)
    lease = lease_windows(home, how.warn)
    begin = time.perf_counter()
    try:
        head = begun_windows(home)
        rebuild = rebuild_of(fixed.spec, head.watermark, *span)
        reads = _reads(home, fixed.spec, rebuild)
        found = _there(sources.positions, head.ledger, how.warn)
        check_there(reads, found.there, rebuild.rows_from, rebuild.rows_to)
        asked = replace(sources.columns, attributes="none")
        inputs = found.inputs(schema=sources.schema, encoding=asked.encoding)
        if inputs is not None:
            check_columns(inputs, asked)
        said = head.commit.document
        settings = Settings(fixed.spec.space, said["id"], said["time"])
        files = _Files(home.store, found, asked, sources.schema, settings, how.wrap, how.unit)
        session = sessions()
        commit = _rebuilt(session, home, fixed, head, rebuild, reads, files, Options(how.max_bad))
        return Rebuilt(commit, rebuild, time.perf_counter() - begin)
    finally:
        lease.release()


def _reads(home: Home, spec: Spec, rebuild: Rebuild) -> list[ReadSources]:
    """Return what was read of the time that is needed, also by the sets that this one has replaced."""
    sets = sets_of(home)
    since = sets.current.since
    if since is not None and (rebuild.since // spec.slide + 1) * spec.slide < since:
        raise InputError(
            f"windows {home.name} were replaced by others from the end {time_text(since)} on, and those before are "
            f"counted no more: rebuild from {time_text(since - spec.slide)} on"
        )
    homes = [Home(home.store, home.name, one.number) for one in sets.answering]
    return [read for one in homes for read in reads_of(one, begun_windows(one), rebuild.rows_from, rebuild.rows_to)]


def _there(positions: str | Sequence[str], ledger: Ledger, warn: Callable[[str], None]) -> Arrivals:
    """Return all files that are there, once those that were read are whole."""
    patience = Patience()
    for look in range(_LOOKS):
        found = list_arrivals(positions, Ledger(), patience, warn)
        known = set(ledger.files) - set(ledger.fresh(found.there, found.where.stamps))
        refused = known & set(ledger.refused)
        unready = sorted(file for file, size in found.waiting.items() if size and file in ledger.files.keys() - refused)
        if not unready:  # what was refused is refused here as well
            return found.some({file: size for file, size in found.fresh.items() if file not in refused})
        if look < _LOOKS - 1:
            time.sleep(_PAUSE)
    raise InputError(
        f"{unready[0]} was read before, and is being written to now: rebuild once it is whole, and stands for "
        f"{YOUNG_SECONDS:g} s"
    )


def _rebuilt(
    session: SparkSession | None,
    home: Home,
    fixed: FixedSpec,
    head: Document,
    rebuild: Rebuild,
    reads: list[ReadSources],
    files: _Files,
    options: Options,
) -> Commit:
    def stands(head: Document | None) -> Placement:
        held = None if head is None else placement_of(head.commit.document)
        return held or even(max(1, min(cores(session), BUCKETS)))

    types = files.settings.id_type, files.settings.time
    assert types[0] is not None
    assert types[1] is not None
    marked = _counted_whole(session, head, rebuild, files, fixed.spec.late)
    now_us = time.time_ns() // 1000
    plan = plan_rebuild(home, fixed, (types[0], types[1]), rebuild, marked, options, now_us, stands)
    stamps = {file: at for file, at in files.found.where.stamps.items() if file in marked}
    plan = replace(plan, source=replace(plan.source, written=stamps))
    full = [file for file, size in files.found.fresh.items() if size]
    if not full:
        return commit_rebuild(plan, rebuild, [], reads)
    held: list[Positions] = []
    try:
        held.append(files.rows(session, full))
        needed = of_time(held[0], rebuild.rows_from, rebuild.rows_to).with_raw()
        again = [file for file in marked if marked[file]]
        if again:  # no later batch reads them: their bad rows are set aside now
            held.append(files.rows(session, again))
            others = of_time(held[1], rebuild.rows_from, rebuild.rows_to, bad_others=True)
            needed = needed.union(others.with_raw())
        done = run_tasks(needed, plan, files.settings)
    finally:
        for positions in held:
            positions.release()
    changed = files.found.changed()
    if changed or files.found.gone():
        raise InputError(f"{(changed or files.found.gone())[0]} has changed while it was read: rebuild again")
    bare = light(plan)

    def second(patches: Sequence[FileEntry]) -> list[ReduceResult]:
        return in_parts(session, patches, lambda parts: recount(bare, rebuild, head, patches, parts))

    return commit_rebuild(plan, rebuild, done, reads, second, held[0].forgotten)


def _counted_whole(
    session: SparkSession | None, head: Document, rebuild: Rebuild, files: _Files, late: int
) -> dict[str, int]:
    """Return the files, with their bytes, that count as read once a rebuild is committed.

    Of files that have other bytes than when they were read: all, unless one has rows that a later batch would count,
    and the rebuild does not. Of files that were never read: all, where the rebuild counts all of their rows.
    """
    assert head.watermark is not None
    there, before = files.found.fresh, head.ledger.files
    unread = head.ledger.fresh(there, files.found.where.stamps)
    new = {file: size for file, size in unread.items() if file not in before}
    other = {file: size for file, size in unread.items() if file in before}
    empty = {file: size for file, size in files.found.there.items() if not size and file in before and before[file]}
    marked: dict[str, int] = {}
    times = files.times(session, [file for file, size in other.items() if size])
    if rebuild.replaced or times is None or times[1] < head.watermark - late:
        marked |= other | empty
    times = files.times(session, [file for file, size in new.items() if size])
    since, until = (rebuild.first, None) if rebuild.replaced else (rebuild.since, rebuild.until)
    if times is not None and times[0] >= since and (until is None or times[1] < until):
        marked |= new
    return marked
