"""Patches added up in dicts, and what windows are then: the obvious second step, against which the first is held."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa

from dtoss.windows.patches import KEY_GROUPS, columns_of, group_of
from dtoss.windows.trajectories.map_step import WindowRows
from tests.dtoss.windows.brute import PERCENTS, SPEEDS, bins, shown


class Summed:
    """Sums of all patches so far, by pane and labels."""

    def __init__(self, spec):
        self.spec = spec
        self.parts = {name: {} for name in columns_of(spec)}

    def add(self, patches):
        """Add the patches of a batch."""
        for name, (labels, columns) in columns_of(self.spec).items():
            patch, sums = getattr(patches, name), self.parts[name]
            check_form(patch, len(labels), len(columns), name)
            for pane, of, values in zip(patch.pane.tolist(), patch.labels.tolist(), patch.values.tolist(), strict=True):
                key = (pane, *of)
                if name == "maxima":
                    sums[key] = values
                else:
                    sums[key] = [a + b for a, b in zip(sums.get(key, [0] * len(values)), values, strict=True)]

    def _inside(self, name, end, length):
        pane = self.spec.pane
        for (p, *labels), values in self.parts[name].items():
            if end - length <= p * pane < end:
                yield labels, values

    def at(self, end, lengths=None):
        """Return what :meth:`tests.dtoss.windows.brute.World.at` does."""
        spec = self.spec
        if lengths is None:
            lengths = dict(zip(spec.names, spec.lengths, strict=True))
        found, columns = {}, list(spec.sums)

        def of(key):
            return found.setdefault(key, {})

        for (p, key), values in self.parts["sums"].items():
            if p * spec.pane >= end:
                continue
            for column, value in zip(columns, values, strict=True):
                if column == "here":
                    of(key)["here"] = of(key).get("here", 0) + value
                elif column.startswith("objects"):
                    name = f"objects_{spec.names[int(column.removeprefix('objects_'))]}"
                    of(key)[name] = of(key).get(name, 0) + value
        for name, length in lengths.items():
            for (key,), values in self._inside("sums", end, length):
                for column, value in zip(columns, values, strict=True):
                    if column != "here" and not column.startswith("objects"):
                        of(key)[f"{column}_{name}"] = of(key).get(f"{column}_{name}", 0) + value
            for (key, _), (value,) in self._inside("maxima", end, length):
                if value >= 0:
                    of(key)[f"max_speed_{name}"] = max(of(key).get(f"max_speed_{name}", 0), value)
            counts = {}
            for (key, number), (count,) in self._inside("bins", end, length):
                counts.setdefault(key, []).extend([number] * count)
                assert count >= 0
            for key, some in counts.items():
                for percent in PERCENTS:
                    if f"p{percent}_speed" in spec.measures and some:
                        of(key)[f"p{percent}_speed_{name}"] = middle(
                            sorted(some)[math.ceil(percent * len(some) / 100) - 1]
                        )
        return {key: whole for key in sorted(found) if (whole := _row(spec, lengths, found[key])) is not None}

    def flow(self, end, length):
        """Return the moves of a window from key to key."""
        found = {}
        for (a, b), (count,) in self._inside("flow", end, length):
            found[a, b] = found.get((a, b), 0) + count
        return {key: count for key, count in found.items() if count}


def _row(spec, lengths, values):
    row = {"here": values.get("here", 0)} if "here" in spec.measures else {}
    for name in lengths:
        for measure in shown(spec):
            nothing = None if measure in SPEEDS else 0
            row[f"{measure}_{name}"] = values.get(f"{measure}_{name}", nothing)
    return row if any(value is not None and (value or "speed" in name) for name, value in row.items()) else None


def middle(number):
    """Return what a percentile in a bin says, by its number."""
    low = 0
    for _ in range(number):
        low = max(low + 1, low + low // 10)
    low, high = bins(low)
    return low + (high - low) // 2


def check_form(patch, labels, columns, name):
    """Check that a patch is sorted, without zeros and repetitions, and each row in its group."""
    assert patch.labels.shape == (len(patch), labels)
    assert patch.values.shape == (len(patch), columns)
    assert patch.offsets[0] == 0
    assert patch.offsets[-1] == len(patch)
    for group in range(KEY_GROUPS):
        some = slice(*patch.offsets[group : group + 2])
        pane, of, values = patch.pane[some], patch.labels[some], patch.values[some]
        rows = np.column_stack([pane, of]).tolist()
        assert all(a < b for a, b in itertools.pairwise(rows))
        if len(pane):
            key = np.where(of[:, 1] < 0, of[:, 0], of[:, 1]) if name == "flow" else of[:, 0]
            assert (group_of(key) == group).all()
            assert (values >= -1).all() if name == "maxima" else values.any(axis=1).all()


def rows_of(rows, bucket, text=False):
    """Return rows (id, t, x, y) as a batch; ``bucket`` gives the bucket of an id."""
    ids = [f"taxi {who}" if text else who for who, *_ in rows]
    return WindowRows(
        pa.array(ids, pa.string() if text else pa.int64()),
        np.array([t for _, t, *_ in rows], np.int64),
        np.array([place for _, _, *place in rows], np.float64).reshape(-1, 2),
        np.array([bucket(who) for who, *_ in rows], np.int64),
    )
