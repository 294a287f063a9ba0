"""A store: immutable snapshots, and a pointer that says which one is current.

::

    STORE/
      CURRENT                       the name of the current snapshot, replaced atomically and last
      WRITER                        who writes, while somebody does
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
import mmap
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dtoss.commits.folder import Folder, LocalFolder, RemoteFolder
from dtoss.commits.lease import Holder, Writer, held_by, leftovers, take
from dtoss.errors import StoreError
from dtoss.snapshots.manifest_fields import check_manifest
from dtoss.snapshots.place import folder_of
from dtoss.snapshots.signals import undisturbed

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
FORMAT = 3
"""Version of the layout and of the files that is written."""
READ_FORMATS = (2, FORMAT)
"""Versions that are read."""
STALE_SECONDS = 24 * 3600
"""Age from which on an unfinished snapshot of another machine counts as debris."""
FRESH, REMOVED = ".new.", ".removed."
"""How the names of folders begin that are no snapshots yet, or no longer."""
_NAME = "%Y%m%dT%H%M%S.%fZ"
_OPENINGS = 100


def on_stderr(message: str) -> None:
    """Print a warning."""
    print(f"warning: {message}", file=sys.stderr)


@dataclass(frozen=True)
class Source:
    """A file of a snapshot: its path on its file system and its bytes, mapped where it is local."""

    path: str
    data: pa.Buffer
    mapped: mmap.mmap | None = None

    def check_size(self) -> None:
        """Check that the file still has the size with which it was mapped: reading past its end would be a signal.

        Raises
        ------
        StoreError
            If it has another one by now.
        """
        if self.mapped is not None and (found := self.mapped.size()) != self.data.size:
            raise StoreError(
                f"{self.path} has {found} bytes, it had {self.data.size} when it was opened: something has changed it; "
                "roll back or rebuild"
            )


@dataclass(frozen=True)
class Store:
    """A place that holds snapshots, on any file system that pyarrow reaches.

    Parameters
    ----------
    path
        As the user named it: a local path, or a URI such as ``hdfs://`` or ``s3://``.
    """

    path: str

    @cached_property
    def folder(self) -> Folder:
        """The store's folder."""
        return folder_of(self.path)

    @property
    def local(self) -> bool:
        """Whether files can be memory-mapped."""
        return isinstance(self.folder, LocalFolder)

    @property
    def absolute(self) -> Store:
        """The same store, whatever directory a process works in."""
        return self if "://" in self.path else Store(str(Path(self.path).absolute()))

    def file(self, *parts: str) -> str:
        """Return the path of something in the store, on its file system."""
        return self.folder.path(*parts)

    # -- reading ----------------------------------------------------------------------------------------------------

    def current(self) -> str:
        """Return the name of the current snapshot.

        Raises
        ------
        StoreError
            If there is no store at this path, no snapshot in it yet, or ``CURRENT`` is damaged.
        """
        data = self._read("CURRENT")
        if data is None and self.snapshots():
            raise StoreError(
                f"CURRENT of {self.path} is missing: roll back (dtoss rollback --store {self.path}) or rebuild"
            )
        if data is None:
            raise StoreError(
                f"{self.path} is not a store, or holds no snapshot yet: dtoss rebuild POSITIONS --store {self.path}"
            )
        name = _name_in(data)
        if name is None or not self._exists("snapshots", name, "manifest.json"):
            # the pointer may just have moved on, and the snapshot gone
            if self._read("CURRENT") != data:
                return self.current()
            text = repr(data[:40].decode(errors="replace"))
            raise StoreError(
                f"CURRENT of {self.path} is damaged: it says {text}, and there is no such snapshot; roll back "
                f"(dtoss rollback --store {self.path}) or rebuild"
            )
        return name

    def of_current(self, read: Callable[[str], T]) -> T:
        """Return what ``read`` makes of the current snapshot's name; once more where the pointer moved meanwhile.

        Raises
        ------
        StoreError
            As :meth:`current` and ``read``, or if the snapshot is replaced faster than it can be read.
        """
        for _ in range(_OPENINGS):
            name = self.current()
            try:
                return read(name)
            except StoreError:
                if self.current() == name:
                    raise
        raise StoreError(f"{self.path} is replaced faster than it can be opened: keep more snapshots (--keep)")

    def snapshots(self) -> list[str]:
        """Return the names of the finished snapshots, oldest first."""
        current = self._points_to()
        return [
            name
            for name in self.folder.folders("snapshots")
            if _name_in(name.encode()) is not None
            and self._exists("snapshots", name, "manifest.json")
            and (name == current or not self._exists("snapshots", name, "WRITING"))
        ]

    def unfinished(self) -> list[tuple[str, str]]:
        """Return the names of folders that are no finished snapshots, and why each is there."""
        finished = set(self.snapshots())
        found = []
        for name in self.folder.folders("snapshots"):
            if name in finished:
                continue
            data = self._read("snapshots", name, "WRITING")
            holder = None if data is None else Holder.read(data)
            if name.startswith(REMOVED):
                why = "could not be removed, or is just going"
            elif self._is_debris(name):
                why = "debris, which the next rebuild removes"
            else:
                why = f"made by {holder}; kept, for that may still run"
            found.append((name, why))
        return found

    def writes(self) -> Holder | None:
        """Return who writes to the store at present, if anybody does."""
        return held_by(self.folder)

    def manifest(self, snapshot: str | None = None) -> dict[str, Any]:
        """Return the manifest of a snapshot; of the current one when None.

        Raises
        ------
        StoreError
            If there is none of this name, it is damaged, or of another format; a field that is wrong is named.
        """
        if snapshot is None:
            return self.of_current(self.manifest)
        data = None
        if _name_in(snapshot.encode(errors="replace")) == snapshot:
            data = self._read("snapshots", snapshot, "manifest.json")
        if data is None:
            known = ", ".join(self.snapshots()) or "none"
            raise StoreError(f"{self.path} has no snapshot {snapshot!r}; it has {known}")
        try:
            manifest: dict[str, Any] = json.loads(data)
            version = manifest["format"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StoreError(
                f"manifest.json of snapshot {snapshot!r} in {self.path} is damaged; roll back or rebuild"
            ) from None
        if isinstance(version, bool) or version not in READ_FORMATS:
            known = " and ".join(map(str, READ_FORMATS))
            raise StoreError(
                f"snapshot {snapshot!r} has format {version}, this dtoss reads {known}: rebuild it with this version"
            )
        check_manifest(manifest, snapshot, self.file("snapshots", snapshot, "manifest.json"))
        return manifest

    def source(self, snapshot: str, file: str, size: int | None = None) -> Source:
        """Return a file of a snapshot, memory-mapped where it is local.

        Raises
        ------
        StoreError
            If it is missing or not of the size that the manifest states.
        """
        import pyarrow as pa

        path = self.file("snapshots", snapshot, file)
        try:
            if isinstance(self.folder, RemoteFolder):
                with self.folder.filesystem.open_input_file(path) as stream:
                    source = Source(path, stream.read_buffer())
            else:
                with Path(path).open("rb") as stream:
                    found = os.fstat(stream.fileno()).st_size
                    # an empty file cannot be mapped
                    mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if found else None
                source = Source(path, pa.py_buffer(mapped if mapped is not None else b""), mapped)
        except (OSError, ValueError):
            raise StoreError(f"{path} is missing or cannot be read; roll back or rebuild") from None
        found = source.data.size
        if size is not None and found != size:
            raise StoreError(f"{path} has {found} bytes, the manifest says {size}: it is damaged; roll back or rebuild")
        return source

    def _read(self, *parts: str) -> bytes | None:
        try:
            return self.folder.read(*parts)
        except OSError as error:
            raise StoreError(f"{self.file(*parts)} cannot be read: {_reason(error)}; roll back or rebuild") from None

    def _exists(self, *parts: str) -> bool:
        return self.folder.is_file(*parts)

    def _points_to(self) -> str | None:
        """Return what ``CURRENT`` names, whether that is there or not; None where it is missing or damaged."""
        try:
            data = self.folder.read("CURRENT")
        except IsADirectoryError:
            return None
        return None if data is None else _name_in(data)

    # -- writing ----------------------------------------------------------------------------------------------------

    def writer(self, warn: Callable[[str], None] = on_stderr) -> Writer:
        """Return the right to write, which one process has at a time, until it is released; the store is made.

        Raises
        ------
        StoreError
            If another process has it, or the store cannot be written.
        """
        try:
            made = not self.folder.there()
            self.folder.make()
            if "CURRENT" in self.folder.folders():
                raise StoreError(f"{self.file('CURRENT')} is a folder: move it away, then roll back or rebuild")
            lock = take(self.folder, self.path, warn, lambda: self._clear_debris(warn))
            lock.made = made
            return lock
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {_reason(error)}") from None

    def begin(self) -> str:
        """Make the folder of a new snapshot and return its name, which is later than all others'.

        Raises
        ------
        StoreError
            If there is one of this name already.
        """
        there = self.folder.folders("snapshots")
        names = [name.removeprefix(REMOVED)[: len("20260101T000000.000000Z")] for name in there]
        name = _later_than([*names, self._points_to() or ""])
        if name in there:
            raise StoreError(f"{self.path} has a snapshot {name!r} already: another process writes to it")
        mark = Holder.me().data
        fresh = f"{FRESH}{uuid.uuid4().hex}" if self.folder.exclusive else name
        try:
            self.folder.make("snapshots", fresh, "partitions")
            self.folder.replace(mark, "snapshots", fresh, "WRITING")
            if fresh != name:
                self.folder.move(("snapshots", fresh), ("snapshots", name))
        except BaseException:
            with suppress(OSError):
                self.folder.remove_folder("snapshots", fresh)
            raise
        return name

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

    def finish(self, snapshot: str, manifest: dict[str, Any], lock: Writer | None = None) -> None:
        """Bring the files to the disk, write the manifest, and last make the snapshot current.

        ``manifest`` gets two fields: ``parent``, what was current before, and ``timings["sync"]``, the seconds that
        syncing took.

        Raises
        ------
        StoreError
            If a file is not there as the manifest says, or the lock was taken over; nothing has become current.
        OSError
            If something cannot be written. Where that happens after the pointer has moved, the snapshot is current.
        """
        wrong = self._misses(snapshot, manifest)
        if wrong is not None:
            raise StoreError(f"{wrong}: the disk has lost it, or another process removes files; rebuild")
        began = time.perf_counter()
        self.folder.sync(("snapshots", snapshot, *file.split("/")) for file in _files(manifest))
        manifest["timings"] = {**manifest["timings"], "sync": round(time.perf_counter() - began, 3)}
        manifest["parent"] = self._points_to()
        text = json.dumps(manifest, indent=1, sort_keys=True)
        self.folder.replace(text.encode(), "snapshots", snapshot, "manifest.json")
        if lock is not None:
            lock.check()
        self._point(snapshot)
        self.remove(snapshot, "WRITING")

    def rollback(self, warn: Callable[[str], None] = on_stderr) -> tuple[str, str]:
        """Make the parent of the current snapshot current; return (the new one, the one left).

        The parent is what was current when a snapshot was made. So rolling back again goes to the parent's parent, and
        never to a snapshot that was rolled away from. Snapshots that are not whole are passed over. Where ``CURRENT``
        is damaged, the latest whole snapshot becomes current.

        Raises
        ------
        StoreError
            If there is no earlier one, or another process writes.
        """
        if self._points_to() is None and not self.snapshots():
            self.current()  # which says so: no store is made where there is none
        with self.writer(warn) as lock:
            now = self._points_to()
            if now is None or not self._exists("snapshots", now, "manifest.json"):
                now, earlier = now or "nothing", iter(reversed(self.snapshots()))
            else:
                self._settle(now)
                earlier = self._line(now)
                next(earlier)
            for name in earlier:
                wrong = self._damage(name)
                if wrong is None:
                    lock.check()
                    self._point(name)
                    return name, now
                warn(f"{name} is passed over: {wrong}")
        raise StoreError(f"{self.path} has no snapshot before {now!r} to roll back to")

    def abandon(self, snapshot: str) -> None:
        """Remove an unfinished snapshot; one that has become current stays."""
        if self._points_to() != snapshot:
            self._remove_snapshot(snapshot)

    def tidy(self, keep: int | None, lock: Writer, warn: Callable[[str], None] = on_stderr) -> None:
        """Clear when all is done: whatever fails is a warning, for the new snapshot is current already."""
        with warning(warn, self.path):
            self.clear(keep, lock=lock, warn=warn)

    def clear(
        self, keep: int | None, *, lock: Writer | None = None, warn: Callable[[str], None] = on_stderr
    ) -> list[str]:
        """Remove snapshots beyond ``keep``, and what unfinished work has left; return the names of the snapshots.

        The current snapshot stays in any case, then those that rolling back leads to, then the latest of the others,
        ``keep`` in all. What cannot be removed is warned of, and stays for the next time; it is no snapshot any more.

        Parameters
        ----------
        keep
            All finished snapshots stay when None.
        lock
            Held by the caller; taken for the while when None.
        warn
            Is told what could not be removed.

        Raises
        ------
        StoreError
            If another process writes.
        """
        if lock is None:
            with self.writer(warn) as taken:
                return self.clear(keep, lock=taken, warn=warn)
        lock.check()
        removed = self._clear_debris(warn)
        current = self._points_to()
        finished = self.snapshots()
        if keep is None or current not in finished:
            return removed
        kept: list[str] = []
        for name in self._line(current):
            if len(kept) >= keep:
                break
            kept.append(name)
        others = [name for name in reversed(finished) if name not in kept]
        kept += others[: max(keep - len(kept), 0)]
        for name in finished:
            if name not in kept and name != current:
                with warning(warn, self.file("snapshots", name)):
                    self._remove_snapshot(name)
                    removed.append(name)
        return removed

    def remove(self, snapshot: str, file: str) -> None:
        """Remove a file of a snapshot, if it is there."""
        self.folder.remove("snapshots", snapshot, *file.split("/"))

    def _clear_debris(self, warn: Callable[[str], None]) -> list[str]:
        """Remove unfinished snapshots that nobody writes, and files under passing names; return the snapshots."""
        removed = []
        current = self._points_to()
        if current is not None:
            with warning(warn, self.file("snapshots", current, "WRITING")):
                self._settle(current)
        finished = set(self.snapshots())
        for name in self.folder.folders("snapshots"):
            with warning(warn, self.file("snapshots", name)):
                if name.startswith((FRESH, REMOVED)):
                    self.folder.remove_folder("snapshots", name)
                elif name not in finished and name != current and self._is_debris(name):
                    self._remove_snapshot(name)
                    removed.append(name)
        with warning(warn, self.path):
            passing = [name for name in self.folder.files() if name.startswith("CURRENT.")]
            for name in [*passing, *leftovers(self.folder)]:
                self.folder.remove(name)
        return removed

    def _remove_snapshot(self, name: str) -> None:
        """Remove a snapshot so that it is none at once, and its files after that."""
        if not self.folder.exclusive:
            self.folder.remove("snapshots", name, "manifest.json")
            self.folder.remove_folder("snapshots", name)
            return
        aside = f"{REMOVED}{name}.{uuid.uuid4().hex[:8]}"
        try:
            self.folder.move(("snapshots", name), ("snapshots", aside))
        except FileNotFoundError:
            return
        self.folder.remove_folder("snapshots", aside)

    def _is_debris(self, snapshot: str) -> bool:
        data = self._read("snapshots", snapshot, "WRITING")
        if data is None:
            return not self._exists("snapshots", snapshot, "manifest.json")
        holder = Holder.read(data)
        if holder is None:
            return True
        if holder.here:
            return not holder.runs
        return time.time() - holder.began > STALE_SECONDS

    def _settle(self, current: str) -> None:
        """Remove the mark that a process left which was killed when its snapshot had become current."""
        if self._exists("snapshots", current, "WRITING"):
            self.remove(current, "WRITING")

    def _line(self, name: str) -> Iterator[str]:
        """Yield a snapshot, its parent, the parent's parent, and so on while they are there."""
        finished = self.snapshots()
        seen = set()
        following: str | None = name
        while following is not None and following not in seen:
            yield following
            seen.add(following)
            following = self._parent(following, finished)

    def _parent(self, name: str, finished: list[str]) -> str | None:
        try:
            manifest = json.loads(self._read("snapshots", name, "manifest.json") or b"")
            parent = manifest["parent"]
        except (ValueError, KeyError, TypeError, RecursionError, StoreError):
            # damaged, or made before manifests named it
            return max((other for other in finished if other < name), default=None)
        return parent if parent in finished else None

    def _damage(self, snapshot: str) -> str | None:
        """Return what a finished snapshot lacks; None if all its files are there with their sizes."""
        try:
            return self._misses(snapshot, self.manifest(snapshot))
        except StoreError as error:
            return str(error)
        except (KeyError, TypeError):
            return "manifest.json is damaged"

    def _misses(self, snapshot: str, manifest: dict[str, Any]) -> str | None:
        for file, size in _files(manifest).items():
            found = self.folder.size("snapshots", snapshot, file)
            if found != size:
                has = "is missing" if found is None else f"has {found} bytes, not {size}"
                return f"{self.file('snapshots', snapshot, file)} {has}"
        return None

    def _point(self, snapshot: str) -> None:
        self.folder.replace(f"{snapshot}\n".encode(), "CURRENT")


def _files(manifest: dict[str, Any]) -> dict[str, int]:
    """Return the files of a snapshot and their bytes."""
    entries = [*manifest["partitions"], manifest["borders"], *manifest.get("quarantine", ())]
    if manifest.get("tombstones"):
        entries.append(manifest["tombstones"])
    return {entry["file"]: entry["bytes"] for entry in entries}


def _name_in(data: bytes) -> str | None:
    """Return the name of a snapshot that a pointer holds; None if it cannot be one."""
    try:
        name = data.decode("ascii").strip()
    except UnicodeDecodeError:
        return None
    legal = 0 < len(name) <= 100 and not name.startswith(".") and name.isprintable() and not set(name) & set("/\\")
    return name if legal else None


def _later_than(names: list[str]) -> str:
    """Return the name of a snapshot made now: later than all others, whatever the clock says."""
    now = datetime.now(UTC)
    for name in names:
        try:
            then = datetime.strptime(name, _NAME).replace(tzinfo=UTC)
        except ValueError:
            continue
        now = max(now, then + timedelta(microseconds=1))
    return now.strftime(_NAME)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


@contextmanager
def warning(warn: Callable[[str], None], path: str) -> Iterator[None]:
    """Turn what a file system refuses, or a lost lock, into a warning that a path was not removed."""
    try:
        yield
    except (OSError, StoreError) as error:
        why = _reason(error) if isinstance(error, OSError) else str(error)
        name = getattr(error, "filename", None) or path
        warn(f"{name} could not be removed ({why}): the next rebuild tries again")
