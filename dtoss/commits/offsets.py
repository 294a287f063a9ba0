"""What a commit has read of its sources: arriving files by name and bytes, streams by the number of their last batch.

It is stored with what was made of them, so that both become current in one step: a file or batch counts once, however
often it is offered. A file is known by its name, its bytes and when it was last written; where nothing else says that
rows came before, by the SHA-256 of its bytes, under whatever name. One that could not be read is known, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dtoss.errors import StoreError


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
