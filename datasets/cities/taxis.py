"""Where every taxi of a made-up fleet is at any moment: a plain function of seed, taxi and time.

A taxi's time is cut into slots of `SLOT` seconds, at a phase of its own. In a slot it drives from one place
to the next, along two streets at a right angle, and waits before and after. Places lie round the hotspots of
its city, on the land mask (the streets between may cross water); some are ranks, which many taxis share. A
taxi off shift stays where it is for `SHIFT` slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.cities.geonames import EARTH_RADIUS, cities, find_city, on_land, travel
from datasets.tables.command import BadInput
from datasets.tables.seeded_batches import stream

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(seed: int, purpose: int, *keys: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for each row of ``keys``: splitmix64's finaliser, once a key.

    ``purpose``: A small number that keeps draws of the same keys apart.
    """
    start = np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    state = _finish(_finish(start) ^ np.uint64(purpose))
    for key in keys:
        state = _finish(state ^ np.asarray(key).astype(np.uint64))
    return state


def unit(seed: int, purpose: int, *keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1) of 53 bits, by the same rule as `mix`.

    Examples
    --------
    >>> taxi = np.arange(3)
    >>> bool((unit(7, 0, taxi)[2:] == unit(7, 0, taxi[2:])).all())
    True
    """
    return (mix(seed, purpose, *keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _finish(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = z + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLOT = 1_800
"""Seconds of one trip with its waits."""
SHIFT = 8
"""Slots, in a row, that a taxi is on or off."""
OFF = 0.25
"""Share of the shifts that a taxi spends off, parked."""
RANK = 0.3
"""Share of the places that are taxi ranks."""
HIRED = 0.6
"""Share of the trips with a passenger."""
SPEED = (5.0, 14.0)
"""Metres a second along the street, unless the trip would not fit into its slot."""
DRIVE = 0.95
"""Largest share of a slot that a trip takes."""
REACH = 15_000.0
"""Metres within which a city's hotspots lie from its centre."""
GATHER = 400.0
"""Standard deviation of the distance from a hotspot, metres; at most three times as far."""
FASTEST = 2.0**0.5 * 2 * (REACH + 3 * GATHER) / (DRIVE * SLOT)
"""Metres a second that no taxi exceeds along its street: about 27."""
NOISE = 4.0
"""Metres of error, along each axis, of a position read while driving."""
TRIES = 3

# What a draw is for; one number for one use.
_CITY, _PHASE, _SHIFT, _SPOT, _RANK, _BEARING, _AWAY = range(7)
_SPEED, _START, _TURN, _HIRED, _ERROR_EAST, _ERROR_NORTH = range(7, 13)


@dataclass(frozen=True)
class Fleet:
    """A fleet and its cities; `where` gives its positions."""

    taxis: int  # Number of taxis; their ids are 0 .. taxis - 1
    seed: int
    cities: tuple[str, ...]  # Names, c of them
    share: Floats  # Cumulated share of the taxis of each city, float64 (c,), the last is 1
    lon: Floats  # lon, lat: hotspots in degrees, float64 (c, h), on land, the first of a city is its centre
    lat: Floats
    draw: Floats  # Cumulated weight of the hotspots of any city, float64 (h,): Zipf, the first is the busiest


@dataclass(frozen=True)
class State:
    """What `where` finds, one entry for each question."""

    lon: Floats  # lon, lat: degrees, float64 (n,), rounded to 5 decimals as a receiver's are
    lat: Floats
    occupied: NDArray[np.int8]  # 1 with a passenger, int8 (n,)
    driving: NDArray[np.bool_]  # Whether the taxi moves, bool (n,)


def make_fleet(taxis: int, city: Sequence[str] | int = ("Beijing",), seed: int = 0, spots: int = 40) -> Fleet:
    """Return a fleet that works round the hotspots of some cities, taxis shared out by population.

    ``spots``: hotspots a city, 1 or more; the k-th draws 1/k as many trips as the first.
    """
    world = cities()
    chosen = list(range(city)) if isinstance(city, int) else [find_city(name) for name in city]
    if taxis < 0 or spots < 1 or not 1 <= len(chosen) <= len(world):
        raise BadInput(
            f"taxis {taxis}, hotspots {spots}, cities {len(chosen)}: give 0 or more taxis, 1 or more "
            f"hotspots and 1 to {len(world)} cities"
        )
    rng = stream(seed, 2)
    lon, lat = np.repeat(world.lon[chosen], spots), np.repeat(world.lat[chosen], spots)
    left = np.flatnonzero(np.arange(len(lon)) % spots)  # the first of each city stays at its centre
    centre_lon, centre_lat = lon.copy(), lat.copy()
    while len(left):
        metres = np.minimum(np.abs(rng.normal(0, REACH / 2, len(left))), REACH)
        bearing = rng.uniform(0, 2 * np.pi, len(left))
        lon[left], lat[left] = travel(centre_lon[left], centre_lat[left], bearing, metres)
        left = left[~on_land(lon[left], lat[left])]
    people = world.population[chosen].astype(np.float64)
    zipf = 1.0 / np.arange(1, spots + 1)
    return Fleet(
        taxis=taxis,
        seed=seed,
        cities=tuple(world.name[i] for i in chosen),
        share=np.cumsum(people) / people.sum(),
        lon=lon.reshape(len(chosen), spots),
        lat=lat.reshape(len(chosen), spots),
        draw=np.cumsum(zipf) / zipf.sum(),
    )


