"""What is done with files that were read: they stay, are deleted, or move to another folder.

A file goes only when every snapshot that the store keeps has read it. So after a rollback, to whichever of them, what
that one has not read is still there, and is read again.
"""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyarrow import fs

from dtoss.commits.folder import link_if_absent
from dtoss.commits.offsets import Ledger, in_all
from dtoss.errors import InputError, StoreError
from dtoss.snapshots.read_file import ledger_of
from dtoss.snapshots.store import Store
from dtoss.snapshots.store_location import filesystem_of
from pipelines.rows.list_files import Listing, is_as_written

DELETE, MOVE = "delete", "move:"


@dataclass(frozen=True)
class Disposal:
    """What is done with files that were read."""

    target: str | None  # Where they move to, a path or URI; None deletes them


def disposal_of(text: str, updates: str) -> Disposal:
    """Return what ``delete`` or ``move:DIR`` asks for.

    Examples
    --------
    >>> disposal_of("move:read", "updates")
    Disposal(target='read')
    """
    if text == DELETE:
        return Disposal(None)
    target = text.removeprefix(MOVE)
    if not text.startswith(MOVE) or not target:
        raise ValueError(f"done is {text!r}: delete or move:DIR is wanted")
    if ("://" in target) != ("://" in updates):
        raise ValueError(f"done is {text!r}: files of {updates} are moved on its own file system only")
    inside = _below(target, updates)
    if inside is not None and not any(part.startswith((".", "_")) for part in inside):
        raise ValueError(
            f"done is {text!r}: what moves there, into {updates}, would be read again; name a folder outside, or one "
            "whose name begins with _"
        )
    return Disposal(target)


def _below(target: str, updates: str) -> tuple[str, ...] | None:
    """Return the parts of a path below another one; None where it is elsewhere."""
    if "://" in target:
        one, other = PurePosixPath(target.partition("?")[0]), PurePosixPath(updates.partition("?")[0])
        return one.relative_to(other).parts if one.is_relative_to(other) else None
    place, above = Path(target).resolve(), Path(updates).resolve()
    return place.relative_to(above).parts if place.is_relative_to(above) else None


def read_by_all(store: Store, others: Sequence[Ledger] = ()) -> Ledger:
    """Return the files that every snapshot of a store has read, and all others who read them. O(files) a snapshot."""
    found = []
    for name in store.snapshots():
        try:
            found.append(ledger_of(store, store.manifest(name)))
        except StoreError:
            if name in store.snapshots():
                raise
            continue  # cleared meanwhile
    return in_all([*found, *others]) if found else Ledger()


def dispose(
    disposal: Disposal, store: Store, where: Listing, warn: Callable[[str], None], others: Sequence[Ledger] = ()
) -> int:
    """Delete or move the files of a folder that every snapshot of a store has read; return how many.

    Files that anybody has refused stay: their rows count nowhere.

    ``warn``: is told of what cannot be deleted or moved; it stays, and is not read again; ``others``: what others have
    read who read the same files: a file stays until all of them have.
    """
    there, written = dict(zip(where.files, where.sizes, strict=True)), where.stamps
    try:
        read = read_by_all(store, others)
    except StoreError as error:
        warn(f"files that were read stay where they are: {error}")
        return 0
    gone, unread = 0, read.fresh(there, written)
    for file, inside in _inside(where, {file: there[file] for file in there if file not in {**unread, **read.refused}}):
        try:
            now = where.filesystem.get_file_info(file)
            if now.size != there[file] or not is_as_written(now, written.get(file)):
                continue  # written anew
            if disposal.target is None:
                where.filesystem.delete_file(file)
            elif isinstance(where.filesystem, fs.LocalFileSystem):
                _move_local(Path(file), Path(disposal.target) / inside)
            else:
                move_remote(where.filesystem, file, f"{filesystem_of(disposal.target)[1].rstrip('/')}/{inside}")
        except FileNotFoundError:
            continue
        except (OSError, pa.ArrowException, InputError) as error:
            warn(f"{file} was read and cannot be {'deleted' if disposal.target is None else 'moved'}: {error}")
        else:
            gone += 1
    return gone


def _inside(where: Listing, files: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Return files of a folder with their paths below it, in the order of their names."""
    for file, folders in zip(where.files, where.folders, strict=True):
        if file in files:
            yield file, "/".join((*folders, file.rpartition("/")[2]))


def _names(target: Path) -> Iterator[Path]:
    """Return a path, then others for the same name."""
    yield target
    base, dot, suffixes = target.name.partition(".")
    for number in range(1, 1_000_000):
        yield target.with_name(f"{base}-{number}{dot}{suffixes}")


def _move_local(source: Path, target: Path) -> None:
    """Move a file, past other files of its name; one that a run which was cut off has copied already only goes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    away = source.stat().st_dev != target.parent.stat().st_dev
    staged = target.with_name(f".{target.name}.{uuid.uuid4().hex}") if away else source
    try:
        if away:
            shutil.copy2(source, staged)
        for name in _names(target):
            if name.exists():
                if filecmp.cmp(source, name, shallow=False):
                    break
            elif _named(staged, name):
                break
        if away:
            _sync(name)
            _sync(name.parent)
        source.unlink(missing_ok=True)
    finally:
        if away:
            staged.unlink(missing_ok=True)


def _named(file: Path, name: Path) -> bool:
    """Give a file another name on its disk, by a link or, where there are none, a rename; return whether it has it."""
    try:
        return link_if_absent(file, name)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        file.rename(name)
    return True


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def move_remote(filesystem: fs.FileSystem, source: str, target: str) -> None:
    """Copy an object past those of its name, and delete it."""
    for name in map(str, _names(Path(target))):
        found = filesystem.get_file_info(name)
        if found.type != fs.FileType.NotFound:
            if _same(filesystem, source, name):
                break
            continue
        filesystem.copy_file(source, name)
        break
    filesystem.delete_file(source)


def _same(filesystem: fs.FileSystem, one: str, other: str) -> bool:
    if filesystem.get_file_info(one).size != filesystem.get_file_info(other).size:
        return False
    with filesystem.open_input_stream(one) as a, filesystem.open_input_stream(other) as b:
        while True:
            x, y = a.read(1 << 20), b.read(1 << 20)
            if x != y:
                return False
            if not x:
                return True
