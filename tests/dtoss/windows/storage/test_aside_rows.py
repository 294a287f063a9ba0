"""Rows that are set aside are texts: as they were read, or JSON of what is known of them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from dtoss.commits.columnar_files import REJECTED
from dtoss.windows.processing.window_task import set_aside
from dtoss.windows.trajectories.map_step import WindowRows

IDS = ['a "b"\n\\é', "", "a,b", 'a "b"\n\\é']
PLACES = [[1.0, -0.0], [1e-9, 1e22], [-179.999, 0.1 + 0.2], [5.0, 5.0]]
TIMES = [-1, 0, 1 << 59, 1_700_000_000_123_456]


def rows_of(ids):
    """Four rows of these ids."""
    return WindowRows(ids, np.array(TIMES, np.int64), np.array(PLACES), np.zeros(4, np.int64))


@pytest.mark.parametrize("ids", [pa.array(IDS), pa.array([3, -3, 1 << 62, 3])])
def test_a_row_is_json_unless_it_is_known_as_it_was_read(ids):
    """Each text is what json makes of the row; numbers lose no bit."""
    known = zip(ids.to_pylist(), TIMES, PLACES, strict=True)
    expected = [json.dumps({"id": who, "t_us": t, "x": x, "y": y}) for who, t, (x, y) in known]
    found = set_aside("late", rows_of(ids), None)
    assert found.schema == REJECTED
    assert found.to_pydict() == {"reason": ["late"] * 4, "row": expected}
    read = [None, "as read", None, ""]
    texts = set_aside("late", rows_of(ids), pa.array(read))["row"].to_pylist()
    assert texts == [expected[0], "as read", expected[2], ""]


def test_no_rows_are_none():
    """Of either kind of ids."""
    nobody = np.zeros(0, np.int64)
    for kind in (pa.int64(), pa.string()):
        found = set_aside(
            "late", rows_of(pa.array(IDS if kind == pa.string() else [1, 2, 3, 4], kind)).take(nobody), None
        )
        assert len(found) == 0
