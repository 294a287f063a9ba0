"""The order of ids in a partition: that of Python's numbers, and of texts by their bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.id_filter import order_of_ids
from tests.dtoss.scenes import PARTITIONS
from tests.examples import examples

EDGE = 2**63
NUMBERS = st.one_of(st.integers(-9, 9), st.integers(-EDGE, EDGE - 1), st.sampled_from([-EDGE, EDGE - 1]))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@settings(max_examples=examples(80), deadline=None)
@given(st.one_of(st.lists(NUMBERS, max_size=40), st.lists(TEXTS, max_size=40)))
def test_the_order_is_that_of_python(ids):
    """Equal ones as they stand; none, one, negative ones, the furthest there are, and texts of no letters."""
    texts = bool(ids) and isinstance(ids[0], str)
    held = pa.array(ids, pa.large_string()) if texts else np.array(ids, np.int64)
    found = order_of_ids(held)
    key = str.encode if texts else int
    assert found.dtype == np.int32
    assert found.tolist() == sorted(range(len(ids)), key=lambda i: key(ids[i]))


@pytest.mark.parametrize("count", PARTITIONS)
@pytest.mark.parametrize("texts", [False, True])
def test_a_partition_orders_what_it_owns(count, texts):
    """Its replicas are not in it; an empty partition orders nothing."""
    rng = np.random.default_rng(count)
    positions = rng.normal([10.0, 50.0], 0.3, (150, 2)).round(1)
    ids = rng.permutation(150) - 75
    held = np.array([f"é{one}"[one % 2 :] for one in ids], object) if texts else ids
    index = dtoss.build(held, positions, partitions=count, reach=0.01)
    assert count == 1 or sum(len(part.positions) - part.owned_objects for part in index.parts.all())
    for part in index.parts.all():
        own = (part.ids.to_pylist() if texts else part.ids.tolist())[: part.owned_objects]
        assert [own[i] for i in part.id_order] == sorted(own)
        assert part.times is None
