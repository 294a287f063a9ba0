"""Rounds of a stream for the simulator: rows by routing cell and what is asked there, made and real."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.measuring.points import KM_OF_DEGREE, scattered
from bench.watch.worlds import log_uniform
from ceps.balance.round_costs import Loads, WorkModel
from ceps.balance.subscription_load import SubscriptionLoad, no_words
from datasets.cities.geonames import cities

Floats = NDArray[np.float64]

SIDE = 128
"""Rows and columns of the grid."""
MODEL = WorkModel(1.0, 0.01, 0.0)
"""A row counts 1, and a subscription of its cell .01."""
BYTES = 250.0
"""Of a subscription."""
ROUNDS, ROWS = 80, 60_000
HOT_SIDE, HOT_SHARE = 0.15, 0.4
"""Side of a hot spot in sides of the region, and the share of all rows that lie there at most."""
SPRAWL_KM = 25.0
"""Standard deviation of the way from the middle of a city to a place there."""
_FEW = 0.002


@dataclass(frozen=True)
class Scenario:
    """A stream as rounds.

    Parameters
    ----------
    name
        To be printed.
    asked
        The subscriptions.
    rows
        int64 (rounds, cells).
    """

    name: str
    asked: SubscriptionLoad
    rows: NDArray[np.int64]

    def rounds(self) -> Iterator[tuple[Loads, SubscriptionLoad]]:
        """Yield what each round costs, and what is asked."""
        stored = self.asked.stored_by_cell.astype(np.float64)
        for one in self.rows.astype(np.float64):
            yield (
                Loads(self.asked.shape, one, one * stored, np.zeros(len(one)), stored, self.asked.bytes_by_cell, MODEL),
                self.asked,
            )


@dataclass(frozen=True)
class _Region:
    west: float
    south: float
    wide: float
    high: float

    @classmethod
    def of(cls, places: Floats) -> _Region:
        low, high = np.quantile(places, _FEW, axis=0), np.quantile(places, 1.0 - _FEW, axis=0)
        return cls(low[0], low[1], high[0] - low[0], high[1] - low[1])

    def cells(self, places: Floats) -> NDArray[np.int64]:
        column, row = self.columns(places[:, 0]), self.rows(places[:, 1])
        return row * SIDE + column

    def columns(self, x: Floats) -> NDArray[np.int64]:
        return np.clip(np.floor((x - self.west) / self.wide * SIDE), 0, SIDE - 1).astype(np.int64)

    def rows(self, y: Floats) -> NDArray[np.int64]:
        return np.clip(np.floor((y - self.south) / self.high * SIDE), 0, SIDE - 1).astype(np.int64)

    def asked(self, centres: Floats, radius: Floats) -> SubscriptionLoad:
        """Return circles of radii in metres as rectangles of cells."""
        high = radius / 1000.0 / KM_OF_DEGREE
        wide = high / np.cos(np.radians(np.clip(centres[:, 1], -85, 85)))
        x, y = centres.T
        rects = np.stack([self.columns(x - wide), self.rows(y - high), self.columns(x + wide), self.rows(y + high)], 1)
        return no_words((SIDE, SIDE), rects, np.full(len(rects), BYTES))


def states() -> tuple[Floats, Floats]:
    """Return the cities of the contiguous United States, and the share of their people that each has."""
    known = cities()
    mine = np.array([country == "US" for country in known.country])
    mine &= (known.lon > -125) & (known.lon < -66) & (known.lat > 24) & (known.lat < 50)
    people = known.population[mine].astype(np.float64)
    return np.column_stack([known.lon[mine], known.lat[mine]]), people / people.sum()


def heat_normal(time: float) -> list[tuple[int, float, str]]:
    """One spot that warms and cools as a bell, at a time from 0 to 1: its place, share of rows, how it is spread."""
    return [(0, HOT_SHARE * float(np.exp(-(((time - 0.5) / 0.18) ** 2))), "flat")]


def heat_gaussian(time: float) -> list[tuple[int, float, str]]:
    """The same, dense in its middle."""
    return [(0, HOT_SHARE * float(np.exp(-(((time - 0.5) / 0.18) ** 2))), "gauss")]


def heat_step(time: float) -> list[tuple[int, float, str]]:
    """One spot that is there at once, and gone at once."""
    return [(0, HOT_SHARE if 0.3 <= time < 0.7 else 0.0, "flat")]


def heat_two_at_once(time: float) -> list[tuple[int, float, str]]:
    """Two spots that share the heat."""
    return [(place, share / 2, kind) for place in (0, 1) for _, share, kind in heat_normal(time)]


def heat_two_in_turn(time: float) -> list[tuple[int, float, str]]:
    """One spot, and then another one elsewhere."""
    place, local = (0, 2 * time) if time < 0.5 else (1, 2 * time - 1)
    return [(place, share, kind) for _, share, kind in heat_normal(local)]


HEATS = {
    "normal": heat_normal,
    "gaussian": heat_gaussian,
    "step": heat_step,
    "two at once": heat_two_at_once,
    "two in turn": heat_two_in_turn,
}
_SPOTS = ((0.72, 0.62), (0.2, 0.45))


def hotspot(kind: str, subscriptions: int = 100_000, rounds: int = ROUNDS, rows: int = ROWS, seed: int = 0) -> Scenario:
    """Return made rows over the cities of the United States by their people, with a hot spot."""
    rng = np.random.default_rng(seed)
    middles, people = states()
    region = _Region.of(middles)
    centres = scattered(rng, middles[rng.choice(len(middles), subscriptions, p=people)], SPRAWL_KM)
    asked = region.asked(centres, log_uniform(rng, 100, 10_000, subscriptions))
    found = np.stack(
        [np.bincount(region.cells(places), minlength=SIDE * SIDE) for places in hotspot_places(kind, rounds, rows, rng)]
    )
    return Scenario(f"US hotspot {kind}", asked, found)


def hotspot_places(kind: str, rounds: int, rows: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield the places of each round over the cities of the United States, with a hot spot: float64 (rows, 2)."""
    middles, people = states()
    region = _Region.of(middles)
    for number in range(rounds):
        usual = scattered(rng, middles[rng.choice(len(middles), rows, p=people)], SPRAWL_KM)
        for place, share, spread in HEATS[kind](number / rounds):
            some = rng.random(rows) < share
            usual[some] = _in_spot(rng, region, _SPOTS[place], int(some.sum()), spread)
        yield usual


def _in_spot(rng: np.random.Generator, region: _Region, corner: tuple[float, float], count: int, spread: str) -> Floats:
    at = np.clip(rng.normal(0.5, 0.15, (count, 2)), 0, 1) if spread == "gauss" else rng.random((count, 2))
    return np.column_stack(
        [
            region.west + region.wide * (corner[0] + HOT_SIDE * (at[:, 0] - 0.5)),
            region.south + region.high * (corner[1] + HOT_SIDE * (at[:, 1] - 0.5)),
        ]
    )
