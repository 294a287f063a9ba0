"""Where a watch is: the folder ``STORE/watch/NAME``, and what is in it.

::

    STORE/watch/NAME/
      CURRENT, commits/                 the chain of batches: what each made visible
      LEASE                             who watches
      events/<name>.parquet             events of a task, or of many batches folded
      state/<name>.arrow                the rows before
      ledger/<name>.json.zst            of what was read, the many files that no commit says itself
      quarantine/<name>.parquet         rows that were set aside
      readers/<name>.json               cursors of named readers, <name>+<i>.json: of their shares
      readers/leases/<name>/LEASE       who reads under a name
      load/<name>.parquet               what rows of each routing cell have cost
      subscriptions/
        CURRENT, commits/               the chain of changes of subscriptions
        changes/<name>.parquet          what a change adds and removes
        built/<name>.arrow              indexes of subscriptions, mapped
        layouts/<name>.arrow            which worker has which routing cells, and stores which subscriptions
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dtoss.commits.chain import COMMITS_OF_A_LOG, Chain, check_name, names_in, path_in
from dtoss.commits.folder import Folder
from dtoss.commits.log_compaction import KEPT
from dtoss.errors import InputError
from dtoss.names import DEFAULT_NAME, near_name
from dtoss.snapshots.store_location import folder_of, hide_keys

WATCHES = "watch"
"""The folder of a store that holds its watches."""
EVENTS, STATE, QUARANTINED, READERS, SUBSCRIPTIONS = "events", "state", "quarantine", "readers", "subscriptions"
CHANGES, BUILT, LAYOUTS = "changes", "built", "layouts"
"""Folders of :data:`SUBSCRIPTIONS`."""
LOAD = "load"
"""The folder of a watch that holds what rounds have cost."""
WATCH_KIND, WATCH_FORMAT = "watch", 1
"""What commits of batches call themselves, and the format of their documents."""
_NAMED = 5
"""Watches that a message names."""


class Limits(NamedTuple):
    """Sizes of files and when they are made anew: what a watch costs depends on them, and nothing that it tells."""

    base_every: int = 64  # Changes after which one names a base, the whole table in one file
    # Rows of changes after a base from which on they may be as many as the base has, and no more
    least_pending: int = 10_000
    spared_seconds: float = 3600.0  # A base that is no longer named stays for so long
    asked_group_rows: int = 1 << 13  # Subscriptions in a row group: of a file those groups are read that may hold an id
    small_bytes: int = 1 << 18  # Files of subscriptions up to this size are read whole, and their tables are kept
    kept_tables_bytes: int = 16 << 20  # Of such tables, at the most
    merged_at_once: int = 1_000  # Rows of a file of subscriptions that are merged at a time
    # Subscriptions that may have come or gone before the large index is built anew, or an eighth of its own
    least_delta: int = 10_000
    event_group_rows: int = 1 << 18  # Events in a row group, and that are made at a time
    folded_group_rows: int = 1 << 17  # Rows of a group of a file of folded events: a cursor skips groups
    folded_bytes: int = 128 << 20  # A file of folded events is closed once it is so long
    # Counts of events since a fold up to which they are a table of their own, or an eighth of those before
    least_since: int = 10_000
    kept_commits: int = KEPT  # The newest commits stay files of their own
    commits_of_a_log: int = COMMITS_OF_A_LOG  # Older ones are lines of a log of so many


_USUAL = Limits()


@dataclass(frozen=True)
class Home:
    """Where a watch is; small, and pickled as what it is made of.

    Parameters
    ----------
    store
        Path or URI of the store.
    name
        Of the watch.
    limits
        Of its files.

    Raises
    ------
    InputError
        If the name is none that a folder of every system can have.
    """

    store: str
    name: str = DEFAULT_NAME
    limits: Limits = _USUAL

    def __post_init__(self) -> None:
        check_name("watch", self.name)

    def __reduce__(self) -> tuple[type[Home], tuple[str, str, Limits]]:
        return Home, (self.store, self.name, self.limits)

    @property
    def path(self) -> str:
        """Path or URI of the watch's folder."""
        return path_in(self.store, WATCHES, self.name)

    @property
    def asked_path(self) -> str:
        """Path or URI of the folder of its subscriptions."""
        return path_in(self.path, SUBSCRIPTIONS)

    @cached_property
    def folder(self) -> Folder:
        """The watch's folder."""
        return folder_of(self.path)

    @cached_property
    def asked(self) -> Folder:
        """The folder of its subscriptions."""
        return folder_of(self.asked_path)

    @property
    def batches(self) -> Chain:
        """The chain of batches."""
        return Chain(self.folder, self.limits.commits_of_a_log, kept=True)

    @property
    def changes(self) -> Chain:
        """The chain of changes of subscriptions."""
        return Chain(self.asked, self.limits.commits_of_a_log, kept=True)


def watches_of(store: str) -> list[str]:
    """Return the names of the watches of a store, sorted."""
    return names_in(folder_of(path_in(store, WATCHES)))


def way_to(home: Home) -> str:
    """Return the end of a sentence about a watch that is missing or has not begun: which is meant, or how it begins."""
    names, store = watches_of(home.store), hide_keys(home.store)
    if home.name in names:
        name = "" if home.name == DEFAULT_NAME else f" --watch {home.name}"
        return f"; dtoss watch POSITIONS --store {store}{name} commits the first"
    near = near_name(home.name, names)
    if near is not None:
        return f"; did you mean --watch {near}?"
    if names:
        more = ", ..." if len(names) > _NAMED else ""
        are = "watch is" if len(names) == 1 else "watches are"
        return f"; its {are} {', '.join(names[:_NAMED])}{more}"
    return f"; dtoss subscribe FILES --store {store} makes one"


def check_there(home: Home) -> None:
    """Check that there is a watch of this name."""
    if not home.folder.there() and not home.asked.there():
        raise InputError(f"there is no watch {home.name!r} in {hide_keys(home.store)}{way_to(home)}")
