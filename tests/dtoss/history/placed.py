"""Histories for tests that have an order by place: leaves of an even tree, committed without the doors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dtoss.history.data_file import WHOLE_PLANE, read_blocks, write_file
from dtoss.history.history_commit import Change, commit
from dtoss.history.query.scan_blocks import QUESTIONS
from dtoss.history.questions import Questions
from dtoss.history.row_blocks import BY_PLACE, BY_TIME, sorted_rows


def put_places(home, depth, what="settle"):
    """Give every period an order by place of 2 ** depth leaves, in stead of one that is there; return the version."""
    version = home.head()
    schema, leaves = version.schema, version.leaves
    files, gone = [], []
    for period in version.periods.number.tolist():
        mine = np.flatnonzero((leaves.period == period) & (leaves.order == BY_TIME)).tolist()
        rows = pa.concat_tables(
            [read_blocks(home, version.files.name[leaves.file[leaf]], version.blocks(leaf), schema) for leaf in mine]
        )
        cells = halved(np.stack([rows.column(name).to_numpy() for name in ("x", "y")], axis=1), depth)
        parts = [(sorted_rows(rows.take(pa.array(some)), "time"), cell) for some, cell in cells]
        files.append((write_file(home.folder, BY_PLACE, parts, schema), period))
    for leaf in np.flatnonzero(leaves.order == BY_PLACE).tolist():
        gone.append((version.files.name[leaves.file[leaf]], int(version.blocks(leaf).row_group[0])))
    return commit(home, Change(what, tuple(files), gone=tuple(gone)), version)


def halved(positions, depth):
    """The rows and the cell of each leaf of a tree that halves x and y in turn."""
    parts = [(np.arange(len(positions)), WHOLE_PLANE)]
    for level in range(depth):
        cut = []
        for rows, (x0, y0, x1, y1) in parts:
            axis = level % 2
            at = float(np.median(positions[rows, axis]))
            left = positions[rows, axis] <= at
            sides = ((x0, y0, at, y1), (at, y0, x1, y1)) if axis == 0 else ((x0, y0, x1, at), (x0, at, x1, y1))
            cut += [(rows[left], sides[0]), (rows[~left], sides[1])]
        parts = [part for part in cut if len(part[0])]
    return parts


def discs_asked(space, centres, radii, spans, kinds=None, first=1):
    """Questions about a disc each; of a radius below 0 about everywhere."""
    centres, radii = np.asarray(centres, np.float64).reshape(-1, 2), np.asarray(radii, np.float64)
    spans = np.asarray(spans, np.float64).reshape(-1, 2)
    placed = radii >= 0
    vectors = space.vectors(np.ascontiguousarray(centres[placed]))
    kind = ["range"] * len(radii) if kinds is None else kinds
    return Questions(
        first + np.arange(len(radii), dtype=np.int64),
        np.array([QUESTIONS.index(one) for one in kind], np.int8),
        np.ones(len(radii), np.int64),
        np.zeros(len(radii), np.int32),
        spans[:, 0].copy(),
        spans[:, 1].copy(),
        np.append(0, np.cumsum(placed)).astype(np.int64),
        vectors,
        vectors.copy(),
        radii[placed] / 6_371_008.8 if space.metric == "sphere" else radii[placed],
    )
