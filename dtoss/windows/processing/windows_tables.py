"""What windows are as tables: which files the batches of a set name, what these hold, and sets that nobody needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.chain import COMMITS, HINT, Commit
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.log_compaction import NOTHING_REMOVED, SPARED_DEBRIS_SECONDS, Removal, clear_unneeded
from dtoss.commits.table import Check, NamedFile, Table, files_of_ledger, remove_orphans, tidy, verify
from dtoss.commits.verify_report import Look, VerifyReport, noting, whole_ones
from dtoss.errors import DtossError, StoreError
from dtoss.windows.state.hour_files import NO_TIME, Hours, hours_of
from dtoss.windows.storage.bundle import unbundle_tables
from dtoss.windows.storage.sets import Sets, commit_sets, current_of, homes_of, later_numbers, sets_of
from dtoss.windows.storage.spec_file import fixed_of, read_spec
from dtoss.windows.storage.window_document import (
    HOURS,
    KEY_FILES,
    OBJECT_STATES,
    PANES,
    PATCHES,
    RESULTS,
    ROOMS,
    SET_ASIDE,
    SETS,
    SPEC,
    Document,
    Home,
    Part,
    document_of,
    head_of,
)

SPARED_STATE_SECONDS = 600.0
"""State that was replaced stays so long after it was written: whoever has opened the windows may be reading it."""
_STATE = (OBJECT_STATES, PATCHES, PANES, HOURS)


def table_of(home: Home) -> Table:
    """Return the table of a set of windows."""
    return Table(f"windows {home.name}", home.batches, ROOMS, partial(_files_of, home), said=_facts_of)


def tables_of(home: Home) -> list[Table]:
    """Return the tables of windows: that of each set, and that of the sets once there was a second one."""
    sets = sets_of(home)
    found = [table_of(one) for one in homes_of(home, sets)]
    if sets.commit is not None:
        found.append(Table(f"sets of windows {home.name}", home.sets, (), lambda *_: iter(()), counted="sets"))
    return found


def verify_windows(home: Home) -> VerifyReport:
    """Return what is wrong with windows, with all their sets, and what could not be read; none of it is an error.

    Looked at are the tables of them (:func:`dtoss.commits.table.verify`); the spec and what the keys are made of; that
    the ends of results are those that are listed; that each row that was read was counted, lost to another one or set
    aside. State that a later commit has made needless may be missing, and results that are in the file of their hour.
    """
    look = Look()
    look.found.held["results"] = 0
    with noting(look.found):
        tables = [table_of(home)]
        try:
            tables = tables_of(home)
        except StoreError as error:
            look.wrong(error)
        if not any(any(table.chain.listed()) or table.chain.folder.is_file(SPEC) for table in tables):
            read_spec(home)  # which says that there are none
        verify(tables, look)
    return look.found


def clear_merged(home: Home, head: Document, spare_seconds: float = SPARED_DEBRIS_SECONDS) -> Removal:
    """Remove results that past hours have, and those that are no longer kept, and return what went.

    Nothing goes while the index is young: whoever has opened the windows before it may be reading them.
    """
    index = head.files[HOURS]
    if not index or home.folder.idle(HOURS, index[0].file.name) < min(spare_seconds, SPARED_STATE_SECONDS):
        return NOTHING_REMOVED
    return remove_orphans(table_of(home), spare_seconds)


def clear_state(home: Home, head: Document) -> Removal:
    """Remove state that the newest commit does not name, and return what went. Cost O(files of state)."""
    gone = NOTHING_REMOVED
    for room in _STATE:
        needed = {part.file.name for part in head.files[room]}
        gone += clear_unneeded(home.folder, room, needed, SPARED_STATE_SECONDS)
    return gone


def _facts_of(commit: Commit) -> dict[str, Any]:
    counts = commit.document["counts"]
    return {"what": "batch", "rows": counts.get("rows", 0), "results": counts.get("results", 0)}


def _files_of(home: Home, look: Look | None, numbers: range) -> Iterator[NamedFile]:
    try:
        fixed = fixed_of(home) if look is None else read_spec(home)
        if fixed is not None:
            yield NamedFile(KEY_FILES, fixed.keys, check=_bundle)
    except DtossError as error:
        if look is None:
            raise
        look.wrong(error)
    if not numbers:
        return
    last = numbers[-1]
    hours = _hours(home, look, last)
    for part in hours.files:
        yield NamedFile(RESULTS, part.file, check=_results(part))
    for part in hours.quarantine:
        yield NamedFile(SET_ASIDE, part.file, check=Look.parquet)
    before: Document | None = None
    first = hours.since if look is None else numbers[0]
    for document in whole_ones(home.batches, partial(document_of, home), first, last, look):
        yield from _of_batch(document, hours, newest=document.number == last)
        if look is not None:
            _agree(home, look, document, before)
        before = document


def _hours(home: Home, look: Look | None, last: int) -> Hours:
    """Return the past hours that the newest commit names; where they are damaged, ones that need no result."""
    try:
        return hours_of(home, document_of(home, home.batches.read(last)))
    except StoreError as error:
        if look is None:
            raise
        look.wrong(error)
        return Hours(until=-NO_TIME)


def _of_batch(document: Document, hours: Hours, *, newest: bool) -> Iterator[NamedFile]:
    for room in (OBJECT_STATES, PATCHES, PANES):
        for part in document.files[room]:
            yield NamedFile(room, part.file, newest and room != PATCHES, newest, _bundle)
    yield from files_of_ledger(document.runs, newest=newest)
    for part in document.files[HOURS] if newest else ():
        yield NamedFile(HOURS, part.file)
    for part in document.files[RESULTS]:
        yield NamedFile(RESULTS, part.file, hours.needs(document, part), check=_results(part))
    for part in document.files[SET_ASIDE]:
        yield NamedFile(SET_ASIDE, part.file, document.number > hours.set_aside, check=Look.parquet)


def _agree(home: Home, look: Look, document: Document, before: Document | None) -> None:
    """Look whether what a commit counts agrees, with itself and with the one before."""
    path, counts = home.batches.path(document.number), document.counts
    if counts.get("rows") != counts.get("counted", 0) + counts.get("losers", 0) + counts.get("quarantined", 0):
        look.wrong(f"{path} is damaged: its rows are not those that count, were lost and were set aside")
    follows = before is not None and before.number == document.number - 1
    if before is not None and follows and document.watermark_before != before.watermark:
        look.wrong(f"{path} is damaged: the watermark before it is not that of the commit before")


def _bundle(look: Look, path: str, data: bytes, file: FileEntry) -> None:
    try:
        unbundle_tables(pa.py_buffer(data), path)
    except StoreError as error:
        look.wrong(error)


def _results(part: Part) -> Check:
    def check(look: Look, path: str, data: bytes, file: FileEntry) -> None:
        table = look.parquet(path, data, file)
        if table is None:
            return
        look.found.hold("results", len(table))
        bounds = pc.min_max(table["end"]).as_py() if "end" in table.column_names else {"min": None, "max": None}
        if (bounds["min"], bounds["max"]) != part.of:
            look.wrong(f"{path} is damaged: its ends are not those that its commit says")

    return check


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
