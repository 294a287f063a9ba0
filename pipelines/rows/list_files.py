"""Looking at paths before Spark reads them: the files below a path, a directory or a glob."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyarrow import fs

from dtoss.errors import InputError, StoreError
from dtoss.log.segment_names import HIDDEN
from dtoss.snapshots.store_location import filesystem_of
from pipelines.rows.table_files import (
    ICEBERG,
    LOGS,
    TableFiles,
    files_of_table,
    refuse_to_follow,
    table_of_metadata,
    table_roots,
)

_WILD = re.compile(r"[*?\[{]")
_SPECIAL = re.compile(r"[*?\[\]{}\\]")
_OF_ICEBERG = (".avro", ".json", ".text", ".puffin", ".crc")
"""How names of an Iceberg table's own files end."""
_MARKERS = re.compile(rf"_SUCCESS$|_(committed|started)_|_(common_)?metadata$|\..*\.crc$|{re.escape(HIDDEN)}$")
"""Names of Spark's own files beside the data, and of a log's, of which nobody wants to hear."""


@dataclass(frozen=True)
class Listing:
    """The files below a path that a user names."""

    path: str  # As it was named
    filesystem: fs.FileSystem  # On which they are
    files: tuple[str, ...]  # Paths on that file system, sorted; hidden ones left out
    # Those whose names, or the names of a directory below the path, begin with an underscore or a dot
    hidden: tuple[str, ...]
    # Of each file, the directories between the path, or what a glob matches, and the file
    folders: tuple[tuple[str, ...], ...]
    there: bool  # Whether there is a file or a folder at the path itself
    whole: bool  # Spark finds these very files below this path, unless there are ones in directories
    sizes: tuple[int, ...]  # The bytes of each file
    # When each file was last written, in seconds of Unix time; None where the file system does not say
    written: tuple[float | None, ...]
    # Folders that are tables: of the files below them those are here that have the table's rows
    tables: tuple[TableFiles, ...] = ()
    left: tuple[str, ...] = ()  # Files below tables that have rows which are gone

    def named(self, file: str) -> str:
        """Return how Spark is to be told of a file below this path."""
        scheme, found, rest = self.path.partition("://")
        if not found:
            return f"file://{escape_glob(file)}"
        # what pyarrow leaves out of a path: the host of an HDFS, say
        host = rest.partition("/")[0]
        inside = file.lstrip("/")
        return f"{scheme}://{escape_glob(inside if host and inside.startswith(f'{host}/') else f'{host}/{inside}')}"

    @cached_property
    def stamps(self) -> dict[str, int]:
        """When files were last written, in microseconds of Unix time; without those of which it is not known."""
        known = zip(self.files, self.written, strict=True)
        return {file: round(max(at, 0.0) * 1e6) for file, at in known if at is not None}


def stamp(info: fs.FileInfo) -> int | None:
    """Return when a file was last written, as :attr:`Listing.stamps`; None where that is not known."""
    return None if info.mtime_ns is None else round(max(info.mtime_ns / 1e9, 0.0) * 1e6)


def is_as_written(info: fs.FileInfo, before: int | None) -> bool:
    """Return whether a file was last written when it was listed, as far as both are known.

    Stores of objects say milliseconds in lists, and whole seconds of one object.

    Examples
    --------
    >>> from datetime import datetime, UTC
    >>> info = fs.FileInfo("a", mtime=datetime.fromtimestamp(7, UTC))
    >>> [is_as_written(info, before) for before in (7_000_000, 7_250_000, 8_000_000, None)]
    [True, True, False, True]
    """
    now = stamp(info)
    if now is None or before is None or now == before:
        return True
    return now // 1_000_000 == before // 1_000_000 and 0 in (now % 1_000_000, before % 1_000_000)


