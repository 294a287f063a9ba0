"""Looking at paths before Spark reads them: the files below a path, a directory or a glob."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from dtoss.errors import InputError, StoreError
from dtoss.snapshots.place import filesystem_of

_WILD = re.compile(r"[*?\[{]")
_SPECIAL = re.compile(r"[*?\[\]{}\\]")
_MARKERS = re.compile(r"_SUCCESS$|_(committed|started)_|_(common_)?metadata$|\..*\.crc$")
"""Names of Spark's own files beside the data, of which nobody wants to hear."""


@dataclass(frozen=True)
class Listing:
    """The files below a path that a user names.

    Parameters
    ----------
    path
        As it was named.
    filesystem
        On which they are.
    files
        Paths on that file system, sorted; hidden ones left out.
    hidden
        Those whose names, or the names of a directory below the path, begin with an underscore or a dot.
    folders
        Of each file, the directories between the path, or what a glob matches, and the file.
    there
        Whether there is a file or a folder at the path itself.
    whole
        Spark finds these very files below this path, unless there are ones in directories.
    sizes
        The bytes of each file.
    written
        When each file was last written, in seconds of Unix time; None where the file system does not say.
    """

    path: str
    filesystem: fs.FileSystem
    files: tuple[str, ...]
    hidden: tuple[str, ...]
    folders: tuple[tuple[str, ...], ...]
    there: bool
    whole: bool
    sizes: tuple[int, ...]
    written: tuple[float | None, ...]

    def named(self, file: str) -> str:
        """Return how Spark is to be told of a file below this path."""
        scheme, found, rest = self.path.partition("://")
        if not found:
            return f"file://{escaped(file)}"
        # what pyarrow leaves out of a path: the host of an HDFS, say
        host = rest.partition("/")[0]
        inside = file.lstrip("/")
        return f"{scheme}://{escaped(inside if host and inside.startswith(f'{host}/') else f'{host}/{inside}')}"


def joined(found: Sequence[Listing]) -> Listing:
    """Return what is at several paths of one file system, each file once.

    Raises
    ------
    InputError
        If they are on several file systems, or the names of folders are values of columns, which go by one path.
    """
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


def escaped(path: str) -> str:
    """Return a path in which no character is one of a glob."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", path)


def listing(path: str) -> Listing | None:
    """Return the files at a path, below a directory at any depth, or that a glob matches.

    There are none where nothing is there. None where pyarrow cannot look, which says nothing about Spark.
    """
    try:
        filesystem, place = filesystem_of(path)
        place = place.rstrip("/") or "/"
        there = filesystem.get_file_info(place).type != fs.FileType.NotFound
        roots = [place] if there or not _WILD.search(place) else _matches(filesystem, place)
        found: list[tuple[fs.FileInfo, tuple[str, ...]]] = []
        hidden: list[str] = []
        for root in roots:
            info = filesystem.get_file_info(root)
            if info.type == fs.FileType.File:
                found.append((info, ()))
            else:
                _walk(filesystem, root, found, hidden)
    except (StoreError, OSError, pa.ArrowException):
        return None
    found.sort(key=lambda one: one[0].path)
    infos = [info for info, _ in found]
    return Listing(
        path,
        filesystem,
        tuple(info.path for info in infos),
        tuple(sorted(hidden)),
        tuple(folders for _, folders in found),
        there,
        there and escaped(place) == place,
        tuple(info.size for info in infos),
        tuple(None if info.mtime_ns is None else info.mtime_ns / 1e9 for info in infos),
    )


def _walk(
    filesystem: fs.FileSystem, root: str, found: list[tuple[fs.FileInfo, tuple[str, ...]]], hidden: list[str]
) -> None:
    for info in filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True)):
        if info.type != fs.FileType.File:
            continue
        names = info.path[len(root) :].strip("/").split("/")
        if any(map(_is_hidden, names)):
            if not any(_MARKERS.match(name) for name in names):
                hidden.append(info.path)
        else:
            found.append((info, tuple(names[:-1])))


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
