"""Cursors of pages: which snapshot, which question, how many hits there were, and the last of them."""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from dtoss.serve.core.problems import Problem


class Cursor(NamedTuple):
    """Where a page begins."""

    snapshot: str  # That the pages before were of
    question: int  # A checksum of what is asked, without its page
    after: int  # Hits on the pages before
    distance: float  # Of the last of them
    id: Any  # Of the last of them


def question_sum(*parts: object) -> int:
    """Return a checksum of what is asked.

    Examples
    --------
    >>> question_sum(2.5, 48.0, None) == question_sum(2.5, 48.0, None), question_sum(2.5) == question_sum(2)
    (True, False)
    """
    return crc32(repr(parts).encode())


def write_cursor(cursor: Cursor) -> str:
    """Return a cursor as text for a URL.

    Examples
    --------
    >>> read_cursor(write_cursor(Cursor("a", 7, 100, 0.1, 5)))
    Cursor(snapshot='a', question=7, after=100, distance=0.1, id=5)
    """
    return base64.urlsafe_b64encode(orjson.dumps(list(cursor))).rstrip(b"=").decode()


def unknown_cursor(text: str | None = None) -> Problem:
    """Return what is said of a cursor that no page ended with."""
    value = None if text is None else text[:100]
    return Problem(400, "cursor is not one that this server gave: begin again without it", limit="cursor", value=value)


def check_question(begin: Cursor | None, question: int) -> None:
    """Refuse a cursor of another question."""
    if begin is not None and begin.question != question:
        raise Problem(400, "cursor belongs to another question: begin again without it", limit="cursor")


def read_cursor(text: str) -> Cursor:
    """Return the cursor in a text."""
    wrong = unknown_cursor(text)
    try:
        parts = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, orjson.JSONDecodeError):
        raise wrong from None
    kinds: tuple[Any, ...] = (str, int, int, float, (int, str))
    if not isinstance(parts, list) or len(parts) != len(kinds):
        raise wrong
    if not all(isinstance(part, kind) and not isinstance(part, bool) for part, kind in zip(parts, kinds, strict=True)):
        raise wrong
    cursor = Cursor(*parts)
    if cursor.after < 1:
        raise wrong
    return cursor


def first_of_page(cursor: str | None, snapshot: str | None) -> Cursor | None:
    """Return where a page begins, None at the beginning; the snapshot that is asked for has to be the cursor's."""
    begin = None if cursor is None else read_cursor(cursor)
    if begin is not None and snapshot not in (None, begin.snapshot):
        raise Problem(400, f"cursor is of snapshot {begin.snapshot}: leave snapshot out", limit="snapshot")
    return begin
