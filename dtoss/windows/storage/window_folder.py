"""Where windows are: the folder ``STORE/windows/NAME``, and what is in it.

::

    STORE/windows/NAME/
      spec.json                   what is asked for, once and for all
      CURRENT, commits/           the chain of batches: what each made visible
      LEASE                       who runs them
      keys/<name>.arrow           what the keys are made of: pivots, sites, polygons
      objects/<name>.arrow        the state of objects by bucket, and patches of it
      patches/<name>.arrow        what the tasks of the last batch changed in panes
      panes/<name>.arrow          the state of panes by group of keys, and patches of it
      results/<name>.parquet      results of ends that became due, and revisions; those of a past hour in one file
      quarantine/<name>.parquet   rows that were set aside
      ledger/<name>.json.zst      of what was read, the many files that no commit says itself
      hours/<name>.json           which files have past hours, and from when on ends are kept
      sets/CURRENT, sets/commits/ the chain of sets, once another one has begun (:mod:`dtoss.windows.storage.sets`)
      sets/<number>/              a later set, with all of the above but the lease
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dtoss.commits.chain import Chain
from dtoss.commits.folder import Folder
from dtoss.commits.ledger_runs import LEDGERS
from dtoss.commits.named import check_name, names_in, path_in
from dtoss.names import near_name
from dtoss.snapshots.store_location import folder_of, hide_keys

WINDOWS = "windows"
"""The folder of a store that holds its windows."""
SPEC = "spec.json"
KEY_FILES, OBJECT_STATES, PATCHES, PANES, RESULTS, SET_ASIDE, HOURS = (
    "keys",
    "objects",
    "patches",
    "panes",
    "results",
    "quarantine",
    "hours",
)
SETS = "sets"
"""The folder of a name that holds its later sets, and the chain that says which of them counts."""
ROOMS = (KEY_FILES, OBJECT_STATES, PATCHES, PANES, RESULTS, SET_ASIDE, HOURS, LEDGERS)
_NAMED = 5
"""Windows that a message names."""


@dataclass(frozen=True)
class Home:
    """Where a set of windows is; small, and pickled as what it is made of."""

    store: str  # Path or URI of the store
    name: str
    number: int = 1  # Of the set; the first one is in the folder of the name, later ones in folders of their own in it

    def __post_init__(self) -> None:
        check_name(WINDOWS, self.name)

    def __reduce__(self) -> tuple[type[Home], tuple[str, str, int]]:
        return Home, (self.store, self.name, self.number)

    @property
    def path(self) -> str:
        """Path or URI of the folder."""
        later = () if self.number == 1 else (SETS, str(self.number))
        return path_in(self.store, WINDOWS, self.name, *later)

    @property
    def first(self) -> Home:
        """The first set of the name, whose folder has the lease and the chain of sets."""
        return self if self.number == 1 else Home(self.store, self.name)

    @property
    def sets(self) -> Chain:
        """The chain that says which set counts; it begins with the second one."""
        return Chain(folder_of(path_in(self.first.path, SETS)), kept=True)

    @cached_property
    def folder(self) -> Folder:
        """The folder."""
        return folder_of(self.path)

    @property
    def batches(self) -> Chain:
        """The chain of batches."""
        return Chain(self.folder, kept=True)


def windows_of(store: str) -> list[str]:
    """Return the names of the windows of a store, sorted."""
    return names_in(folder_of(path_in(store, WINDOWS)))


def way_to(home: Home) -> str:
    """Return the end of a sentence about windows that are not there: which are meant, or how they begin."""
    names, store = windows_of(home.store), hide_keys(home.store)
    if home.name in names or not names:
        return f"; dtoss windows run POSITIONS --store {store} --name {home.name} commits the first batch"
    near = near_name(home.name, names)
    if near is not None:
        return f"; did you mean --name {near}?"
    more = ", ..." if len(names) > _NAMED else ""
    return f"; the store has {', '.join(names[:_NAMED])}{more}"
