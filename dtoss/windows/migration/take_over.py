"""Two sets that count the same batches: whether both have them, and the commit with which the later one answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dtoss.commits.offsets import Ledger, Source, in_all
from dtoss.windows.storage.sets import (
    Answering,
    Coming,
    Sets,
    coming_of,
    commit_sets,
    current_of,
    homes_of,
    sets_of,
)
from dtoss.windows.storage.window_document import Document, Home, head_of
from dtoss.windows.storage.window_plan import ledger_of


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
