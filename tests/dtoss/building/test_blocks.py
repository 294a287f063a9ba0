"""Blocks and what works on sixteen numbers at once, against the obvious way."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

import dtoss
from dtoss.compiled.lanes16 import LANES, append_flagged, append_names, at_most, ball_meets, gaps_plane, gaps_sphere
from dtoss.compiled.pointers import pointer
from dtoss.compiled.rank_sort import RANKED, sort_keys
from dtoss.geometry.distance import distance
from dtoss.partition import BLOCK
from dtoss.queries.kernels.hit_writing import RINGS, ring_sort
from tests.dtoss.strategies import lonlat, planar
from tests.examples import examples

SEVERAL = "import tests.dtoss.building.test_blocks as t; t.check_lanes(200)"


@njit
def _near(values, bound):
    return at_most(pointer(values), bound)


@njit
def _names(flags, first, out):
    return append_names(flags, first, pointer(out))


@njit
def _meets(ball, place, reach):
    return ball_meets(pointer(ball), place[0], place[1], place[2], reach)


@njit
def _flagged(flags, values, first, out, names):
    return append_flagged(flags, pointer(values), first, pointer(out), pointer(names))


@njit
def _gaps(sites, place, out):
    if sites.shape[1] == 2:
        gaps_plane(pointer(sites), place[0], place[1], pointer(out))
    else:
        gaps_sphere(pointer(sites), place[0], place[1], place[2], pointer(out))


@njit
def _sorted(keys, n, out):
    sort_keys(pointer(keys), n, pointer(out))


@njit
def _rings(values, keys, ordered, counts):
    ring_sort(pointer(values), values.size, pointer(keys), pointer(ordered), pointer(counts))


def check_lanes(times):
    """Hold the operations on sixteen numbers equal to numpy's, bit for bit."""
    rng = np.random.default_rng(3)
    for _ in range(times):
        values = rng.choice([0.0, 0.5, 1.0, rng.uniform(), np.nan, np.inf], LANES)
        bound, first = rng.choice([0.0, 0.5, rng.uniform()]), int(rng.integers(1000)) * LANES
        out, names = np.zeros(2 * LANES, np.int64), np.zeros(2 * LANES, np.int64)
        near = np.flatnonzero(values <= bound)
        flags = _near(values, bound)
        assert flags == sum(1 << i for i in near)
        assert out[: _names(flags, first, out)].tolist() == (first + near).tolist()
        ball, at, reach = rng.normal(size=4), rng.normal(size=3), rng.choice([0.0, rng.uniform(0, 3)])
        x, y, z = ball[:3] - at
        far = reach + ball[3]
        assert _meets(ball, at, reach) == (not np.signbit(far * far - (x * x + y * y + z * z)))
        flags, floats = int(rng.integers(1 << LANES)), np.zeros(2 * LANES)
        chosen = [i for i in range(LANES) if flags >> i & 1]
        assert _flagged(flags, values, first, floats, names) == len(chosen)
        np.testing.assert_array_equal(floats[: len(chosen)], values[chosen])
        assert names[: len(chosen)].tolist() == [first + i for i in chosen]
        for dimension in (2, 3):
            sites, place, gaps = rng.normal(size=(LANES, dimension)), rng.normal(size=dimension), np.empty(LANES)
            _gaps(sites, place, gaps)
            d = sites - place
            total = d[:, 0] * d[:, 0] + d[:, 1] * d[:, 1]
            assert gaps.tolist() == (total if dimension == 2 else total + d[:, 2] * d[:, 2]).tolist()


def test_lanes():
    check_lanes(2000)


