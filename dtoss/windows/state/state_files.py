"""Files of state and patches: read through what a commit says of them, written and listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.commits.file_entry import FileEntry, map_entry, write_entry
from dtoss.row_runs import offsets
from dtoss.windows.aggregation.pane_state import PaneState
from dtoss.windows.patches import KEY_GROUPS, Patch, Patches
from dtoss.windows.spec import Spec
from dtoss.windows.state.pane_files import PanePatch, patch_state
from dtoss.windows.storage.bundle import bundle_tables, unbundle_tables
from dtoss.windows.storage.window_document import Part
from dtoss.windows.storage.window_folder import OBJECT_STATES, PANES, PATCHES, Home
from dtoss.windows.trajectories.known_rows import ObjectState, newest

PARTS = 4
"""Parts of the panes, each of the groups whose number is its own modulo this."""
_RESTORE = "restore it from a copy"
ID_KINDS = {"int64": pa.int64(), "string": pa.string()}


def _tables(home: Home, room: str, file: FileEntry) -> dict[str, pa.Table]:
    return unbundle_tables(map_entry(home.folder, room, file.name, _RESTORE), home.folder.path(room, file.name))


# -- objects ----------------------------------------------------------------------------------------------------------


def read_objects(
    home: Home, parts: Sequence[Part], buckets: NDArray[np.int64], id_type: str, single: bool | None
) -> ObjectState:
    """Return the state of the objects of some buckets.

    ``buckets``: int64. Those; ``single``: whether no row has several keys; None where a file is there that says it.
    """
    found = [] if single is None and parts else [ObjectState.none(ID_KINDS[id_type], single is not False)]
    for part in parts:
        mine = np.intersect1d(buckets, part.of)
        if len(mine):
            state = ObjectState.from_arrow(objects_tables(home, part))
            found.append(state if np.isin(state.bucket, mine).all() else state.of_buckets(mine))
    return newest(found)


def object_states(home: Home, parts: Sequence[Part], id_type: str) -> Iterator[ObjectState]:
    """Yield the state of all objects, piece by piece; each object is in one of them."""
    patches = [part for part in parts if part.patch]
    left = np.arange(BUCKETS)
    for base in parts:
        if not base.patch:
            left = np.setdiff1d(left, base.of)
            yield read_objects(home, [base, *patches], np.array(base.of), id_type, None)
    if any(np.isin(left, part.of).any() for part in patches):
        yield read_objects(home, patches, left, id_type, None)


def objects_tables(home: Home, part: Part) -> dict[str, pa.Table]:
    """Return the tables of a file of objects."""
    return _tables(home, OBJECT_STATES, part.file)


def write_objects(home: Home, state: ObjectState) -> FileEntry:
    """Write the state of objects, and return the file."""
    return FileEntry.of(write_entry(home.folder, bundle_tables(state.to_arrow()), len(state), "arrow", OBJECT_STATES))


# -- patches ----------------------------------------------------------------------------------------------------------


def write_patches(home: Home, spec: Spec, patches: Patches) -> FileEntry | None:
    """Write patches, and return the file; None where there are none."""
    tables = patches.to_arrow(spec)
    rows = sum(map(len, tables.values()))
    return None if rows == 0 else FileEntry.of(write_entry(home.folder, bundle_tables(tables), rows, "arrow", PATCHES))


def read_patches(home: Home, spec: Spec, files: Sequence[FileEntry]) -> list[Patches]:
    """Return the patches of tasks."""
    return [Patches.from_arrow(spec, _tables(home, PATCHES, file)) for file in files]


def of_part(patches: Patches, part: int) -> Patches:
    """Return the patches of the groups of a part."""
    return Patches(*(_of_part(one, part) for one in (patches.sums, patches.flow, patches.bins, patches.maxima)))


def _of_part(patch: Patch, part: int) -> Patch:
    counts = np.diff(patch.offsets)
    mine = np.arange(KEY_GROUPS) % PARTS == part
    rows = np.flatnonzero(np.repeat(mine, counts))
    return Patch(
        offsets(np.where(mine, counts, 0)),
        patch.pane[rows],
        patch.labels[rows],
        patch.values[rows],
    )


# -- panes ------------------------------------------------------------------------------------------------------------


def read_panes(home: Home, spec: Spec, parts: Sequence[Part], part: int, watermark: int | None) -> PaneState:
    """Return the state of the panes of a part."""
    base, patches = read_pane_layers(home, spec, parts, part)
    return PaneState.none(spec) if base is None else patch_state(spec, base, patches, watermark)


def read_pane_layers(
    home: Home, spec: Spec, parts: Sequence[Part], part: int
) -> tuple[PaneState | None, list[PanePatch]]:
    """Return the state of a part as it was written whole last, None where it never was, and what has changed since."""
    base, patches, begin = None, [], f"{part}/"
    for one in parts:
        if part not in one.of:
            continue
        tables = _tables(home, PANES, one.file)
        mine = {name[len(begin) :]: table for name, table in tables.items() if name.startswith(begin)}
        if one.patch:
            patches.append(PanePatch.from_arrow(spec, mine))
        else:
            base = PaneState.from_arrow(spec, mine)
    return base, patches


def write_panes(home: Home, states: Mapping[int, PaneState]) -> Part:
    """Write the state of the panes of some parts, and return the file."""
    return _written_panes(home, states, patch=False)


def write_pane_patches(home: Home, patches: Mapping[int, PanePatch]) -> Part:
    """Write what has changed in the panes of some parts, and return the file."""
    return _written_panes(home, patches, patch=True)


def _written_panes(home: Home, states: Mapping[int, PaneState] | Mapping[int, PanePatch], *, patch: bool) -> Part:
    tables = {f"{part}/{name}": table for part, state in states.items() for name, table in state.to_arrow().items()}
    listed = write_entry(home.folder, bundle_tables(tables), sum(map(len, tables.values())), "arrow", PANES)
    return Part(FileEntry.of(listed), tuple(sorted(states)), patch)
