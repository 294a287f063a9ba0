"""A certified cell is exact whatever lies where its partition knows nothing; one just short of it is not."""

import itertools

import numpy as np
import pytest

from dtoss.building.certificate import furthest_past, uncertified
from dtoss.cells.cell_polygons import shapes
from dtoss.cells.voronoi import voronoi
from dtoss.geometry.space import space_of
from dtoss.partitioning.assign import assign
from dtoss.partitioning.regions import Regions
from tests.dtoss.scenes import along, box_of, neighbour_sets, random_sphere, taxis


def known_sites(sites, regions, region, reach):
    """Which sites a partition knows: its own and its replicas."""
    sent = assign(sites, regions, np.full(len(regions), reach))
    known = sent.home == region
    known[sent.row[sent.partition == region]] = True
    return known, sent.home == region


def certified_cells(sites, bounds, regions, region, reach):
    """The sites that a partition knows, its diagram, and which of its own cells are certified."""
    known, own = known_sites(sites, regions, region, reach)
    local = np.ascontiguousarray(sites[known])
    diagram = voronoi(local, bounds)
    owned = own[known]
    left = uncertified(local, diagram.radius, diagram.first, diagram.neighbours, owned, bounds, regions, region, reach)
    certified = owned.copy()
    certified[left] = False
    return local, diagram, certified, left


def drawn(local, diagram, which, bounds):
    """Vertices of some cells, their owners among `which`, and their distances from their sites."""
    counts = np.diff(diagram.first)[which]
    first = np.concatenate([[0], np.cumsum(counts)])
    at = np.concatenate([np.arange(diagram.first[i], diagram.first[i + 1]) for i in which.tolist()] or [[]]).astype(int)
    cells = shapes(local[which], first, local[diagram.neighbours[at]], bounds)
    owner = np.repeat(np.arange(len(which)), np.diff(cells.first))
    return cells.vertices, owner, np.linalg.norm(cells.vertices - local[which][owner], axis=1)


def scene(dimension, seed):
    """Sites, bounds, weighted regions and a lambda of about two cells."""
    rng = np.random.default_rng(seed)
    if dimension == 3:
        sites = along(random_sphere(rng, 1500))
        regions = Regions(random_sphere(rng, 7), rng.uniform(-0.05, 0, 7))
        return rng, sites, None, regions, 0.12
    sites = along(rng.uniform(0, 100, (1500, 2)))
    regions = Regions(rng.uniform(10, 90, (7, 2)), rng.uniform(-60, 0, 7))
    return rng, sites, box_of(sites), regions, 6.0


OTHERS = pytest.mark.deep("other seeds; one in the plane and on the sphere is in make test")


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=OTHERS) for seed in (2, 3))])
def test_objects_just_beyond_what_is_known_change_no_certified_cell(dimension, seed):
    """From each vertex of each certified cell, the nearest places that its partition knows nothing of get an object."""
    _, sites, bounds, regions, reach = scene(dimension, seed)
    tried = 0
    for region in range(7):
        local, diagram, certified, _ = certified_cells(sites, bounds, regions, region, reach)
        which = np.flatnonzero(certified)
        vertices, _, _ = drawn(local, diagram, which, bounds)
        adversaries = []
        for j in range(7):
            if j == region:
                continue
            normal = regions.pivots[j] - regions.pivots[region]
            normal = normal / np.linalg.norm(normal)
            missing = reach - regions.past(vertices, region)[:, j]
            for _ in range(4):
                # on the sphere the step leaves the sphere: back on it, and on until the border is passed
                points = vertices + (missing * (1 + 1e-9) + 1e-9)[:, None] * normal
                if dimension == 3:
                    points = points / np.linalg.norm(points, axis=1)[:, None]
                missing = missing + np.maximum(reach - regions.past(points, region)[:, j], 0.0)
            adversaries.append(points)
        points = np.concatenate(adversaries)
        # one of each that are almost equal
        points = points[np.unique(points.round(9), axis=0, return_index=True)[1]]
        if bounds is not None:
            points = points[((points > bounds[:2]) & (points < bounds[2:])).all(axis=1)]
        known, _ = known_sites(points, regions, region, reach)
        points = points[~known]
        tried += len(points)
        everything = np.concatenate([sites, points])
        order = np.lexsort(everything.T[::-1])
        whole = voronoi(everything[order], bounds)
        place = {tuple(site): i for i, site in enumerate(everything[order].tolist())}
        globally, locally = neighbour_sets(whole), neighbour_sets(diagram)
        for i in which.tolist():
            mine = place[tuple(local[i].tolist())]
            assert {tuple(everything[order][j].tolist()) for j in globally[mine]} == {
                tuple(local[j].tolist()) for j in locally[i]
            }
            assert whole.area[mine] == pytest.approx(diagram.area[i], rel=1e-9)
    assert tried > 1000


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_cell_that_one_more_object_could_change_is_not_certified(dimension):
    """An unknown object just inside a disc that reaches past what is known becomes a neighbour: no cell is spared."""
    changed = 0
    for seed, region in itertools.product((4, 5, 6), range(7)):
        rng, sites, bounds, regions, reach = scene(dimension, seed)
        local, diagram, _, left = certified_cells(sites, bounds, regions, region, reach)
        if len(left) == 0:
            continue
        which = left[rng.permutation(len(left))[:12]]
        vertices, owner, radius = drawn(local, diagram, which, bounds)
        for v, o, r in zip(vertices, owner.tolist(), radius.tolist(), strict=True):
            past = regions.past(v[None], region)[0]
            j = int(past.argmax())
            normal = regions.pivots[j] - regions.pivots[region]
            point = v + 0.999 * r * normal / np.linalg.norm(normal)
            if dimension == 3:
                point = point / np.linalg.norm(point)
            elif not ((point > bounds[:2]) & (point < bounds[2:])).all():
                continue
            known, _ = known_sites(point[None], regions, region, reach)
            if known[0] or np.linalg.norm(point - v) >= r:
                continue
            more = np.concatenate([local, point[None]])
            order = np.lexsort(more.T[::-1])
            at = int(np.flatnonzero(order == which[o])[0])
            new = int(np.flatnonzero(order == len(local))[0])
            assert new in neighbour_sets(voronoi(more[order], bounds))[at]
            changed += 1
    assert changed > 20


@pytest.mark.parametrize("count", [1, 2, 7, 400])
def test_the_furthest_border_passed(count):
    """Against all borders; 400 regions are more than each lists; one region has no border."""
    rng = np.random.default_rng(5)
    regions = Regions(random_sphere(rng, count), rng.uniform(-0.01, 0, count))
    points = random_sphere(rng, 500)
    for region in range(0, count, 61):
        expected = regions.past(points, region).max(axis=1)
        assert furthest_past(points, regions, region) == pytest.approx(expected, abs=1e-12)


def test_everything_is_certified_where_all_is_known():
    """One partition, or a lambda beyond everything."""
    rng = np.random.default_rng(6)
    sites = along(np.unique(space_of().vectors(taxis(rng, 2000)), axis=0))
    for regions, reach in ((Regions(sites[:1], np.zeros(1)), 0.0), (Regions(sites[:5].copy(), np.zeros(5)), 5.0)):
        _, _, certified, left = certified_cells(sites, None, regions, 0, reach)
        assert len(left) == 0
        assert certified.sum() == (regions.nearest(sites) == 0).sum()
