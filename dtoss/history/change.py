"""What is to become of a version: files and periods that come, leaves that go, entries of the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dtoss.history.data_file import NewFile
from dtoss.history.schema import Schema


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the ledger: a batch that came, or rows that went (then ``rows`` and ``sum`` are negative)."""

    key: str  # What tells the batch from others
    kind: str  # "file", "stream", "given", "forget" or "retain"
    source: str  # The path or query
    batch: int  # The number of a stream's batch; else -1
    rows: int
    sum: int


@dataclass(frozen=True, slots=True)
class NewPeriod:
    """A period that a change makes."""

    tier: int


@dataclass(frozen=True)
class Change:
    """What is to become of a version."""

    what: str  # In a word, such as "append"
    # Files that were written, each with its period: the number of one that stands, or -1 - i for ``periods[i]``
    files: tuple[tuple[NewFile, int], ...] = ()
    # Leaves that go and have to stand still: the name of the file and the number of the first row group
    gone: tuple[tuple[str, int], ...] = ()
    gone_periods: tuple[int, ...] = ()  # Periods that go with all their leaves
    periods: tuple[NewPeriod, ...] = ()
    entries: tuple[Entry, ...] = ()
    schema: Schema | None = None  # Of the rows that come; None where none do
    detail: Mapping[str, Any] = field(default_factory=dict)  # What the version says of itself
    options: Mapping[str, Any] = field(default_factory=dict)  # Of the history, where they change
    oldest: int = 0  # The oldest version that can be asked from now on; 0 where that does not change
    bare: bool = False  # No segment keeps blocks of leaves that are gone: they say between which ids these were
