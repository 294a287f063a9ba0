"""What the sentences of `docs/format.md` mean: a check for each, of the arrays of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dtoss.cells.voronoi import voronoi
from dtoss.geometry.hilbert import curve_keys
from dtoss.geometry.space import Space
from dtoss.partitioning.regions import Regions


@dataclass(frozen=True)
class File:
    """A file's arrays and facts, with what else there is to know of its snapshot."""

    arrays: dict[str, Any]
    facts: dict[str, Any]
    entry: dict[str, Any]
    space: Space
    regions: Regions
    bounds: Any
    truth: Truth
    open_sites: Any

    def __getitem__(self, name):
        return self.arrays[name]

    @property
    def sites(self):
        return self["sites"].reshape(-1, self.facts["dimension"])

    @property
    def positions(self):
        return self["positions"].reshape(-1, 2)

    @property
    def owned(self):
        return self.facts["owned_sites"]

    @property
    def number(self):
        return self.facts["number"]


@dataclass(frozen=True)
class Truth:
    """All objects as they were given, all sites, and the diagram of them, made at once."""

    position: dict[Any, tuple[float, float]]
    sites: dict[tuple[float, ...], int]
    ids: dict[tuple[float, ...], list[Any]]
    neighbours: list[set[tuple[float, ...]]]
    area: Any


def ascending(values):
    return all(a < b for a, b in zip(values.tolist(), values[1:].tolist(), strict=False))


def offsets(name, of):
    return lambda f: bool(f[name][0] == 0 and (np.diff(f[name]) >= 0).all() and f[name][-1] == len(f[of]))


def lists(first, neighbours):
    assert (first >= 0).all()
    return [neighbours[a:b].tolist() for a, b in pairwise(first)]


def within(name, count):
    return lambda f: bool(((f[name] >= 0) & (f[name] < count(f))).all())


def not_itself(first, neighbours):
    return lambda f: not any(i in beside for i, beside in enumerate(lists(f[first], f[neighbours])))


def once_each(first, neighbours):
    return lambda f: all(len(set(beside)) == len(beside) for beside in lists(f[first], f[neighbours]))


def both_ends(first, neighbours):
    def check(f):
        beside = lists(f[first], f[neighbours])
        edges = {(i, j) for i, others in enumerate(beside) for j in others}
        return edges == {(j, i) for i, j in edges}

    return check


def turning(f):
    """Seen from each certified site, the directions of its neighbours turn to the left, once round."""
    begin, degree = f["first"][:-1], np.diff(f["first"])
    source = np.repeat(np.arange(len(f.sites)), degree)
    way, site = f.sites[f["neighbours"]] - f.sites[source], f.sites[source]
    if f.space.dimension == 3:
        east = np.cross(np.where(abs(site[:, 2:]) < 0.9, [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]), site)
        way = np.stack([(way * east).sum(axis=1), (way * np.cross(site, east)).sum(axis=1)], axis=1)
    angle = np.arctan2(way[:, 1], way[:, 0])
    at = np.arange(len(source))
    following = np.where(at + 1 == np.repeat(begin + degree, degree), np.repeat(begin, degree), at + 1)
    falls = np.bincount(source, angle[following] < angle, minlength=len(f.sites))
    certified = np.setdiff1d(np.arange(f.owned), f["uncertified"])
    return bool((falls[certified][degree[certified] > 2] == 1).all())


def diagram_of_level(level):
    def check(f):
        again = voronoi(np.ascontiguousarray(f.sites[: f.owned : 16**level]), f.bounds)
        found = lists(f[f"first_{level}"], f[f"neighbours_{level}"])
        return list(map(set, found)) == list(map(set, lists(again.first, again.neighbours)))

    return check


def of_unit_length(f):
    return f.space.dimension == 2 or bool((abs((f.sites**2).sum(axis=1) - 1.0) <= 1e-9).all())


def distinct_sites(f):
    return len(np.unique(f.sites, axis=0)) == len(f.sites)


def curve(f, sites):
    return curve_keys(np.ascontiguousarray(sites), f.bounds)


