"""Where a watch is: the folder ``STORE/watch/NAME``, and what is in it.

::

    STORE/watch/NAME/
      CURRENT, commits/                 the chain of batches: what each made visible
      LEASE                             who watches
      events/<name>.parquet             events of a task, or of many batches folded
      state/<name>.arrow                the rows before
      quarantine/<name>.parquet         rows that were set aside
      readers/<name>.json               cursors of named readers
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

from dtoss.commits.chain import Chain
from dtoss.commits.folder import Folder
from dtoss.commits.named import check_name, names_in, path_in
from dtoss.errors import InputError
from dtoss.names import near_name
from dtoss.snapshots.place import folder_of, shown

WATCHES = "watch"
"""The folder of a store that holds its watches."""
DEFAULT_NAME = "default"
"""The name of a watch where none is said."""
EVENTS, STATE, QUARANTINED, READERS, SUBSCRIPTIONS = "events", "state", "quarantine", "readers", "subscriptions"
CHANGES, BUILT, LAYOUTS = "changes", "built", "layouts"
"""Folders of :data:`SUBSCRIPTIONS`."""
LOAD = "load"
"""The folder of a watch that holds what rounds have cost."""
_NAMED = 5
"""Watches that a message names."""


@dataclass(frozen=True)
class Home:
    """Where a watch is; small, and pickled as its two texts.

    Parameters
    ----------
    store
        Path or URI of the store.
    name
        Of the watch.

    Raises
    ------
    InputError
        If the name is none that a folder of every system can have.
    """

    store: str
    name: str = DEFAULT_NAME

    def __post_init__(self) -> None:
        check_name("watch", self.name)

    def __reduce__(self) -> tuple[type[Home], tuple[str, str]]:
        return Home, (self.store, self.name)

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
        return Chain(self.folder, kept=True)

    @property
    def changes(self) -> Chain:
        """The chain of changes of subscriptions."""
        return Chain(self.asked, kept=True)


def watches_of(store: str) -> list[str]:
    """Return the names of the watches of a store, sorted.

    Parameters
    ----------
    store
        Path or URI; there may be none.
    """
    return names_in(folder_of(path_in(store, WATCHES)))


def way_to(home: Home) -> str:
    """Return the end of a sentence about a watch that is not there or has not begun: which is meant, or how it begins.

    Parameters
    ----------
    home
        Of that watch.
    """
    names, store = watches_of(home.store), shown(home.store)
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
    """Check that there is a watch of this name.

    Raises
    ------
    InputError
        If there is none; the message says which there are.
    """
    if not home.folder.there() and not home.asked.there():
        raise InputError(f"there is no watch {home.name!r} in {shown(home.store)}{way_to(home)}")
