"""Reading under a name: one process at a time has a reader, or a share of it, and moves its cursor."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from secrets import token_hex
from types import TracebackType
from typing import NamedTuple

from dtoss.commits.chain import path_in
from dtoss.commits.lease import InUse, Writer, take
from dtoss.errors import InputError, StoreError
from dtoss.snapshots.store_location import folder_of
from dtoss.watch.events.event_log import View, view_of
from dtoss.watch.events.readers import (
    BEGINNING,
    MOST_SHARES,
    Cursor,
    Filter,
    Reader,
    begin_reader,
    check_reader,
    cursor_of_reader,
    forget_reader,
    forget_shares,
    keep_reader,
    reader_of,
    shares_kept,
)
from dtoss.watch.watch_folder import READERS, Home

_MARK_BYTES = 8
_KEPT_SECONDS = 1.0
"""How often a cursor that moves on and on is written."""
LEASES = "leases"
"""The folder of :data:`READERS` in which each reader has one for its lease."""


class Share(NamedTuple):
    """Which part of a reader's events a process has: all of those of some subscriptions."""

    number: int = 1
    of: int = 1  # How many there are

    @classmethod
    def said(cls, text: str) -> Share:
        """Return the share that a text means: ``2/3``."""
        number, slash, of = text.partition("/")
        digits = all(re.fullmatch("[0-9]{1,4}", part) for part in (number, of))
        if slash and digits and 1 <= int(number) <= int(of) <= MOST_SHARES:
            return cls(int(number), int(of))
        raise InputError(f"share {text!r} is none: I/N is wanted, I from 1 to N, and N up to {MOST_SHARES:,}")

    @property
    def alone(self) -> bool:
        """Whether it has all events."""
        return self.of == 1


class Reading:
    """A reader that this process has, until :meth:`release` or the end of the ``with`` block; made by :func:`begin`.

    ``lease``: of this reader, or of the share of it.
    """

    def __init__(self, home: Home, reader: Reader, lease: Writer) -> None:
        self.home, self.reader, self.cursor = home, reader, reader.cursor
        known = reader.under_way  # whoever has printed events since has moved the cursor alone
        self.under_way = None if known is None or known <= reader.cursor else known
        self._lease = lease
        self._written = 0.0

    def move(self, cursor: Cursor) -> None:
        """Move the cursor on; it is written once a second, and by :meth:`keep`."""
        self.cursor = cursor
        if time.monotonic() - self._written >= _KEPT_SECONDS:
            self.keep()

    def keep(self) -> None:
        """Bring the cursor to the disk, where it has moved."""
        if (self.cursor, self.under_way) != (self.reader.cursor, self.reader.under_way):
            self._write(replace(self.reader, cursor=self.cursor, under_way=self.under_way))

    def hand_on(self, last: Cursor) -> None:
        """Bring to the disk that all events up to this one are handed on now: after a kill these are, and no others."""
        self.under_way = last
        self.keep()

    def move_past(self, cursor: Cursor) -> None:
        """Move the cursor over what was handed on; it is written with what is handed on next, and by :meth:`keep`."""
        self.cursor, self.under_way = cursor, None

    def mark(self) -> str:
        """Return what tells this reader from all others, or this share of it; it is made once."""
        if self.reader.mark is None:
            self._write(replace(self.reader, mark=token_hex(_MARK_BYTES)))
        return str(self.reader.mark)

    def _write(self, reader: Reader) -> None:
        self._lease.check()
        self.reader = reader
        keep_reader(self.home, reader)
        self._written = time.monotonic()

    def release(self) -> None:
        """Let another process have the reader."""
        self._lease.release()

    def __enter__(self) -> Reading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def begin(
    home: Home,
    name: str,
    wanted: Filter,
    share: Share,
    after: Cursor | None,
    warn: Callable[[str], None],
    *,
    reset: bool = False,
) -> Reading:
    """Return a reader of a watch that has begun, for this process alone.

    ``name``: of the reader; one that is not known begins at the oldest event; ``wanted``: what it reads, which is kept
    with it; ``after``: where it goes on, instead of where it stands.
    """
    lease = _lease_of(home, name, share, warn)
    try:
        view = view_of(home)
        if view is None:
            raise InputError(f"watch {home.name!r} has not begun: there is nothing to read yet")
        if after is not None:
            view.check_behind(after)
        start = after or view.contents.gone or BEGINNING
        if reset:
            common = _anew(home, Reader(name, start, wanted, share.of), share, warn)
        else:
            known = reader_of(home, name)
            if known is None:
                forget_shares(home, name)  # of one whose file somebody has removed
                known = begin_reader(home, Reader(name, start, wanted, share.of))
            common = _check_same(home, known, wanted, share)
        mine = common
        if not share.alone:
            mine = reader_of(home, name, share.number) or replace(common, share=share.number)
        if after is None:
            _check_there(view, mine)
        elif after != mine.cursor:
            mine = replace(mine, cursor=after, under_way=None)
            keep_reader(home, mine)
        return Reading(home, mine, lease)
    except BaseException:
        lease.release()
        raise


