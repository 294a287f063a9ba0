"""Two sets that count the same batches, and the commit with which the later one answers.

Each of the two commits by itself, and skips what it has. Whoever is killed between them goes on with the second one: it
is given the very batch that it lacks before any other, so that it has the same batches as the first one. Where that
batch cannot be given any more, or the first one was changed by a rebuild, the second one begins anew from its state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from dtoss.commits.chain import Conflict
from dtoss.commits.offsets import Ledger, Source, in_all
from dtoss.windows.migration.begin_set import begin_next, same_watermark
from dtoss.windows.processing.window_task import commit_batch
from dtoss.windows.storage.keys_file import read_material
from dtoss.windows.storage.sets import Answering, Coming, Sets, coming_of, commit_sets, current_of, homes_of, sets_of
from dtoss.windows.storage.spec_file import read_spec
from dtoss.windows.storage.window_document import Document, Home, begun_windows, head_of
from dtoss.windows.storage.window_plan import Options, as_it_stands, ledger_of, plan_batch


@dataclass(frozen=True)
class Lacking:
    """What the set that is to come lacks of what the current one has read."""

    files: Mapping[str, int]  # Their bytes, by name
    batches: Mapping[str, int]  # The last batch of each query that it lacks
    lost: bool = False  # Whether there is more that it cannot be given: a time was counted anew

    def __bool__(self) -> bool:
        return bool(self.files or self.batches or self.lost)

    def is_all_of(self, source: Source) -> bool:
        """Return whether a source has exactly what is lacking, so that it goes on as the current set did."""
        if self.lost:
            return False
        if source.query:
            return not self.files and dict(self.batches) == {source.query: source.batch}
        return not self.batches and dict(self.files) == dict(source.files)


def lacking(now: Document, coming: Coming, after: Document) -> Lacking:
    """Return what a set that is to come lacks of what the current one has read."""
    has, wanted = after.ledger, now.ledger
    batches = {query: batch for query, batch in wanted.batches.items() if not has.has_batch(query, batch)}
    rebuilt = any(one["commit"] > coming.after for one in now.commit.document.get("rebuilds", ()))
    return Lacking(has.fresh(wanted.files, wanted.written, wanted.hashes), batches, rebuilt)


def is_full(sets: Sets, now: Document, after: Document) -> bool:
    """Return whether the set that is to come may answer: it has read all, and no end before its first can change."""
    assert sets.coming is not None
    if lacking(now, sets.coming, after):
        return False
    if now.watermark is None:
        return True
    return now.watermark >= sets.coming.full_at and after.watermark is not None and after.watermark >= sets.coming.since


def take_over(home: Home, sets: Sets) -> Sets:
    """Let the set that is to come answer from its first end on, and return the sets after that."""
    coming = sets.coming
    assert coming is not None
    return commit_sets(
        home, sets, replace(sets, answering=(*sets.answering, Answering(coming.number, coming.since)), coming=None)
    )


def give_up(home: Home, sets: Sets) -> Sets:
    """Let no set come any more, and return the sets after that."""
    return commit_sets(home, sets, replace(sets, coming=None))


def read_by_all(home: Home) -> Ledger:
    """Return the files that the current set of a name has read, and the one that is to come with it."""
    sets = sets_of(home)
    current = ledger_of(current_of(home, sets))
    return current if sets.coming is None else in_all([current, ledger_of(coming_of(home, sets))])


def heads_of(home: Home, sets: Sets) -> list[tuple[Home, Document]]:
    """Return where the sets are whose files are needed, and their newest commits."""
    found = []
    for one in homes_of(home, sets):
        head = head_of(one)
        if head is not None:
            found.append((one, head))
    return found


T = TypeVar("T")


def count_batch(home: Home, source: Source, count: Callable[[Home], T | None]) -> T | None:
    """Count a batch in all sets that run, and return what came of it in the current one; None where it was there.

    ``count``: commits the batch to a set; None where that has it.
    """
    sets = sets_of(home)
    if sets.coming is None:
        return count(current_of(home, sets))
    lack = _lacks(home, sets)
    if lack.is_all_of(source):
        made = count(coming_of(home, sets))
        settle_sets(home)
        return made
    if lack:
        sets = _anew(home, sets)
    follow(home, sets)
    made = count(current_of(home, sets))
    count(coming_of(home, sets))
    settle_sets(home)
    return made


def first_of(home: Home, files: Mapping[str, int]) -> dict[str, int] | None:
    """Return which of some files are to be counted first, in one batch; None where any will do.

    These are the files of the last batch of the current set where the set that is to come lacks it, and all are there.

    ``files``: bytes by name, that not all sets have.
    """
    sets = sets_of(home)
    if sets.coming is None:
        return None
    lack = _lacks(home, sets)
    some = {file: size for file, size in files.items() if lack.files.get(file) == size}
    return some if some and not lack.lost and len(some) == len(lack.files) else None


def settle_sets(home: Home) -> Sets:
    """Let the set that is to come take over where it may, and return the sets of the name."""
    sets = sets_of(home)
    if sets.coming is None:
        return sets
    if not is_full(sets, begun_windows(current_of(home, sets)), begun_windows(coming_of(home, sets))):
        return sets
    try:
        return take_over(home, sets)
    except Conflict:  # another one has let it take over, or has begun another one
        return sets_of(home)


def follow(home: Home, sets: Sets) -> None:
    """Let the set to come have the watermark of the current one, where both judge rows alike and a clock moved it."""
    now, after = current_of(home, sets), coming_of(home, sets)
    mark, fixed = begun_windows(now).watermark, read_spec(after)
    head = begun_windows(after)
    if mark is None or head.watermark is None or head.watermark >= mark or not same_watermark(
        read_spec(now).spec, fixed.spec
    ):  # fmt: skip
        return
    said = head.commit.document
    plan = plan_batch(after, fixed, (said["id"], said["time"]), Source(), Options(), _now(), as_it_stands)
    assert plan is not None
    commit_batch(replace(plan, clock_us=mark + fixed.spec.delay), [])


def _lacks(home: Home, sets: Sets) -> Lacking:
    assert sets.coming is not None
    return lacking(begun_windows(current_of(home, sets)), sets.coming, begun_windows(coming_of(home, sets)))


def _anew(home: Home, sets: Sets) -> Sets:
    """Begin the set that is to come once more, from what the current one knows now."""
    after = coming_of(home, sets)
    fixed = read_spec(after)
    return begin_next(current_of(home, sets), sets, fixed.spec, read_material(after, fixed.keys), _now())


def _now() -> int:
    return time.time_ns() // 1000
