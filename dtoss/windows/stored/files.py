"""Files of state and patches: read through what a commit says of them, written and listed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.listed import Listed, mapped, put
from dtoss.windows.patches import KEY_GROUPS, Patch, Patches
from dtoss.windows.sliding.pane_state import PaneState
from dtoss.windows.spec import Spec
from dtoss.windows.stored.bundle import bundled, unbundled
from dtoss.windows.stored.document import Part
from dtoss.windows.stored.home import OBJECT_STATES, PANES, PATCHES, Home
from dtoss.windows.tracks.state import ObjectState, joined

PARTS = 4
"""Parts of the panes, each of the groups whose number is its own modulo this."""
_RESTORE = "restore it from a copy"
ID_KINDS = {"int64": pa.int64(), "string": pa.string()}


def _tables(home: Home, room: str, file: Listed) -> dict[str, pa.Table]:
    return unbundled(mapped(home.folder, room, file.name, _RESTORE), home.folder.path(room, file.name))


# -- objects ----------------------------------------------------------------------------------------------------------


def read_objects(
    home: Home, parts: Sequence[Part], buckets: NDArray[np.int64], id_type: str, single: bool | None
) -> ObjectState:
    """Return the state of the objects of some buckets.

    Parameters
    ----------
    home
        Of the windows.
    parts
        As a commit lists them.
    buckets
        int64. Those.
    id_type
        Of the ids.
    single
        Whether no row has several keys; None where a file is there that says it.

    Raises
    ------
    StoreError
        If a file is missing or damaged; the message names it.
    OSError
        If one cannot be read.
    """
    found = [] if single is None and parts else [ObjectState.none(ID_KINDS[id_type], single is not False)]
    for part in parts:
        mine = np.intersect1d(buckets, part.of)
        if len(mine):
            state = ObjectState.from_arrow(_tables(home, OBJECT_STATES, part.file))
            found.append(state if len(mine) == len(part.of) else state.of_buckets(mine))
    return joined(found)


def write_objects(home: Home, state: ObjectState) -> Listed:
    """Write the state of objects, and return the file.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    return Listed.of(put(home.folder, bundled(state.to_arrow()), len(state), "arrow", OBJECT_STATES))


# -- patches ----------------------------------------------------------------------------------------------------------


def write_patches(home: Home, spec: Spec, patches: Patches) -> Listed | None:
    """Write patches, and return the file; None where there are none.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    tables = patches.to_arrow(spec)
    rows = sum(map(len, tables.values()))
    return None if rows == 0 else Listed.of(put(home.folder, bundled(tables), rows, "arrow", PATCHES))


def read_patches(home: Home, spec: Spec, files: Sequence[Listed]) -> list[Patches]:
    """Return the patches of tasks.

    Raises
    ------
    StoreError
        If a file is missing or damaged; the message names it.
    OSError
        If one cannot be read.
    """
    return [Patches.from_arrow(spec, _tables(home, PATCHES, file)) for file in files]


def of_part(patches: Patches, part: int) -> Patches:
    """Return the patches of the groups of a part."""
    return Patches(*(_of_part(one, part) for one in (patches.sums, patches.flow, patches.bins, patches.maxima)))


def _of_part(patch: Patch, part: int) -> Patch:
    counts = np.diff(patch.offsets)
    mine = np.arange(KEY_GROUPS) % PARTS == part
    rows = np.flatnonzero(np.repeat(mine, counts))
    return Patch(
        np.concatenate([[0], np.cumsum(np.where(mine, counts, 0))]),
        patch.pane[rows],
        patch.labels[rows],
        patch.values[rows],
    )


# -- panes ------------------------------------------------------------------------------------------------------------


def read_panes(home: Home, spec: Spec, parts: Sequence[Part], part: int) -> PaneState:
    """Return the state of the panes of a part.

    Parameters
    ----------
    home
        Of the windows.
    spec
        Their spec.
    parts
        As a commit lists them.
    part
        Its number.

    Raises
    ------
    StoreError
        If a file is missing or damaged; the message names it.
    OSError
        If one cannot be read.
    """
    for one in parts:
        if part in one.of:
            begin = f"{part}/"
            tables = _tables(home, PANES, one.file)
            mine = {name[len(begin) :]: table for name, table in tables.items() if name.startswith(begin)}
            return PaneState.from_arrow(spec, mine)
    return PaneState.none(spec)


def write_panes(home: Home, states: dict[int, PaneState]) -> Part:
    """Write the state of the panes of some parts, and return the file.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    tables = {f"{part}/{name}": table for part, state in states.items() for name, table in state.to_arrow().items()}
    listed = put(home.folder, bundled(tables), sum(map(len, tables.values())), "arrow", PANES)
    return Part(Listed.of(listed), tuple(sorted(states)))
