"""Rows that have to go: of an object, or before a time, from every order, with what went in the ledger.

A person out of a history: rows of all orders and versions, and rows that were set aside; what is left of files.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.commits.table import orphans_of
from dtoss.erasure.forgotten import Mentions, clear_rejected
from dtoss.history.data_file import NewFile, Part, read_blocks, write_file
from dtoss.history.history_commit import WORD, Change, Entry, Stale, commit, undone
from dtoss.history.layouts.compaction import keys_of
from dtoss.history.maintenance.history_table import GRACE_SECONDS, clear, table_of
from dtoss.history.row_blocks import BY_TIME, id_words, t_numbers
from dtoss.history.sums import sum_of
from dtoss.history.versions import Home, Version
from dtoss.ids import stored_ids

DROP_TRIES = 8
"""How often it is begun again where others rewrite the same meanwhile."""


@dataclass(frozen=True)
class Dropped:
    """What went."""

    version: Version  # Of the history now
    rows: int


def forget(home: Home, ids: Any) -> Dropped:
    """Remove all rows of objects from all orders. Older versions have them until ``clear(now=True)``.

    ``ids``: in the type of its ids, as :func:`dtoss.ids.stored_ids` takes them; one by itself, too.

    Every file that holds such a row is rewritten, and every one with ranges that are live no more: those could hold
    some. Rows that were set aside in ``quarantine/`` are for :mod:`dtoss.history.maintenance.erase_rows`.
    """
    version = home.version()
    wanted = stored_ids(ids, version.schema.id_type, "this history")

    def may_hold(version: Version) -> NDArray[np.bool_]:
        return leaves_of(version, wanted)

    def goes(rows: pa.Table) -> NDArray[np.bool_]:
        return np.asarray(pc.is_in(rows.column("id"), wanted).to_numpy())

    def left(version: Version) -> bool:
        return has_dead_blocks_of(version, wanted)

    return _dropped(home, "forget", may_hold, goes, {"ids": len(wanted)}, left)


def leaves_of(version: Version, ids: pa.Array) -> NDArray[np.bool_]:
    """Return which leaves of a version may hold rows of some ids, of the type of its ids."""
    words = np.unique(id_words(ids)) if len(ids) else np.zeros(0, np.int64)
    leaves = version.leaves
    return np.asarray(np.searchsorted(words, leaves.id_from) < np.searchsorted(words, leaves.id_to, side="right"))


def retain(home: Home, first: Any) -> Dropped:
    """Remove all rows before a time, as it is stored, from all orders."""
    if isinstance(first, (bool, np.bool_)) or not isinstance(first, (int, float, np.number)) or first != first:
        raise ValueError(f"first is {first!r}: a time as the history stores it, a number, is wanted")

    def may_hold(version: Version) -> NDArray[np.bool_]:
        return np.asarray(version.leaves.t_from < first)

    def goes(rows: pa.Table) -> NDArray[np.bool_]:
        return np.asarray(t_numbers(rows.column("t")) < first)

    return _dropped(home, "retain", may_hold, goes, {"before": float(first)}, None)


def _dropped(
    home: Home,
    what: str,
    may_hold: Callable[[Version], NDArray[np.bool_]],
    goes: Callable[[pa.Table], NDArray[np.bool_]],
    detail: dict[str, Any],
    left: Callable[[Version], bool] | None,
) -> Dropped:
    for attempt in range(DROP_TRIES):
        version = home.version()
        try:
            with undone(home, version):
                change, rows = _change(home, version, what, may_hold(version), goes, detail, left)
                return Dropped(version if change is None else commit(home, change, version), rows)
        except Stale:
            if attempt == DROP_TRIES - 1:
                raise
    raise AssertionError


def _change(
    home: Home,
    version: Version,
    what: str,
    held: NDArray[np.bool_],
    goes: Callable[[pa.Table], NDArray[np.bool_]],
    detail: dict[str, Any],
    left_over: Callable[[Version], bool] | None,
) -> tuple[Change | None, int]:
    dead = left_over is not None
    leaves, gone = version.leaves, []
    files: list[tuple[NewFile, int]] = []
    rows, total = 0, 0
    live = np.bincount(leaves.file, weights=leaves.rows, minlength=len(version.files.name))
    left = {int(period): 0 for period in version.periods.number}
    for file in range(len(version.files.name)):
        mine = np.flatnonzero(leaves.file == file)
        if leaves.order[mine[0]] == BY_TIME:
            left[int(leaves.period[mine[0]])] += int(leaves.rows[mine].sum())
        if not (held[mine].any() or (dead and live[file] < version.files.rows[file])):
            continue
        parts, count, part_sum = _kept(home, version, mine, goes)
        if not count and live[file] == version.files.rows[file]:
            continue
        gone += mine.tolist()
        order, period = int(leaves.order[mine[0]]), int(leaves.period[mine[0]])
        if order == BY_TIME:
            rows, total = rows + count, total + part_sum
            left[period] -= count
        if parts:
            name = version.files.name[file]
            files.append((write_file(home.folder, order, parts, version.schema, name), period))
    if not gone and not (left_over is not None and left_over(version)):
        return None, 0
    empty = tuple(period for period, number in left.items() if number == 0)
    entry = Entry(f"{what}:{uuid.uuid4().hex}", what, "", -1, -rows, -total % WORD)
    stays = np.array([leaf for leaf in gone if leaves.period[leaf] not in empty], np.int64)
    change = Change(
        what,
        tuple(pair for pair in files if pair[1] not in empty),
        gone=keys_of(version, stays),
        gone_periods=empty,
        entries=(entry,) if rows else (),
        detail={**detail, "rows": rows},
        bare=dead,
    )
    return change, rows


def has_dead_blocks_of(version: Version, ids: pa.Array) -> bool:
    """Return whether a segment has a block of a leaf that is gone, which began or ended with one of some ids."""
    words, leaves = id_words(ids) if len(ids) else np.zeros(0, np.int64), version.leaves
    for segment in range(len(version.block_segments)):
        blocks = version.segment_blocks(segment)
        live = np.zeros(len(blocks) + 1, np.int64)
        mine = leaves.segment == segment
        np.add.at(live, leaves.first[mine], 1)
        np.add.at(live, leaves.first[mine] + leaves.count[mine], -1)
        dead = np.cumsum(live)[:-1] == 0
        if (dead & (np.isin(blocks.id_from, words) | np.isin(blocks.id_to, words))).any():
            return True
    return False


def _kept(
    home: Home, version: Version, leaves: NDArray[np.int64], goes: Callable[[pa.Table], NDArray[np.bool_]]
) -> tuple[list[Part], int, int]:
    """Return the leaves of a file without the rows that go, how many those are, and their sum."""
    parts: list[Part] = []
    rows, total = 0, 0
    for leaf in leaves[np.argsort(version.leaves.offset[leaves])].tolist():
        name = version.files.name[version.leaves.file[leaf]]
        found = read_blocks(home, name, version.blocks(leaf), version.schema)
        mask = goes(found)
        if mask.any():
            out = found.filter(pa.array(mask))
            rows, total = rows + len(out), total + sum_of(out)
            found = found.filter(pa.array(~mask))
        if len(found):
            cell = version.leaves.cell[leaf].tolist()
            parts.append((found, (cell[0], cell[1], cell[2], cell[3])))
    return parts, rows, total


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
    return tuple(
        (f"{room}/{name}", max(0.0, GRACE_SECONDS - home.folder.idle(room, name)))
        for room, files in orphans_of(table_of(home)).items()
        for name in sorted(files)
    )
