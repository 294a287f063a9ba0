"""Small worlds for the decisions: rows of ten bytes, and questions as tuples."""

from __future__ import annotations

import numpy as np

from dtoss.history.adaptive.cost import Points
from dtoss.history.questions import Questions

ROW_BYTES = 10.0


def points_of(t, xy):
    """Rows at (x, y, deleted), by ascending times."""
    values = np.array(xy, np.float64).reshape(-1, 3)
    positions = np.ascontiguousarray(values[:, :2])
    return Points(np.array(t, np.float64), positions, np.where(values[:, 2:] > 0, np.nan, positions), ROW_BYTES)


def asked(shapes, after=0):
    """Questions (first, last, low, high, reach); low None asks about everywhere."""
    placed = [shape for shape in shapes if shape[2] is not None]
    begin = np.append(0, np.cumsum([shape[2] is not None for shape in shapes])).astype(np.int64)
    number = after + 1 + np.arange(len(shapes), dtype=np.int64)
    return Questions(
        number,
        np.zeros(len(shapes), np.int8),
        number,  # every question reads a version of its own
        np.zeros(len(shapes), np.int32),
        np.array([shape[0] for shape in shapes], np.float64),
        np.array([shape[1] for shape in shapes], np.float64),
        begin,
        np.array([shape[2] for shape in placed], np.float64).reshape(-1, 2),
        np.array([shape[3] for shape in placed], np.float64).reshape(-1, 2),
        np.array([shape[4] for shape in placed], np.float64),
    )
