"""Where readers of events stand: cursors, and readers with a name in files, so that nothing goes that they wait for.

The file ``NAME.json`` has the filter and how many share the reader's events. Where several do, ``NAME+I.json`` has the
cursor of each that has begun; the others stand at that of the first file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

from dtoss.commits.chain import seal
from dtoss.commits.file_entry import whole
from dtoss.errors import InputError, StoreError
from dtoss.watch.processing.event_table import EVENT_KINDS
from dtoss.watch.watch_folder import READERS, Home

END_OF_BATCH = (1 << 63) - 1
"""The number of a cursor behind all events of its batch."""
_TEXT = re.compile(r"(\d{1,18})(?:-(\d{1,19}|end))?\Z", re.ASCII)


class Cursor(NamedTuple):
    """A place in the order of all events: those up to it have been told, those behind it have not."""

    batch: int  # The number of a commit
    number: int  # Of an event in it: the file's place shifted by 32 bits, and the row in the file

    def __str__(self) -> str:
        return f"{self.batch}-{'end' if self.number == END_OF_BATCH else self.number}"

    @classmethod
    def of(cls, text: str | int) -> Cursor:
        """Return the cursor that a text means: ``12-34``, or ``12-end`` or ``12`` for behind all events of a batch.

        The number of a batch may be a number, too.

        Examples
        --------
        >>> Cursor.of("12-34")
        Cursor(batch=12, number=34)
        """
        said = str(int(text)) if isinstance(text, Integral) and not isinstance(text, bool) else text
        found = _TEXT.match(said.strip()) if isinstance(said, str) else None
        if found is None or (found[2] not in (None, "end") and int(found[2]) > END_OF_BATCH):
            raise InputError(
                f"{text!r} is no cursor: the id of an event is wanted, such as 12-34, or the number of a batch"
            )
        return cls(int(found[1]), END_OF_BATCH if found[2] in (None, "end") else int(found[2]))


BEGINNING = Cursor(0, END_OF_BATCH)
"""Before the events of the first batch."""


_READER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_SUFFIX = ".json"
MOST_SHARES = 1024
"""Into which the events of a reader are divided, at most."""


@dataclass(frozen=True)
class Filter:
    """Which events a reader is told."""

    subscription: str | None = None  # Those of this one; of all when None
    # Those of these kinds, each once and in the order of :data:`EVENT_KINDS`; of all when None
    kinds: tuple[str, ...] | None = None
    target: str | None = None  # Those of subscriptions whose meta names it; of all when None

    @classmethod
    def of(
        cls, subscription: str | None = None, kinds: Collection[str] | None = None, target: str | None = None
    ) -> Filter:
        """Return a filter, whatever order its kinds are in."""
        for kind in kinds or ():
            if kind not in EVENT_KINDS:
                raise InputError(f"kind {kind!r} is none of events: {', '.join(EVENT_KINDS)} are")
        return cls(subscription, None if not kinds else tuple(kind for kind in EVENT_KINDS if kind in kinds), target)

    @property
    def document(self) -> dict[str, Any]:
        """What a file of a reader says of it."""
        target = {} if self.target is None else {"target": self.target}
        return {"subscription": self.subscription, "kinds": self.kinds} | target

    def __str__(self) -> str:
        """Return it as the options of a command say it."""
        said = [] if self.subscription is None else [f"--subscription {self.subscription}"]
        said += [] if self.target is None else [f"--for {self.target}"]
        return " ".join(said + [f"--kind {kind}" for kind in self.kinds or ()]) or "all events"


@dataclass(frozen=True)
class Reader:
    """What is known of a reader, or of one share of it."""

    name: str
    cursor: Cursor  # All events up to it that the filter lets through have been read
    filter: Filter | None = None  # What it reads; None where an earlier version has not kept that
    shares: int = 1  # How many divide its events
    share: int | None = None  # Which of these it is, from 1 on; None for what all have in common
    # The last event of those that are handed on now, or were when it ended; None where none are
    under_way: Cursor | None = None
    mark: str | None = None  # Tells it from all readers of all stores; None where no target has asked for it

    @property
    def file(self) -> str:
        """The name of its file."""
        return _file_of(self.name, self.share)

    @property
    def encoded(self) -> bytes:
        """What its file holds."""
        kept = None if self.filter is None else self.filter.document
        body = {"cursor": str(self.cursor), "reader": self.name}
        more = {} if self.under_way is None else {"under_way": str(self.under_way)}
        more |= {} if self.mark is None else {"mark": self.mark}
        return seal(body | more | {"filter": kept, "share": self.share, "shares": self.shares})


def reader_of(home: Home, name: str, share: int | None = None) -> Reader | None:
    """Return what is known of a reader; None where there is none of this name.

    ``share``: which share of it; what all have in common when None.
    """
    check_reader(name)
    file = _file_of(name, share)
    data = home.folder.read(READERS, file)
    if data is None:
        return None
    try:
        said = json.loads(data)
        found = _reader_in(said)
        said.pop("sha256")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError):
        found = None
    if found is None or (found.name, found.share) != (name, share) or data != seal(said):
        path = home.folder.path(READERS, file)
        raise StoreError(
            f"{path} is damaged: it is not what was written of reader {name!r}; restore it from a copy, or say --as "
            f"{name} --reset --after CURSOR to begin anew"
        )
    return found


def keep_reader(home: Home, reader: Reader) -> None:
    """Write what is known of a reader: the file is replaced in one step, and brought to the disk."""
    check_reader(reader.name)
    home.folder.make(READERS)
    home.folder.replace(reader.encoded, READERS, reader.file)


def begin_reader(home: Home, reader: Reader) -> Reader:
    """Write what is known of a reader that is new; return what others have written of it meanwhile, if any have."""
    check_reader(reader.name)
    home.folder.make(READERS)
    if home.folder.create(reader.encoded, READERS, reader.file):
        return reader
    return reader_of(home, reader.name) or reader


def cursor_of_reader(home: Home, name: str) -> Cursor | None:
    """Return up to where a reader has read all, in each of its shares; None where there is none of this name."""
    common = reader_of(home, name)
    if common is None or common.shares == 1:
        return None if common is None else common.cursor
    shares = [reader_of(home, name, share) or common for share in range(1, common.shares + 1)]
    return min(share.cursor for share in shares)


def forget_reader(home: Home, name: str) -> bool:
    """Forget a reader, and return whether there was one of this name."""
    check_reader(name)
    there = home.folder.is_file(READERS, name + _SUFFIX)
    forget_shares(home, name)
    if there:
        home.folder.remove(READERS, name + _SUFFIX)
    return there


def forget_shares(home: Home, name: str) -> None:
    """Let all shares of a reader stand where it began."""
    for share in shares_kept(home, name):
        home.folder.remove(READERS, _file_of(name, share))


def shares_kept(home: Home, name: str) -> list[int]:
    """Return which shares of a reader have files, damaged ones among them."""
    found = [re.fullmatch(re.escape(name) + r"\+([1-9]\d{0,3})\.json", file) for file in home.folder.files(READERS)]
    return sorted(int(one[1]) for one in found if one is not None)


def readers(home: Home) -> dict[str, Cursor]:
    """Return where all named readers stand, by name: of those with shares, the last of these."""
    found = {}
    for file in home.folder.files(READERS):
        name = file.removesuffix(_SUFFIX)
        if file.endswith(_SUFFIX) and _READER.match(name):
            cursor = cursor_of_reader(home, name)
            if cursor is not None:
                found[name] = cursor
    return found


def check_reader(name: str) -> None:
    """Check that a reader can be called so."""
    if not (isinstance(name, str) and _READER.match(name)):
        raise InputError(
            f"reader {name!r} cannot be a name: up to 64 letters, digits, '.', '_' and '-' are wanted, the first a "
            "letter or digit"
        )


def _file_of(name: str, share: int | None) -> str:
    return f"{name}{'' if share is None else f'+{share}'}{_SUFFIX}"


def _reader_in(said: Any) -> Reader:
    kept, share = said.get("filter"), said.get("share")
    shares = whole(said.get("shares", 1), "shares", 1)
    return Reader(
        said["reader"],
        Cursor.of(said["cursor"]),
        None if kept is None else Filter.of(kept["subscription"], kept["kinds"], kept.get("target")),
        shares,
        None if share is None else whole(share, "share", 1),
        None if (end := said.get("under_way")) is None else Cursor.of(end),
        said.get("mark"),
    )
