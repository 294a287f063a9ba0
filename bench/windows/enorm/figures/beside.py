"""The same windows by `dtoss.windows` in this process: rows by key, several lengths, whole numbers in panes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.windows.enorm.operators import Row
from dtoss.geometry.space import space_of
from dtoss.windows.keys import site_keys
from dtoss.windows.spec import spec_of
from tests.dtoss.windows.in_memory_windows import Live

OBJECTS = 2_000
"""Which rows belong to in turn, so that no two of one are at one time."""
BATCH = 15_000
APART = 100.0
"""Between the sites of two keys, and a row is at a site."""


def live_of(minutes: Sequence[int], keys: int) -> Live:
    """Return windows of so many minutes every five, of a site for each key."""
    space = space_of(None, "plane")
    sites = site_keys(space, np.column_stack([np.arange(keys) * APART, np.zeros(keys)]))
    lengths = ",".join(f"{one}min" for one in minutes)
    return Live(spec_of(lengths, "5min", "rows", "sites:made.csv", space, sites.digest, witnesses="1"), sites)


def run(minutes: Sequence[int], keys: int, rows: Sequence[Row]) -> Live:
    """Add rows in batches, each of which is advanced, and return what stands then."""
    live = live_of(minutes, keys)
    key = np.array([row[0][0] for row in rows], np.float64) * APART
    times = np.array([row[2] for row in rows], np.float64)
    places = np.column_stack([key, np.zeros(len(rows))])
    ids = np.arange(len(rows)) % OBJECTS
    for at in range(0, len(rows), BATCH):
        part = slice(at, at + BATCH)
        live.add(ids[part], times[part], places[part])
        live.advance()
    return live
