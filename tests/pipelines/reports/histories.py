"""A history that was settled, adapted and asked, for tests of its page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dtoss.column_rows import join_rows
from tests.dtoss.history.placed import discs_asked, put_places
from tests.dtoss.history.worlds import new_home, put_batch, schema_of, table_of

START = 1_577_836_800.0
"""Of the rows, seconds since 1970: that of EPOCH."""
DAY = 86_400.0
SPOTS = {"one": (0.05, 0.05), "other": (-0.05, 0.02)}


def asked_history(folder, space, n=30_000, days=10):
    """A home of three versions with an order by place, and 100 questions about two spots."""
    scale = 1.0 if space.metric == "sphere" else 111_195.0
    schema = schema_of(space)
    home = new_home(folder / "H")
    rng = np.random.default_rng(1)
    rows = table_of(
        schema, rng.integers(0, 99, n), rng.integers(0, int(days * DAY), n), rng.normal(0, 0.05, (n, 2)) * scale
    )
    put_batch(home, rows, schema, "a")
    for depth, what in ((1, "settle"), (3, "adapt"), (5, "adapt")):
        put_places(home, depth, what)

    def some(spot, m, radius, span, kind, first):
        centres = np.array(SPOTS[spot]) * scale + rng.normal(0, 0.005, (m, 2)) * scale
        begin = START + rng.uniform(0, days * DAY, m)
        spans = np.stack([begin, begin + span], axis=1) * 1e6
        asked = discs_asked(space, centres, np.full(m, radius), spans, [kind] * m, first)
        return replace(asked, version=np.where(asked.number <= 90, 2, 3))  # what is about a place read version 2

    asked = [
        some("one", 40, 400.0, 3600.0, "range", 1),
        some("other", 30, 300.0, days * DAY, "count", 41),
        some("one", 20, 800.0, DAY, "within", 71),
        some("one", 6, -1.0, 600.0, "at", 91),
        some("one", 4, -1.0, DAY, "trajectory", 97),
    ]
    return home, join_rows(asked)
