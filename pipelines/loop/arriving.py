"""Files that keep arriving in a folder: which are whole, and which of these were not read yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pyarrow import fs

from dtoss.commits.ledger import Ledger
from dtoss.errors import InputError
from pipelines.rows.inputs import AT_ONCE, Inputs, format_of, kind_in, look_in
from pipelines.rows.listing import Listing, escaped, joined, listing

YOUNG_SECONDS = 2.0
"""A text file that was written to less than this ago waits: nothing in it says where it ends."""
LONG_SECONDS = 600.0
"""A file that has waited for longer is told of."""
_MAGIC = b"PAR1"
_TAIL = 8
"""Bytes at the end of a Parquet file: the length of its footer, and its mark."""


@dataclass
class Patience:
    """What a loop remembers of files that were not read: since when each waits, and of which it has told.

    Parameters
    ----------
    since
        When a file of this name and size was first seen, in seconds of Unix time.
    told
        (file, why) of which somebody was told already.
    """

    since: dict[tuple[str, int], float] = field(default_factory=dict)
    told: set[tuple[str, str]] = field(default_factory=set)

    def tell(self, file: str, why: str, warn: Callable[[str], None]) -> None:
        """Tell of a file, once."""
        if (file, why) not in self.told:
            self.told.add((file, why))
            warn(f"{file}: {why}")

    def forget_all_but(self, waiting: Mapping[str, int], there: Mapping[str, int]) -> None:
        """Keep what is known of files that still wait, or are still there."""
        self.since = {known: since for known, since in self.since.items() if waiting.get(known[0]) == known[1]}
        self.told = {(file, why) for file, why in self.told if file in there}


@dataclass(frozen=True)
class Arrived:
    """What is in a folder at one moment.

    Parameters
    ----------
    where
        All files in it, but hidden ones.
    there
        The bytes of each of them.
    fresh
        The bytes of those that are whole and were not read yet, or have other bytes than when they were.
    waiting
        The bytes of those that are not whole yet.
    kind
        The format of all files: "parquet", "csv", "tsv" or "json"; None where there are none.
    oldest
        When the first of the fresh ones was written, in seconds of Unix time; None where there are none.
    """

    where: Listing
    there: Mapping[str, int]
    fresh: Mapping[str, int]
    waiting: Mapping[str, int]
    kind: str | None
    oldest: float | None

    def inputs(self, *, schema: str = "union", encoding: str | None = None) -> Inputs | None:
        """Return the fresh files as Spark is to read them; None where there is nothing in any of them.

        Raises
        ------
        InputError
            If one cannot be read, or they do not go together.
        """
        files = [file for file, size in self.fresh.items() if size]
        if not files or self.kind is None:
            return None
        return look_in(self.where, files, self.kind, schema=schema, encoding=encoding)

    def unread(self, ledger: Ledger) -> Arrived:
        """Return the same of which only those files are fresh that a ledger has not; all else stays."""
        fresh = ledger.fresh(self.fresh)
        return replace(self, fresh=fresh, oldest=_oldest(self.where, fresh, None))

    def read(self, ledger: Ledger) -> Ledger:
        """Return a ledger once the fresh files are read; files that are gone are forgotten."""
        return ledger.reading(self.fresh, self.there)

    def gone(self) -> list[str]:
        """Return the fresh files that are no longer there, or have other bytes by now, sorted."""
        infos = self.where.filesystem.get_file_info(sorted(self.fresh))
        return [info.path for info in infos if info.size != self.fresh[info.path]]

    def changed(self) -> list[str]:
        """Return the fresh files that are there, and have other bytes by now, sorted."""
        there = {info.path: info.size for info in self.where.filesystem.get_file_info(sorted(self.fresh))}
        return [file for file, size in there.items() if size is not None and size != self.fresh[file]]


def arrived(
    path: str | Sequence[str],
    ledger: Ledger,
    patience: Patience,
    warn: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Arrived:
    """Return what is in a folder, at any depth, and what of it is to be read.

    Files whose names, or the names of a folder above them, begin with a dot or an underscore are never read. A Parquet
    file without its footer waits, as does a text file that was written to less than 2 seconds ago; who has waited for
    10 minutes is told of, once. Files of no format that is read are told of, once.

    Parameters
    ----------
    path
        A folder, file or glob; on an object store a prefix, under which there may be nothing yet. Or several of them on
        one file system; a file that is at more than one counts once.
    ledger
        What was read.
    patience
        What is known of files that were not; it is kept from call to call.
    warn
        Is told of files that wait for long, and of those that are never read.
    clock
        The time, in seconds of Unix time.

    Raises
    ------
    InputError
        If the folder is missing or cannot be looked at, or holds files of several formats.

    Notes
    -----
    Costs one listing of all files, and two reads of some bytes of each Parquet file that was not read yet.
    """
    paths = [path] if isinstance(path, str) else list(path)
    found = [_looked_at(one) for one in paths]
    where = joined(found)
    there = dict(zip(where.files, where.sizes, strict=True))
    unread = ledger.fresh(there)
    kinds: dict[str, str] = {}
    for one in found:
        for file, folders in zip(one.files, one.folders, strict=True):
            # what was read has shown its format then
            kind = kind_in(one, file, folders) if file in unread else format_of(file)
            if kind is not None:
                kinds[file] = kind
    for file in unread:
        if file not in kinds:
            patience.tell(file, "no format that is read: it is left alone", warn)
    _check_one(", ".join(paths), kinds)
    written = dict(zip(where.files, where.written, strict=True))
    now = clock()
    candidates = [file for file in unread if file in kinds]
    whole = _whole(where.filesystem, {file: (kinds[file], there[file], written[file]) for file in candidates}, now)
    waiting = {file: there[file] for file in candidates if file not in whole}
    patience.forget_all_but(waiting, there)
    for file, size in waiting.items():
        since = patience.since.setdefault((file, size), now)
        if now - min(since, written[file] or now) > LONG_SECONDS:
            why = "has no footer" if kinds[file] == "parquet" else "is still being written to"
            patience.tell(
                file, f"{why} after {LONG_SECONDS / 60.0:.0f} minutes, and is not read: is its writer gone?", warn
            )
    fresh = {file: there[file] for file in candidates if file in whole}
    kind = next((kinds[file] for file in (*fresh, *kinds)), None)
    return Arrived(where, there, fresh, waiting, kind, _oldest(where, fresh, now))


def _oldest(where: Listing, fresh: Mapping[str, int], now: float | None) -> float | None:
    """Return when the first of some files was written; None without files, ``now`` where nothing says it."""
    stamps = [at for file, at in zip(where.files, where.written, strict=True) if file in fresh and at is not None]
    return min(stamps, default=now) if fresh else None


def _looked_at(path: str) -> Listing:
    where = listing(path)
    if where is None:
        raise InputError(f"{path} cannot be looked at: check the path, and that this machine can reach it")
    if not where.there and "://" not in path and escaped(path) == path:
        raise InputError(f"nothing is at {path}: make the folder in which updates arrive")
    return where


def _check_one(path: str, kinds: Mapping[str, str]) -> None:
    first: dict[str, str] = {}
    for file, kind in kinds.items():
        first.setdefault(kind, file)
    if len(first) > 1:
        some = list(first.values())[:2]
        raise InputError(
            f"files of several formats arrive in {path} ({some[0]}, {some[1]}): updates of one folder are of one format"
        )


def _whole(filesystem: fs.FileSystem, files: Mapping[str, tuple[str, int, float | None]], now: float) -> set[str]:
    """Return which files are whole, given the format, bytes and last write of each."""
    parquet = [file for file, (kind, _, _) in files.items() if kind == "parquet"]
    with ThreadPoolExecutor(min(max(len(parquet), 1), AT_ONCE)) as pool:
        ended = list(pool.map(lambda file: has_footer(filesystem, file, files[file][1]), parquet))
    whole = {file for file, has in zip(parquet, ended, strict=True) if has}
    for file, (kind, _, written) in files.items():
        # a time that was kept when the file was copied may be of another clock, ahead of ours
        if kind != "parquet" and (written is None or abs(now - written) >= YOUNG_SECONDS):
            whole.add(file)
    return whole


def has_footer(filesystem: fs.FileSystem, file: str, size: int) -> bool:
    """Return whether a file of so many bytes begins and ends as Parquet; not where it cannot be read."""
    if size < len(_MAGIC) + _TAIL:
        return False
    try:
        with filesystem.open_input_file(file) as stream:
            if stream.read(len(_MAGIC)) != _MAGIC:
                return False
            stream.seek(size - _TAIL)
            tail = stream.read(_TAIL)
    except OSError:
        return False
    length = int.from_bytes(tail[:4], "little")
    return bool(tail[4:] == _MAGIC and 0 < length <= size - len(_MAGIC) - _TAIL)