def phase(fleet: Fleet, uid: Ints) -> Floats:
    """Return each taxi's own shift of the clock as a share of a period, in [0, 1), shape (n,)."""
    return unit(fleet.seed, _PHASE, uid)


def where(fleet: Fleet, uid: Ints, seconds: Floats) -> State:
    """Return where taxis are; O(n), whatever the times.

    ``uid``: taxis, int64 (n,); ``seconds``: time since the start, 0 or more, float64 (n,).
    """
    seed = fleet.seed
    clock = seconds + phase(fleet, uid) * SLOT
    slot = np.floor_divide(clock, SLOT).astype(np.int64)
    lon_a, lat_a = _place(fleet, uid, _stop(seed, uid, slot))
    lon_b, lat_b = _place(fleet, uid, _stop(seed, uid, slot + 1))

    metre = np.pi / 180 * EARTH_RADIUS
    east = _wrap(lon_b - lon_a) * metre * np.cos(np.radians(lat_a))
    north = (lat_b - lat_a) * metre
    length = np.abs(east) + np.abs(north)
    speed = SPEED[0] + (SPEED[1] - SPEED[0]) * unit(seed, _SPEED, uid, slot)
    takes = np.minimum(length / speed, DRIVE * SLOT)
    begins = (SLOT - takes) * unit(seed, _START, uid, slot)
    done = np.clip((clock - slot * SLOT - begins) / np.maximum(takes, 1e-9), 0.0, 1.0)
    driving = (done > 0) & (done < 1)

    along = done * length
    east_first = unit(seed, _TURN, uid, slot) < 0.5
    first = np.where(east_first, np.abs(east), np.abs(north))
    on_first, on_second = np.minimum(along, first), np.maximum(along - first, 0.0)
    go_east = np.where(east_first, on_first, on_second) * np.sign(east)
    go_north = np.where(east_first, on_second, on_first) * np.sign(north)

    when = np.round(seconds * 1e6).astype(np.int64)
    go_east += np.where(driving, NOISE * (2 * unit(seed, _ERROR_EAST, uid, when) - 1), 0.0)
    go_north += np.where(driving, NOISE * (2 * unit(seed, _ERROR_NORTH, uid, when) - 1), 0.0)
    lon = lon_a + go_east / (metre * np.cos(np.radians(lat_a)))
    lat = lat_a + go_north / metre
    there = done >= 1
    lon = np.round(_wrap(np.where(there, lon_b, lon)), 5)
    lat = np.asarray(np.where(there, lat_b, lat), dtype=np.float64).round(5)
    hired = unit(seed, _HIRED, uid, slot) < HIRED
    return State(lon=lon, lat=lat, occupied=(driving & hired).astype(np.int8), driving=driving)


def _stop(seed: int, uid: Ints, slot: Ints) -> Ints:
    """Return the number of the place at which a slot begins: one place for all of a shift that is off."""
    shift = slot // SHIFT
    off = unit(seed, _SHIFT, uid, shift) < OFF
    return np.where(off, shift * SHIFT, slot)


def _place(fleet: Fleet, uid: Ints, number: Ints) -> tuple[Floats, Floats]:
    """Return the taxi's place of that number: a rank, or a spot on land near a hotspot."""
    seed = fleet.seed
    city = _pick(fleet.share, unit(seed, _CITY, uid))
    spot = _pick(fleet.draw, unit(seed, _SPOT, uid, number))
    lon, lat = fleet.lon[city, spot], fleet.lat[city, spot]
    todo = np.flatnonzero(unit(seed, _RANK, uid, number) >= RANK)
    for attempt in range(TRIES):
        keys = uid[todo], number[todo], np.full(len(todo), attempt)
        bearing = 2 * np.pi * unit(seed, _BEARING, *keys)
        rayleigh = GATHER * np.sqrt(-2 * np.log1p(-unit(seed, _AWAY, *keys)))
        near = travel(lon[todo], lat[todo], bearing, np.minimum(rayleigh, 3 * GATHER))
        ashore = on_land(*near)
        lon[todo[ashore]], lat[todo[ashore]] = near[0][ashore], near[1][ashore]
        todo = todo[~ashore]
    return lon, lat


def _pick(cumulated: Floats, draw: Floats) -> NDArray[np.intp]:
    return np.minimum(np.searchsorted(cumulated, draw, side="right"), len(cumulated) - 1)


def _wrap(degrees: Floats) -> Floats:
    return degrees - 360.0 * np.round(degrees / 360.0)
