"""A store: immutable snapshots, and a chain of commits that says which one is current.

::

    STORE/
      commits/<20 digits>.json      which snapshot became current, and the SHA-256 of its manifest; the highest counts
      CURRENT                       the number of a commit: a hint, which may lag
      LEASE                         who writes, while somebody does
      snapshots/<name>/
        WRITING                     who is making it; gone once it has become current
        manifest.json
        partitions/<number>-<hash>.arrow
        borders-<hash>.arrow
        quarantine/                 rejected rows with their reasons

A snapshot is finished if it has a manifest and no mark ``WRITING``, or is current. On disks a folder is made under
another name and gets its own once the mark stands in it; it gets another one again before anything in it is removed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dtoss.commits.chain import Chain, Commit, check_format
from dtoss.commits.folder import Folder, LocalFolder, RemoteFolder
from dtoss.commits.lease import Holder, Writer, held_by, take, without_lease
from dtoss.commits.log_compaction import fold
from dtoss.errors import StoreError, Unreadable, reading, reason
from dtoss.snapshots.deferred_signals import undisturbed
from dtoss.snapshots.lineage import check_committed, facts_of, files_of, line_of
from dtoss.snapshots.manifest_fields import Manifest, check_manifest
from dtoss.snapshots.mapped_file import Source, open_source
from dtoss.snapshots.retention import (
    KEPT_FOR_SECONDS,
    MARK,
    clear_debris,
    current_within,
    kept,
    later_than,
    make_folder,
    name_in,
    remove_snapshot,
    settle,
    snapshot_of,
    strip,
    warning,
    why_unfinished,
)
from dtoss.snapshots.store_location import folder_of, hide_keys

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
FORMAT = 3
"""Version of the layout and of the files that is written."""
READ_FORMATS = (2, FORMAT)
"""Versions that are read."""
_OPENINGS = 100


def on_stderr(message: str) -> None:
    """Print a warning."""
    print(f"warning: {message}", file=sys.stderr)


@dataclass(frozen=True)
class Store:
    """A place that holds snapshots, on any file system that pyarrow reaches."""

    path: str  # As the user named it: a local path, or a URI such as ``hdfs://`` or ``s3://``

    @cached_property
    def folder(self) -> Folder:
        """The store's folder."""
        return folder_of(self.path)

    @cached_property
    def chain(self) -> Chain:
        """The store's commits."""
        return Chain(self.folder)

    @cached_property
    def _told(self) -> set[str]:
        return set()

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        """Let another process find the folder anew."""
        return Store, (self.path,)

    @property
    def shown(self) -> str:
        """The path for messages: without keys."""
        return hide_keys(self.path)

    @property
    def local(self) -> bool:
        """Whether files can be memory-mapped."""
        return isinstance(self.folder, LocalFolder)

    @classmethod
    def at(cls, place: Any) -> Store:
        """Return the store that a path, a URI or a store names, whatever directory a process works in."""
        if not isinstance(place, (str, PathLike, Store)) or not str(place):
            raise ValueError(f"store is {place!r}: a path or a URI is wanted")
        return (place if isinstance(place, Store) else cls(str(place))).absolute

    @property
    def absolute(self) -> Store:
        """The same store, whatever directory a process works in."""
        return self if "://" in self.path else Store(str(Path(self.path).absolute()))

    def file(self, *parts: str) -> str:
        """Return the path of something in the store, on its file system."""
        return self.folder.path(*parts)

    # -- reading ----------------------------------------------------------------------------------------------------

    def head(self) -> Commit | None:
        """Return the commit that counts; None where there is none yet, as in a store of an earlier version.

        Its document holds the names ``snapshot``, ``sha256`` (of the manifest's bytes), ``kind`` ("rebuild", "cycle" or
        "rollback"), ``objects``, ``updated`` and ``seconds``. Cost O(1).
        """
        with reading(f"the commits of {self.shown}"):
            return self.chain.head(self._warn_once)

    def last(self) -> Commit | None:
        """Return the commit to write after: as :meth:`head`, but a damaged one is no error, and has no document."""
        with reading(f"the commits of {self.shown}"):
            return self.chain.last(self._warn_once)

    def current(self) -> str:
        """Return the name of the current snapshot."""
        commit = self.head()
        if commit is None:
            return self._current_before_commits()
        for _ in range(_OPENINGS):
            name = snapshot_of(commit)
            if name is not None and self._exists("snapshots", name, "manifest.json"):
                return name
            # another one may just have become current, and this one gone
            following = self.head()
            if following is None or following.number == commit.number:
                break
            commit = following
        raise StoreError(
            f"version {commit.number} of {self.shown} is snapshot {name!r}, and there is no such snapshot; roll back "
            f"(dtoss rollback --store {self.shown}) or rebuild"
        )

    def _current_before_commits(self) -> str:
        """Return the current snapshot of a store of an earlier version, whose ``CURRENT`` holds its name."""
        data = self._read("CURRENT")
        if data is None and self.snapshots():
            raise StoreError(
                f"CURRENT of {self.shown} is missing: roll back (dtoss rollback --store {self.shown}) or rebuild"
            )
        if data is None:
            raise StoreError(
                f"{self.shown} is not a store, or holds no snapshot yet: dtoss rebuild POSITIONS --store {self.shown}"
            )
        name = name_in(data)
        if name is None or not self._exists("snapshots", name, "manifest.json"):
            # the pointer may just have moved on, and the snapshot gone
            if self._read("CURRENT") != data:
                return self.current()
            text = repr(data[:40].decode(errors="replace"))
            raise StoreError(
                f"CURRENT of {self.shown} is damaged: it says {text}, and there is no such snapshot; roll back "
                f"(dtoss rollback --store {self.shown}) or rebuild"
            )
        return name

    def of_current(self, read: Callable[[str], T], tries: int = _OPENINGS) -> T:
        """Return what ``read`` makes of the current snapshot's name; once more where the pointer moved meanwhile."""
        for _ in range(tries):
            name = self.current()
            try:
                return read(name)
            except StoreError:
                if self.current() == name:
                    raise
        raise StoreError(f"{self.shown} is replaced faster than it can be opened: keep more snapshots (--keep)")

    def snapshots(self) -> list[str]:
        """Return the names of the finished snapshots, oldest first."""
        return self._finished(self._points_to())

    def _finished(self, current: str | None) -> list[str]:
        return [
            name
            for name in self._folders()
            if name_in(name.encode()) is not None
            and self._exists("snapshots", name, "manifest.json")
            and (name == current or not self._exists("snapshots", name, MARK))
        ]

    def unfinished(self) -> list[tuple[str, str]]:
        """Return the names of folders that are no finished snapshots, and why each is there."""
        finished = set(self.snapshots())
        names = [name for name in self._folders() if name not in finished]
        return [(name, why_unfinished(self.folder, name)) for name in names]

    def writes(self) -> Holder | None:
        """Return who writes to the store at present, if anybody does."""
        return held_by(self.folder)

    def manifest(self, snapshot: str | None = None) -> Manifest:
        """Return the manifest of a snapshot; of the current one when None."""
        if snapshot is None:
            return self.of_current(self.manifest)
        data = None
        if name_in(snapshot.encode(errors="replace")) == snapshot:
            data = self._read("snapshots", snapshot, "manifest.json")
        if data is None:
            known = ", ".join(self.snapshots()) or "none"
            raise StoreError(f"{self.shown} has no snapshot {snapshot!r}; it has {known}")
        try:
            document = json.loads(data)
            version = document["format"]
            manifest = Manifest(document)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StoreError(
                f"manifest.json of snapshot {snapshot!r} in {self.shown} is damaged; roll back or rebuild"
            ) from None
        if isinstance(version, bool) or version not in READ_FORMATS:
            # another version has written it, unless a byte has changed
            check_committed(self.chain, snapshot, data, self.file("snapshots", snapshot, "manifest.json"))
            check_format(f"snapshot {snapshot!r}", version, READ_FORMATS, "rebuild it with this one")
        check_manifest(manifest, snapshot, self.file("snapshots", snapshot, "manifest.json"))
        check_committed(self.chain, snapshot, data, self.file("snapshots", snapshot, "manifest.json"))
        return manifest

    def source(self, snapshot: str, file: str, size: int | None = None) -> Source:
        """Return a file of a snapshot, memory-mapped where it is local."""
        return open_source(self.folder, self.file("snapshots", snapshot, file), size)

    def _read(self, *parts: str) -> bytes | None:
        with reading(self.file(*parts)):
            return self.folder.read(*parts)

    def _exists(self, *parts: str) -> bool:
        with reading(self.file(*parts)):
            return self.folder.is_file(*parts)

    def _folders(self) -> list[str]:
        with reading(self.file("snapshots")):
            return self.folder.folders("snapshots")

    def _points_to(self) -> str | None:
        """Return the snapshot that is said to be current, whether it is there or not; None if that is damaged."""
        last = self.last()
        if last is not None:
            return snapshot_of(last)
        with reading(self.file("CURRENT")), suppress(IsADirectoryError):
            data = self.folder.read("CURRENT")
            return None if data is None else name_in(data)
        return None

    def told(self, messages: Iterable[str]) -> None:
        """Warn of none of these, for somebody knows them."""
        self._told.update(messages)

    def _warn_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            on_stderr(message)

    # -- writing ----------------------------------------------------------------------------------------------------

    def writer(self, warn: Callable[[str], None] = on_stderr, lease: bool = True) -> Writer:
        """Return the right to write, which one process has at a time, until it is released; the store is made.

        Without a ``lease`` nobody is kept out: of several that write after the same commit one gets through.
        """
        if isinstance(self.folder, RemoteFolder):
            if self.folder.read_only:
                raise StoreError(self.folder.read_only)
            if self.folder.untried:
                warn(f"commits of {self.shown} rest on renames of HDFS, which were not tried: let one write at a time")
        try:
            made = not self.folder.there()
            self.folder.make()
            if "CURRENT" in self.folder.folders():
                raise StoreError(f"{self.file('CURRENT')} is a folder: move it away, then roll back or rebuild")
            if lease:
                lock = take(self.folder, self.shown, warn, lambda: self._clear_debris(warn))
            else:
                lock = without_lease(self.folder, self.shown)
            lock.made = made
            return lock
        except OSError as error:
            raise StoreError(f"{self.shown} cannot be written: {reason(error)}") from None

    def begin(self) -> str:
        """Make the folder of a new snapshot and return its name, which is later than all others'."""
        for _ in range(_OPENINGS):
            there = self.folder.folders("snapshots")
            name = later_than([*there, self._points_to() or ""])
            if name not in there and make_folder(self.folder, name):
                return name
        raise StoreError(f"{self.shown} has a snapshot {name!r} already: another process writes to it")

    @contextmanager
    def fresh(self, warn: Callable[[str], None] = on_stderr) -> Iterator[str]:
        """Make the folder of a new snapshot and give its name; if the block fails, it goes again.

        One that the block has made current stays, whatever is raised after that.
        """
        snapshot = self.begin()
        try:
            yield snapshot
        except BaseException:
            with undisturbed(), warning(warn, self.file("snapshots", snapshot)):
                self.abandon(snapshot)
            raise

    def write(self, snapshot: str, file: str, data: pa.Buffer) -> None:
        """Write a file of a snapshot under its final name, whole or not at all."""
        self.folder.write(data, "snapshots", snapshot, file)

    def link(self, snapshot: str, file: str, of: str) -> None:
        """Give a snapshot a file of another one under the same name: a link where the disk has them, else a copy."""
        parts = file.split("/")
        self.folder.link(("snapshots", of, *parts), ("snapshots", snapshot, *parts))

    def finish(
        self,
        snapshot: str,
        manifest: dict[str, Any],
        lock: Writer | None = None,
        after: Commit | Literal["head"] | None = "head",
        sync: bool = True,
    ) -> Commit:
        """Bring the files to the disk, write the manifest, and last make the snapshot current; return the commit.

        ``manifest`` gets two fields: ``parent``, what was current before, and ``timings["sync"]``, the seconds that
        syncing took. Files of the snapshot that the manifest does not list are removed first: a task that was killed
        or tried twice has left them.

        ``after``: the commit that the snapshot was made from, None for an empty store. "head" is the last one by now,
        for who is alone; ``sync``: whether files are brought to the disk, which a store in memory has no need of.
        """
        wrong = self.misses(snapshot, manifest)
        if wrong is not None:
            raise StoreError(f"{wrong}: the disk has lost it, or another process removes files; rebuild")
        files = files_of(manifest)
        strip(self.folder, snapshot, files)
        began = time.perf_counter()
        if sync:
            self.folder.sync(("snapshots", snapshot, *file.split("/")) for file in files)
        manifest["timings"] = {**manifest["timings"], "sync": round(time.perf_counter() - began, 3)}
        before = self._after(after)
        manifest["parent"] = None if before is None else snapshot_of(before)
        data = json.dumps(manifest, indent=1, sort_keys=True).encode()
        self.folder.replace(data, "snapshots", snapshot, "manifest.json")
        commit = self._commit(snapshot, data, before)
        self.remove(snapshot, MARK)
        return commit

    def _after(self, after: Commit | Literal["head"] | None) -> Commit | None:
        """Return the commit to commit after.

        A store of an earlier version gets a first one for its current snapshot.
        """
        if isinstance(after, Commit):
            return after
        last = self.last()
        if last is not None:
            if after is None:
                raise self.chain.conflict(last.number)
            return last
        name = self._points_to()
        data = None if name is None else self._read("snapshots", name, "manifest.json")
        return None if name is None or data is None else self._commit(name, data, None)

    def _commit(self, snapshot: str, data: bytes, after: Commit | None, *, rolled: bool = False) -> Commit:
        """Make a finished snapshot, whose manifest is ``data``, current."""
        document: dict[str, Any] = {"snapshot": snapshot, "sha256": sha256(data).hexdigest()}
        if after is not None and (parent := snapshot_of(after)) is not None:
            # only the last that was committed may have its mark: any other one that has it is debris
            settle(self.folder, parent)
        return self.chain.append(document | facts_of(data, rolled=rolled), after)

    def rollback(self, warn: Callable[[str], None] = on_stderr, lease: bool = True) -> tuple[str, str]:
        """Make the parent of the current snapshot current; return (the new one, the one left).

        It is a new commit that names an older snapshot. The parent is what was current when a snapshot was made. So
        rolling back again goes to the parent's parent, and never to a snapshot that was rolled away from. Snapshots
        that are not whole are passed over. Where the last commit is damaged, the latest whole snapshot becomes current.
        """
        if self._points_to() is None and not self.snapshots():
            self.current()  # which says so: no store is made where there is none
        with self.writer(warn, lease):
            before = self._after("head")
            now = self._points_to()
            if now is None or not self._exists("snapshots", now, "manifest.json"):
                now, earlier = now or "nothing", iter(reversed(self.snapshots()))
            else:
                settle(self.folder, now)
                earlier = line_of(self.folder, now, self.snapshots())
                next(earlier)
            for name in earlier:
                wrong = self._damage(name)
                if wrong is None:
                    data = self._read("snapshots", name, "manifest.json") or b""
                    before = self._commit(name, data, before, rolled=True)
                    # somebody may have cleared it without a lease
                    if self._exists("snapshots", name, "manifest.json"):
                        return name, now
                    wrong = "it was removed meanwhile"
                warn(f"{name} is passed over: {wrong}")
        raise StoreError(f"{self.shown} has no snapshot before {now!r} to roll back to")

    def abandon(self, snapshot: str) -> None:
        """Remove an unfinished snapshot; one that has become current stays."""
        # others may have committed since
        lately = islice(self.chain.newest_first(), _OPENINGS)
        if self._points_to() != snapshot and all(snapshot_of(commit) != snapshot for commit in lately):
            remove_snapshot(self.folder, snapshot, lambda: None)

    def tidy(
        self,
        keep: int | None,
        lock: Writer,
        warn: Callable[[str], None] = on_stderr,
        keep_for: float | None = KEPT_FOR_SECONDS,
    ) -> None:
        """Clear when all is done: whatever fails is a warning, for the new snapshot is current already."""
        with warning(warn, self.shown):
            self.clear(keep, lock=lock, warn=warn, keep_for=keep_for)

    def clear(
        self,
        keep: int | None,
        *,
        lock: Writer | None = None,
        warn: Callable[[str], None] = on_stderr,
        keep_for: float | None = 0.0,
        lease: bool = True,
    ) -> list[str]:
        """Remove snapshots beyond ``keep``, and what unfinished work has left; return the names of the snapshots.

        The current snapshot stays in any case, then those that rolling back leads to, then the latest of the others,
        ``keep`` in all (:mod:`dtoss.snapshots.retention`). What cannot be removed is warned of, and stays for the next
        time; it is no snapshot any more. Old commits are folded (:mod:`dtoss.commits.log_compaction`).

        ``keep``: all finished snapshots stay when None; ``lock``: held by the caller; taken for the while when None;
        ``warn``: is told what could not be removed; ``keep_for``: seconds: what was current less than that ago stays
        too. None is ten minutes on object stores, where readers open files late, and 0 elsewhere; ``lease``: whether a
        lease is taken where there is no ``lock``.
        """
        if lock is None:
            with self.writer(warn, lease) as taken:
                return self.clear(keep, lock=taken, warn=warn, keep_for=keep_for)
        lock.check()
        # each look at the head is four requests to an object store
        current = self._points_to()
        finished = self._finished(current)
        removed = clear_debris(self.folder, current, finished, self._points_to, warn)
        if keep is None or current not in finished:
            return removed
        if keep_for is None:
            keep_for = 0.0 if self.local else KEPT_FOR_SECONDS
        with warning(warn, self.shown):
            fold(self.chain, warn=warn)
            lately = current_within(self.chain.newest_first(), keep_for)
            staying = kept(current, finished, line_of(self.folder, current, finished), keep, lately)
            for name in finished:
                if name not in staying:
                    with warning(warn, self.file("snapshots", name)):
                        if remove_snapshot(self.folder, name, self._points_to):
                            removed.append(name)
        return removed

    def remove(self, snapshot: str, file: str) -> None:
        """Remove a file of a snapshot, if it is there."""
        self.folder.remove("snapshots", snapshot, *file.split("/"))

    def _clear_debris(self, warn: Callable[[str], None]) -> list[str]:
        current = self._points_to()
        return clear_debris(self.folder, current, self._finished(current), self._points_to, warn)

    def _damage(self, snapshot: str) -> str | None:
        """Return what a finished snapshot lacks; None if all its files are there with their sizes."""
        try:
            return self.misses(snapshot, self.manifest(snapshot))
        except Unreadable:
            raise
        except StoreError as error:
            return str(error)
        except (KeyError, TypeError):
            return "manifest.json is damaged"

    def misses(self, snapshot: str, manifest: dict[str, Any]) -> str | None:
        """Return which file of a snapshot is missing or of another size than its manifest says; None if all are there.

        One listing a folder.
        """
        there: dict[str, dict[str, int]] = {}
        for file, size in files_of(manifest).items():
            folder, _, name = file.rpartition("/")
            if folder not in there:
                parts = ("snapshots", snapshot, *filter(None, folder.split("/")))
                with reading(self.file(*parts)):
                    there[folder] = self.folder.sizes(*parts)
            found = there[folder].get(name)
            if found != size:
                has = "is missing" if found is None else f"has {found} bytes, not {size}"
                return f"{self.file('snapshots', snapshot, file)} {has}"
        return None