def forget(home: Home, name: str, warn: Callable[[str], None]) -> bool:
    """Forget a reader that nobody reads as, and return whether there was one of this name."""
    check_reader(name)
    if not home.folder.is_file(READERS, Reader(name, BEGINNING).file):
        return False
    with ExitStack() as held:
        for share in _parts(home, name, 1):
            held.enter_context(_lease_of(home, name, share, warn)).made = True  # the folder goes with it
        return forget_reader(home, name)


def _lease_of(home: Home, name: str, share: Share, warn: Callable[[str], None]) -> Writer:
    check_reader(name)
    file = Reader(name, BEGINNING, share=None if share.alone else share.number).file
    path = path_in(home.path, READERS, LEASES, file.removesuffix(".json"))
    folder = folder_of(path)
    folder.make()
    said = f"reader {name!r}" if share.alone else f"share {share.number}/{share.of} of reader {name!r}"
    try:
        return take(folder, said, warn, lambda: None)
    except InUse as error:
        who = "another process" if error.holder is None else str(error.holder)
        raise StoreError(
            f"{said} is being read by {who}: one process at a time has it; wait until that has ended, take another "
            "name, or divide a new reader's events by --share I/N"
        ) from None


def _parts(home: Home, name: str, of: int) -> list[Share]:
    """Return all that a process may have of a reader: the whole, and each share that there is or will be."""
    known = None
    with suppress(StoreError):  # one that is damaged may be forgotten all the same
        known = reader_of(home, name)
    of = max(of, 1 if known is None else known.shares, *shares_kept(home, name))
    return [Share(), *(Share(number, of) for number in range(1, of + 1) if of > 1)]


def _anew(home: Home, reader: Reader, mine: Share, warn: Callable[[str], None]) -> Reader:
    """Write a reader anew, while nobody else has any part of it."""
    with ExitStack() as others:
        for share in _parts(home, reader.name, mine.of):
            if share.alone != mine.alone or share.number != mine.number:
                others.enter_context(_lease_of(home, reader.name, share, warn))
        # in this order whoever is killed in between leaves shares that begin where the reader did
        forget_shares(home, reader.name)
        keep_reader(home, reader)
    return reader


def _check_same(home: Home, known: Reader, wanted: Filter, share: Share) -> Reader:
    """Return what is known of a reader, if that is what it comes with now."""
    anew = f"take another name, or --as {known.name} --reset begins it anew"
    if known.filter is None:  # of an earlier version
        known = replace(known, filter=wanted)
        if share.of == known.shares:
            keep_reader(home, known)
    if known.filter != wanted:
        raise InputError(
            f"reader {known.name!r} reads {known.filter} and its cursor has passed over all else: it cannot go on with "
            f"{wanted}; {anew}"
        )
    if known.shares != share.of:
        raise InputError(
            f"the events of reader {known.name!r} are divided into {known.shares:,}, not {share.of:,}, and each part "
            f"has a cursor of its own: --reset --after {cursor_of_reader(home, known.name)} begins it anew where all "
            "have read as far, and tells some again what it has read beyond"
        )
    return known


def _check_there(view: View, reader: Reader) -> None:
    """Check that a reader can go on where it stands."""
    gone = view.contents.gone
    if gone is not None and reader.cursor < gone:
        raise InputError(
            f"reader {reader.name!r} stands at {reader.cursor}, and events behind that, up to {gone}, were removed "
            f"(--retain): they are lost to it; --after {gone} goes on with what is left"
        )
    try:
        view.check_behind(reader.cursor)
    except InputError as error:
        raise InputError(f"reader {reader.name!r}: {error}; --as {reader.name} --reset begins it anew") from None
