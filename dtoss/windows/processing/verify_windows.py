"""Whether windows are whole: every byte of every file that their commits list, and what was counted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.between import commits_from
from dtoss.commits.verify_report import Look, VerifyReport, noting, verify_chain
from dtoss.errors import DtossError, StoreError
from dtoss.windows.state.hour_files import NO_TIME, Hours, hours_of
from dtoss.windows.storage.bundle import unbundle_tables
from dtoss.windows.storage.sets import homes_of, sets_of
from dtoss.windows.storage.spec_file import read_spec
from dtoss.windows.storage.window_document import Document, Part, document_of, head_of
from dtoss.windows.storage.window_folder import (
    HOURS,
    KEY_FILES,
    OBJECT_STATES,
    PANES,
    PATCHES,
    RESULTS,
    SET_ASIDE,
    Home,
)


def verify_windows(home: Home) -> VerifyReport:
    """Return what is wrong with windows, with all their sets, and what could not be read; none of it is an error.

    Looked at are the chain of commits, the spec and what the keys are made of; size, SHA-256 and rows of each file that
    a commit lists; that the ends of results are those that are listed; that each row that was read was counted, lost to
    another one or set aside. State that a later commit has made needless may be missing, and results that are
    in the file of their hour. Cost: everything is read once.
    """
    look = Look()
    look.found.held["results"] = 0
    with noting(look.found):
        sets = sets_of(home)
        for one in homes_of(home, sets):
            with noting(look.found):
                _set(one, look)
        if sets.commit is not None:
            for what in verify_chain(home.sets):
                look.wrong(what)
    return look.found


def _set(home: Home, look: Look) -> None:
    """Look at one set."""
    found = look.found
    if not home.folder.there() or (not any(home.batches.listed()) and not home.folder.is_file("spec.json")):
        read_spec(home)  # which says that there are none
    try:
        _arrow(home, look, KEY_FILES, Part(read_spec(home).keys, ()), needed=True)
    except DtossError as error:
        look.wrong(error)
    for what in verify_chain(home.batches):
        look.wrong(what)
    files, logs = home.batches.listed()
    last = max([*files, *(end for _, end in logs)], default=0)
    found.commits += last
    hours = _hours(home, look)
    before: Document | None = None
    lines: dict[int, bytes] = {}
    for number in range(1, last + 1):
        try:
            (commit,) = commits_from(home.batches, number, number, lines)
            document = document_of(home, commit)
        except (StoreError, OSError) as error:
            look.wrong(error)
            before = None
            continue
        _document(home, look, document, before, hours, newest=number == last)
        before = document


def _hours(home: Home, look: Look) -> Hours:
    """Look at the files of past hours, and return which there are."""
    try:
        head = head_of(home)
        if head is None or not head.files[HOURS]:
            return Hours()
        found = hours_of(home, head)
    except StoreError as error:
        look.wrong(error)
        return Hours(until=-NO_TIME)
    look.bytes_of(home.folder, HOURS, head.files[HOURS][0].file, needed=True)
    for part in found.files:
        _results(home, look, part, needed=True)
    for part in found.quarantine:
        _set_aside(home, look, part, needed=True)
    return found


def _document(
    home: Home, look: Look, document: Document, before: Document | None, hours: Hours, *, newest: bool
) -> None:
    for room in (OBJECT_STATES, PATCHES, PANES):
        for part in document.files[room]:
            _arrow(home, look, room, part, needed=newest and room != PATCHES)
    for part in document.files[RESULTS]:
        _results(home, look, part, needed=hours.needs(document, part))
    for part in document.files[SET_ASIDE]:
        _set_aside(home, look, part, needed=document.number > hours.set_aside)
    path, counts = home.batches.path(document.number), document.counts
    if counts.get("rows") != counts.get("counted", 0) + counts.get("losers", 0) + counts.get("quarantined", 0):
        look.wrong(f"{path} is damaged: its rows are not those that count, were lost and were set aside")
    if before is not None and document.watermark_before != before.watermark:
        look.wrong(f"{path} is damaged: the watermark before it is not that of the commit before")


def _arrow(home: Home, look: Look, room: str, part: Part, *, needed: bool) -> None:
    data = look.bytes_of(home.folder, room, part.file, needed=needed)
    if data is None:
        return
    path = home.folder.path(room, part.file.name)
    try:
        unbundle_tables(pa.py_buffer(data), path)
    except StoreError as error:
        look.wrong(error)


def _set_aside(home: Home, look: Look, part: Part, *, needed: bool) -> None:
    data = look.bytes_of(home.folder, SET_ASIDE, part.file, needed=needed)
    if data is not None:
        look.parquet(home.folder.path(SET_ASIDE, part.file.name), data, part.file.rows)


def _results(home: Home, look: Look, part: Part, *, needed: bool) -> None:
    data = look.bytes_of(home.folder, RESULTS, part.file, needed=needed)
    if data is None:
        return
    path = home.folder.path(RESULTS, part.file.name)
    table = look.parquet(path, data, part.file.rows)
    if table is None:
        return
    look.found.hold("results", len(table))
    bounds = pc.min_max(table["end"]).as_py() if "end" in table.column_names else {"min": None, "max": None}
    if (bounds["min"], bounds["max"]) != part.of:
        look.wrong(f"{path} is damaged: its ends are not those that its commit says")
