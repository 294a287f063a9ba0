"""What a commit has read of its sources: arriving files by name and bytes, streams by the number of their last batch.

It is stored with what was made of them, so that both become current in one step: a file or batch counts once, however
often it is offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dtoss.errors import StoreError


@dataclass(frozen=True)
class Ledger:
    """Sources that were read.

    Parameters
    ----------
    files
        The bytes of each file, by its name.
    batches
        The number of the last batch of each stream, by the stream's id.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    batches: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, said: Any) -> Ledger:
        """Return the ledger that JSON says; an empty one for null.

        Raises
        ------
        StoreError
            If it is not what :meth:`as_json` makes; the message names what is wrong.
        """
        if said is None:
            return cls()
        if not isinstance(said, dict) or set(said) != {"files", "batches"}:
            raise StoreError(f"the ledger is {_short(said)}, an object of files and batches is wanted")
        for part, least in (("files", 0), ("batches", -1)):
            found = said[part]
            if not isinstance(found, dict):
                raise StoreError(f"{part} of the ledger is {_short(found)}, an object is wanted")
            for name, value in found.items():
                if isinstance(value, bool) or not isinstance(value, int) or value < least:
                    raise StoreError(f"{part}[{name!r}] of the ledger is {_short(value)}, a whole number is wanted")
        return cls(dict(said["files"]), dict(said["batches"]))

    def as_json(self) -> dict[str, dict[str, int]]:
        """Return what a manifest holds of it, in the order of the names."""
        return {"files": dict(sorted(self.files.items())), "batches": dict(sorted(self.batches.items()))}

    def fresh(self, files: Mapping[str, int]) -> dict[str, int]:
        """Return the files that were not read yet, or have other bytes now; O(files)."""
        return {name: size for name, size in files.items() if self.files.get(name) != size}

    def reading(self, files: Mapping[str, int], there: Iterable[str] | None = None) -> Ledger:
        """Return the ledger once files are read.

        Parameters
        ----------
        files
            What is read now, with their bytes.
        there
            The names of all files that are still there, which bounds the ledger: others are forgotten. All stay when
            None.
        """
        known = {**self.files, **files}
        if there is not None:
            names = {*there, *files}
            known = {name: size for name, size in known.items() if name in names}
        return Ledger(known, self.batches)

    def has_batch(self, query: str, batch: int) -> bool:
        """Return whether a stream's batch, or a later one, was read."""
        return batch <= self.batches.get(query, -1)

    def with_batch(self, query: str, batch: int) -> Ledger:
        """Return the ledger once a stream's batch is read; its number never goes back."""
        return Ledger(self.files, {**self.batches, query: max(batch, self.batches.get(query, -1))})


def in_all(ledgers: Iterable[Ledger]) -> dict[str, int]:
    """Return the bytes of the files that every one of some ledgers has, by name; none where there is no ledger.

    Notes
    -----
    O(files) a ledger.

    Examples
    --------
    >>> in_all([Ledger({"a": 1, "b": 2, "c": 3}), Ledger({"a": 1, "b": 9})])
    {'a': 1}
    """
    common: dict[str, int] | None = None
    for ledger in ledgers:
        files = ledger.files
        common = dict(files) if common is None else {f: n for f, n in common.items() if files.get(f) == n}
    return common or {}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
