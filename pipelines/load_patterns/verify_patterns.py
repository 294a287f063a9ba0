"""Whether live patterns are whole: every byte of every file that their last commit lists, and that all counts agree."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.named import names_in, path_in
from dtoss.commits.verify_report import Look, VerifyReport, noting, verify_chain
from dtoss.errors import InputError, StoreError
from dtoss.names import did_you_mean
from dtoss.snapshots.store_location import folder_of, hide_keys
from pipelines.load_patterns.log_rows import KEPT
from pipelines.load_patterns.patterns_folder import NAMES, NAMES_SCHEMA, PANED, PATTERNS, ROOMS, ROWS, Home, State
from pipelines.load_patterns.request_panes import PANES, Panes, added

SCHEMAS = {NAMES: NAMES_SCHEMA, ROWS: KEPT, PANED: PANES}
"""The columns of the files of each room."""


def verify_live(home: Home) -> VerifyReport:
    """Return what is wrong with live patterns, and what could not be read; nothing of what is found is an error.

    Looked at are the chain of commits; size, SHA-256, rows and columns of each file that the last one lists; that files
    of the log are named once, and as many as it says; and that sums are of as many rows and requests as are kept. Cost:
    everything is read once. Memory: names and sums, and the largest file of places.
    """
    if not home.folder.there():
        names = names_in(folder_of(path_in(home.store, PATTERNS)))
        known = f"; there are {', '.join(names)}" if names else "; dtoss patterns --live begins some"
        near = did_you_mean(home.name, names) or known
        raise InputError(f"there are no live patterns {home.name!r} in {hide_keys(home.store)}{near}")
    look = Look()
    found = look.found
    found.held["rows"] = 0
    with noting(found):
        for what in verify_chain(home.chain):
            look.wrong(what)
        try:
            head = home.chain.head()
            if head is None:
                return found
            found.commits = head.number
            path = home.chain.path(head.number)
            state = State.of(head, path)
        except StoreError as error:
            look.wrong(error)
            return found
        found.held["rows"] = state.rows
        _look(home, look, state, path)
    return found


def _look(home: Home, look: Look, state: State, path: str) -> None:
    tables: dict[str, list[pa.Table]] = {room: [] for room in ROOMS}
    rows = requests = 0
    whole = True
    for room in ROOMS:
        for file in state.listed[room]:
            place = home.folder.path(room, file.name)
            data = look.bytes_of(home.folder, room, file, needed=True)
            table = None if data is None else look.parquet(place, data, file.rows)
            if table is not None and table.schema.remove_metadata() != SCHEMAS[room]:
                look.wrong(f"{place} is damaged: its columns are {', '.join(table.column_names)}")
                table = None
            if table is None:
                whole = False
            elif room == ROWS:
                rows += len(table)
                requests += pc.sum(table.column("weight")).as_py() or 0
            else:
                tables[room].append(table)
    if not whole:
        return
    names = pa.concat_tables([NAMES_SCHEMA.empty_table(), *tables[NAMES]]).column("name")
    if not len(names) == len(names.unique()) == state.files:
        look.wrong(f"{path} is damaged: it says {state.files:,} files, {len(names.unique()):,} are named")
    panes = added([Panes.from_arrow(table) for table in tables[PANED]])
    sums = int(panes.rows.sum()), int(panes.requests.sum())
    if not state.rows == rows == sums[0] or requests != sums[1]:
        look.wrong(
            f"{path} is damaged: it says {state.rows:,} rows, {rows:,} are kept and {sums[0]:,} are counted; --recount "
            "counts anew what is kept"
        )
