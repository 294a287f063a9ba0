"""What is shown of a window: one row a key, speeds in metres a second; made of results, whoever has them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.windows.spec import MM_OF_METRE, Spec

_MM_A_SECOND = 1_000_000.0
_SPEEDS = ("max_speed", "p50_speed", "p95_speed")


def answer_of(
    spec: Spec, results: pa.Table, name: str, first: tuple[str, ...] = ("key",), *, empty: bool = False
) -> pa.Table:
    """Return the measures of one length, in the order of the spec.

    The first columns, then the measures of the spec but ``flow``: rows, objects, here, arrivals and departures as
    int64; speed, max_speed, p50_speed and p95_speed in metres (units of a CRS in the plane) a second as float64, null
    where nothing moved; all but speed in whole mm/s, that of a move rounded down.
    """
    columns: dict[str, pa.Array | pa.ChunkedArray] = {column: results[column] for column in first}
    there = np.zeros(len(results), np.bool_)
    for measure in spec.measures:
        if measure == "flow":
            continue
        if measure == "speed":
            distance, moving = (
                results[f"{part}_{name}"].to_numpy().astype(np.float64) for part in ("distance_mm", "moving_us")
            )
            columns["speed"] = _speed(distance, moving)
            there |= moving > 0
            continue
        column = results["here" if measure == "here" else f"{measure}_{name}"].combine_chunks()
        there |= np.asarray(column.is_valid()) if measure in _SPEEDS else np.asarray(column) != 0
        columns[measure] = _metres(column) if measure in _SPEEDS else column
    whole = pa.table(columns)
    return whole if empty or there.all() else whole.filter(pa.array(there))


def _speed(distance_mm: NDArray[np.float64], moving_us: NDArray[np.float64]) -> pa.Array:
    moved = moving_us > 0
    metres = distance_mm / MM_OF_METRE / (np.where(moved, moving_us, 1.0) / _MM_A_SECOND)
    return pa.array(metres, mask=~moved)


def _metres(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    numbers = np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.float64) / MM_OF_METRE
    return pa.array(numbers, mask=np.asarray(column.is_null()))
