"""A store: immutable snapshots, and a pointer that says which one is current.

::

    STORE/
      CURRENT                       the name of the current snapshot, replaced atomically and last
      snapshots/<name>/
        WRITING                     who is making it; gone once the manifest stands
        manifest.json
        partitions/<number>-<hash>.arrow
        borders-<hash>.arrow
        quarantine/                 rejected rows with their reasons
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtoss.errors import StoreError
from dtoss.manifest import check_manifest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

FORMAT = 2
"""Version of the layout and of the files; another one is not read."""
STALE_SECONDS = 24 * 3600
"""Age from which on an unfinished snapshot of another machine counts as debris."""


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

    Manifests and the pointer of a local store are read and written by Python itself: `info` is done before pyarrow
    were loaded.

    Parameters
    ----------
    path : as the user named it: a local path, or a URI such as ``hdfs://`` or ``s3://``.
    """

    path: str

    @property
    def place(self) -> tuple[fs.FileSystem, str]:
        """The file system and the path of the store on it."""
        return filesystem_of(self.path)

    @property
    def folder(self) -> Path | None:
        """The folder of a store that is named by a path; None for a URI."""
        return None if "://" in self.path else Path(self.path).absolute()

    @property
    def local(self) -> bool:
        """Whether files can be memory-mapped."""
        return self.folder is not None or _is_local(self.place[0])

    def file(self, *parts: str) -> str:
        """Return the path of something in the store, on its file system."""
        place = self.place[1] if self.folder is None else str(self.folder)
        return "/".join([place.rstrip("/"), *parts])

    # -- reading ----------------------------------------------------------------------------------------------------

    def current(self) -> str:
        """Return the name of the current snapshot.

        Raises
        ------
        StoreError
            If there is no store at this path, or no snapshot in it yet.
        """
        name = self._read("CURRENT")
        if name is None:
            raise StoreError(
                f"{self.path} is not a store, or holds no snapshot yet: dtoss rebuild POSITIONS --store {self.path}"
            )
        return name.decode().strip()

    def snapshots(self) -> list[str]:
        """Return the names of the finished snapshots, oldest first."""
        return sorted(name for name in self._folders() if self._exists("snapshots", name, "manifest.json"))

    def manifest(self, snapshot: str | None = None) -> dict[str, Any]:
        """Return the manifest of a snapshot; of the current one when None.

        Raises
        ------
        StoreError
            If there is none of this name, it is damaged, or of another format; a field that is wrong is named.
        """
        name = snapshot or self.current()
        data = self._read("snapshots", name, "manifest.json")
        if data is None:
            known = ", ".join(self.snapshots()) or "none"
            raise StoreError(f"{self.path} has no snapshot {name!r}; it has {known}")
        try:
            manifest: dict[str, Any] = json.loads(data)
            version = manifest["format"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StoreError(
                f"manifest.json of snapshot {name!r} in {self.path} is damaged; roll back or rebuild"
            ) from None
        if version != FORMAT:
            raise StoreError(
                f"snapshot {name!r} has format {version}, this dtoss reads {FORMAT}: rebuild it with this version"
            )
        check_manifest(manifest, name, self.file("snapshots", name, "manifest.json"))
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
            if self.local:
                with Path(path).open("rb") as stream:
                    found = os.fstat(stream.fileno()).st_size
                    # an empty file cannot be mapped
                    mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if found else None
                source = Source(path, pa.py_buffer(mapped if mapped is not None else b""), mapped)
            else:
                with self.place[0].open_input_file(path) as stream:
                    source = Source(path, stream.read_buffer())
        except (OSError, ValueError):
            raise StoreError(f"{path} is missing or cannot be read; roll back or rebuild") from None
        found = source.data.size
        if size is not None and found != size:
            raise StoreError(f"{path} has {found} bytes, the manifest says {size}: it is damaged; roll back or rebuild")
        return source

    def _folders(self) -> list[str]:
        """Return the names of the snapshots' folders, of unfinished ones as well."""
        if self.folder is not None:
            place = self.folder / "snapshots"
            return sorted(entry.name for entry in place.iterdir() if entry.is_dir()) if place.is_dir() else []
        from pyarrow import fs

        selector = fs.FileSelector(self.file("snapshots"), allow_not_found=True)
        found = self.place[0].get_file_info(selector)
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def _read(self, *parts: str) -> bytes | None:
        try:
            if self.folder is not None:
                return self.folder.joinpath(*parts).read_bytes()
            filesystem, _ = self.place
            with filesystem.open_input_stream(self.file(*parts)) as stream:
                return bytes(stream.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _exists(self, *parts: str) -> bool:
        if self.folder is not None:
            return self.folder.joinpath(*parts).is_file()
        return bool(self.place[0].get_file_info(self.file(*parts)).is_file)

    # -- writing ----------------------------------------------------------------------------------------------------

    def begin(self) -> str:
        """Make the directory of a new snapshot and return its name, which is later than all others'."""
        filesystem, _ = self.place
        name = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        filesystem.create_dir(self.file("snapshots", name, "partitions"), recursive=True)
        who = {"host": socket.gethostname(), "pid": os.getpid(), "began": time.time()}
        self._write(json.dumps(who).encode(), "snapshots", name, "WRITING")
        return name

    def write(self, snapshot: str, file: str, data: pa.Buffer) -> None:
        """Write a file of a snapshot under its final name, whole or not at all."""
        filesystem, _ = self.place
        path = self.file("snapshots", snapshot, file)
        fresh = f"{path}.{uuid.uuid4().hex}"
        with filesystem.open_output_stream(fresh if self.local else path) as stream:
            stream.write(data)
        if self.local:
            filesystem.move(fresh, path)

    def finish(self, snapshot: str, manifest: dict[str, Any], *, keep: int | None = None) -> None:
        """Write the manifest, make the snapshot current, and remove what is no longer kept.

        ``keep`` finished snapshots stay, the current one among them, all when None.
        """
        self._write(json.dumps(manifest, indent=1, sort_keys=True).encode(), "snapshots", snapshot, "manifest.json")
        self.remove(snapshot, "WRITING")
        self._point(snapshot)
        self.clear(keep)

    def rollback(self) -> tuple[str, str]:
        """Make the finished snapshot before the current one current; return (the new one, the one left).

        Raises
        ------
        StoreError
            If there is no earlier one.
        """
        now = self.current()
        earlier = [name for name in self.snapshots() if name < now]
        if not earlier:
            raise StoreError(f"{self.path} has no snapshot before {now!r} to roll back to")
        self.manifest(earlier[-1])
        self._point(earlier[-1])
        return earlier[-1], now

    def abandon(self, snapshot: str) -> None:
        """Remove an unfinished snapshot."""
        filesystem, _ = self.place
        filesystem.delete_dir(self.file("snapshots", snapshot))

    def clear(self, keep: int | None) -> list[str]:
        """Remove snapshots beyond the ``keep`` latest, and unfinished ones that nobody writes; return their names.

        The current snapshot stays in any case.
        """
        filesystem, _ = self.place
        current = (self._read("CURRENT") or b"").decode().strip()
        finished = self.snapshots()
        gone = [] if keep is None else [name for name in finished[: max(len(finished) - keep, 0)] if name != current]
        gone += [name for name in self._folders() if name not in finished and self._is_debris(name)]
        for name in gone:
            filesystem.delete_dir(self.file("snapshots", name))
        return gone

    def _is_debris(self, snapshot: str) -> bool:
        data = self._read("snapshots", snapshot, "WRITING")
        if data is None:
            return not self._exists("snapshots", snapshot, "manifest.json")
        try:
            who = json.loads(data)
            if who["host"] == socket.gethostname():
                return not _alive(int(who["pid"]))
            return time.time() - float(who["began"]) > STALE_SECONDS
        except (ValueError, KeyError, TypeError):
            return True

    def _point(self, snapshot: str) -> None:
        self._write(f"{snapshot}\n".encode(), "CURRENT")

    def _write(self, data: bytes, *parts: str) -> None:
        """Replace a small file atomically: by a rename on local disks, by the upload itself on object stores."""
        path = self.file(*parts)
        if self.local:
            fresh = Path(f"{path}.{uuid.uuid4().hex}")
            with fresh.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(path)
        else:
            with self.place[0].open_output_stream(path) as stream:
                stream.write(data)

    def remove(self, snapshot: str, file: str) -> None:
        """Remove a file of a snapshot, if it is there."""
        filesystem, _ = self.place
        if self._exists("snapshots", snapshot, file):
            filesystem.delete_file(self.file("snapshots", snapshot, file))


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path on it.

    Raises
    ------
    StoreError
        If the URI's scheme is not one that pyarrow reaches.
    """
    import pyarrow as pa
    from pyarrow import fs

    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).absolute())
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise StoreError(f"{path} is not on a file system that can be reached: {error}") from None
    return found


def _is_local(filesystem: fs.FileSystem) -> bool:
    return bool(filesystem.type_name == "local")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
