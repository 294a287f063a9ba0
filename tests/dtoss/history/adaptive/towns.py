"""Histories in a plane that have something to gain from being cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dtoss.geometry.space import space_of
from dtoss.history.adaptive.adapt import adapt
from dtoss.history.layouts.compaction import settle
from tests.dtoss.history.worlds import new_home, put_batch, schema_of

PLANE = space_of(metric="plane")
SIDE, SPAN = 1000.0, 10_000
SMALL = 20_000
"""A request, in bytes: so that little histories have something to gain."""


def batch(schema, rows, seed):
    """Rows all over a square and a while."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, SIDE, (rows, 2))
    return pa.table(
        {
            "id": pa.array(rng.integers(0, 40, rows)),
            "t": pa.array(np.sort(rng.integers(0, SPAN, rows))),
            "x": xy[:, 0],
            "y": xy[:, 1],
            "deleted": pa.array(np.zeros(rows, bool)),
        },
        schema=schema.arrow,
    )


def made_home(folder):
    """A history of 120,000 rows in a plane, one leaf by place, where a request costs little."""
    schema = schema_of(PLANE, t_type="int64")
    home = new_home(folder)
    put_batch(home, batch(schema, 120_000, 0), schema, "one")
    settle(home, leaf_bytes=1e9, period_bytes=1.0)
    adapt(home, request_bytes=SMALL)
    return home