def test_lanes_of_other_processors():
    """Compiled for processors without the widest registers, or any of them; nothing compiled is kept."""
    for name in ("generic", "haswell"):
        made = os.environ | {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_JIT": "0"}
        done = subprocess.run([sys.executable, "-c", SEVERAL], env=made, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("n", [*range(1, 66), 80, 81, 95, 97, 113, RANKED, RANKED + 1, 1000])
def test_sorted_keys(n):
    """Among them keys as small as those of a query that stands on an object; behind the last may stand anything."""
    rng = np.random.default_rng(n)
    for _ in range(5):
        keys, out = rng.integers(-(2**62), 2**62, 64 + n), np.empty(64 + n, np.int64)
        keys[:n] = rng.permutation(rng.choice(np.r_[np.arange(2 * n), rng.integers(2**62, size=n)], n, replace=False))
        expected = np.sort(keys[:n])
        _sorted(keys, n, out)
        assert out[:n].tolist() == expected.tolist()


def test_networks_sort_all_of_0_and_1():
    """A network that sorts all sequences of 0 and 1 sorts all: a seventh of those of 16, longer ones with one step."""
    for n in (16, 32, 64):
        rows = np.arange(1 << 16)[:, None] >> np.arange(16) & 1 if n == 16 else np.tri(n + 1, n, -1, dtype=np.int64)
        for row in rows if n > 16 else rows[::7]:
            for bits in (row, row[::-1], np.roll(row, n // 3)):
                # keys are distinct: of equal bits the place decides
                keys, out = np.ascontiguousarray(bits * n + np.arange(n)), np.empty(64, np.int64)
                keys = np.r_[keys, np.zeros(64 - n, np.int64)]
                _sorted(keys, n, out)
                assert out[:n].tolist() == sorted(keys[:n].tolist())


@given(
    st.lists(st.sampled_from([0.0, 1.0, 1.0 + 2.0**-52, 2.0, 1e300, 5e-324]) | st.floats(0.0, 1e9), max_size=40),
    st.integers(1, 60),
)
@settings(deadline=None)
def test_hits_in_rings(some, times):
    """Each hit stands once, in the order of what the keys keep of its distance."""
    values = np.array(some * times, dtype=np.float64)
    n = len(values)
    keys, ordered = np.empty(n + LANES, np.int64), np.empty(n, np.int64)
    _rings(values, keys, ordered, np.empty(RINGS + 1, np.int64))
    names = (1 << max(n - 1, 1).bit_length()) - 1
    rows = ordered & names
    assert sorted(rows.tolist()) == list(range(n))
    kept = values.view(np.int64) & ~names
    assert rows.tolist() == np.lexsort((np.arange(n), kept)).tolist()


@given(data=st.data())
@settings(deadline=None, max_examples=examples(60))
def test_blocks_of_any_partition(data):
    """Balls hold their sites; two blocks are neighbours where sites of theirs are, and both say so."""
    plane = data.draw(st.booleans())
    positions = data.draw(planar(150) if plane else lonlat(150))
    index = dtoss.build(
        np.arange(len(positions)),
        positions,
        crs="none" if plane else None,
        partitions=data.draw(st.sampled_from([1, 2, 7])),
    )
    for part in index.parts.all():
        blocks, n = part.blocks, len(part.sites)
        assert len(blocks.balls) == -(-n // BLOCK)
        centres = blocks.balls[:, : part.sites.shape[1]]
        home = np.arange(n) // BLOCK
        assert (np.sqrt(((part.sites - centres[home]) ** 2).sum(axis=1)) <= blocks.balls[home, 3]).all()
        links = {
            (i // BLOCK, int(j) // BLOCK)
            for i in range(n)
            for j in part.graph.neighbours[part.graph.first[i] : part.graph.first[i + 1]]
            if i // BLOCK != j // BLOCK
        }
        listed = [
            (b, int(other))
            for b in range(len(blocks.balls))
            for other in blocks.neighbours[blocks.first[b] : blocks.first[b + 1]]
        ]
        assert len(listed) == len(set(listed))
        assert set(listed) == links


def test_many_at_one_distance():
    """More ties than a guess expects: rings of objects about a place, asked for in a batch and one by one."""
    angle = np.radians(np.arange(0.0, 360.0, 0.5))
    rings = np.concatenate([[[r * np.cos(a), r * np.sin(a)] for a in angle] for r in (1.0, 2.0, 50.0)])
    index = dtoss.build(np.arange(len(rings)), rings, crs="none")
    far = distance(rings, np.zeros(2))
    expected = np.lexsort((np.arange(len(rings)), far))
    for k in (1, 5, 719, 721, 1500, len(rings)):
        for copies in (1, 40):
            hits = index.knn(np.zeros((copies, 2)), k)
            assert hits.id.reshape(copies, k).tolist() == [expected[:k].tolist()] * copies
