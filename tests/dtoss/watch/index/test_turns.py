"""The order of ids of two indexes: that of all of them sorted by their bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.watch.index.large_and_small import turns_of

pytestmark = pytest.mark.checked

ids = st.lists(st.text(st.sampled_from("ab\u00fc\U0001f600"), max_size=4), unique=True, max_size=20)


@settings(deadline=None)
@given(ids, ids, st.integers(0, 3))
def test_places_are_those_of_all_ids_sorted(large, small, cut):
    """Also of slices of longer columns; where both have an id, the small one's comes first."""
    large, small = (sorted(some, key=str.encode) for some in (large, small))
    found = turns_of(pa.array(["x"] * cut + large, pa.string())[cut:], pa.array(small + ["x"] * cut)[: len(small)])
    keys = [(one.encode(), 1) for one in large] + [(one.encode(), 0) for one in small]
    assert found.tolist() == [sorted(keys).index(key) for key in keys]