def runs(f):
    return f.sites[: f.owned], f.sites[f.owned :]


def along_the_curve(f):
    homes = f.regions.nearest(np.ascontiguousarray(f.sites))
    return bool(
        (homes[: f.owned] == f.number).all()
        and (homes[f.owned :] != f.number).all()
        and all((np.diff(curve(f, run)) >= 0).all() for run in runs(f))
    )


def ties_ascend(f):
    for run in runs(f):
        keys = curve(f, run).tolist()
        if any(keys[i] == keys[i + 1] and tuple(run[i]) >= tuple(run[i + 1]) for i in range(len(keys) - 1)):
            return False
    return True


def known_vectors(f):
    """The vectors of the objects, by their ids, from what was given."""
    return f.space.vectors(np.array([f.truth.position[one] for one in f["ids"].tolist()]).reshape(-1, 2))


def repeated_sites(f):
    return np.repeat(f.sites, np.diff(f["first_object"]), axis=0)


def same_positions(f):
    return [f.truth.position[one] for one in f["ids"].tolist()] == list(map(tuple, f.positions.tolist()))


def ascending_on_sites(f):
    return all(ascending(f["ids"][a:b]) for a, b in zip(f["first_object"], f["first_object"][1:], strict=False))


def distinct(name):
    return lambda f: len(set(f[name].tolist())) == len(f[name])


def replicas_of_others(f):
    homes = f.regions.nearest(np.ascontiguousarray(f.sites[f.owned :]))
    return bool((f["replica_home"] == homes).all() and (homes != f.number).all())


def at_the_bounds(f):
    """The same sites as in a diagram made again from the file's own."""
    if f.space.dimension == 3:
        return len(f["rim"]) == 0
    again = voronoi(np.ascontiguousarray(f.sites), f.bounds)
    return np.flatnonzero(again.rim).tolist() == f["rim"].tolist()


def places_of_blocks(f):
    return f["keys"].tolist() == curve(f, f.sites[: f.owned : 16]).tolist()


def held_by_balls(f):
    ball = np.repeat(f["balls"].reshape(-1, 4), 16, axis=0)[: len(f.sites)]
    gap = f.sites - ball[:, : f.space.dimension]
    return bool(((gap**2).sum(axis=1) <= ball[:, 3] ** 2).all())


def flat(f):
    return f.space.dimension == 3 or not f["balls"].reshape(-1, 4)[:, 2].any()


