"""A person out of a history: rows of all orders and versions, and rows that were set aside; what is left of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.erasure.mentions import Mentions
from dtoss.erasure.rejected import clear_rejected
from dtoss.history.maintenance.erase_rows import forget, has_dead_blocks_of, leaves_of
from dtoss.history.maintenance.vacuum import GRACE_SECONDS, clear
from dtoss.history.read_blocks import read_blocks
from dtoss.history.row_blocks import BY_TIME, ORDER_NAMES
from dtoss.history.segments import SEGMENTS
from dtoss.history.versions import Home, Version, files_of
from dtoss.ids import stored_ids

ASIDE = "quarantine"
"""The folder of a history where rows are that were set aside."""
DELTA_LOG = "_delta_log"


@dataclass(frozen=True)
class ErasedPast:
    """What went of a history, or would go."""

    rows: int = 0  # Of the newest version
    versions: int = 0  # That ended: they had rows of before
    rejected: int = 0  # Rows that had been set aside
    # Files of no version that somebody may be writing, in seconds until they are nobody's; they are not looked into
    strays: tuple[tuple[str, float], ...] = ()
    delta: bool = False  # Whether a Delta table's log is in the folder


def erase_past(home: Home, ids: Sequence[int] | Sequence[str], mentions: Mentions, *, dry: bool = False) -> ErasedPast:
    """Remove objects from a history, with the versions that had them, and return what went.

    ``mentions``: the same for rows as they were read.

    Where it is ended on its way, the next call goes on. All older versions end as soon as one of them has a row.
    """
    version = home.version()
    wanted = stored_ids(ids, version.schema.id_type, "this history")
    delta = DELTA_LOG in home.folder.folders()
    older = range(int(version.document.get("oldest", 1)), version.number)
    rows = _rows_of(home, version, wanted)
    held = any(_has(home, home.version(number), wanted) for number in (*older, version.number))
    aside = clear_rejected(home.folder, ASIDE, mentions, dry=dry)
    if held and not dry:
        forget(home, ids)
        clear(home, now=True)
    elif not dry and _strays(home):
        # of versions that had ended when somebody was killed; those that stand stay
        clear(home, keep=len(older) + 1, keep_for=0.0)
    return ErasedPast(rows, len(older) + bool(rows) if held else 0, aside, _strays(home), delta)


def _has(home: Home, version: Version, ids: pa.Array) -> bool:
    return bool(_rows_of(home, version, ids)) or has_dead_blocks_of(version, ids)


def _rows_of(home: Home, version: Version, ids: pa.Array) -> int:
    leaves, count = version.leaves, 0
    for leaf in np.flatnonzero(leaves_of(version, ids) & (leaves.order == BY_TIME)).tolist():
        found = read_blocks(home, version.files.name[leaves.file[leaf]], version.blocks(leaf), version.schema)
        count += pc.sum(pc.is_in(found.column("id"), ids)).as_py() or 0
    return count


def _strays(home: Home) -> tuple[tuple[str, float], ...]:
    """Return files that are of no version, and for how many seconds they are a writer's."""
    head = home.version()
    needed = set().union(
        *(files_of(home.version(n)) for n in range(int(head.document.get("oldest", 1)), head.number + 1))
    )
    found = []
    for room in (*ORDER_NAMES, SEGMENTS):
        for name in home.folder.files(room):
            if f"{room}/{name}" not in needed:
                found.append((f"{room}/{name}", max(0.0, GRACE_SECONDS - home.folder.idle(room, name))))
    return tuple(found)
