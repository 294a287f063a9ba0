"""Patches: what changed in panes, as signed whole numbers that add up in any order, by group of keys."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.windows.spec import Spec

KEY_GROUPS = 64
"""Groups of keys."""
NO_KEY = -1
"""The key of a row that is in none."""
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(58))


def group_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the group of each key, int64 (n,), 0 to 63, by a hash of it: that of splitmix64.

    Examples
    --------
    >>> group_of(np.array([0, 1, 2, 3])).tolist()
    [0, 21, 54, 7]
    """
    bits = np.ascontiguousarray(keys).view(np.uint64)
    for factor, shift in zip(_FACTORS, _SHIFTS[:2], strict=True):
        bits = (bits ^ (bits >> shift)) * factor
    return (bits >> _SHIFTS[2]).astype(np.int64)


@dataclass(frozen=True)
class Patch:
    """Values by group, pane and labels; no group, pane and labels twice."""

    offsets: NDArray[np.int64]  # int64 (GROUPS + 1,). Group g has the rows ``offsets[g]:offsets[g + 1]``
    pane: NDArray[np.int64]  # int64 (n,). Ascending within a group
    labels: NDArray[np.int64]  # int64 (n, labels). Ascending within a pane
    values: NDArray[np.int64]  # int64 (n, columns). No row of zeros, but of maxima

    def __len__(self) -> int:
        return len(self.pane)

    @classmethod
    def none(cls, labels: int, columns: int) -> Patch:
        """Return a patch without rows."""
        return cls(
            np.zeros(KEY_GROUPS + 1, np.int64),
            np.zeros(0, np.int64),
            np.zeros((0, labels), np.int64),
            np.zeros((0, columns), np.int64),
        )


@dataclass(frozen=True)
class Patches:
    """What a batch changes in panes."""

    sums: Patch  # By key; the columns are those of :attr:`dtoss.windows.spec.Spec.sums`
    # By the keys that were left and entered; in the group of the key entered, or of the one left where that is none.
    # How many moves
    flow: Patch
    bins: Patch  # By key and bin of the speed. How many moves
    # By key and bucket of objects. The greatest speed in mm/s of all moves of the bucket, in stead of the one before;
    # -1 where there is none
    maxima: Patch

    @classmethod
    def none(cls, spec: Spec) -> Patches:
        """Return patches that change nothing."""
        return cls(*(Patch.none(len(labels), len(values)) for labels, values in columns_of(spec).values()))

    def to_arrow(self, spec: Spec) -> dict[str, pa.Table]:
        """Return a table for each patch, by its name."""
        return {name: _table(getattr(self, name), *names) for name, names in columns_of(spec).items()}

    @classmethod
    def from_arrow(cls, spec: Spec, tables: dict[str, pa.Table]) -> Patches:
        """Return the patches that :meth:`to_arrow` has made tables of; rows are by group still."""
        return cls(**{name: _patch(tables[name], *names) for name, names in columns_of(spec).items()})


def columns_of(spec: Spec) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the names of labels and values of each patch, by its name."""
    found: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "sums": (("key",), spec.sums),
        "flow": (("from", "to"), ("moves",)),
        "bins": (("key", "bin"), ("count",)),
        "maxima": (("key", "bucket"), ("value",)),
    }
    assert list(found) == [field.name for field in fields(Patches)]
    return found


def groups_of_labels(labels: NDArray[np.int64], *, flow: bool = False) -> NDArray[np.int64]:
    """Return the group of each row, int64 (n,), by its labels (n, labels)."""
    key = labels[:, 0]
    return group_of(np.where(labels[:, 1] == NO_KEY, key, labels[:, 1]) if flow else key)


def _table(patch: Patch, labels: tuple[str, ...], values: tuple[str, ...]) -> pa.Table:
    columns = [patch.labels[:, i] for i in range(len(labels))] + [patch.values[:, i] for i in range(len(values))]
    arrays = [pa.array(np.ascontiguousarray(column)) for column in (patch.pane, *columns)]
    return pa.table(arrays, names=["pane", *labels, *values])


def _patch(table: pa.Table, labels: tuple[str, ...], values: tuple[str, ...]) -> Patch:
    def matrix(names: tuple[str, ...]) -> NDArray[np.int64]:
        found = np.empty((table.num_rows, len(names)), np.int64)
        for i, name in enumerate(names):
            found[:, i] = table[name].to_numpy()
        return found

    of = matrix(labels)
    groups = groups_of_labels(of, flow=labels == ("from", "to"))
    offsets = np.searchsorted(groups, np.arange(KEY_GROUPS + 1)).astype(np.int64)
    return Patch(offsets, table["pane"].to_numpy(), of, matrix(values))
