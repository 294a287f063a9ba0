"""What is known of objects: their rows that may change still, the last one before, the last visits before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import begin_of, join_rows, take_rows
from dtoss.row_runs import offsets, runs
from dtoss.windows.keys import Labels, Numbers


@dataclass(frozen=True)
class ObjectState:
    """Objects by id."""

    ids: pa.Array  # int64 or string (k,), rising
    bucket: Numbers  # int64 (k,)
    # int64 (k + 1,). Object i has the rows ``first[i]:first[i + 1]``, by time
    first: Numbers = field(metadata=begin_of("t", "positions", "labels", "speed"))
    t: Numbers  # int64 (n,). Microseconds since 1970
    positions: NDArray[np.float64]  # float64 (n, 2)
    labels: Labels  # The keys of the rows
    # int64 (n,). That of the move to each row in mm/s, -1 where there is none; or none at all, where no greatest speed
    # is asked for
    speed: Numbers
    # int64 (k + 1,). Object i has the visits ``visit_first[i]:visit_first[i + 1]``
    visit_first: Numbers = field(metadata=begin_of("visit_key", "visit_pane"))
    # visit_key, visit_pane: int64 (v,). Each key of an object with its last pane before the rows that may change, no
    # key twice
    visit_key: Numbers
    visit_pane: Numbers

    def __len__(self) -> int:
        return len(self.bucket)

    @classmethod
    def none(cls, id_type: pa.DataType, single: bool) -> ObjectState:
        """Return the state before the first batch.

        ``id_type``: int64 or string.
        """
        zero, no = np.zeros(0, np.int64), np.zeros(1, np.int64)
        return cls(
            pa.array([], id_type), zero, no, zero, np.zeros((0, 2)), Labels.none(single), zero, no, zero, zero
        )  # fmt: skip

    take = take_rows

    def of_buckets(self, buckets: Numbers) -> ObjectState:
        """Return the state of the objects of some buckets."""
        return self.take(np.flatnonzero(np.isin(self.bucket, buckets)))

    def to_arrow(self) -> dict[str, pa.Table]:
        """Return tables of the objects, their rows and their visits."""
        lists = self.labels
        rows = {
            "t": self.t,
            "x": np.ascontiguousarray(self.positions[:, 0]),
            "y": np.ascontiguousarray(self.positions[:, 1]),
            "key": lists.key if lists.first is None else _lists(lists),
        }
        if len(self.speed):
            rows["speed"] = self.speed
        return {
            "objects": pa.table({
                "id": self.ids, "bucket": self.bucket, "rows": np.diff(self.first), "visits": np.diff(self.visit_first),
            }),
            "rows": pa.table(rows),
            "visits": pa.table({"key": self.visit_key, "pane": self.visit_pane}),
        }  # fmt: skip

    @classmethod
    def some_from_arrow(cls, tables: dict[str, pa.Table], objects: Numbers) -> ObjectState:
        """Return the state of some objects, by their numbers, which ascend. Cost O(their rows, and all objects)."""
        head, rows, visits = tables["objects"], tables["rows"], tables["visits"]
        counts, seen = head["rows"].to_numpy(), head["visits"].to_numpy()
        taken = pa.array(runs(offsets(counts)[objects], counts[objects]))
        at, some = pa.array(objects), rows.take(taken)
        visited = visits.take(pa.array(runs(offsets(seen)[objects], seen[objects])))
        return cls.from_arrow({"objects": head.take(at), "rows": some, "visits": visited})

    @classmethod
    def from_arrow(cls, tables: dict[str, pa.Table]) -> ObjectState:
        """Return the state that :meth:`to_arrow` has made tables of."""
        objects, rows, visits = tables["objects"], tables["rows"], tables["visits"]
        ids = objects["id"].combine_chunks()
        positions = np.empty((rows.num_rows, 2))
        positions[:, 0], positions[:, 1] = rows["x"].to_numpy(), rows["y"].to_numpy()
        key = rows["key"].combine_chunks()
        labels = labels_from(key)
        return cls(
            ids, _numbers(objects["bucket"]), offsets(_numbers(objects["rows"])), _numbers(rows["t"]), positions,
            labels, _numbers(rows["speed"]) if "speed" in rows.column_names else np.zeros(0, np.int64),
            offsets(_numbers(objects["visits"])), _numbers(visits["key"]), _numbers(visits["pane"]),
        )  # fmt: skip


def newest(states: Sequence[ObjectState]) -> ObjectState:
    """Return the state of the objects of several states, of an object that of the last that has it; at least one."""
    if len(states) == 1:
        return states[0]
    some = [state for state in states if len(state)]
    if len(some) < len(states):
        return newest(some or states[:1])
    whole = join_rows(some)
    order = np.asarray(pc.sort_indices(whole.ids)).astype(np.int64)  # stable: of equal ones the last is the newest
    ids = whole.ids.take(pa.array(order))
    last = np.append(np.asarray(pc.not_equal(ids[1:], ids[:-1])).astype(np.bool_), True)
    return whole.take(order[last])


def labels_from(key: pa.Array) -> Labels:
    """Return the keys of rows as a file of state has them: numbers, or lists of these."""
    if pa.types.is_list(key.type):
        return Labels(_numbers(key.flatten()), offsets(_numbers(key.value_lengths())))
    return Labels(_numbers(key))


def _lists(labels: Labels) -> pa.Array:
    assert labels.first is not None
    return pa.ListArray.from_arrays(pa.array(labels.first.astype(np.int32)), pa.array(labels.key))


def _numbers(column: pa.Array | pa.ChunkedArray) -> Numbers:
    return np.asarray(column.to_numpy() if isinstance(column, pa.ChunkedArray) else column).astype(np.int64)
