"""Every kind can be asked by its name, in process and of a server, and the short way says what the general one says."""

from __future__ import annotations

from inspect import getdoc, signature

import numpy as np
import pytest

import dtoss
from dtoss.kinds.all_kinds import ALL_KINDS, OF_PLACES, SHAPED
from dtoss.kinds.spatial_index import SpatialIndex
from tests.dtoss.serve.cluster.several import dealt, several
from tests.dtoss.serve.served import NAME, Asker, running, target, town

RADIUS = {"sphere": 900.0, "plane": 12.0}


@pytest.fixture(scope="module", params=["sphere", "plane"])
def world(request):
    """An index, and places among its objects."""
    index = town(request.param, strings=request.param == "plane", partitions=5)
    places = np.concatenate([part.positions[:7] for part in index.parts.all() if part.owned_objects]) + 1e-4
    return index, places, RADIUS[request.param]


def given(kind, radius):
    """Something for each parameter of a kind."""
    return {one.name: 5 if one.whole else radius for one in kind.parameters}


@pytest.mark.parametrize("kind", OF_PLACES, ids=[kind.name for kind in OF_PLACES])
def test_a_kind_is_asked_by_its_name(world, kind):
    index, places, radius = world
    told, wanted = index.ask(kind.name, places, **given(kind, radius)), getattr(index, kind.name)
    same = wanted(places, **given(kind, radius))
    assert told == same if isinstance(told, dtoss.Hits) else (told == same).all()


@pytest.mark.parametrize("kind", SHAPED, ids=[kind.name for kind in SHAPED])
def test_a_kind_is_asked_about_shapes(world, kind):
    """Of an index in this process and of a server's, of one shape, of several and of none."""
    index, places, radius = world
    half = radius / (111_000 if index.space.geographic else 1)
    boxes = np.concatenate([places[:5] - half, places[:5] + half], axis=1)
    rings = [[[w, s], [e, s], [e, n], [w, n], [w, s]] for w, s, e, n in boxes.tolist()]
    of = {"box": boxes, "within": [{"type": "Polygon", "coordinates": [ring]} for ring in rings]}[kind.name]
    with running(index) as server:
        for one in (index, dtoss.connect("http://{}:{}".format(*server.at))):
            for some in (of[0], of, of[:0]):
                for more in ({}, {"where": "speed > 9", "columns": ["speed"]}, {"having": "speed < 30", "threads": 2}):
                    assert one.ask(kind.name, some, **more) == getattr(index, kind.name)(some, **more)
            takes = ", ".join(given.name for given in kind.parameters) or f"{kind.about} alone"
            with pytest.raises(TypeError, match=f"{kind.name} takes no 'k': {takes}"):
                one.ask(kind.name, of, k=3)
            if kind.parameters:
                assert one.ask(kind.name, of, edges="spherical") == one.within(of, edges="spherical")
            with pytest.raises(ValueError, match=f"{kind.name} takes no crs: leave it out"):
                one.ask(kind.name, of, crs="none")


@pytest.mark.parametrize("kind", ALL_KINDS.values(), ids=list(ALL_KINDS))
def test_a_kind_is_a_method_of_every_index(kind):
    """Of the one in this process and of a server's, with what the kind takes, which is documented once."""
    for index in (SpatialIndex, dtoss.Index, dtoss.RemoteIndex):
        method = getattr(index, kind.name)
        taken = [*signature(method).parameters][2:]
        takes = [one.name for one in kind.parameters] + list(kind.takes)
        assert sorted(name for name in taken if name not in ("crs", "threads", "order")) == sorted(takes)
        assert getdoc(method) == getdoc(getattr(SpatialIndex, kind.name))


def test_what_a_kind_does_not_take_is_refused(world):
    index, places, radius = world
    for name, asked, why in (
        ("count", {"radius": radius, "columns": ["speed"]}, "count takes no columns: leave it out"),
        ("locate", {"where": "speed > 3"}, "locate takes no where: leave it out"),
        ("reverse_nearest", {"having": "speed > 3"}, "reverse_nearest takes no having: leave it out"),
        ("nearest", {}, f"'nearest' is no kind of question: {', '.join(ALL_KINDS)} are"),
    ):
        with pytest.raises(ValueError, match=why):
            index.ask(name, places, **asked)
    with pytest.raises(TypeError, match="knn takes no 'radius': k, max_distance"):
        index.ask("knn", places, radius=radius)
    with pytest.raises(TypeError, match="range wants radius: how far"):
        index.ask("range", places)


def targets(index, places, radius):
    """Frequent questions, each without and with what makes it unusual: the name of the snapshot that answers anyhow."""
    names = ("lon", "lat") if index.space.geographic else ("x", "y")
    for kind in (kind for kind in ALL_KINDS.values() if kind.gathered):
        for number, place in enumerate(places.tolist()):
            at = dict(zip(names, place, strict=True))
            more = {"where": [None, "speed > 9"][number % 2]}
            for k in (1, 7, 8, 33, 64):
                asked = {one.name: k if one.whole else radius for one in kind.parameters if one.wanted or k % 2}
                yield target(f"/{kind.name}", **at, **asked, **more), {"snapshot": NAME}


def test_the_short_way_says_what_the_general_one_says(world):
    """Byte for byte, of one server and of the servers of a plan."""
    index, places, radius = world
    placement = dealt(index, 3, "random", np.random.default_rng(0))
    with running(index) as one, several(index, placement, 3) as others:
        for server in (one, others[0]):
            with Asker(server) as asker:
                for path, more in targets(index, places[:12], radius):
                    general = f"{path}&{target('', **more)[1:]}"
                    short, long = asker.raw(path), asker.raw(general)
                    assert (short[0], short[2]) == (200, long[2]), path
        assert len(one.heard.hot_answers) > 60
