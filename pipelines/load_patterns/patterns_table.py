"""What live patterns are as a table: the files that their last commit names, and whether all counts agree."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.chain import Commit, names_in, path_in
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.table import Check, NamedFile, Table, verify
from dtoss.commits.verify_report import Look, VerifyReport, noting
from dtoss.errors import InputError
from dtoss.names import did_you_mean
from dtoss.snapshots.store_location import folder_of, hide_keys
from pipelines.load_patterns.log_rows import KEPT
from pipelines.load_patterns.patterns_folder import NAMES, NAMES_SCHEMA, PANED, PATTERNS, ROOMS, ROWS, Home, State
from pipelines.load_patterns.request_panes import PANES, Panes, added

SCHEMAS = {NAMES: NAMES_SCHEMA, ROWS: KEPT, PANED: PANES}
"""The columns of the files of each room."""


def table_of(home: Home) -> Table:
    """Return the table of live patterns."""
    return Table(f"live patterns {home.name}", home.chain, ROOMS, partial(_files_of, home), said=_facts_of)


def verify_live(home: Home) -> VerifyReport:
    """Return what is wrong with live patterns, and what could not be read; nothing of what is found is an error.

    Looked at are the table of them (:func:`dtoss.commits.table.verify`), as the last commit has it; the columns of its
    files; that files of the log are named once, and as many as it says; and that sums are of as many rows and requests
    as are kept. Memory: names and sums, and the largest file of places.
    """
    look = Look()
    with noting(look.found):
        if not home.folder.there():
            names = names_in(folder_of(path_in(home.store, PATTERNS)))
            known = f"; there are {', '.join(names)}" if names else "; dtoss patterns --live begins some"
            near = did_you_mean(home.name, names) or known
            raise InputError(f"there are no live patterns {home.name!r} in {hide_keys(home.store)}{near}")
        look.found.held["rows"] = 0
        verify([table_of(home)], look)
    return look.found


def _facts_of(commit: Commit) -> dict[str, Any]:
    return {"what": "count", **commit.document["counts"]}


def _files_of(home: Home, look: Look | None, numbers: range) -> Iterator[NamedFile]:
    if not numbers:
        return
    path = home.chain.path(numbers[-1])
    state = State.of(home.chain.read(numbers[-1]), path)
    tables: dict[str, list[pa.Table]] = {room: [] for room in ROOMS}
    for room in ROOMS:
        for file in state.listed[room]:
            yield NamedFile(room, file, check=_of_room(room, tables[room]))
    if look is not None:
        look.found.hold("rows", state.rows)
        if all(len(tables[room]) == len(state.listed[room]) for room in ROOMS):
            _agree(look, path, state, tables)


def _of_room(room: str, tables: list[pa.Table]) -> Check:
    """Return what looks at the columns of a file, and keeps what it holds: of places only their weights."""

    def check(look: Look, path: str, data: bytes, file: FileEntry) -> None:
        table = look.parquet(path, data, file)
        if table is not None and table.schema.remove_metadata() != SCHEMAS[room]:
            look.wrong(f"{path} is damaged: its columns are {', '.join(table.column_names)}")
        elif table is not None:
            tables.append(table.select(["weight"]) if room == ROWS else table)

    return check


def _agree(look: Look, path: str, state: State, tables: dict[str, list[pa.Table]]) -> None:
    names = pa.concat_tables([NAMES_SCHEMA.empty_table(), *tables[NAMES]]).column("name")
    if not len(names) == len(names.unique()) == state.files:
        look.wrong(f"{path} is damaged: it says {state.files:,} files, {len(names.unique()):,} are named")
    rows = sum(map(len, tables[ROWS]))
    requests = sum(pc.sum(table.column("weight")).as_py() or 0 for table in tables[ROWS])
    panes = added([Panes.from_arrow(table) for table in tables[PANED]])
    sums = int(panes.rows.sum()), int(panes.requests.sum())
    if not state.rows == rows == sums[0] or requests != sums[1]:
        look.wrong(
            f"{path} is damaged: it says {state.rows:,} rows, {rows:,} are kept and {sums[0]:,} are counted; --recount "
            "counts anew what is kept"
        )
