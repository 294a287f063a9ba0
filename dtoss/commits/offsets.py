"""What a commit has read of its sources: arriving files by name and bytes, streams by the number of their last batch.

It is stored with what was made of them, so that both become current in one step: a file or batch counts once, however
often it is offered. A file is known by its name, its bytes and when it was last written; where nothing else says that
rows came before, by the SHA-256 of its bytes, under whatever name. One that could not be read is known, and why.

Where the rows of a batch come from, and whether it is among the commits already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dtoss.errors import InputError, StoreError


@dataclass(frozen=True)
class Ledger:
    """Sources that were read."""

    files: Mapping[str, int] = field(default_factory=dict)  # The bytes of each file, by its name
    # The number of the last batch of each stream, by the stream's id
    batches: Mapping[str, int] = field(default_factory=dict)
    # When files were last written, in microseconds of Unix time; files of earlier ledgers have none
    written: Mapping[str, int] = field(default_factory=dict)
    # The SHA-256 of files' bytes, where files are known by them
    hashes: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)  # Why files were set aside: none of their rows counts

    @classmethod
    def of(cls, said: Any) -> Ledger:
        """Return the ledger that JSON says; an empty one for null."""
        if said is None:
            return cls()
        if not isinstance(said, dict) or not {"files", "batches"} <= set(said) <= {"files", "batches", *OF_FILES}:
            raise StoreError(f"the ledger is {_short(said)}, an object of files and batches is wanted")
        for part in ("hashes", "refused"):
            if not isinstance(said.get(part, {}), dict) or not all(
                isinstance(text, str) for text in said.get(part, {}).values()
            ):
                raise StoreError(f"{part} of the ledger is {_short(said[part])}, an object of texts is wanted")
        for part, least in (("files", 0), ("batches", -1), ("written", 0)):
            found = said.get(part, {})
            if not isinstance(found, dict):
                raise StoreError(f"{part} of the ledger is {_short(found)}, an object is wanted")
            for name, value in found.items():
                if isinstance(value, bool) or not isinstance(value, int) or value < least:
                    raise StoreError(f"{part}[{name!r}] of the ledger is {_short(value)}, a whole number is wanted")
        return cls(dict(said["files"]), dict(said["batches"]), *(dict(said.get(fact, {})) for fact in OF_FILES))

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Return what a manifest holds of it, in the order of the names; facts that no file has are left out."""
        facts = {fact: dict(sorted(getattr(self, fact).items())) for fact in OF_FILES if getattr(self, fact)}
        return {"files": dict(sorted(self.files.items())), "batches": dict(sorted(self.batches.items())), **facts}

    def fresh(
        self,
        files: Mapping[str, int],
        written: Mapping[str, int] | None = None,
        hashes: Mapping[str, str] | None = None,
    ) -> dict[str, int]:
        """Return the files that were not read yet, or were written again since; O(files).

        ``files``: their bytes; ``written``: when each was last written, in microseconds; where that is not known, here
        or in the ledger, bytes decide; ``hashes``: the SHA-256 of some: one that was written again with the same bytes
        was read.
        """
        now, digests = written or {}, hashes or {}
        return {
            name: size
            for name, size in files.items()
            if self.files.get(name) != size or self._differs(name, now.get(name), digests.get(name))
        }

    def _differs(self, name: str, now: int | None, digest: str | None) -> bool:
        before = self.written.get(name)
        if now is None or before is None or now == before:
            return False
        return digest is None or self.hashes.get(name) != digest

    def reading(
        self,
        files: Mapping[str, int],
        there: Iterable[str] | None = None,
        written: Mapping[str, int] | None = None,
        hashes: Mapping[str, str] | None = None,
        refused: Mapping[str, str] | None = None,
    ) -> Ledger:
        """Return the ledger once files are read.

        ``files``: what is read now, with their bytes; ``there``: the names of all files that are still there, which
        bounds the ledger: others are forgotten. All stay when None.
        """
        known = {**self.files, **files}
        names = set(known) if there is None else {*there, *files}
        facts = [
            {
                **{name: value for name, value in getattr(self, fact).items() if name in names and name not in files},
                **{name: value for name, value in (fresh or {}).items() if name in files},
            }
            for fact, fresh in zip(OF_FILES, (written, hashes, refused), strict=True)
        ]
        return Ledger({name: size for name, size in known.items() if name in names}, self.batches, *facts)

    def some(self, names: Iterable[str]) -> Ledger:
        """Return some of the files, all of which are known, without batches."""
        files = {name: self.files[name] for name in names}
        facts = (getattr(self, fact) for fact in OF_FILES)
        return Ledger(files, {}, *({name: fact[name] for name in files if name in fact} for fact in facts))

    def has_batch(self, query: str, batch: int) -> bool:
        """Return whether a stream's batch, or a later one, was read."""
        return batch <= self.batches.get(query, -1)

    def with_batch(self, query: str, batch: int) -> Ledger:
        """Return the ledger once a stream's batch is read; its number never goes back."""
        return replace(self, batches={**self.batches, query: max(batch, self.batches.get(query, -1))})


OF_FILES = ("written", "hashes", "refused")
"""What a ledger may know of files beside their bytes."""


def in_all(ledgers: Iterable[Ledger]) -> Ledger:
    """Return the files that every one of some ledgers has, as all of them know them; none where there is no ledger.

    A file is refused here where any of them has refused it.

    O(files) a ledger.

    Examples
    --------
    >>> dict(in_all([Ledger({"a": 1, "b": 2, "c": 3}), Ledger({"a": 1, "b": 9})]).files)
    {'a': 1}
    """
    common: Ledger | None = None
    for ledger in ledgers:
        if common is None:
            common = Ledger(ledger.files, {}, ledger.written, ledger.hashes, ledger.refused)
            continue
        fresh = ledger.fresh(common.files, common.written, common.hashes)
        files = {name: size for name, size in common.files.items() if name not in fresh}
        facts = ({**getattr(ledger, fact), **getattr(common, fact)} for fact in OF_FILES)
        common = Ledger(files, {}, *({name: known[name] for name in files if name in known} for known in facts))
    return common or Ledger()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
