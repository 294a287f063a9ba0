"""A ledger of many files: those that came last stand in the commit, all others in runs, which later commits name too.

So a commit grows with what is new. A run is JSON, compressed by zstd: an object of the bytes of each file, when it was
last written, its SHA-256 and why it is refused, by its name, without nulls at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dtoss.commits.file_entry import FileEntry, checked_bytes, merged_from, write_entry
from dtoss.commits.folder import Folder
from dtoss.commits.offsets import OF_FILES, Ledger
from dtoss.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

LOOSE_FILES = 1000
"""Files that a commit itself says at the most."""
RUN_FILES = 100_000
"""Files of a run at the most."""
LEDGERS = "ledger"
"""The folder of a table that holds runs, which its commits name."""

Run = dict[str, Any]
"""What a commit says of a run: ``rows``, its files, and how it is found."""


def encode_run(ledger: Ledger) -> pa.Buffer:
    """Return the bytes of a run of all files of a ledger: the same ones, the same bytes."""
    import pyarrow as pa

    facts = [getattr(ledger, fact) for fact in OF_FILES]
    rows = {name: [size, *(fact.get(name) for fact in facts)] for name, size in sorted(ledger.files.items())}
    for row in rows.values():
        while row[-1] is None:
            row.pop()
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(json.dumps(rows, separators=(",", ":")).encode())
    return sink.getvalue()


def decode_run(data: pa.Buffer) -> Ledger:
    """Return the files that :func:`encode_run` was given, without batches."""
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        rows = json.loads(stream.read())
    said: dict[str, Any] = {"batches": {}}
    for at, part in enumerate(("files", *OF_FILES)):
        said[part] = {name: row[at] for name, row in rows.items() if len(row) > at and row[at] is not None}
    return Ledger.of(said)


def whole_ledger(loose: Ledger, runs: Iterable[Ledger]) -> Ledger:
    """Return the files of some runs, and all that stands beside them."""
    parts = [*runs, loose]
    merged: list[Mapping[str, Any]] = []
    for part in ("files", *OF_FILES):
        merged.append({name: value for one in parts for name, value in getattr(one, part).items()})
    return Ledger(merged[0], loose.batches, *merged[1:])


def fold_ledger(
    ledger: Ledger,
    runs: Sequence[Run],
    read: Callable[[Run], Ledger],
    write: Callable[[Ledger], Run],
    *,
    said: int = LOOSE_FILES,
    most: int = RUN_FILES,
) -> tuple[Ledger, list[Run]]:
    """Return what of a ledger stands in a commit itself, and the runs of all else, new ones written.

    Runs of which the ledger still says all stay; the files of others are written anew, with those of runs that are not
    much larger: a file is written only so often as what came doubles. Cost O(files).

    ``said``: files that the commit itself says at the most; ``most``: files of a run at the most.
    """
    left, kept = set(ledger.files), []
    for run in runs:
        held = read(run)
        if held.files.keys() <= left and ledger.some(held.files) == held:
            left.difference_update(held.files)
            kept.append(run)
    if len(left) > said:
        small = kept[merged_from([run["rows"] for run in kept], len(left)) :]
        for run in small:
            if run["rows"] < most // 2:
                left.update(read(run).files)
                kept.remove(run)
        names, left = sorted(left), set()
        many = -(-len(names) // most)
        ends = [len(names) * part // many for part in range(many + 1)]
        kept += [write(ledger.some(names[begin:end])) for begin, end in pairwise(ends)]
    loose = ledger.some(name for name in ledger.files if name in left)
    return Ledger(loose.files, ledger.batches, *(getattr(loose, fact) for fact in OF_FILES)), kept


def open_ledger(said: Any, read: Callable[[Run], Ledger]) -> Ledger:
    """Return the ledger that a commit says, with what stands in its runs; an empty one for null. Cost O(files)."""
    runs = runs_in(said)
    loose = Ledger.of(said if not runs else {name: part for name, part in said.items() if name != "runs"})
    return whole_ledger(loose, map(read, runs)) if runs else loose


def runs_in(said: Any) -> list[Run]:
    """Return the runs that a commit's ledger names."""
    return list(said.get("runs", ())) if isinstance(said, dict) else []


def run_files(said: Any) -> tuple[FileEntry, ...]:
    """Return the files of the runs that the ledger of a table's commit names."""
    return tuple(map(FileEntry.of, runs_in(said)))


def read_ledger(folder: Folder, said: Any) -> Ledger:
    """Return the ledger that a commit of a table says, whose runs are files in :data:`LEDGERS`. Cost O(files)."""
    return open_ledger(said, partial(_read_run, folder))


def write_ledger(folder: Folder, ledger: Ledger, before: Any) -> dict[str, Any]:
    """Return what a commit of a table says of a ledger; ``before``: what the one before says, whose runs stay."""

    def write(files: Ledger) -> Run:
        return write_entry(folder, encode_run(files), len(files.files), "json.zst", LEDGERS)

    loose, runs = fold_ledger(ledger, runs_in(before), partial(_read_run, folder), write)
    return loose.as_json() | ({"runs": runs} if runs else {})


def decode_whole(data: pa.Buffer, path: str, remedy: str) -> Ledger:
    """Return the files of a run that was read, of which the path and the remedy are said where it is none."""
    try:
        return decode_run(data)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is no run of a ledger ({error}); {remedy}") from None


def _read_run(folder: Folder, run: Run) -> Ledger:
    file = FileEntry.of(run)
    return decode_whole(checked_bytes(folder, LEDGERS, file), folder.path(LEDGERS, file.name), "restore it from a copy")
