"""Streams of rows for windows: ties, corrections, rows late and repeated, panes' edges, keys of every kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of
from dtoss.partitioning.regions import Regions
from dtoss.row_runs import offsets
from dtoss.windows.keys import Keys, Labels, region_keys, site_keys
from dtoss.windows.measures import MEASURES
from dtoss.windows.spec import spec_of
from tests.dtoss.strategies import lonlat, planar

SECOND = 1_000_000
SPACES = {"sphere": space_of("EPSG:4326"), "plane": space_of(None, "plane")}
KINDS = ("partition", "sites", "boxes", "cells")


@dataclass(frozen=True)
class Stream:
    """Batches of rows (id, t, x, y), and what the oracle needs of them."""

    spec: object
    keys: Keys
    batches: list
    keys_at: object
    far: object


def nearest_of(space, places, weights):
    """Return the key of a place by all powers, ties to the lowest number."""
    pivots = space.vectors(places).tolist()

    def key(x, y):
        place = space.vectors(np.array([[x, y]]))[0].tolist()
        powers = [sum((a - b) * (a - b) for a, b in zip(place, pivot, strict=True)) for pivot in pivots]
        powers = [power - weight for power, weight in zip(powers, weights, strict=True)]
        return [powers.index(min(powers))]

    return key


def far_of(space):
    """Return the reported distance of two places."""

    def far(a, b):
        return float(distance(*space.vectors(np.array([a, b]))[:, None])[0])

    return far


def box_keys(space, boxes):
    """Return boxes that overlap as keys, and which hold a place."""

    def holding(x, y):
        return [i for i, (x0, y0, x1, y1) in enumerate(boxes) if x0 <= x <= x1 and y0 <= y <= y1]

    def find(positions, _):
        found = [holding(x, y) for x, y in positions.tolist()]
        return Labels(
            np.array([key for keys in found for key in keys], np.int64), offsets(np.array([*map(len, found)], np.int64))
        )

    return Keys(space, "boxes", len(boxes), False, find), holding


def cell_keys(space):
    """Return keys that are any numbers, as those of H3, and none for some places."""

    def of(x, y):
        return [] if int(x) % 5 == 3 else [(1 << 59) + 7 * int(np.floor(x)) + 1000 * int(np.floor(y))]

    def find(positions, _):
        return Labels(np.array([(of(x, y) or [-1])[0] for x, y in positions.tolist()], np.int64))

    return Keys(space, "cells", None, True, find), of


@st.composite
def streams(draw, measures=None, most=40):
    """A stream of up to so many rows; of all measures but flow where places have several keys."""
    space = SPACES[draw(st.sampled_from(sorted(SPACES)))]
    places = draw((lonlat if space.geographic else planar)(most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(KINDS))
    count = draw(st.integers(1, 7))
    at = places[rng.integers(0, len(places), count)] if len(places) else np.zeros((count, 2))
    if kind == "partition":
        at = at[np.sort(np.unique(space.vectors(at), axis=0, return_index=True)[1])]
        weights = np.zeros(len(at)) if rng.random() < 0.5 else rng.random(len(at)) * 1e-3
        keys, keys_at = region_keys(space, Regions(space.vectors(at), weights)), nearest_of(space, at, weights.tolist())
    elif kind == "sites":
        keys, keys_at = site_keys(space, at), nearest_of(space, at, [0.0] * len(at))
    elif kind == "boxes":
        far = places[rng.integers(0, len(places), count)] if len(places) else at
        keys, keys_at = box_keys(space, np.concatenate([np.minimum(at, far), np.maximum(at, far)], axis=1).tolist())
    else:
        keys, keys_at = cell_keys(space)
    wanted = [name for name in MEASURES if name != "flow" or keys.single]
    if measures is None and draw(st.booleans()):
        wanted = draw(st.lists(st.sampled_from(wanted), min_size=1, unique=True))
    elif measures is not None:
        wanted = [name for name in measures if name in wanted]
    pane = draw(st.sampled_from([1, 10, 60]))
    lengths = sorted(draw(st.sets(st.integers(1, 9), min_size=1, max_size=4)))
    slide = draw(st.sampled_from([1, 1, 1, 2, 5]))
    spec = spec_of(
        ",".join(f"{pane * length}s" for length in lengths), f"{pane * slide}s", ",".join(wanted), "partition", space,
        keys.digest,
        late=f"{draw(st.sampled_from([0, 1, 3 * pane, 5 * pane + 1]))}s", delay=f"{draw(st.sampled_from([0, 0, 1]))}s",
        max_gap=f"{draw(st.sampled_from([1, 2 * pane, 30 * pane]))}s",
        expire=draw(st.sampled_from([None, None, "1s", f"{2 * pane}s", f"{4 * pane + 1}s"])),
        witnesses=draw(st.sampled_from(["1%", "1", "2"])),
        max_speed=draw(st.sampled_from([None, None, 1.0, 1000.0])),
    )  # fmt: skip
    rows = _rows(rng, places, pane, draw(st.integers(1, 5)), draw(st.sampled_from([0, 3, 10])))
    cuts = np.sort(rng.integers(0, len(rows) + 1, draw(st.integers(0, 4))))
    batches = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    return Stream(spec, keys, batches, keys_at, far_of(space))


def _rows(rng, places, pane, objects, disorder):
    """Return rows (id, t, x, y) about in order of time, of which some come twice, or elsewhere at the same time."""
    n = len(places)
    t = np.sort(rng.integers(0, max(n // 2, 1) + 2, n)) * pane * SECOND // 2
    t = t + rng.choice([0, 0, 0, 1, -1, 300_000], n) + int(rng.choice([0, -3, 10**9])) * pane * SECOND
    rows = [(int(rng.integers(objects)), int(t[i]), *map(float, places[i])) for i in range(n)]
    rows = [rows[i] for i in np.argsort(np.arange(n) + rng.integers(0, disorder + 1, n), kind="stable")]
    for _ in range(int(rng.integers(0, 4)) if n else 0):
        who, when, x, y = rows[rng.integers(n)]
        again = (who, when, x, y) if rng.random() < 0.5 else (who, when, *map(float, places[rng.integers(n)]))
        rows.insert(int(rng.integers(len(rows) + 1)), again)
    return rows
