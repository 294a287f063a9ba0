"""Ids of any type that is of use become whole numbers or text; others are named."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dtoss
from dtoss.ids import LARGEST, as_ids, id_kind


@pytest.mark.parametrize(
    "ids",
    [
        np.array([2**63 - 1, 7], dtype=np.uint64),
        np.array([2**63 - 1, 7], dtype=">u8"),
        pa.array([2**63 - 1, 7], pa.uint64()),
        pa.chunked_array([[2**63 - 1], [7]], pa.uint64()),
        pd.Series([2**63 - 1, 7], dtype="UInt64"),
        pd.Index([2**63 - 1, 7]),
        [np.uint64(2**63 - 1), 7],
        (2**63 - 1, 7),
    ],
)
def test_whole_numbers_below_2_63_are_ids(ids):
    """Of whatever width and sign their type has."""
    found = as_ids(ids)
    assert found.dtype == np.int64
    assert found.tolist() == [LARGEST, 7]
    assert dtoss.build(ids, [[0.0, 0.0], [9.0, 9.0]]).knn([1.0, 1.0]).id.tolist() == [LARGEST]


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["b", "a"], pa.string_view()),
        pa.array(["b", "a"]).dictionary_encode(),
        pd.Series(["b", "a"], dtype="category"),
        pd.Series(["b", "a"], index=[5, 4]),
        np.array(["b", "a"]),
    ],
)
def test_text_of_any_kind_is_an_id(ids):
    """Also dictionaries and categories."""
    assert as_ids(ids).equals(pa.array(["b", "a"], pa.large_string()))


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([2**70, 1], f"id {2**70} does not fit in a signed 64-bit integer .*use strings"),
        ([1, -(2**63) - 1], f"id {-(2**63) - 1} does not fit"),
        ([-1, 2**63], f"id {2**63} does not fit"),
        (pd.Series([2**70, 1]), f"id {2**70} does not fit"),
        (np.array([1, 2**63], dtype=np.uint64), f"id {2**63} does not fit"),
        (pa.array([1, 2**63], pa.uint64()), f"id {2**63} does not fit"),
        (pa.array([1], pa.decimal128(20, 0)), r"of type decimal128\(20, 0\)"),
        (pa.array([1.0]), "of type double"),
        (pa.array([1.0]).dictionary_encode(), "of type double"),
        (np.array([1.0]), "of type double"),
        ([True, False], "of type bool"),
        (pd.Series(pd.to_datetime(["2024-01-01"])), r"of type timestamp\[[nu]s\]"),
        (pd.Series([1.0, np.nan]), "1 ids are missing"),
        (pd.Series([1, None], dtype="Int64"), "1 ids are missing"),
        (pd.Series([1, "a"]), "mixture"),
        ({1, 2}, r"shape \(\)"),
        ([[1], [2]], r"shape \(2, 1\)"),
    ],
)
def test_what_is_no_id_is_named(ids, words):
    """A ValueError with the value or the type that was given."""
    with pytest.raises(ValueError, match=words):
        as_ids(ids)


def test_no_ids_are_whole_numbers():
    """Whatever type libraries give an empty list."""
    for ids in ([], (), pd.Series([]), np.array([]), pa.array([]), pa.array([], pa.float64())):
        assert as_ids(ids).dtype == np.int64


def test_types_of_ids():
    """The question that a reader of files asks before it reads."""
    assert {id_kind(kind) for kind in (pa.int8(), pa.uint32(), pa.uint64(), pa.int64())} == {"int64"}
    assert {id_kind(kind) for kind in (pa.string(), pa.large_string(), pa.string_view())} == {"string"}
    with pytest.raises(ValueError, match=r"ids are of type date32\[day\]"):
        id_kind(pa.date32())
