"""A ledger of many files: those that came last stand in the commit, all others in runs, which later commits name too.

So a commit grows with what is new. A run is JSON, compressed by zstd: an object of the bytes of each file, when it was
last written, its SHA-256 and why it is refused, by its name, without nulls at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from dtoss.commits.file_entry import merged_from
from dtoss.commits.offsets import OF_FILES, Ledger

LOOSE_FILES = 1000
"""Files that a commit itself says at the most."""
RUN_FILES = 100_000
"""Files of a run at the most."""

Run = dict[str, Any]
"""What a commit says of a run: ``rows``, its files, and how it is found."""


def encode_run(ledger: Ledger) -> pa.Buffer:
    """Return the bytes of a run of all files of a ledger: the same ones, the same bytes."""
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