def blocks_of_neighbours(f):
    beside = lists(f["first"], f["neighbours"])
    wanted = [{j // 16 for others in beside[b : b + 16] for j in others} - {b // 16} for b in range(0, len(beside), 16)]
    found = lists(f["block_first"], f["block_neighbours"])
    return [set(one) for one in found] == wanted and sum(map(len, found)) == sum(map(len, wanted))


def not_certified(f):
    return bool((f["uncertified"] < f.owned).all() and len(f["uncertified"]) == f.entry["uncertified"])


def by_id(f):
    ids = f["ids"][: f.entry["objects"]].tolist()
    return [ids[i] for i in f["id_order"].tolist()] == sorted(ids)


def word_and_bits(one, words):
    """The word of a filter of so many that is an id's, and the bits in it, as the document says."""
    wide = 2**64 - 1
    if isinstance(one, int):
        h = one * 0x9E3779B185EBCA87 & wide
    else:
        h = 0xCBF29CE484222325
        for b in one.encode():
            h = (h ^ b) * 0x100000001B3 & wide
    h = (h ^ h >> 32) * 0xC2B2AE3D27D4EB4F & wide
    h ^= h >> 29
    return (h >> 32) * words >> 32, 1 << h % 64 | 1 << (h >> 6) % 64 | 1 << (h >> 12) % 64 | 1 << (h >> 18) % 64


def by_hash(f):
    words = [0] * len(f["id_filter"])
    for one in f["ids"][: f.entry["objects"]].tolist():
        word, bits = word_and_bits(one, len(words))
        words[word] |= bits
    return words == f["id_filter"].tolist()


def moment_of(one):
    """The time of the object of an id, in these tests."""
    return one * 7 + 3 if isinstance(one, int) else int(one[1:]) / 3


def owner(f):
    return f["home"].tolist() == f.regions.nearest(np.ascontiguousarray(f.sites)).tolist()


def by_coordinates(f):
    return all(a < b for a, b in zip(f.sites.tolist(), f.sites[1:].tolist(), strict=False))


def as_sites(f):
    return [min(f.truth.ids[tuple(site)]) for site in f.sites.tolist()] == f["ids"].tolist()


def beside_points(f):
    named = list(map(tuple, f.sites.tolist()))
    return named, [{named[j] for j in others} for others in lists(f["first"], f["neighbours"])]


def whole_lists(f):
    named, found = beside_points(f)
    return set(f["open"].tolist()) <= {0, 1} and all(
        not is_open or beside == f.truth.neighbours[f.truth.sites[site]]
        for site, beside, is_open in zip(named, found, f["open"], strict=True)
    )


def open_is_uncertified(f):
    named, _ = beside_points(f)
    return {site for site, is_open in zip(named, f["open"], strict=True) if is_open} == f.open_sites


def areas(f):
    real = np.array([f.truth.area[f.truth.sites[tuple(site)]] for site in f.sites.tolist()])
    return np.allclose(f["area"], np.where(f["open"] == 1, real, 0.0), rtol=1e-9, atol=1e-12)


def zero_of_others(f):
    return not f["area"][f["open"] == 0].any()


def ascending_lists(f):
    return all(ascending(np.array(one)) for one in lists(f["first"], f["neighbours"]))


Check = Callable[[File], bool]
PARTITION: dict[str, dict[str, Check]] = {
    "ids": {
        "site by site": lambda f: bool((known_vectors(f) == repeated_sites(f)).all()),
        "ascending on each site, strings by code point": ascending_on_sites,
        "distinct": distinct("ids"),
    },
    "positions": {
        "as `ids`": same_positions,
        "as they were read": same_positions,
        "the vectors of a site's objects are the site": lambda f: bool(
            (f.space.vectors(f.positions) == repeated_sites(f)).all()
        ),
    },
    "sites": {
        "w owned ones along the Hilbert curve, then replicas along it": along_the_curve,
        "distinct": distinct_sites,
        "of length 1 within 1e-9 on the sphere": of_unit_length,
        "those of one curve key ascend by coordinates": ties_ascend,
    },
    "first_object": {
        "as `sites`": lambda f: bool((known_vectors(f) == repeated_sites(f)).all()),
        "site i has objects `first_object[i]:first_object[i + 1]`": lambda f: bool(
            (f.space.vectors(f.positions) == repeated_sites(f)).all()
        ),
        "from 0 strictly ascending to n": lambda f: bool(
            f["first_object"][0] == 0 and ascending(f["first_object"]) and f["first_object"][-1] == len(f["ids"])
        ),
    },
    "replica_home": {
        "as the replicas": replicas_of_others,
        "the partition that owns the replica, never this one": replicas_of_others,
    },
    "first": {
        "as `sites`": turning,
        "from 0 ascending to the length of `neighbours`": offsets("first", "neighbours"),
    },
    "neighbours": {
        "site by site, counter-clockwise round certified ones": turning,
        "sites of this file": within("neighbours", lambda f: len(f.sites)),
        "no site is its own neighbour": not_itself("first", "neighbours"),
        "none is listed twice": once_each("first", "neighbours"),
        "listed from both ends": both_ends("first", "neighbours"),
    },
    "rim": {
        "ascending": lambda f: ascending(f["rim"]),
        "sites whose cells reach the bounds": at_the_bounds,
        "empty on the sphere": lambda f: f.space.dimension == 2 or len(f["rim"]) == 0,
    },
    "keys": {
        "as `sites`": places_of_blocks,
        "place on the Hilbert curve of the first site of each 16 owned ones": places_of_blocks,
        "ascending": lambda f: bool((np.diff(f["keys"]) >= 0).all()),
    },
    "balls": {
        "block by block": held_by_balls,
        "centre and radius of a ball that holds the block's sites": held_by_balls,
        "z is 0 in the plane": flat,
    },
    "block_first": {
        "block by block": blocks_of_neighbours,
        "from 0 ascending to the length of `block_neighbours`": offsets("block_first", "block_neighbours"),
    },
    "block_neighbours": {
        "block by block": blocks_of_neighbours,
        "the blocks that hold a neighbour of one of the block's sites, each once, not itself": blocks_of_neighbours,
    },
    "uncertified": {
        "ascending": lambda f: ascending(f["uncertified"]),
        "owned sites whose cells stand in the border file": not_certified,
    },
    "id_order": {
        "by id": by_id,
        "the numbers of the owned objects, each once": lambda f: (
            sorted(f["id_order"].tolist()) == list(range(f.entry["objects"]))
        ),
        "their ids ascend, strings by UTF-8 bytes": by_id,
    },
    "id_filter": {
        "by hash": by_hash,
        "for each owned object the four bits of its id's word are 1, no others": by_hash,
    },
    "t": {
        "as `ids`": lambda f: f["t"].tolist() == [moment_of(one) for one in f["ids"].tolist()],
        "when each object was there": lambda f: f["t"].tolist() == [moment_of(one) for one in f["ids"].tolist()],
        "no NaN": lambda f: not np.isnan(f["t"]).any(),
    },
    "first_k": {
        "as `sites`": diagram_of_level(1),
        "from 0 ascending to the length of `neighbours_k`": offsets("first_1", "neighbours_1"),
    },
    "neighbours_k": {
        "site by site": diagram_of_level(1),
        "the Voronoi neighbours among the sites of the level": diagram_of_level(1),
        "no site is its own neighbour": not_itself("first_1", "neighbours_1"),
        "listed from both ends": both_ends("first_1", "neighbours_1"),
    },
}
BORDER: dict[str, dict[str, Check]] = {
    "sites": {
        "ascending by x, then y, then z": by_coordinates,
        "distinct": distinct_sites,
        "of length 1 within 1e-9 on the sphere": of_unit_length,
    },
    "home": {"as `sites`": owner, "the partition that owns the point": owner},
    "ids": {"as `sites`": as_sites, "the lowest id on the point": as_sites},
    "open": {
        "as `sites`": open_is_uncertified,
        "1 where the whole list of neighbours is here, else 0": whole_lists,
        "1 for all uncertified sites": open_is_uncertified,
    },
    "first": {
        "as `sites`": whole_lists,
        "from 0 ascending to the length of `neighbours`": offsets("first", "neighbours"),
    },
    "neighbours": {
        "point by point, ascending": ascending_lists,
        "points of this file": within("neighbours", lambda f: len(f.sites)),
        "no point is its own neighbour": not_itself("first", "neighbours"),
        "listed from both ends": both_ends("first", "neighbours"),
    },
    "area": {
        "as `sites`": areas,
        "of the cells of open points, square CRS units or steradians": areas,
        "0 of others": zero_of_others,
    },
}


def up(count):
    return -(-count // 16)


LENGTHS: dict[str, Callable[[File], int | None]] = {
    "o": lambda f: f.entry["objects"],
    "o / 4 rounded up": lambda f: -(-f.entry["objects"] // 4),
    "n": lambda f: f.entry["objects"] + f.entry["replicas"],
    "2 n": lambda f: 2 * (f.entry["objects"] + f.entry["replicas"]),
    "m + 1": lambda f: len(f.sites) + 1,
    "m - w": lambda f: len(f.sites) - f.entry["sites"],
    "d m": lambda f: f.space.dimension * (f.entry["sites"] + len(f["replica_home"])),
    "w / 16 rounded up": lambda f: up(f.entry["sites"]),
    "4 m / 16 rounded up": lambda f: 4 * up(len(f.sites)),
    "m / 16 rounded up + 1": lambda f: up(len(f.sites)) + 1,
    "b": lambda f: f.entry["points"],
    "d b": lambda f: f.space.dimension * f.entry["points"],
    "b + 1": lambda f: f.entry["points"] + 1,
    "any": lambda f: None,
}
