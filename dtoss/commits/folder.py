"""Small files in a folder, on a local or shared disk or on any file system that pyarrow reaches.

Two kinds with the same methods. A disk has what a commit needs: a rename that replaces, a link that fails where a file
stands already, and a sync. Elsewhere a file appears when its upload ends. There a file is made exclusively by obstore,
which puts it only if it is absent (S3, GCS, Azure), or on HDFS by a rename onto a name that is free.
This is the only module of the project that makes a file only where there is none.
Paths are relative to the folder, with slashes. What is missing is ``None``, ``[]`` or no error; all else is an OSError.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias

from dtoss.commits.process import passing_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

Mark: TypeAlias = tuple[int, int]
"""What tells a file from others of its name: its number on the disk, and when it was written or touched."""
_READS = 3
SYNCED_AT_ONCE = 8
"""Files that are synced at a time: a disk's journal takes many in one write."""

_FORKED: list[int] = []
"""The process, if it came by a fork from one that had loaded obstore. The threads of that library did not come along,
and what is waited for here would wake those of the parent, with addresses of this process: both would be lost."""


def _mark_forked() -> None:
    if "obstore" in sys.modules:
        _FORKED[:] = [os.getpid()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)


class Folder(Protocol):
    """What both kinds of folders can do."""

    @property
    def exclusive(self) -> bool:
        """Whether :meth:`create` lets only one of several through."""

    @property
    def renames(self) -> bool:
        """Whether :meth:`move` is one step, and not a copy."""

    def path(self, *parts: str) -> str:
        """Return the path of something in the folder, on its file system."""

    def read(self, *parts: str) -> bytes | None:
        """Return what a small file holds; None where it is missing."""

    def is_file(self, *parts: str) -> bool:
        """Return whether there is a file of this name."""

    def folders(self, *parts: str) -> list[str]:
        """Return the names of the folders in a folder, sorted."""

    def files(self, *parts: str) -> list[str]:
        """Return the names of the files in a folder, sorted."""

    def there(self) -> bool:
        """Return whether the folder itself exists."""

    def make(self, *parts: str) -> None:
        """Make a folder, and those above it, if they are not there."""

    def sizes(self, *parts: str) -> dict[str, int]:
        """Return the bytes of the files in a folder by their names; of none where there is no such folder."""

    def write(self, data: bytes | pa.Buffer, *parts: str) -> Mark | None:
        """Write a file, whole or not at all, and return what tells it from any other that is there later, if anything.

        It may be lost with the power until :meth:`sync`.
        """

    def replace(self, data: bytes, *parts: str) -> None:
        """Write a small file whole, in place of the one of this name, and to the disk."""

    def reserve(self, *parts: str) -> bool:
        """Make an empty file if there is none of this name, which needs no room on a full disk; return whether."""

    def create(self, data: bytes, *parts: str, private: bool = False) -> bool:
        """Write a small file whole, and to the disk, if there is none of this name; return whether.

        One that is ``private`` can be read by its owner alone, where files have owners.
        """

    def touch(self, *parts: str) -> None:
        """Set the time of a file to now."""

    def idle(self, *parts: str) -> float:
        """Return the seconds since a file was written or touched, by the file system's own clock; 0 if missing."""

    def link(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """Give the bytes of a file, which nobody changes any more, a second name, or copy them."""

    def move(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """Rename a folder."""

    def remove(self, *parts: str) -> None:
        """Remove a file."""

    def remove_unchanged(self, mark: Mark | None, *parts: str) -> None:
        """Remove a file that :meth:`write` has written, if nobody has replaced or touched it since."""

    def remove_folder(self, *parts: str) -> None:
        """Remove a folder and all that is in it."""

    def remove_if_empty(self) -> None:
        """Remove the folder itself if nothing is in it."""

    def sync(self, files: Iterable[tuple[str, ...]]) -> None:
        """Bring files, the folders that hold them, and the folder above these to the disk."""


@dataclass(frozen=True)
class LocalFolder:
    """A folder on a local or shared disk."""

    root: str

    @property
    def exclusive(self) -> bool:
        """Always."""
        return True

    @property
    def renames(self) -> bool:
        """Always."""
        return True

    def path(self, *parts: str) -> str:
        """See :class:`Folder`."""
        return "/".join([self.root.rstrip("/"), *parts])

    def read(self, *parts: str) -> bytes | None:
        """See :class:`Folder`."""
        try:
            return Path(self.path(*parts)).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            error.filename = self.path(*parts)  # a disk that fails while it is read says none
            raise

    def is_file(self, *parts: str) -> bool:
        """See :class:`Folder`."""
        return _is(self.path(*parts), stat.S_ISREG)

    def folders(self, *parts: str) -> list[str]:
        """See :class:`Folder`."""
        return self._names(parts, folders=True)

    def files(self, *parts: str) -> list[str]:
        """See :class:`Folder`."""
        return self._names(parts, folders=False)

    def _names(self, parts: tuple[str, ...], *, folders: bool) -> list[str]:
        try:
            with os.scandir(self.path(*parts)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir() == folders)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def there(self) -> bool:
        """See :class:`Folder`."""
        return _is(self.root, stat.S_ISDIR)

    def make(self, *parts: str) -> None:
        """See :class:`Folder`."""
        Path(self.path(*parts)).mkdir(parents=True, exist_ok=True)

    def sizes(self, *parts: str) -> dict[str, int]:
        """See :class:`Folder`."""
        found = {}
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.path(*parts)) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it has just gone
                    if entry.is_file():
                        found[entry.name] = entry.stat().st_size
        return found

    def write(self, data: bytes | pa.Buffer, *parts: str) -> Mark | None:
        """See :class:`Folder`."""
        fresh = self._write_aside(data, parts, sync=False)
        mark = _mark(fresh)
        self._move_in(fresh, parts)
        return mark

    def replace(self, data: bytes, *parts: str) -> None:
        """See :class:`Folder`. The file and its folder are synced."""
        self._move_in(self._write_aside(data, parts, sync=True), parts)
        _sync(self.path(*parts[:-1]))

    def _move_in(self, fresh: str, parts: tuple[str, ...]) -> None:
        try:
            os.replace(fresh, self.path(*parts))  # noqa: PTH105
        except BaseException:
            _unlink(fresh)
            raise

    def create(self, data: bytes, *parts: str, private: bool = False) -> bool:
        """See :class:`Folder`. It is never seen half written where the file system has links."""
        fresh = self._write_aside(data, parts, sync=True, private=private)
        try:
            if not link_if_absent(fresh, self.path(*parts)):
                return False
        except FileNotFoundError:
            raise
        except OSError:
            if not self._create_in_place(data, parts, private=private):
                return False
        finally:
            _unlink(fresh)
        _sync(self.path(*parts[:-1]))
        return True

    def _create_in_place(self, data: bytes, parts: tuple[str, ...], *, private: bool = False) -> bool:
        try:
            with _fresh(self.path(*parts), private) as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except FileExistsError:
            return False
        return True

    def reserve(self, *parts: str) -> bool:
        """See :class:`Folder`."""
        return self._create_in_place(b"", parts)

    def _write_aside(
        self, data: bytes | pa.Buffer, parts: tuple[str, ...], *, sync: bool, private: bool = False
    ) -> str:
        fresh = f"{self.path(*parts)}.{passing_name()}"
        try:
            with _fresh(fresh, private) as stream:
                stream.write(data)
                if sync:
                    stream.flush()
                    os.fsync(stream.fileno())
        except BaseException as error:
            _unlink(fresh)
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                error.filename = self.path(*parts)  # a disk that is full says no file
            raise
        return fresh

    def touch(self, *parts: str) -> None:
        """See :class:`Folder`."""
        os.utime(self.path(*parts))

    def idle(self, *parts: str) -> float:
        """See :class:`Folder`. Writes a file to see that clock, which on shared disks is the server's."""
        probe = f"{self.path(*parts)}.{passing_name()}"
        try:
            # what was opened anew is not from a cache
            with Path(self.path(*parts)).open("rb") as stream:
                then = os.fstat(stream.fileno()).st_mtime
            # an empty one needs no room
            with Path(probe).open("xb") as stream:
                now = os.fstat(stream.fileno()).st_mtime
        except FileNotFoundError:
            return 0.0
        finally:
            _unlink(probe)
        return now - then

    def link(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """See :class:`Folder`. Copied where the disk has no links, or no more of one file."""
        fresh = f"{self.path(*target)}.{passing_name()}"
        try:
            try:
                os.link(self.path(*source), fresh)
            except FileNotFoundError:
                raise
            except OSError:
                shutil.copyfile(self.path(*source), fresh)
            self._move_in(fresh, target)
        finally:
            # a rename onto another name of the same file does nothing
            _unlink(fresh)

    def move(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """See :class:`Folder`."""
        os.rename(self.path(*source), self.path(*target))  # noqa: PTH104

    def remove(self, *parts: str) -> None:
        """See :class:`Folder`."""
        _unlink(self.path(*parts))

    def remove_unchanged(self, mark: Mark | None, *parts: str) -> None:
        """See :class:`Folder`."""
        with suppress(FileNotFoundError):
            if _mark(self.path(*parts)) == mark:
                self.remove(*parts)

    def remove_folder(self, *parts: str) -> None:
        """See :class:`Folder`. Goes on past what cannot be removed, and then says what it was."""
        failures: list[OSError] = []

        def keep(_function: object, _path: str, info: tuple[type, BaseException, object]) -> None:
            if isinstance(info[1], OSError) and not isinstance(info[1], FileNotFoundError):
                failures.append(info[1])

        shutil.rmtree(self.path(*parts), onerror=keep)
        if failures:
            raise failures[0]

    def remove_if_empty(self) -> None:
        """See :class:`Folder`."""
        with suppress(OSError):
            Path(self.root).rmdir()

    def sync(self, files: Iterable[tuple[str, ...]]) -> None:
        """See :class:`Folder`."""
        from concurrent.futures import ThreadPoolExecutor

        paths = [Path(self.path(*file)) for file in files]
        folders = {folder for path in paths for folder in (path.parent, path.parent.parent)}
        with ThreadPoolExecutor(SYNCED_AT_ONCE) as pool:
            list(pool.map(_sync, map(str, paths)))
        for folder in sorted(folders, key=lambda folder: -len(folder.parts)):
            _sync(str(folder))


def link_if_absent(file: str | Path, name: str | Path) -> bool:
    """Give a file a second name on its disk if that is free; return whether."""
    try:
        os.link(file, name)
    except FileExistsError:
        # a shared disk may say so of a link that it has just made
        with suppress(FileNotFoundError):
            return Path(file).samefile(name)
        return False
    return True


def _is(path: str, kind: Callable[[int], bool]) -> bool:
    """Return whether something is there and of a kind; pathlib says no where the system does not say."""
    try:
        return kind(os.stat(path).st_mode)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False


def _mark(path: str) -> Mark:
    found = os.stat(path)  # noqa: PTH116
    return found.st_ino, found.st_mtime_ns


def _unlink(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _fresh(path: str, private: bool) -> BinaryIO:
    """Return a new file that is open for writing; no other user can read a private one at any moment."""
    return open(path, "xb", opener=partial(os.open, mode=0o600)) if private else Path(path).open("xb")


def _sync(path: str) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        # some file systems of other kinds of machines know no sync of folders
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not Path(path).is_dir():
            raise
    finally:
        os.close(number)


@dataclass(frozen=True)
class RemoteFolder:
    """A folder on an object store or another file system that pyarrow reaches."""

    filesystem: fs.FileSystem
    root: str  # The folder's path on it
    objects: Any = None  # The same folder as a store of obstore, which puts a file only if it is absent: pyarrow cannot
    read_only: str = ""  # Why nothing may be written, as an error says it; "" where it may

    @property
    def exclusive(self) -> bool:
        """With obstore, or on HDFS, where a rename onto a name that is taken fails."""
        return self.objects is not None or self._hdfs

    @property
    def renames(self) -> bool:
        """On HDFS; object stores copy."""
        return self._hdfs

    @property
    def swaps(self) -> bool:
        """Whether :meth:`swap` works: everywhere but on local disks, which obstore reaches too."""
        return self.objects is not None and type(self.objects).__name__ != "LocalStore"

    @property
    def untried(self) -> bool:
        """Whether commits rest on what this project has not tried: HDFS, where a rename finds its name taken."""
        return self._hdfs

    @property
    def _hdfs(self) -> bool:
        return bool(self.filesystem.type_name == "hdfs")

    def path(self, *parts: str) -> str:
        """See :class:`Folder`."""
        return "/".join([self.root.rstrip("/"), *parts])

    def read(self, *parts: str) -> bytes | None:
        """See :class:`Folder`."""
        if self.objects is not None and not _FORKED:
            found = self.read_tagged(*parts)
            return None if found is None else found[0]
        for tries in range(_READS):
            try:
                with self.filesystem.open_input_stream(self.path(*parts)) as stream:
                    return bytes(stream.read())
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError:
                # pyarrow asks for the size first: the file may have gone or been replaced before it was read
                if tries == _READS - 1:
                    raise
        return None

    def is_file(self, *parts: str) -> bool:
        """See :class:`Folder`."""
        from pyarrow import fs

        return bool(self.filesystem.get_file_info(self.path(*parts)).type == fs.FileType.File)

    def folders(self, *parts: str) -> list[str]:
        """See :class:`Folder`."""
        from pyarrow import fs

        return self._names(parts, fs.FileType.Directory)

    def files(self, *parts: str) -> list[str]:
        """See :class:`Folder`."""
        from pyarrow import fs

        return self._names(parts, fs.FileType.File)

    def _names(self, parts: tuple[str, ...], kind: fs.FileType) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(self.path(*parts), allow_not_found=True)
        return sorted(info.base_name for info in self.filesystem.get_file_info(selector) if info.type == kind)

    def there(self) -> bool:
        """See :class:`Folder`."""
        from pyarrow import fs

        return bool(self.filesystem.get_file_info(self.root).type == fs.FileType.Directory)

    def make(self, *parts: str) -> None:
        """See :class:`Folder`. On an object store there is nothing to make: a folder is how names of files begin."""
        if not self.swaps:
            self.filesystem.create_dir(self.path(*parts), recursive=True)

    def sizes(self, *parts: str) -> dict[str, int]:
        """See :class:`Folder`."""
        from pyarrow import fs

        there = self.filesystem.get_file_info(fs.FileSelector(self.path(*parts), allow_not_found=True))
        return {info.base_name: info.size for info in there if info.type == fs.FileType.File}

    def write(self, data: bytes | pa.Buffer, *parts: str) -> Mark | None:
        """See :class:`Folder`."""
        with self.filesystem.open_output_stream(self.path(*parts)) as stream:
            stream.write(data)
        return None

    def replace(self, data: bytes, *parts: str) -> None:
        """See :class:`Folder`."""
        self.write(data, *parts)

    def reserve(self, *parts: str) -> bool:
        """See :class:`Folder`."""
        return self.create(b"", *parts)

    def create(self, data: bytes, *parts: str, private: bool = False) -> bool:
        """See :class:`Folder`. Objects have no owner. Where it is not :attr:`exclusive`, two may be let through."""
        if self.objects is not None:
            return self._put(data, "/".join(parts), "create") is not None
        if self.is_file(*parts):
            return False
        if not self._hdfs:
            self.replace(data, *parts)
            return True
        fresh = (*parts[:-1], f"{parts[-1]}.{passing_name()}")
        self.replace(data, *fresh)
        try:
            self.move(fresh, parts)
        except OSError:
            if not self.is_file(*parts):
                raise
            return False
        finally:
            self.remove(*fresh)
        return True

    def read_tagged(self, *parts: str) -> tuple[bytes, Any] | None:
        """Return a small file and the tag of this version of it, for :meth:`swap`; None where it is missing."""
        import obstore
        from obstore.exceptions import BaseError

        try:
            found = obstore.get(self.objects, "/".join(parts))
            tag = {"e_tag": found.meta["e_tag"], "version": found.meta["version"]}
            return bytes(found.bytes()), {name: value for name, value in tag.items() if value is not None}
        except FileNotFoundError:
            return None
        except BaseError as error:
            raise OSError(f"{self.path(*parts)} cannot be read: {error}") from None

    def swap(self, data: bytes, tag: Any, *parts: str) -> bool:
        """Write a small file if it is still of the version that a tag says; return whether."""
        return self._put(data, "/".join(parts), tag) is not None

    def _put(self, data: bytes, path: str, mode: Any) -> Any:
        """Return what obstore says of a file that it has put, None where the condition did not hold."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        try:
            return obstore.put(self.objects, path, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            return None
        except BaseError as error:
            raise OSError(f"{path} cannot be written: {error}") from None

    def touch(self, *parts: str) -> None:
        """See :class:`Folder`. Uploads the file once more."""
        data = self.read(*parts)
        if data is not None:
            self.replace(data, *parts)

    def idle(self, *parts: str) -> float:
        """See :class:`Folder`. By this machine's clock."""
        written = self.filesystem.get_file_info(self.path(*parts)).mtime_ns
        return 0.0 if written is None else time.time() - written / 1e9

    def link(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """See :class:`Folder`. Always a copy, which an object store makes by itself."""
        self.filesystem.copy_file(self.path(*source), self.path(*target))

    def move(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """See :class:`Folder`. On object stores this copies."""
        self.filesystem.move(self.path(*source), self.path(*target))

    def remove(self, *parts: str) -> None:
        """See :class:`Folder`."""
        if not self.swaps or _FORKED:
            with suppress(FileNotFoundError):
                self.filesystem.delete_file(self.path(*parts))
            return
        import obstore
        from obstore.exceptions import BaseError

        try:
            obstore.delete(self.objects, "/".join(parts))
        except FileNotFoundError:  # some stores say so
            pass
        except BaseError as error:
            raise OSError(f"{self.path(*parts)} cannot be removed: {error}") from None

    def remove_unchanged(self, mark: Mark | None, *parts: str) -> None:
        """See :class:`Folder`. Nothing goes: an upload has no mark."""

    def remove_folder(self, *parts: str) -> None:
        """See :class:`Folder`."""
        with suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.path(*parts))

    def remove_if_empty(self) -> None:
        """See :class:`Folder`. Where folders are only names, there is nothing to remove."""

    def sync(self, files: Iterable[tuple[str, ...]]) -> None:
        """See :class:`Folder`. A file is whole when its upload has ended."""
