"""A batch counted in each set of a name that runs: in the current one first, then in the one that is to come.

Each of the two commits by itself, and skips what it has. Whoever is killed between them goes on with the second one: it
is given the very batch that it lacks before any other, so that it has the same batches as the first one. Where that
batch cannot be given any more, or the first one was changed by a rebuild, the second one begins anew from its state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from dtoss.commits.chain import Conflict
from dtoss.commits.offsets import Source
from dtoss.windows.migration.begin_set import begin_next, same_watermark
from dtoss.windows.migration.take_over import Lacking, is_full, lacking, take_over
from dtoss.windows.processing.window_commit import commit_batch
from dtoss.windows.storage.keys_file import read_material
from dtoss.windows.storage.sets import Sets, coming_of, current_of, sets_of
from dtoss.windows.storage.spec_file import read_spec
from dtoss.windows.storage.window_document import Home, begun_windows
from dtoss.windows.storage.window_plan import Options, as_it_stands, plan_batch

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
