"""Sets that nobody needs any more: those that were given up, and those all of whose ends are kept no longer."""

from __future__ import annotations

from dataclasses import replace

from dtoss.commits.chain import COMMITS, HINT
from dtoss.commits.orphans import NOTHING_REMOVED, SPARED_DEBRIS_SECONDS, Removal
from dtoss.commits.table import tidy
from dtoss.windows.processing.windows_tables import tables_of
from dtoss.windows.state.hour_files import hours_of
from dtoss.windows.storage.sets import Sets, commit_sets, current_of, later_numbers, sets_of
from dtoss.windows.storage.window_document import head_of
from dtoss.windows.storage.window_folder import KEY_FILES, ROOMS, SETS, SPEC, Home


def clear_sets(home: Home, spare_seconds: float = SPARED_DEBRIS_SECONDS) -> Removal:
    """Remove what nothing needs of all sets of a name, and return what went.

    A set that was replaced goes once the current one keeps no result that is as old as its own first end: with
    ``--retain 7d`` some seven days after it was replaced, and never where all results are kept.

    ``spare_seconds``: files stay so long after they were written.

    One commit says that a set is gone, and then its files go: whoever ends in between, the next call goes on. Cost
    O(files of all sets, and commits since the last hour that was merged).
    """
    sets = _kept(home, sets_of(home))
    gone = [tidy(table, spare_seconds) for table in tables_of(home)]
    if sets.commit is not None:
        gone += [_remove_set(home, number, spare_seconds) for number in _left(home, sets)]
    return sum(gone, NOTHING_REMOVED)


def _kept(home: Home, sets: Sets) -> Sets:
    """Return the sets without those of before whose ends are all kept no longer; a commit says so first."""
    current = current_of(home, sets)
    head = head_of(current)
    since = sets.current.since
    if len(sets.answering) == 1 or head is None or since is None or hours_of(current, head).kept_from < since:
        return sets
    return commit_sets(home, sets, replace(sets, answering=sets.answering[-1:]))


def _left(home: Home, sets: Sets) -> list[int]:
    """Return the numbers of the sets that have files and are needed no more."""
    return [number for number in (1, *later_numbers(home)) if number not in sets.numbers]


def _remove_set(home: Home, number: int, spare_seconds: float) -> Removal:
    """Remove the files of a set, and return what went; nothing while any that it began with, or a commit, is young."""
    folder = Home(home.store, home.name, number).folder
    made = [(HINT,), (SPEC,), *((KEY_FILES, name) for name in folder.files(KEY_FILES))]
    if any(folder.is_file(*file) and folder.idle(*file) < spare_seconds for file in made):
        return NOTHING_REMOVED
    gone = [size for room in (*ROOMS, COMMITS) for size in folder.sizes(room).values()]
    for room in {*ROOMS, COMMITS}.intersection(folder.folders()):
        folder.remove_folder(room)
    top = folder.sizes()
    for file in (HINT, SPEC):
        if file in top:
            folder.remove(file)
            gone.append(top[file])
    if number != 1 and str(number) in home.first.folder.folders(SETS):
        home.first.folder.remove_folder(SETS, str(number))
    return Removal(len(gone), sum(gone))
