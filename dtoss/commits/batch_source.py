"""Where the rows of a batch come from, and whether it is among the commits already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError


@dataclass(frozen=True)
class Source:
    """Where the rows of a batch come from: files by name and bytes, or a batch of a query."""

    files: Mapping[str, int] = field(default_factory=dict)  # The bytes of each file, by its name
    # The names of all files that are still there; others are forgotten. None keeps all
    there: tuple[str, ...] | None = None
    query: str = ""  # Of a stream; "" and -1 for none
    batch: int = -1  # Of a stream; "" and -1 for none
    plan: str = ""  # The hash of what the stream has planned to read in the batch; "" where it is not known
    # written, hashes, refused: what is known of the files, as :class:`dtoss.commits.offsets.Ledger`. None of the rows
    # of refused ones is among those of the batch
    written: Mapping[str, int] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def refusals(self) -> dict[str, dict[str, str]]:
        """Return what a commit says of the files that its batch refuses, and why; nothing where there are none."""
        return {"refused": dict(sorted(self.refused.items()))} if self.refused else {}

    def read(self, ledger: Ledger) -> Ledger:
        """Return a ledger once the rows are read."""
        if self.files:
            ledger = ledger.reading(self.files, self.there, self.written, self.hashes, self.refused)
        if self.query:
            ledger = ledger.with_batch(self.query, self.batch)
        return ledger


def is_committed(
    kind: str, name: str, option: str, ledger: Ledger, source: Source, new_source: bool, plan: str = "", way: str = ""
) -> bool:
    """Return whether a stream's batch is in the commits.

    ``kind``, ``name``: whose commits these are, such as "watch" and "taxis", for errors; ``new_source``: whether
    batches of a query that the commits do not know are taken beside those of another, and later ones than the next;
    ``way``: the end of a sentence: how rows that were lost between the two are counted all the same.
    """
    if source.query in ledger.batches:
        last = ledger.batches[source.query]
        which = (
            f"the checkpoint goes on with batch {source.batch:,} of query {source.query}, and {kind} {name} has "
            f"committed up to {last:,}"
        )
        restore = f"restore the store and the checkpoint from the same copy{way}"
        if source.batch > last + 1 and not new_source:
            raise InputError(
                f"{which}: the checkpoint is newer than the store, and batches between them would be lost; {restore}"
            )
        anew = source.batch == last and "" not in (source.plan, plan) and source.plan != plan
        if source.batch < last or anew:  # a query gives the last batch once more, and no other
            raise InputError(
                f"{which}: the checkpoint is older than the store, and what it reads now as batch {source.batch:,} may "
                f"be other rows; {restore}"
            )
        return source.batch == last
    if ledger.batches and not new_source:
        others = ", ".join(sorted(ledger.batches))
        raise InputError(
            f"the checkpoint is not that of {kind} {name}: it is of query {source.query}, the commits are of {others}; "
            f"it was deleted or belongs to another {kind}. Restore it, or pass --new-source to read all of the source "
            f"again, or give another name ({option} NAME)"
        )
    if source.batch > 0 and not ledger.batches:
        raise InputError(
            f"the checkpoint goes on with batch {source.batch:,}, and {kind} {name} has no batch before it: it belongs "
            f"to another {kind}, or commits were deleted; start it with a checkpoint of its own"
        )
    return False
