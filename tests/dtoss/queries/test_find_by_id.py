"""Finding an object by its id: all of them, none else, whatever ids are and however many partitions there are."""

from __future__ import annotations

import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.id_filter import filter_of_ids
from tests.dtoss.scenes import PARTITIONS
from tests.dtoss.snapshots.damaged_stores import stored
from tests.examples import examples
from tests.format_checks import word_and_bits

LARGEST = 2**63 - 1
NUMBERS = st.one_of(st.integers(-5, 60), st.integers(-LARGEST - 1, LARGEST), st.sampled_from([LARGEST, -LARGEST - 1]))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def check(index, ids, positions, absent):
    for row, one in enumerate(ids):
        place = index.place_of(one)
        site = place.partition.sites[place.site]
        assert index[one]["id"] == one
        assert [index[one]["lon"], index[one]["lat"]] == positions[row].tolist()
        assert place.item < place.partition.owned_objects
        assert site.tolist() == index.space.vectors(positions[row][None])[0].tolist()
        assert one in index
    for one in absent:
        assert one not in index
        with pytest.raises(KeyError, match="no object has the id"):
            index[one]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.one_of(st.lists(NUMBERS, max_size=30, unique=True), st.lists(TEXTS, max_size=30, unique=True)),
    st.sampled_from(PARTITIONS), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_every_object_and_no_other(ids, partitions, seed):
    """Numbers as far apart as there are, texts of any letters and none; several on a place; replicas are not found."""
    rng = np.random.default_rng(seed)
    positions = rng.integers(-4, 5, (len(ids), 2)) * 10.0
    texts = bool(ids) and isinstance(ids[0], str)
    index = dtoss.build(np.array(ids, object if texts else np.int64), positions, partitions=partitions, reach=0.4)
    absent = {-6, 61, 2**63, -(2**63) - 1, 10**30, "", "é", "\ud800"} - set(ids)
    check(index, ids, positions, [one for one in absent if isinstance(one, str if texts else (int, str))])


def test_numbers_of_other_types():
    """What equals an id is one, but for truth values and floating point numbers, as ever."""
    index = dtoss.build(np.array([0, 1, 3, LARGEST]), [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], partitions=2)
    for one in (np.int64(3), np.uint8(3), np.int32(3), Decimal(3), Fraction(3), np.uint64(LARGEST), np.float32(3)):
        assert one in index
    for one in (3.0, True, False, "3", b"3", np.float64(3), Decimal("3.5"), Fraction(7, 2), np.uint64(2**63)):
        assert one not in index
    assert None not in index


def test_texts_of_other_types():
    index = dtoss.build(np.array(["a", "b\0", "é"], object), [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], partitions=2)
    for one in ("a", np.str_("a"), "b\0", "é"):
        assert one in index
    for one in ("b", "a\0", "e\u0301", b"a", 0, None, ("a",)):
        assert one not in index


@pytest.mark.parametrize("texts", [False, True])
def test_a_filter_that_lets_all_pass(texts):
    """As if all ids had one hash: each partition is searched, and the answers stay."""
    numbers = np.random.default_rng(0).permutation(120) - 60
    ids = [f"n{i}"[i % 2 :] for i in numbers] if texts else numbers.tolist()
    positions = np.random.default_rng(1).uniform(-50, 50, (120, 2))
    index = dtoss.build(np.array(ids, object if texts else np.int64), positions, partitions=7)
    for part in index.parts.all():
        part.id_filter[:] = 2**64 - 1
    check(index, ids, positions, ["n", "m0", "n120"] if texts else [-61, 60, 2**40])


@pytest.mark.parametrize("texts", [False, True])
def test_a_filter_keeps_out_what_is_not_there(texts):
    """An id that is not there passes once in 200 times; none of those that are is kept out."""
    held = range(0, 100_000, 10)
    named = [f"taxi {i}" for i in held] if texts else list(held)
    words = filter_of_ids(pa.array(named, pa.large_string()) if texts else np.array(named))

    def passes(one):
        word, bits = word_and_bits(one, len(words))
        return int(words[word]) & bits == bits

    assert all(map(passes, named))
    others = [f"taxi {i + 1}" for i in held] if texts else [i + 1 for i in held]
    assert sum(map(passes, others)) < 0.01 * len(others)


def test_nothing_is_opened_for_what_cannot_be_an_id(tmp_path):
    """And all partitions are for the first that can, as ever."""
    positions = np.random.default_rng(2).uniform(-50, 50, (90, 2))
    index = dtoss.open(stored(dtoss.build(np.arange(90), positions, partitions=5), tmp_path))
    for one in ("7", 7.0, True):
        assert one not in index
    assert index.parts.table.partitions == (None,) * 5
    assert 7 in index
    assert None not in index.parts.table.partitions


def test_threads_look_at_once(tmp_path):
    """The order is made by any of them."""
    positions = np.random.default_rng(2).uniform(-50, 50, (900, 2))
    index = dtoss.open(stored(dtoss.build(np.arange(900), positions, partitions=5), tmp_path))
    right, begin = [], threading.Barrier(5)

    def look(turn):
        begin.wait()
        right.append(all(index[one]["lon"] == positions[one, 0] for one in range(turn, 900, 5)))

    callers = [threading.Thread(target=look, args=(turn,)) for turn in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert right == [True] * 5
