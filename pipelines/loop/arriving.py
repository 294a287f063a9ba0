"""Files that keep arriving in a folder: which are whole, and which of these were not read yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pyarrow import fs

from dtoss.commits.folder import LocalFolder
from dtoss.commits.lease import held_by
from dtoss.commits.offsets import Ledger, Source
from dtoss.errors import InputError
from dtoss.log.segment_names import HIDDEN, ask_to_seal, is_asked
from pipelines.rows.footers import AT_ONCE
from pipelines.rows.inputs import Inputs, format_of, kind_in, look_in
from pipelines.rows.list_files import Listing, escape_glob, is_as_written, join_listings, listing, sha256_of

YOUNG_SECONDS = 2.0
"""A text file that was written to less than this ago waits: nothing in it says where it ends."""
LONG_SECONDS = 600.0
"""A file that has waited for longer is told of."""
LEFT_SECONDS = 10.0
"""Who reads once does not wait for a Parquet file that was not written to for so long: the next run has it."""
SEALED_SECONDS, LOOK_SECONDS = 1.0, 0.02
"""How long a loop waits at the most until what is told is sealed, and between two looks."""
_HASHED_AT_ONCE = 4
_MAGIC = b"PAR1"
_TAIL = 8
"""Bytes at the end of a Parquet file: the length of its footer, and its mark."""


@dataclass
class Patience:
    """What a loop remembers of files that were not read: since when each waits, and of which it has told."""

    # When a file of this name and size was first seen, in seconds of Unix time
    since: dict[tuple[str, int], float] = field(default_factory=dict)
    told: set[tuple[str, str]] = field(default_factory=set)  # (file, why) of which somebody was told already
    has_read: bool = False  # Whether any file was read well
    # The SHA-256 of files by name, bytes and when they were written
    hashes: dict[tuple[str, int, int | None], str] = field(default_factory=dict)

    def tell(self, file: str, why: str, warn: Callable[[str], None]) -> None:
        """Tell of a file, once."""
        if (file, why) not in self.told:
            self.told.add((file, why))
            warn(f"{file}: {why}")

    def hashed(self, found: Arrivals, ledger: Ledger) -> Arrivals:
        """Return what has arrived with the hashes of fresh files, each read once for it; of them those that differ.

        A file that has gone, or cannot be read, has none. Cost O(bytes) of the files that were not seen before.
        """
        stamps, filesystem = found.where.stamps, found.where.filesystem
        keys = {file: (file, size, stamps.get(file)) for file, size in found.fresh.items() if size}

        def digest_of(file: str) -> str | None:
            try:
                return self.hashes.get(keys[file]) or sha256_of(filesystem, file)
            except OSError:
                return None

        with ThreadPoolExecutor(_HASHED_AT_ONCE) as pool:
            made = dict(zip(keys, pool.map(digest_of, keys), strict=True))
        self.hashes = {keys[file]: digest for file, digest in made.items() if digest}
        order = sorted(keys, key=lambda file: (stamps.get(file, 0), file))
        return replace(found, hashes={file: digest for file in order if (digest := made[file])}).unread(ledger)

    def forget_all_but(self, waiting: Mapping[str, int], there: Mapping[str, int]) -> None:
        """Keep what is known of files that still wait, or are still there."""
        self.since = {known: since for known, since in self.since.items() if waiting.get(known[0]) == known[1]}
        self.told = {(file, why) for file, why in self.told if file in there}


@dataclass(frozen=True)
class Arrivals:
    """What is in a folder at one moment."""

    where: Listing  # All files in it, but hidden ones
    there: Mapping[str, int]  # The bytes of each of them
    # The bytes of those that are whole and were not read yet, or have other bytes than when they were
    fresh: Mapping[str, int]
    waiting: Mapping[str, int]  # The bytes of those that are not whole yet
    kind: (
        str | None
    )  # The format of all files, as :class:`pipelines.rows.inputs.Inputs` has it; None where there are none
    # When the first of the fresh ones was written, in seconds of Unix time; None where there are none
    oldest: float | None
    # Why files cannot be read as they are: waiting ones that will never be whole, and those of other formats
    broken: Mapping[str, str] = field(default_factory=dict)
    # The SHA-256 of the fresh ones that are not empty, once they are known
    hashes: Mapping[str, str] = field(default_factory=dict)

    def inputs(self, *, schema: str = "union", encoding: str | None = None) -> Inputs | None:
        """Return the fresh files as Spark is to read them; None where there is nothing in any of them."""
        files = [file for file, size in self.fresh.items() if size]
        if not files or self.kind is None:
            return None
        return look_in(self.where, files, self.kind, schema=schema, encoding=encoding)

    def some(self, files: Mapping[str, int]) -> Arrivals:
        """Return the same of which only some files are fresh; all else stays."""
        return replace(self, fresh=files, oldest=_oldest(self.where, files, None))

    def unread(self, ledger: Ledger) -> Arrivals:
        """Return the same of which only those files are fresh that a ledger has not; all else stays."""
        return self.some(ledger.fresh(self.fresh, self.where.stamps, self.hashes))

    def grows(self, now: float) -> bool:
        """Return whether a waiting file may soon be whole: text is young, and Parquet was written to of late."""
        written = dict(zip(self.where.files, self.where.written, strict=True))
        return any(
            self.kind != "parquet" or now - (written[file] or 0.0) < LEFT_SECONDS
            for file in self.waiting
            if file not in self.broken
        )

    def source(self, refused: Mapping[str, str] | None = None) -> Source:
        """Return what a commit says of the fresh files, and of those that are refused, once they are read."""
        why = dict(refused or {})
        files = {**self.fresh, **{file: self.there[file] for file in why}}
        written = {file: at for file, at in self.where.stamps.items() if file in files}
        # what is refused is read again once it is touched: options may have been to blame
        hashes = {file: digest for file, digest in self.hashes.items() if file in files and file not in why}
        return Source(files, tuple(self.there), written=written, hashes=hashes, refused=why)

    def read(self, ledger: Ledger) -> Ledger:
        """Return a ledger once the fresh files are read; files that are gone are forgotten."""
        return self.source().read(ledger)

    def gone(self) -> list[str]:
        """Return the fresh files that are no longer there, or were written again, sorted."""
        return sorted(info.path for info in self._now() if self._is_other(info))

    def changed(self) -> list[str]:
        """Return the fresh files that are there, and were written again by now, sorted."""
        return sorted(info.path for info in self._now() if info.size is not None and self._is_other(info))

    def _now(self) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self.where.filesystem.get_file_info(sorted(self.fresh))
        return found

    def _is_other(self, info: fs.FileInfo) -> bool:
        return info.size != self.fresh[info.path] or not is_as_written(info, self.where.stamps.get(info.path))


def list_arrivals(
    path: str | Sequence[str],
    ledger: Ledger,
    patience: Patience,
    warn: Callable[[str], None],
    clock: Callable[[], float] = time.time,
    refuses: bool = False,
) -> Arrivals:
    """Return what is in a folder, at any depth, and what of it is to be read.

    Files whose names, or the names of a folder above them, begin with a dot or an underscore are never read. A Parquet
    file without its footer waits, as does a text file that was written to less than 2 seconds ago; who has waited for
    10 minutes is told of, once. Files of no format that is read are told of, once.

    ``patience``: what is known of files that were not; it is kept from call to call; ``warn``: is told of files that
    wait for long, and of those that are never read; ``clock``: the time, in seconds of Unix time.

    Costs one listing of all files, and two reads of some bytes of each Parquet file that was not read yet.
    """
    paths = [path] if isinstance(path, str) else list(path)
    found = [_looked_at(one) for one in paths]
    where = join_listings(found)
    there = dict(zip(where.files, where.sizes, strict=True))
    unread = ledger.fresh(there, where.stamps)
    kinds: dict[str, str] = {}
    for one in found:
        for file, folders in zip(one.files, one.folders, strict=True):
            # what was read has shown its format then
            kind = kind_in(one, file, folders) if file in unread else format_of(file)
            if kind is not None and (file in unread or file not in ledger.refused):
                kinds[file] = kind
    for file in unread:
        if file not in kinds:
            patience.tell(file, "no format that is read: it is left alone", warn)
    written = dict(zip(where.files, where.written, strict=True))
    now = clock()
    broken = _of_other_formats(kinds, unread, written) if refuses else {}
    kinds = {file: kind for file, kind in kinds.items() if file not in broken}
    _check_one(", ".join(paths), kinds)
    candidates = [file for file in unread if file in kinds]
    whole = _whole(where.filesystem, {file: (kinds[file], there[file], written[file]) for file in candidates}, now)
    waiting = {file: there[file] for file in candidates if file not in whole}
    patience.forget_all_but(waiting, there)
    for file, size in waiting.items():
        since = patience.since.setdefault((file, size), now)
        age = now - min(since, written[file] or now)
        if kinds[file] == "parquet" and age > YOUNG_SECONDS and not _begins(where.filesystem, file):
            broken[file] = "it is no Parquet file, whatever its name says"
        elif kinds[file] == "parquet" and age > LONG_SECONDS:
            broken[file] = f"it is cut short: after {LONG_SECONDS / 60.0:.0f} minutes it has no footer"
        if age > LONG_SECONDS:
            why = "has no footer" if kinds[file] == "parquet" else "is still being written to"
            patience.tell(
                file, f"{why} after {LONG_SECONDS / 60.0:.0f} minutes, and is not read: is its writer gone?", warn
            )
    fresh = {file: there[file] for file in candidates if file in whole}
    kind = next((kinds[file] for file in (*fresh, *kinds)), None)
    return Arrivals(where, there, fresh, waiting, kind, _oldest(where, fresh, now), broken)


def _oldest(where: Listing, fresh: Mapping[str, int], now: float | None) -> float | None:
    """Return when the first of some files was written; None without files, ``now`` where nothing says it."""
    stamps = [at for file, at in zip(where.files, where.written, strict=True) if file in fresh and at is not None]
    return min(stamps, default=now) if fresh else None


def _looked_at(path: str) -> Listing:
    where = listing(path, follows=True)
    if where is None:
        raise InputError(f"{path} cannot be looked at: check the path, and that this machine can reach it")
    if not where.there and "://" not in path and escape_glob(path) == path:
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


def _of_other_formats(
    kinds: Mapping[str, str], unread: Mapping[str, int], written: Mapping[str, float | None]
) -> dict[str, str]:
    """Return why files are not of the format of those that were read, or else of the oldest one."""
    if not kinds:
        return {}
    first = min(kinds, key=lambda file: (file in unread, written[file] or 0.0, file))
    return {
        file: f"it is {kind}, and others such as {first} are {kinds[first]}: files of one folder are of one format"
        for file, kind in kinds.items()
        if kind != kinds[first] and file in unread
    }


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


def _begins(filesystem: fs.FileSystem, file: str) -> bool:
    """Return whether a file may become a Parquet file yet: it begins as one, or with bytes that are still to come."""
    try:
        with filesystem.open_input_file(file) as stream:
            head = bytes(stream.read(len(_MAGIC)))
    except OSError:
        return True
    return _MAGIC.startswith(head.rstrip(b"\0"))


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


def ask_for_seal(
    updates: str | Sequence[str], wait: Callable[[float], bool | None] = time.sleep, seconds: float = SEALED_SECONDS
) -> None:
    """Ask who writes a log in a folder to seal what is open, and wait until it has, not for long.

    Where nobody writes there is nothing to wait for; what is not sealed by then is read the next time.
    """
    for path in [updates] if isinstance(updates, str) else updates:
        if "://" in path or not ask_to_seal(path):
            continue
        hidden = LocalFolder(f"{path}/{HIDDEN}")
        left = round(seconds / LOOK_SECONDS)
        while left > 0 and is_asked(path) and held_by(hidden) is not None:
            left = 0 if wait(LOOK_SECONDS) else left - 1
