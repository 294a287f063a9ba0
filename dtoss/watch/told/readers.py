"""Named readers: where each stands, in a file of its own, so that nothing is removed that it has yet to read."""

from __future__ import annotations

import hashlib
import json
import re

from dtoss.errors import InputError, StoreError
from dtoss.watch.home import READERS, Home
from dtoss.watch.told.cursor import Cursor

_READER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_SUFFIX = ".json"


def cursor_of_reader(home: Home, name: str) -> Cursor | None:
    """Return where a reader stands; None where there is none of this name.

    Parameters
    ----------
    home
        Of the watch.
    name
        Of the reader.

    Raises
    ------
    InputError
        If it cannot be a name.
    StoreError
        If its file is damaged; the message names it.
    OSError
        If it cannot be read.
    """
    _check(name)
    data = home.folder.read(READERS, name + _SUFFIX)
    if data is None:
        return None
    path = home.folder.path(READERS, name + _SUFFIX)
    try:
        said = json.loads(data)
        cursor = Cursor.of(said["cursor"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError):
        raise StoreError(f"{path} is damaged: it is no cursor of a reader; {_way_out(name)}") from None
    if data != _encoded(name, cursor):
        raise StoreError(f"{path} is damaged: it does not have the bytes that it was written with; {_way_out(name)}")
    return cursor


def keep_cursor(home: Home, name: str, cursor: Cursor) -> None:
    """Let a reader stand behind an event: the file is replaced in one step, and brought to the disk.

    Parameters
    ----------
    home
        Of the watch.
    name
        Of the reader.
    cursor
        All events up to it have been read.

    Raises
    ------
    InputError
        If it cannot be a name.
    OSError
        If it cannot be written.
    """
    _check(name)
    home.folder.make(READERS)
    home.folder.replace(_encoded(name, cursor), READERS, name + _SUFFIX)


def forget_reader(home: Home, name: str) -> bool:
    """Forget a reader, and return whether there was one of this name.

    Parameters
    ----------
    home
        Of the watch.
    name
        Of the reader.

    Raises
    ------
    InputError
        If it cannot be a name.
    OSError
        If its file cannot be removed.
    """
    _check(name)
    there = home.folder.is_file(READERS, name + _SUFFIX)
    if there:
        home.folder.remove(READERS, name + _SUFFIX)
    return there


def readers(home: Home) -> dict[str, Cursor]:
    """Return where all named readers stand, by name.

    Raises
    ------
    StoreError
        If the file of one is damaged.
    OSError
        If one cannot be read.
    """
    found = {}
    for file in home.folder.files(READERS):
        name = file.removesuffix(_SUFFIX)
        if file.endswith(_SUFFIX) and _READER.match(name):
            cursor = cursor_of_reader(home, name)
            if cursor is not None:
                found[name] = cursor
    return found


def _encoded(name: str, cursor: Cursor) -> bytes:
    body = {"cursor": str(cursor), "reader": name}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    body["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _way_out(name: str) -> str:
    return f"say --after CURSOR --as {name} to write it anew"


def _check(name: str) -> None:
    if not (isinstance(name, str) and _READER.match(name)):
        raise InputError(
            f"reader {name!r} cannot be a name: up to 64 letters, digits, '.', '_' and '-' are wanted, the first a "
            "letter or digit"
        )