def join_listings(found: Sequence[Listing]) -> Listing:
    """Return what is at several paths of one file system, each file once."""
    if len(found) == 1:
        return found[0]
    hosts = [_host(one.path) for one in found]
    for one, host in zip(found, hosts, strict=True):
        if host != hosts[0]:
            raise InputError(f"{found[0].path} and {one.path} are on different file systems: name those of one")
        if any("=" in folder for folders in one.folders for folder in folders):
            raise InputError(
                f"{one.path} holds folders whose names are values of a column, which go by one path: name no others"
            )
    files = {
        file: (folders, size, written)
        for one in found
        for file, folders, size, written in zip(one.files, one.folders, one.sizes, one.written, strict=True)
    }
    names = tuple(sorted(files))
    folders, sizes, written = zip(*(files[name] for name in names), strict=True) if names else ((), (), ())
    hidden = tuple(sorted({file for one in found for file in one.hidden}))
    there = all(one.there for one in found)
    return Listing(found[0].path, found[0].filesystem, names, hidden, folders, there, False, sizes, written)


def _host(path: str) -> str:
    """Return what stands before the path in a URI; nothing for a path of this machine."""
    scheme, found, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if found else ""


def escape_glob(path: str) -> str:
    """Return a path in which no character is one of a glob."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", path)


def listing(path: str, follows: bool = False) -> Listing | None:
    """Return the files at a path, below a directory at any depth, or that a glob matches.

    There are none where nothing is there. None where pyarrow cannot look, which says nothing about Spark. Of folders
    that are tables the files are those of the table as it stands.

    ``follows``: whether files are read as they arrive, which those of a table do not.
    """
    try:
        filesystem, place = filesystem_of(path, files=True)
        place = place.rstrip("/") or "/"
        there = filesystem.get_file_info(place).type != fs.FileType.NotFound
        roots = [place] if there or not _WILD.search(place) else _matches(filesystem, place)
        seen = _Seen(filesystem, path, follows)
        for root in roots:
            info = filesystem.get_file_info(root)
            if info.type == fs.FileType.File:
                _see_file(seen, info, root != place)
            else:
                _walk(seen, root)
    except (StoreError, OSError, pa.ArrowException):
        return None
    found = sorted(seen.found, key=lambda one: one[0].path)
    infos = [info for info, _ in found]
    return Listing(
        path,
        filesystem,
        tuple(info.path for info in infos),
        tuple(sorted(seen.hidden)),
        tuple(folders for _, folders in found),
        there,
        there and escape_glob(place) == place and not seen.tables,
        tuple(info.size for info in infos),
        tuple(None if info.mtime_ns is None else info.mtime_ns / 1e9 for info in infos),
        tuple(seen.tables),
        tuple(sorted(seen.left)),
    )


@dataclass
class _Seen:
    """What was met below a path so far."""

    filesystem: fs.FileSystem
    path: str
    follows: bool
    found: list[tuple[fs.FileInfo, tuple[str, ...]]] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    tables: list[TableFiles] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    whole: set[str] = field(default_factory=set)


def _see_file(seen: _Seen, info: fs.FileInfo, by_glob: bool) -> None:
    table = None if by_glob or seen.follows else table_of_metadata(seen.filesystem, info.path)
    if by_glob:
        _check_whole(seen, info.path.rpartition("/")[0], info.path)
    if table is None:
        seen.found.append((info, ()))
        return
    seen.tables.append(table)
    seen.found += [(one, ()) for one in seen.filesystem.get_file_info(sorted(table.files))]


def _walk(seen: _Seen, root: str) -> None:
    above, _, name = root.rpartition("/")
    if "=" in name:
        _check_whole(seen, above, root)
    selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
    infos = [info for info in seen.filesystem.get_file_info(selector) if info.type == fs.FileType.File]
    below = {info.path: tuple(info.path[len(root) :].strip("/").split("/")) for info in infos}
    tables = []
    for place, kind in table_roots(root, below.values()).items():
        if seen.follows:
            raise refuse_to_follow(place, kind)
        tables.append(files_of_table(seen.filesystem, place, kind, seen.path, below))
    for table in tables:
        if elsewhere := sorted(table.files - below.keys()):
            raise InputError(
                f"the {table.kind} {table.root} has files elsewhere, such as {elsewhere[0]}: name its metadata file"
            )
    seen.tables += tables
    inside = {file for table in tables for file in table.files}
    for info in infos:
        names = below[info.path]
        if info.path in inside:
            seen.found.append((info, _folders_of(names, root, tables)))
        elif any(map(_is_hidden, names)):
            if not any(_MARKERS.match(name) or name in LOGS for name in names):
                seen.hidden.append(info.path)
        elif any(info.path.startswith(f"{table.root}/") for table in tables):
            if not info.path.endswith(_OF_ICEBERG):
                seen.left.append(info.path)
        else:
            seen.found.append((info, names[:-1]))


def _folders_of(names: tuple[str, ...], root: str, tables: Sequence[TableFiles]) -> tuple[str, ...]:
    """Return the folders between a path and a file of a table: files of Iceberg have all columns in themselves."""
    for table in tables:
        inside = tuple(table.root[len(root) :].strip("/").split("/")) if len(table.root) > len(root) else ()
        if table.kind == ICEBERG and names[: len(inside)] == inside:
            return inside
    return names[:-1]


def _check_whole(seen: _Seen, folder: str, said: str) -> None:
    """Check that some files or folders are not a part of a table, of which nobody knows whether it counts."""
    while folder and folder not in seen.whole:
        seen.whole.add(folder)
        found = seen.filesystem.get_file_info([f"{folder}/{log}" for log in LOGS])
        for info, kind in zip(found, LOGS.values(), strict=True):
            if info.type == fs.FileType.Directory:
                raise InputError(
                    f"{said} is a part of the {kind} {folder}, whose log says which files count: name that"
                )
        folder, _, name = folder.rpartition("/")
        if "=" not in name:
            return


def _is_hidden(name: str) -> bool:
    # a directory of a partition may begin with an underscore
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _matches(filesystem: fs.FileSystem, glob: str) -> list[str]:
    """Return what a Hadoop glob matches."""
    start = "/" if glob.startswith("/") else ""
    found = [start.rstrip("/")]
    for part in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^/])+", glob):
        if not _WILD.search(part):
            found = [f"{above}/{part}" if above or start else part for above in found]
            continue
        depth = 1 + part.count("/")
        pattern = _pattern(part)
        below = []
        for above in found:
            if filesystem.get_file_info(above or "/").type != fs.FileType.Directory:
                continue
            selector = fs.FileSelector(above or "/", recursive=depth > 1)
            for info in filesystem.get_file_info(selector):
                name = info.path[len(above) :].strip("/")
                if pattern.fullmatch(name) and (part[0] in "._" or not _is_hidden(name)):
                    below.append(f"{above}/{name}" if above or start else name)
        found = sorted(below)
    return found


def _pattern(glob: str) -> re.Pattern[str]:
    """Return the expression for a part of a Hadoop glob."""
    parts = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
    depth, text = 0, ""
    for piece in re.findall(r"\\.|\[[^\]]*\]|.", glob):
        depth += (piece == "{") - (piece == "}")
        if piece.startswith("["):
            text += piece.replace("[!", "[^")
        elif piece in parts and (piece != "," or depth > 0):
            text += parts[piece]
        else:
            text += re.escape(piece[-1])
    return re.compile(text)


_PIECE = 1 << 22


def sha256_of(filesystem: fs.FileSystem, path: str) -> str:
    """Return the SHA-256 of a file's bytes, as hexadecimal digits. Cost O(bytes)."""
    digest = hashlib.sha256()
    with filesystem.open_input_stream(path, compression=None) as stream:
        while data := stream.read(_PIECE):
            digest.update(data)
    return digest.hexdigest()
