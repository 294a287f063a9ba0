"""Results of past hours in a file each: which there are, what is merged next, and the commit that makes it so.

A commit names one index, of which this is read::

    {"aside_to": 0, "commit": 812, "hours": [...], "kept_from": null, "quarantine": [...], "since": 640,
     "until": 1779200400000000}

All results of ends before ``until`` are in its files, one for each hour that has any, the last word on each end and key
only. They are final, so only a rebuild changes one, and a later merge takes that in. Results of ends from ``until`` on
are in the files of commits from ``since`` on. Rows that were set aside by commits up to the one before ``since``, or
up to ``aside_to`` where that is later, are in the files of ``quarantine``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from dtoss.commits.chain import Commit, canonical
from dtoss.commits.file_entry import FileEntry, checked_bytes, whole, write_entry
from dtoss.errors import StoreError
from dtoss.windows.storage.window_document import HOURS, Document, Home, Part

PAST_HOUR_US = 3_600_000_000
NO_TIME = -(1 << 62)
"""A time before all others."""


class Steps(NamedTuple):
    """How much is merged at once: a batch waits for it."""

    hour_us: int = PAST_HOUR_US  # Microseconds of an hour, of which one file is made
    most_hours: int = 24  # That are merged at once
    most_results: int = 500_000  # Rows of results after which no other hour is begun

    def hour_of(self, time: int) -> int:
        """Return when the hour of a time begins."""
        return time // self.hour_us * self.hour_us


A_DAY = Steps()
"""A day of real hours, or half a million results."""


@dataclass(frozen=True)
class Hours:
    """Results of past hours."""

    until: int = NO_TIME  # Ends before it are in :attr:`files`; a multiple of an hour, or a time before all others
    since: int = 1  # The first commit whose files have results of later ends
    commit: int = 0  # The newest commit that was looked at: rebuilds after it are not in the files
    kept_from: int = NO_TIME  # Ends before it are not kept any more; a time before all others where all are
    files: tuple[Part, ...] = ()  # By hour; each with its first and last end
    # Rows that were set aside, each file with its first and last commit; those of later ones are in their files
    quarantine: tuple[Part, ...] = ()
    # The last commit whose rows that were set aside are in these files because somebody was erased; 0 for none
    aside_to: int = 0

    @property
    def set_aside(self) -> int:
        """The last commit whose rows that were set aside are in :attr:`quarantine`, or had none."""
        return max(self.since - 1, self.aside_to)

    def between(self, first: int, last: int) -> list[Part]:
        """Return the files that have ends, both included."""
        return [part for part in self.files if part.of[0] <= last and part.of[1] >= first]

    def needs(self, document: Document, part: Part) -> bool:
        """Return whether results of a commit are read still from its own file."""
        return part.of[1] >= self.until or (document.is_rebuild and document.number > self.commit)

    def encoded(self) -> bytes:
        """Return the bytes of an index."""
        said = {
            "aside_to": self.aside_to,
            "commit": self.commit,
            "hours": [part.as_json() for part in self.files],
            "kept_from": None if self.kept_from == NO_TIME else self.kept_from,
            "quarantine": [part.as_json() for part in self.quarantine],
            "since": self.since,
            "until": None if self.until == NO_TIME else self.until,
        }
        return canonical(said)


def hours_of(home: Home, document: Document) -> Hours:
    """Return the results of past hours that a commit names."""
    found = document.files[HOURS]
    return read_hours(home, found[0].file) if found else Hours()


def read_hours(home: Home, file: FileEntry) -> Hours:
    """Return an index."""
    path = home.folder.path(HOURS, file.name)
    data = checked_bytes(home.folder, HOURS, file)
    try:
        said = json.loads(data)
        until, kept_from = (
            NO_TIME if said[name] is None else whole(said[name], name, None) for name in ("until", "kept_from")
        )
        since, commit = (whole(said[name], name) for name in ("since", "commit"))
        aside_to = whole(said.get("aside_to", 0), "aside_to")
        files, quarantine = (_parts(said[name]) for name in ("hours", "quarantine"))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{path} is damaged: {error!r:.200}; restore it from a copy") from None
    return Hours(until, since, commit, kept_from, files, quarantine, aside_to)


def _parts(said: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    return tuple(Part(FileEntry.of(one), tuple(whole(value, "of", None) for value in one["of"])) for one in said)


def write_hours(home: Home, hours: Hours) -> Part:
    """Write an index, and return it."""
    data = pa.py_buffer(hours.encoded())
    return Part(FileEntry.of(write_entry(home.folder, data, len(hours.files), "json", HOURS)), ())


def commit_hours(home: Home, head: Document, hours: Hours, state: Mapping[str, Any] | None = None) -> Commit:
    """Commit an index after the head, and return the commit: it has no rows, and the state is that of before.

    ``state``: what the document says otherwise than before; nothing when None.
    """
    before = head.commit.document
    document = {
        **before,
        "batch": {"query": "", "batch": -1, "wall_us": before["batch"]["wall_us"], "files": [], "first": None,
                  "last": None},
        "watermark_before": head.watermark,
        "patches": [],
        "results": [],
        "quarantine": [],
        "counts": dict.fromkeys(before["counts"], 0),
        "reasons": {},
        HOURS: [write_hours(home, hours).as_json()],
        **(state or {}),
    }  # fmt: skip
    return home.batches.append(document, head.commit)


def without_old(hours: Hours, before: int, steps: Steps = A_DAY) -> Hours:
    """Return hours without the files all of whose ends are before a time; the same where there is none of these."""
    kept_from = steps.hour_of(min(before, hours.until))
    stay = tuple(part for part in hours.files if part.of[1] >= kept_from)
    return hours if len(stay) == len(hours.files) else replace(hours, files=stay, kept_from=kept_from)
