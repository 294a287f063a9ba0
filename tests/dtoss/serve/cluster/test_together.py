"""Servers that hold shares answer every question together as one that holds all does, byte for byte."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import product

import numpy as np
import pytest

import dtoss
from dtoss.serve.requests.bundles import hot_bodies
from dtoss.serve.requests.hot_requests import SIZE_OF_K
from tests.dtoss.serve.cluster.several import answers_of, dealt, place_of, question, several
from tests.dtoss.serve.served import Asker, running, served_of, until
from tests.examples import examples


def world(kind):
    """128 partitions on the sphere or in the plane, with ties, crowds and shared places; or 16 without."""
    rng = np.random.default_rng(0)
    if kind == "evenly":
        positions = np.round(rng.uniform([-170, -60], [170, 60], (4_000, 2)), 3)
        columns = {"size": rng.integers(0, 9, 4_000)}
        return dtoss.build(np.arange(4_000), positions, partitions=16, columns=columns, seed=0)
    if kind == "plane":
        positions, crs = np.round(rng.normal(0, 1e3, (5_000, 2)), 0), "EPSG:3857"
    else:
        towns = np.stack([rng.uniform(-180, 180, 50), rng.uniform(-80, 80, 50)], axis=1)
        positions = towns[rng.integers(0, 50, 6_000)] + rng.normal(0, 0.3, (6_000, 2))
        positions = np.round(np.stack([(positions[:, 0] + 180) % 360 - 180, positions[:, 1]], axis=1), 2)
        ends = [[180.0, 0.0], [-180.0, 0.0], [0.0, 90.0], [77.0, 90.0], [0.0, -90.0], [179.99, 10.0]]
        positions, crs = np.concatenate([positions, ends, ends]), None
    count = len(positions)
    return dtoss.build(
        np.arange(count), positions, crs=crs, partitions=128, columns={"size": rng.integers(0, 9, count)}, seed=1
    )


@pytest.fixture(scope="module")
def worlds():
    """The indexes, each made once."""
    return {kind: world(kind) for kind in ("sphere", "plane", "evenly")}


KINDS, SERVERS = ("sphere", "plane", "evenly"), (2, 5)
PLACED = ("random", "contiguous", "copies", "one has none")
FEW = {
    ("sphere", 2, "contiguous"), ("sphere", 2, "random"), ("plane", 5, "copies"), ("evenly", 2, "one has none"),
}  # fmt: skip
"""Each world, two and five servers, and each way of placing."""
ALL_OTHERS = pytest.mark.deep("the same questions in other pairs of a world and a placement")


@pytest.mark.parametrize(
    ("kind", "servers", "placed"),
    [pytest.param(*one, marks=() if one in FEW else ALL_OTHERS) for one in product(KINDS, SERVERS, PLACED)],
)
def test_every_question_has_the_answer_of_one_server(worlds, kind, servers, placed):
    """Places near and far, poles, the antimeridian, conditions, columns, pages, shapes, ids, many at a time."""
    index, rng = worlds[kind], np.random.default_rng(servers)
    placement = dealt(index, servers, placed, rng)
    with (
        running(index) as alone,
        several(index, placement, servers) as together,
        Asker(alone) as whole,
        ExitStack() as stack,
    ):
        askers = [stack.enter_context(Asker(one)) for one in together]
        for server in together:
            until(lambda server=server: len(server.state.circle.said) == servers - 1)
            server.heard.forwards.clear()
        for _ in range(examples(60, 20)):
            one = question(index, rng, "size")
            wanted, *found = answers_of([whole, *askers[:: max(servers // 2, 1)]], one)
            assert all(answer == wanted for answer in found), (one, wanted, found)
        if (placed, servers) != ("copies", 2):  # where each holds all
            assert sum(server.heard.forwards["gathered"] for server in together) > 0
        assert sum(server.heard.forwards["failed"] for server in together) == 0
        if placed != "copies":  # a copy is asked where a server takes its time, as on a busy machine
            assert not [event for server in together for event in server.heard.events]


@pytest.mark.parametrize("kind", ["sphere", "plane", "evenly"])
def test_what_a_share_answers_by_itself_is_the_whole_answer(worlds, kind):
    """For each k, which is searched for as a larger one, and each radius: else there is no answer from it."""
    index, rng = worlds[kind], np.random.default_rng(5)
    held = rng.permutation(len(index.parts))[: len(index.parts) // 2]
    whole, share = served_of(index), served_of(index, held=held.tolist())
    answered = 0
    for _ in range(60):
        k = rng.integers(1, 65, 32).tolist()
        places = np.array([place_of(index, rng) for _ in k], float)
        scale = 2e7 if index.space.geographic else 4_000.0
        radius = np.where(rng.random(32) < 0.5, np.inf, scale * rng.choice([1e-4, 1e-2, 0.3], 32))
        for nearest, size in ((True, SIZE_OF_K[max(k)]), (False, 64)):
            far = radius if nearest else np.minimum(radius, scale / 100)
            where = rng.choice([None, "size > 6"])
            for one in (whole, share):
                if where is not None:
                    one.conditions.get(str(where))
            asked = (nearest, size, None if where is None else str(where), places, far, k)
            wanted, found = hot_bodies(whole, *asked)[0], hot_bodies(share, *asked)[0]
            assert all(body in (None, right) for body, right in zip(found, wanted, strict=True))
            answered += sum(body is not None for body in found)
    assert answered > 600
