"""Errors of the domain; wrong arguments are plain ValueError and TypeError."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


class DtossError(Exception):
    """Something about the data or the store is wrong; the message says what and what to do."""


class StoreError(DtossError):
    """A store, a snapshot or one of its files is missing, damaged or of another format."""


class Unreadable(StoreError):
    """Something could not be read, and the system says why, such as too many open files: nothing says it is damaged."""


class Undelivered(DtossError):
    """Events were not taken by whom they were handed to: they are told again."""


class InputError(DtossError):
    """The positions cannot be made into a snapshot."""


def reason(error: OSError) -> str:
    """Return what the system says, in its own words: pyarrow's say the file once more."""
    return os.strerror(error.errno) if error.errno else str(error)


def unreadable(path: str, error: OSError) -> Unreadable:
    """Return the error of who could not read something."""
    return Unreadable(f"{path} could not be read: {reason(error)}")


def of_system(error: BaseException) -> bool:
    """Return whether the system refused something, so that what was read need not be damaged."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn what the system refuses into the error of who could not read something; a folder is no file, but damage."""
    try:
        yield
    except IsADirectoryError as error:
        raise StoreError(f"{what} cannot be read: {reason(error)}; roll back or rebuild") from None
    except OSError as error:
        raise unreadable(what, error) from None


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Let what the system refuses name a file, as Python's own errors do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), path) from None
