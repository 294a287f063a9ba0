"""Looking at files before Spark reads them: which one is the first at a path, a directory or a glob."""

from __future__ import annotations

import re

from pyarrow import fs

from dtoss.errors import StoreError
from dtoss.folder import filesystem_of


def first_file(path: str) -> tuple[fs.FileSystem, str] | None:
    """Return the file system and path of the first data file at a path, in a directory, or that a glob matches.

    Names that begin with an underscore or a dot are no data. None where there is nothing, or where pyarrow cannot look
    (which says nothing about Spark).
    """
    try:
        filesystem, place = filesystem_of(path)
        wild = re.search(r"[*?\[{]", place)
        if wild is None:
            inside = _first(filesystem, place.rstrip("/"), None)
        else:
            inside = _first(filesystem, place[: wild.start()].rpartition("/")[0] or "/", _pattern(place.rstrip("/")))
    except (StoreError, OSError):
        return None
    return None if inside is None else (filesystem, inside)


def _first(filesystem: fs.FileSystem, place: str, pattern: re.Pattern[str] | None) -> str | None:
    info = filesystem.get_file_info(place)
    if info.type == fs.FileType.File:
        return place if pattern is None or pattern.match(place) else None
    if info.type != fs.FileType.Directory:
        return None
    for child in sorted(filesystem.get_file_info(fs.FileSelector(place)), key=lambda child: child.path):
        if not child.base_name.startswith(("_", ".")) and (found := _first(filesystem, child.path, pattern)):
            return found
    return None


def _pattern(glob: str) -> re.Pattern[str]:
    """Return the expression for a Hadoop glob, and for everything below what it matches."""
    parts = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
    depth, text = 0, ""
    for piece in re.findall(r"\[[^\]]*\]|.", glob):
        depth += (piece == "{") - (piece == "}")
        if piece.startswith("["):
            text += piece.replace("[!", "[^")
        elif piece in parts and (piece != "," or depth > 0):
            text += parts[piece]
        else:
            text += re.escape(piece)
    return re.compile(f"{text}(/.*)?$")
