"""Errors of the domain; wrong arguments are plain ValueError and TypeError."""

from __future__ import annotations


class DtossError(Exception):
    """Something about the data or the store is wrong; the message says what and what to do."""


class StoreError(DtossError):
    """A store, a snapshot or one of its files is missing, damaged or of another format."""


class InputError(DtossError):
    """The positions cannot be made into a snapshot."""
