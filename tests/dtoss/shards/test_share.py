"""Servers that hold shares of a snapshot answer together as the whole index does, bit for bit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtoss
from dtoss.kinds.alone import table_of
from dtoss.kinds.hit_tables import last_distance, merge_hits
from dtoss.kinds.kind import Search
from dtoss.kinds.nearest_to import REVERSE_NEAREST
from dtoss.shards.merge_answers import AT_HOMES, COUNTED_BY_SHARES, ShareQuestion, Together, answered_by
from dtoss.shards.share import Share, held_index
from tests.examples import examples

EARTH = 2.0e7


def worlds():
    """Indexes of few and of many partitions, on the sphere and in the plane, with ties, crowds and strings."""
    rng = np.random.default_rng(0)
    towns = np.stack([rng.uniform(-180, 180, 40), rng.uniform(-80, 80, 40)], axis=1)
    crowd = towns[rng.integers(0, 40, 4_000)] + rng.normal(0, 0.3, (4_000, 2))
    crowd = np.round(np.stack([(crowd[:, 0] + 180) % 360 - 180, crowd[:, 1]], axis=1), 2)
    ends = [[180.0, 0.0], [-180.0, 0.0], [0.0, 90.0], [77.0, 90.0], [0.0, -90.0], [179.99, 10.0]]
    crowd = np.concatenate([crowd, ends, ends])
    plane = np.round(rng.normal(0, 1e3, (3_000, 2)), 0)
    ids = [f"ö{one}" for one in rng.permutation(len(plane))]
    size = rng.integers(0, 9, len(crowd))
    return {
        "sphere": dtoss.build(np.arange(len(crowd)), crowd, partitions=64, columns={"size": size}, seed=1),
        "seven": dtoss.build(np.arange(len(crowd)), crowd, partitions=7, columns={"size": size}, seed=2),
        "plane": dtoss.build(ids, plane, crs="EPSG:3857", partitions=16, columns={"size": size[:3_000]}, seed=1),
        "few": dtoss.build(np.arange(5), crowd[:5], partitions=5, columns={"size": size[:5]}, seed=1),
        "one": dtoss.build(np.arange(30), crowd[:30], partitions=1, columns={"size": size[:30]}, seed=1),
    }


@pytest.fixture(scope="module")
def made():
    """The indexes."""
    return worlds()


class Servers:
    """Shares of an index, and how often each is asked."""

    def __init__(self, index, server_of, copies=()):
        self.server_of = np.asarray(server_of)
        count = int(self.server_of.max()) + 1
        held = [set(np.flatnonzero(self.server_of == one).tolist()) for one in range(count)]
        for server, part in copies:
            held[server].add(part)
        self.index, self.shares = index, [Share(index, one) for one in held]
        self.asked = []

    async def ask(self, asks):
        """Ask servers for their parts of an answer."""
        self.asked += [(server, len(getattr(one, "asked", one.__dict__.get("positions", ())))) for server, one in asks]
        return [answered_by(self.shares[server], one) for server, one in asks]

    def as_seen(self, server=0):
        """Return all servers as one of them sees them."""
        return Together(self.shares[server], server, self.server_of, self.ask)


def places_of(index, rng, count):
    """Places near objects, far from all, at poles and on the antimeridian."""
    if not index.space.geographic:
        return rng.normal(0, 1_500, (count, 2))
    near = index.parts[int(rng.integers(len(index.parts)))].positions
    some = [[180.0, 1.0], [-180.0, 1.0], [0.0, 90.0], [10.0, -90.0], [179.999, 10.0]]
    anywhere = np.stack([rng.uniform(-180, 180, count), rng.uniform(-90, 90, count)], axis=1)
    if len(near):
        close = near[rng.integers(0, len(near), count)] + rng.normal(0, 0.01, (count, 2))
        close = np.stack([(close[:, 0] + 180) % 360 - 180, np.clip(close[:, 1], -90, 90)], axis=1)
        anywhere = np.where(rng.random(count)[:, None] < 0.6, close, anywhere)
    return np.concatenate([anywhere, some])


def drawn(index, rng, count=40):
    """A question of any kind."""
    positions = places_of(index, rng, count)
    k = int(rng.choice([0, 1, 2, 8, 32, 100]))
    scale = EARTH if index.space.geographic else 4_000.0
    radius = scale * rng.choice([0.0, 1e-4, 1e-2, 0.3, 1.1], len(positions)) * rng.uniform(0.5, 1, len(positions))
    if k and rng.random() < 0.6:
        radius = np.full(len(positions), np.inf)
    where = rng.choice([None, None, "size > 6", "size > 100"])
    columns = () if rng.random() < 0.5 else ("size",)
    having = rng.choice([None, None, "size < 4"])
    return Search(positions, radius, k, where, columns, having)


DEAR = ("sphere", "plane")
NAMES, KINDS = ("sphere", "seven", "plane", "few", "one"), ("random", "contiguous", "copies", "one has none")
OTHERS = pytest.mark.deep("the same large world and way of dealing with the other number of servers")


@pytest.mark.parametrize(
    ("name", "servers", "kind"),
    [
        pytest.param(name, servers, kind, marks=OTHERS if name in DEAR and (world + way) % 2 == (servers == 5) else ())
        for (world, name), servers, (way, kind) in product(enumerate(NAMES), (2, 5), enumerate(KINDS))
    ],
)
def test_servers_answer_together_as_one_index(made, name, servers, kind):
    """Places near and far, poles, the antimeridian, ties, radii from 0 to half the Earth, conditions, columns."""
    index = made[name]
    rng = np.random.default_rng(servers)
    count = len(index.parts)
    server_of = rng.integers(0, servers, count) if kind != "contiguous" else np.arange(count) * servers // count
    if kind == "one has none":
        server_of = np.minimum(server_of, max(servers - 2, 0))
    copies = [(int(rng.integers(servers)), int(rng.integers(count))) for _ in range(count)] if kind == "copies" else []
    copies = [(server, part) for server, part in copies if server <= server_of.max()]
    together = Servers(index, server_of, copies)
    for _ in range(examples(4, 2)):
        asked = drawn(index, rng)
        seen = together.as_seen(int(rng.integers(len(together.shares))))
        assert asyncio.run(seen.hits(asked)).equals(table_of(index.engine, asked)), asked
        far = np.where(np.isinf(asked.radius), 1e4, asked.radius)
        counts = index.search(asked.positions, far, -1, asked.where).count
        assert asyncio.run(seen.counts(replace(asked, radius=far))).tolist() == counts.tolist(), asked
        question = REVERSE_NEAREST.question(asked.positions, {})
        found, wanted = asyncio.run(REVERSE_NEAREST.rows(seen, question)), index.reverse_nearest(asked.positions)
        for name, values in (("query", wanted.query), ("id", wanted.id), ("distance", wanted.distance)):
            assert found.column(name).to_pylist() == values.tolist(), asked


def test_who_is_as_near_to_another_object_is_not_nearest_to_a_place():
    """Two objects of two servers, asked for at a place that is as near to the one as the other object is."""
    index = dtoss.build([7, 8], [[0.0, 0.0], [2.0, 0.0]], crs="none", partitions=2)
    servers = Servers(index, np.arange(len(index.parts)))
    places = np.array([[-2.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [4.0, 0.0]])
    asked = REVERSE_NEAREST.question(places, {})
    told = asyncio.run(REVERSE_NEAREST.rows(servers.as_seen(), asked))
    assert told["query"].to_pylist() == [1, 2, 2]
    assert told["id"].to_pylist() == [7, 7, 8]
    assert list(index.reverse_nearest(places).id) == [7, 7, 8]


def test_places_near_objects_are_mostly_answered_by_one_server(made):
    """Of two servers and of five; contiguous ones less than random ones."""
    index = made["seven"]
    rng = np.random.default_rng(3)
    near = np.concatenate([index.parts[number].positions for number in range(7)])
    positions = near[rng.integers(0, len(near), 2_000)]
    asked = Search(positions, np.full(len(positions), np.inf), 8)
    together = Servers(index, np.arange(7) % 5)
    asyncio.run(together.as_seen().hits(asked))
    others = sum(count for _, count in together.asked) - len(positions)
    assert others < 0.2 * len(positions)


def test_a_share_opens_nothing_that_it_does_not_hold(made):
    """Nor answers for it."""
    index = made["sphere"]
    held = held_index(index, [3, 9])
    assert len(held) == sum(index.parts.facts[number].objects for number in (3, 9))
    share = Share(index, [3, 9])
    place = index.parts[20].positions[:1]
    asked = Search(place, np.array([np.inf]), 3)
    with pytest.raises(KeyError, match="partition 20 is not held"):
        answered_by(share, ShareQuestion(COUNTED_BY_SHARES, Search(place, np.array([1.0]), 0), (3, 20)))
    with pytest.raises(KeyError, match="is not held here"):
        answered_by(share, ShareQuestion(AT_HOMES, asked, (3,)))
    none = held_index(index, [])
    assert len(none) == 0
    assert len(none.knn(place, 5)) == 0
    assert none.count(place, 1e7).tolist() == [0]
    assert len(held.knn(place, 5, where="size > 3")) <= 5


@given(
    st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 9)), st.integers(0, 5), max_size=40),
    st.integers(1, 4), st.integers(0, 4), st.randoms(use_true_random=False),
)  # fmt: skip
def test_any_split_among_servers_is_merged_to_the_same(hits, servers, k, random):
    """With ties, and with hits that two servers tell."""
    hits = [(query, float(distance), one) for (query, one), distance in hits.items()]

    def table(some):
        columns = list(zip(*some, strict=True)) or [[], [], []]
        return pa.table(
            {"query": pa.array(columns[0], pa.int64()), "id": pa.array(columns[2], pa.int64()),
             "distance": pa.array(columns[1], pa.float64())}
        )  # fmt: skip

    parts = [[] for _ in range(servers)]
    for hit in hits:
        for server in {random.randrange(servers), random.randrange(servers)}:
            parts[server].append(hit)
    wanted = []
    for query in range(4):
        mine = sorted(hit for hit in hits if hit[0] == query)
        wanted += mine[: k or None]
    found = merge_hits([table(sorted(part)) for part in parts], k)
    rows = zip(*(found.column(name).to_pylist() for name in ("query", "distance", "id")), strict=True)
    assert list(rows) == wanted
    if k:
        have = [sorted(hit[1] for hit in hits if hit[0] == query) for query in range(4)]
        kth = [some[k - 1] if len(some) >= k else np.inf for some in have]
        assert last_distance(found, 4, k).tolist() == kth
