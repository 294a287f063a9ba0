"""Whether the raw rows of a time are there still: what commits have read, against what is there now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dtoss.errors import InputError
from dtoss.windows.durations import time_text
from dtoss.windows.storage.window_document import Document, documents
from dtoss.windows.storage.window_folder import Home


@dataclass(frozen=True)
class ReadSources:
    """What a commit has read."""

    number: int
    files: tuple[str, ...]
    query: str  # The stream of which its rows were; "" for none
    first: int  # Their first and last time, in microseconds
    last: int  # Their first and last time, in microseconds


def reads_of(home: Home, head: Document, rows_from: int, rows_to: int) -> list[ReadSources]:
    """Return what commits have read of a time. Cost O(commits).

    ``rows_from``, ``rows_to``: microseconds.
    """
    found: list[ReadSources] = []
    for document in documents(home, 1, head.number):
        said = document.commit.document["batch"]
        if said["first"] is not None and said["first"] < rows_to and said["last"] >= rows_from:
            found.append(ReadSources(document.number, tuple(said["files"]), said["query"], said["first"], said["last"]))
    return found


def check_there(reads: Collection[ReadSources], there: Collection[str], rows_from: int, rows_to: int) -> None:
    """Check that the files that were read of a time are there still.

    ``there``: the names of the files that are there, also empty ones and those that were never read; ``rows_from``,
    ``rows_to``: microseconds: the time that is needed.
    """
    names = set(there)
    for read in reads:
        gone = [name for name in read.files if name not in names]
        if gone:
            more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
            raise InputError(
                f"rows {_span(max(read.first, rows_from), min(read.last, rows_to - 1))} are not there: "
                f"{gone[0]}{more}, read by commit {read.number:,}, is gone; restore it, or, if its rows are meant to "
                "be gone, put an empty file of that name in its place"
            )


def check_reached(reads: Collection[ReadSources], raw: tuple[int, int] | None, rebuild_rows: tuple[int, int]) -> None:
    """Check that raw rows begin and end where those of streams did, which no file names.

    ``raw``: the first and the last time of the raw rows that are there, in microseconds; None of none.
    """
    streams = [read for read in reads if read.query]
    if not streams:
        return
    rows_from, rows_to = rebuild_rows
    first = max(min(read.first for read in streams), rows_from)
    last = min(max(read.last for read in streams), rows_to - 1)
    missing = None
    if raw is None:
        missing = first, last
    elif raw[0] > first:
        missing = first, raw[0]
    elif raw[1] < last:
        missing = raw[1], last
    if missing is not None:
        raise InputError(
            f"rows {_span(*missing)} are not there: the stream that these windows have read had some; name files that "
            "hold them, too"
        )


def _span(first: int, last: int) -> str:
    return f"from {time_text(first)} to {time_text(last)}"
