"""What the layouts of a history are compared on: positions of taxis in metres, and four kinds of questions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.measuring.points import DATA
from dtoss.history.query.explain import QUESTIONS
from dtoss.history.questions import Questions, joined_questions

HOUR = 3600.0
DAY = 24 * HOUR
METRES = 111_195.0
"""Of a degree of latitude."""
BAY = (-122.60, 37.20, -121.80, 38.05)
"""lon, lat, lon, lat around San Francisco: rows outside are the fixes of broken receivers."""
HOTSPOTS = {
    "airport": (-122.3885, 37.6155),
    "Union Square": (-122.4075, 37.7880),
    "4th and King": (-122.3945, 37.7765),
    "Mission": (-122.4190, 37.7599),
    "Richmond": (-122.4780, 37.7800),
}
SPREAD = 800.0
"""Metres by which the centres of questions scatter around a hotspot."""


@dataclass(frozen=True)
class World:
    """Rows by ascending times, of which each stands for several.

    Parameters
    ----------
    xy
        float64 (n, 2). Metres on a plane.
    t
        float64 (n,). Seconds since the first.
    ids
        int64 (n,).
    row_bytes
        What a row of the model takes: those of all the rows that it stands for.
    block_rows
        Rows of the model in a block.
    hotspots
        float64 (h, 2).
    """

    xy: NDArray[np.float64]
    t: NDArray[np.float64]
    ids: NDArray[np.int64]
    row_bytes: float
    block_rows: int
    hotspots: NDArray[np.float64]

    @property
    def span(self) -> float:
        """Seconds from the first to the last row."""
        return float(self.t[-1])


def cabspotting(share: int = 4, stands_for: int = 400, row_bytes: float = 12.0, block_rows: int = 12_800) -> World:
    """Return every so-and-so-many-th row of Cabspotting, each standing for others in the same place and moment.

    Parameters
    ----------
    share
        One of so many rows.
    stands_for
        Rows that each stands for.
    row_bytes, block_rows
        Of the rows that they stand for.
    """
    table = pq.read_table(DATA / "cabspotting_sf.parquet", columns=["uid", "t", "lon", "lat"])
    lon, lat = (table.column(name).to_numpy() for name in ("lon", "lat"))
    t = table.column("t").cast("int64").to_numpy() / 1e6
    ids = pc.cast(table.column("uid"), "int64").to_numpy()
    good = (lon >= BAY[0]) & (lon <= BAY[2]) & (lat >= BAY[1]) & (lat <= BAY[3])
    by = np.flatnonzero(good)
    by = by[np.lexsort((ids[by], t[by]))][::share]
    hotspots = np.array(list(HOTSPOTS.values()))
    return World(
        _metres(np.stack([lon[by], lat[by]], axis=1)),
        t[by] - t[by[0]],
        ids[by],
        row_bytes * stands_for,
        block_rows // stands_for,
        _metres(hotspots),
    )


def made_year(rows: int = 2_000_000, days: int = 365, seed: int = 0) -> World:
    """Return a made fleet over a year: clusters of a city, more by day than by night; 10 GB, 8 million rows a GB."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0.0, 9_000.0, (60, 2))
    share = rng.dirichlet(np.full(60, 0.6))
    which = rng.choice(60, rows, p=share)
    xy = centres[which] + rng.normal(0.0, 1.0, (rows, 2)) * rng.gamma(2.0, 500.0, 60)[which, None]
    hours = rng.choice(24, rows, p=(p := 1.0 + np.sin((np.arange(24) - 8) / 24 * 2 * np.pi) * 0.7) / p.sum())
    t = np.sort((rng.integers(0, days, rows) * 24 + hours) * HOUR + rng.uniform(0.0, HOUR, rows))
    best = np.argsort(-share)[:5]
    return World(xy, t - t[0], rng.integers(0, 500, rows), 1e10 / rows, 32, centres[best])


def _metres(lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    x = (lonlat[:, 0] - BAY[0]) * METRES * np.cos(np.radians((BAY[1] + BAY[3]) / 2))
    return np.stack([x, (lonlat[:, 1] - BAY[1]) * METRES], axis=1)


def asked_at(
    world: World, kind: str, spots: NDArray[np.int64], rng: np.random.Generator, scatter: float = SPREAD
) -> Questions:
    """Return one question of a kind at each of some hotspots.

    ``incident`` is 1 x 1 km and 1 h, ``place`` 300 x 300 m at all times, ``day`` 800 x 800 m and one whole day,
    ``replay`` all places within 10 minutes.
    """
    m = len(spots)
    centre = world.hotspots[spots] + rng.normal(0.0, scatter, (m, 2))
    start = rng.uniform(0.0, world.span, m)
    half, reach, first, last = np.zeros(m), np.zeros(m), start, start
    begin = np.arange(m + 1, dtype=np.int64)
    if kind == "incident":
        half, last = half + 500.0, start + HOUR
    elif kind == "place":
        half, first, last = half + 150.0, np.zeros(m), np.full(m, world.span)
    elif kind == "day":
        half, first = half + 400.0, np.floor(start / DAY) * DAY
        last = first + DAY
    else:
        last, begin = start + 600.0, np.zeros(m + 1, np.int64)
        centre, half, reach = centre[:0], half[:0], reach[:0]
    number = np.arange(1, m + 1, dtype=np.int64)
    return Questions(
        number, np.full(m, QUESTIONS.index("box"), np.int8), number, np.zeros(m, np.int32), first, last, begin,
        centre - half[:, None], centre + half[:, None], reach,
    )  # fmt: skip


PHASES = (
    ("I", ("incident", "place"), (0,)),
    ("II", ("incident", "place"), (3,)),
    ("III", ("replay", "day"), (0, 1, 2, 3, 4)),
    ("IV", ("incident", "place", "day", "replay"), (0, 1, 2, 3, 4)),
)
"""Name, kinds of questions and hotspots of each phase."""


def phases(world: World, seed: int = 7, each: int = 500) -> tuple[Questions, list[str]]:
    """Return the questions of all phases one after the other, shuffled within each, and of what kind each is."""
    rng = np.random.default_rng(seed)
    parts, names = [], []
    for _, kinds, spots in PHASES:
        asked = [asked_at(world, kind, rng.choice(spots, each // len(kinds)), rng) for kind in kinds]
        every, labels = joined_questions(asked), np.repeat(kinds, each // len(kinds))
        for row in rng.permutation(len(every)):
            parts.append(every.take(np.array([row])))
            names.append(str(labels[row]))
    every = joined_questions(parts).numbered(0)
    return replace(every, version=every.number), names
