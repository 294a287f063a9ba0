"""Which queries are answered together: those that concern the same part of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.geometry.hilbert import curve_keys
from dtoss.history.query.block_pairs import Places, time_keys
from dtoss.history.row_blocks import BY_PLACE, BY_TIME
from dtoss.history.schema import Schema
from dtoss.history.versions import Version
from pipelines.history_tasks.history_answers import asked_of

TURN = 4096
"""Queries of one part of the history that go to one task; the next ones go to the next task."""
EDGES = 4096
"""Parts of the history that queries are told apart by, at the most."""
_BRIEF = 1.0 / 64.0
"""Share of the time of a history up to which an interval is brief: blocks by place span more than it then."""


@dataclass(frozen=True)
class Parts:
    """Parts of a history that queries are told apart by, so that neighbours are answered together."""

    # times, places: int64, ascending. Where the parts begin: times, and keys along the curve, of which there are none
    # where rows have no order by place
    times: NDArray[np.int64]
    places: NDArray[np.int64]
    box: NDArray[np.float64]  # Of a plane, which the curve fills
    brief: float  # Up to which length of interval, as times are counted, queries are told apart by time

    def of(self, asked: Places) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return the key of each place, the number of its part, and how many parts there are."""
        length = asked.last.astype(np.float64) - asked.first.astype(np.float64)
        by_time = not len(self.places) or (len(length) and float(np.median(length)) <= self.brief)
        keys, edges = (asked.first, self.times) if by_time else (curve_keys(asked.vectors, self.box), self.places)
        return keys, np.searchsorted(edges, keys, side="right"), len(edges) + 1


def parts_of(version: Version) -> Parts:
    """Return the parts of a version: by time, and by place where most rows have that order. Cost O(blocks)."""
    leaves = version.leaves
    somewhere = leaves.low[:, 0] <= leaves.high[:, 0]
    placed, timed = somewhere & (leaves.order == BY_PLACE), leaves.order == BY_TIME
    box, places = np.zeros(4), np.zeros(0, np.int64)
    if somewhere.any() and version.schema.space.dimension == 2:
        box = np.append(leaves.low[somewhere].min(axis=0), leaves.high[somewhere].max(axis=0))
    if 2 * leaves.rows[placed].sum() > leaves.rows[timed].sum():
        middles = (leaves.low[placed] + leaves.high[placed]) / 2
        # a box may hold all of the sphere: any place will do for its middle
        middles[~middles.any(axis=1)] = 1.0
        places = curve_keys(np.ascontiguousarray(middles), box)
    held = [time_keys(version.blocks(leaf).t_from) for leaf in np.flatnonzero(timed).tolist()]
    times = np.concatenate([np.zeros(0, np.int64), *held])
    brief = _BRIEF * (float(times.max()) - float(times.min())) if len(times) else 0.0
    return Parts(_edges(times), _edges(places), box, brief)


def _edges(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    keys = np.unique(keys)
    return keys[:: max(len(keys) // EDGES, 1)]


def router(schema: Schema, parts: Parts, tasks: int, at_a_time: int = TURN) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that gives each query the number of its task, in a column more.

    Queries of one part go to one task, so many at a time, the next ones to the next task.
    """

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for turn, batch in enumerate(batches):
            asked, good = asked_of(batch, schema)
            part = np.zeros(batch.num_rows, np.int64)
            _, part[good], many = parts.of(asked)
            order = np.argsort(part, kind="stable")
            begins = np.searchsorted(part[order], part[order])
            along = np.empty(len(part), np.int64)
            along[order] = (np.arange(len(part)) - begins) // at_a_time
            task = (part * tasks // many + along + turn) % tasks
            yield pa.record_batch(
                [*batch.columns, pa.array(task.astype(np.int32))], names=[*batch.schema.names, "task"]
            )

    return route
