"""Which sets of windows a name has: those that answer, each from an end on, and one that is to take over.

A name begins with one set, and nothing says so. Other pivots or another spec begin a second one beside it. From then on
a chain of commits in ``STORE/windows/NAME/sets/`` says which sets there are, of which this is read::

    {"format": 1, "kind": "sets of windows", "last": 3, "next": null,
     "sets": [{"set": 1, "since": null}, {"set": 3, "since": 1779200400000000}]}

So one commit begins a set, and one, which only one process can make, lets it answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtoss.commits.chain import COMMITS, Commit, check_document
from dtoss.commits.file_entry import whole
from dtoss.errors import StoreError
from dtoss.windows.storage.window_document import ROOMS, SETS, Home

SETS_KIND, SETS_FORMAT = "sets of windows", 1


@dataclass(frozen=True)
class Answering:
    """A set that answers."""

    number: int
    since: int | None = None  # Its first end, in microseconds since 1970; None of the set with which the name began


@dataclass(frozen=True)
class Coming:
    """A set that is to take over; times are microseconds since 1970."""

    number: int
    after: int  # The commit of the current set from whose state it began
    known_from: int  # All rows from then on are counted in it
    since: int  # Its first end: this one and all later ones are whole
    full_at: int  # The watermark of the current set at which no end before that can change any more


@dataclass(frozen=True)
class Sets:
    """The sets of a name."""

    answering: tuple[Answering, ...] = (Answering(1),)  # Those that answer, the current one last
    coming: Coming | None = None  # The one that is to take over; None where no change is under way
    last: int = 1  # The highest number that a set ever had
    commit: Commit | None = None  # Which says so; None before a second set

    @property
    def current(self) -> Answering:
        """The set that answers the newest ends."""
        return self.answering[-1]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of all sets whose files are needed."""
        return (*(one.number for one in self.answering), *(() if self.coming is None else (self.coming.number,)))

    @property
    def change(self) -> int:
        """How often sets have changed: the number of the commit, 0 before the first one."""
        return 0 if self.commit is None else self.commit.number

    def as_json(self) -> dict[str, Any]:
        """Return what a commit says."""
        coming = self.coming
        return {
            "kind": SETS_KIND,
            "format": SETS_FORMAT,
            "last": self.last,
            "next": None
            if coming is None
            else {
                "set": coming.number,
                "after": coming.after,
                "known_from": coming.known_from,
                "since": coming.since,
                "full_at": coming.full_at,
            },
            "sets": [{"set": one.number, "since": one.since} for one in self.answering],
        }


def sets_of(home: Home) -> Sets:
    """Return the sets of a name. Cost: a look where there is one, else three small reads."""
    head = home.sets.head()
    return Sets() if head is None else read_sets(home, head)


def read_sets(home: Home, commit: Commit) -> Sets:
    """Return the sets that a commit says."""
    said, path = commit.document, home.sets.path(commit.number)
    check_document(path, said, SETS_KIND, (SETS_FORMAT,))
    try:
        answering = tuple(
            Answering(whole(one["set"], "set", 1), None if one["since"] is None else whole(one["since"], "since", None))
            for one in said["sets"]
        )
        if not answering:
            raise ValueError("no set answers")
        return Sets(answering, _coming(said["next"]), whole(said["last"], "last", 1), commit)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{path} is damaged: {error!s:.200}; restore it from a copy") from None


def _coming(said: Mapping[str, Any] | None) -> Coming | None:
    if said is None:
        return None
    times = (whole(said[name], name, None) for name in ("known_from", "since", "full_at"))
    return Coming(whole(said["set"], "set", 1), whole(said["after"], "after", 1), *times)


def commit_sets(home: Home, before: Sets, after: Sets) -> Sets:
    """Commit which sets there are from now on, and return them."""
    return read_sets(home, home.sets.append(after.as_json(), before.commit))


def current_home(store: str, name: str) -> Home:
    """Return where the current set of a name is: the one that answers now, and that runs."""
    home = Home(store, name)
    return current_of(home, sets_of(home))


def current_of(home: Home, sets: Sets) -> Home:
    """Return where the set is that answers the newest ends."""
    return Home(home.store, home.name, sets.current.number)


def coming_of(home: Home, sets: Sets) -> Home:
    """Return where the set is that is to take over; there is one."""
    assert sets.coming is not None
    return Home(home.store, home.name, sets.coming.number)


def later_numbers(home: Home) -> list[int]:
    """Return the numbers of later sets that have a folder; one may be left of who ended early."""
    return [int(name) for name in home.first.folder.folders(SETS) if name.isascii() and name.isdigit()]


def homes_of(home: Home, sets: Sets) -> list[Home]:
    """Return where all sets of a name are whose files are needed."""
    return [Home(home.store, home.name, number) for number in sets.numbers]


def sizes_of(home: Home, sets: Sets) -> int:
    """Return the bytes of the files of all sets of a name that are needed, with their commits."""
    return sum(sum(one.folder.sizes(room).values()) for one in homes_of(home, sets) for room in (*ROOMS, COMMITS))
