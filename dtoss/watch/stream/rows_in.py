"""The rows of a batch, by object and time: which count, and which are late, repeated or tied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.watch.rows import Rows


@dataclass(frozen=True)
class Ordered:
    """Rows by object and time, one for each moment of an object.

    Parameters
    ----------
    rows
        Those.
    begin
        int64 (objects + 1,). Object i has the rows ``begin[i]:begin[i + 1]``.
    tied, repeated
        How many were left out: of a moment that has another position or the same.
    """

    rows: Rows
    begin: NDArray[np.int64]
    tied: int
    repeated: int


def ordered(rows: Rows) -> Ordered:
    """Return rows that have ids and times by object and time; of a moment's rows the greatest (x, y, attributes) stays.

    Cost O(n log n).
    """
    assert rows.ids is not None
    assert rows.t is not None
    table = pa.table({"id": rows.ids, "t": rows.t})
    at = np.asarray(pc.sort_indices(table, sort_keys=[("id", "ascending"), ("t", "ascending")])).astype(np.int64)
    placed = rows.take(at)
    assert placed.ids is not None
    assert placed.t is not None
    fresh = _differs(placed.ids)
    moment = fresh | np.append(True, placed.t[1:] != placed.t[:-1])[: len(fresh)]
    tied = repeated = 0
    if not moment.all():
        kept, tied, repeated = _greatest(placed, moment)
        placed = placed.take(kept)
        assert placed.ids is not None
        fresh = _differs(placed.ids)
    return Ordered(placed, np.append(np.flatnonzero(fresh), len(fresh)).astype(np.int64), tied, repeated)


def _differs(ids: pa.Array) -> NDArray[np.bool_]:
    """Return which ids differ from the one before; the first does."""
    found = np.ones(len(ids), np.bool_)
    if len(ids) > 1:
        found[1:] = np.asarray(pc.not_equal(ids[1:], ids[:-1]))
    return found


def _greatest(rows: Rows, moment: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int, int]:
    """Return the greatest row of each moment of an object, and how many others are tied with it or equal to it."""
    group = np.cumsum(moment) - 1
    many = np.flatnonzero(np.bincount(group)[group] > 1)
    best: dict[int, tuple[tuple[object, ...], int]] = {}
    tied = repeated = 0
    for row in many.tolist():
        value = _value(rows, row)
        number = int(group[row])
        if number not in best:
            best[number] = (value, row)
            continue
        held = best[number][0]
        if value[:2] == held[:2]:
            repeated += 1
        else:
            tied += 1
        if value > held:
            best[number] = (value, row)
    alone = np.flatnonzero(np.bincount(group)[group] == 1)
    kept = np.concatenate([alone, np.array([row for _, row in best.values()], np.int64)])
    kept.sort()
    return kept, tied, repeated


def _value(rows: Rows, row: int) -> tuple[object, ...]:
    """Return what rows of one moment are compared by; a null is less than all else."""
    found: list[object] = rows.positions[row].tolist()
    for name in sorted(rows.attributes):
        value = rows.attributes[name][row].as_py()
        found += [value is not None, repr(value) if isinstance(value, list | dict) else value]
    if rows.text is not None:
        found += [rows.text[row].is_valid, rows.text[row].as_py()]
    return tuple(0 if value is None else value for value in found)
