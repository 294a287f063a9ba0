"""Diagrams of sites of which few change: as if all cells had been cut, merge after merge."""

import numpy as np
import pytest

from dtoss.cells.changed_cells import Before, changed_cells
from dtoss.cells.edge_doubt import edge_length
from dtoss.cells.voronoi import voronoi
from dtoss.geometry.hilbert import curve_order
from dtoss.geometry.space import space_of
from tests import worlds
from tests.dtoss.scenes import along, random_sphere

NEARLY_ROUND = ("lattice", "lattice 1e-5", "flat lattice", "flat two towns", "flat huge offset", "ulps", "town 1e-7",
                "town 1e-12", "antipodal crowds 1e-9")  # fmt: skip
"""Worlds in which four sites and more lie on a circle, as far as digits tell."""


def sites_of(world):
    """All distinct sites of a world in curve order, and the bounds of a plane."""
    space = space_of("none" if world.metric == "plane" else "EPSG:4326")
    sites = np.unique(space.vectors(world.positions), axis=0)
    bounds = None
    if world.metric == "plane":
        bounds = np.array([*(sites.min(axis=0) - 1.0), *(sites.max(axis=0) + 1.0)])
    return np.ascontiguousarray(sites[curve_order(sites, np.arange(len(sites)), bounds)]), bounds


def merges(sites, bounds, rng, many, fewest=0, most=10.0):
    """After each merge: the sites, their diagram of the one before, which cells were cut, and that of all cells."""
    there = rng.random(len(sites)) < 0.8
    there[0] = True
    made = voronoi(sites[there], bounds)
    for _ in range(many):
        before = Before(made.first, made.neighbours, made.area, made.radius, made.compact)
        number = np.where(there, np.cumsum(there) - 1, -1).astype(np.int32)
        changing = rng.choice(len(sites), max(1, int(len(sites) * rng.choice([0.002, 0.02, 0.1]))), replace=False)
        there[changing] ^= True
        there[0] = True
        some = np.ascontiguousarray(sites[there])
        # sites that stood have other numbers, as those of a partition have
        mixed = rng.permutation(len(made.area)).astype(np.int32)
        made, cut = changed_cells(some, bounds, *shuffled(before, number[there], mixed), fewest, most)
        yield some, made, cut, voronoi(some, bounds)


def shuffled(before, stood, mixed):
    """The same diagram with site i as site ``mixed[i]``, and the numbers that sites have there."""
    order = np.argsort(mixed)
    lists = [mixed[before.neighbours[before.first[i] : before.first[i + 1]]] for i in order]
    first = np.concatenate([[0], np.cumsum([len(some) for some in lists])]).astype(np.int32)
    neighbours = np.concatenate([np.zeros(0, np.int32), *lists])
    arrays = (before.area[order], before.radius[order], before.compact[order])
    return Before(first, neighbours, *arrays), np.where(stood < 0, np.int32(-1), mixed[stood])


def lists_of(diagram):
    return [diagram.neighbours[a:b].tolist() for a, b in zip(diagram.first, diagram.first[1:], strict=False)]


def few_of(kind, count):
    """Some worlds of a kind with 4 to 700 sites."""
    found = (sites_of(worlds.world(kind, seed)) for seed in range(1000) if 4 <= len(worlds.world(kind, seed).ids) < 700)
    return [one for one, _ in zip((one for one in found if len(one[0]) > 3), range(count), strict=False)]


@pytest.mark.parametrize("kind", worlds.KINDS)
def test_few_sites_change_and_all_cells_are_as_if_they_had_been_cut(kind):
    """To the bit; where digits do not tell, edges that one of both lists have no length in exact arithmetic."""
    rng = np.random.default_rng(len(kind))
    for sites, bounds in few_of(kind, 3):
        for some, made, cut, whole in merges(sites, bounds, rng, 7):
            assert np.array_equal(made.rim, whole.rim)
            assert np.array_equal(made.compact[cut], whole.compact[cut])
            for i, (mine, theirs) in enumerate(zip(lists_of(made), lists_of(whole), strict=True)):
                assert kind in NEARLY_ROUND or mine == theirs
                for j in set(mine) ^ set(theirs):
                    assert edge_length(some[i], some[j], some, bounds) <= 4e-16 * np.abs(some).max()
            if kind not in NEARLY_ROUND:
                assert np.allclose(made.area, whole.area, rtol=1e-9, atol=1e-15)
                assert np.allclose(made.radius, whole.radius, rtol=1e-9, atol=1e-15)
            edges = {(i, j) for i, mine in enumerate(lists_of(made)) for j in mine}
            assert edges == {(j, i) for i, j in edges}


@pytest.mark.parametrize("plane", [True, False])
def test_those_cells_are_cut_that_may_have_changed_and_no_others(plane):
    """Of sites that came, of their neighbours, of neighbours of those that went, and long ones."""
    rng = np.random.default_rng(0)
    sites = along(rng.uniform(0.0, 1.0, (3000, 2)) if plane else random_sphere(rng, 3000))
    bounds = np.array([0.0, 0.0, 1.0, 1.0]) if plane else None
    came, gone = [1500, 2500], [7, 2000]
    old, new = (np.delete(np.arange(3000), some) for some in (came, gone))
    before, after = voronoi(sites[old], bounds), voronoi(sites[new], bounds)
    stood = np.where(np.isin(new, came), -1, np.searchsorted(old, new)).astype(np.int32)
    kept = Before(before.first, before.neighbours, before.area, before.radius, before.compact)
    made, cut = changed_cells(sites[new], bounds, kept, stood)
    assert lists_of(made) == lists_of(after)
    others = {*came} | {int(old[j]) for i in np.searchsorted(old, gone) for j in lists_of(before)[i]}
    others |= {int(new[j]) for i in np.searchsorted(new, came) for j in lists_of(after)[i]}
    others |= {int(i) for i in old[~before.compact]}
    assert set(new[cut].tolist()) == others - {*gone}
    assert len(others) < 500


@pytest.mark.parametrize("gone", [1, 40])
def test_cells_of_too_many_edges_or_gone_sites_are_left_to_a_search(gone):
    """A hub of 400 neighbours, and a site whose neighbours all go but few."""
    rng = np.random.default_rng(1)
    angles = np.arange(400) * (2 * np.pi / 400)
    ring = (1.0 + rng.uniform(0.0, 1e-6, 400))[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    sites, bounds = np.concatenate([[[0.0, 0.0]], ring, 2.0 * ring]), np.array([-3.0, -3.0, 3.0, 3.0])
    before, stays = voronoi(sites, bounds), np.ones(801, np.bool_)
    stays[rng.choice(np.arange(1, 401), gone, replace=False) if gone == 1 else np.arange(1, gone + 1)] = False
    kept = Before(before.first, before.neighbours, before.area, before.radius, before.compact)
    some = np.ascontiguousarray(sites[stays])
    made, _ = changed_cells(some, bounds, kept, np.flatnonzero(stays).astype(np.int32), 0, 10.0)
    whole = voronoi(some, bounds)
    assert before.compact[0]
    assert len(lists_of(before)[0]) == 400
    assert lists_of(made) == lists_of(whole)
    assert np.allclose(made.area, whole.area, rtol=1e-9, atol=1e-15)


def test_all_cells_are_cut_where_few_would_stay():
    rng = np.random.default_rng(0)
    sites = along(random_sphere(rng, 300))
    for limit in ({"fewest": 400}, {"most": 0.0}):
        for _, made, cut, whole in merges(sites, None, rng, 2, **limit):
            assert cut.all()
            assert lists_of(made) == lists_of(whole)
