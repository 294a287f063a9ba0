"""Classes of attributes: how they are cut, what they are called, and which values they hold."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoss.tiles.classes import MOST_CLASSES, UNKNOWN, classes_of

BEGIN = 1_767_225_600


def found(values, kind=None):
    """Labels, and the class of each value."""
    column = pa.array(values, kind)
    classes = classes_of(column)
    return classes.labels, classes.of(column).tolist()


@given(st.lists(st.none() | st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan]) | st.floats(-1e300, 1e300)))
def test_classes_of_numbers_are_intervals_that_hold_all(values):
    """In order, equal values together, none empty, at most eight, and nothing of what is no number."""
    labels, classes = found(values, pa.float64())
    assert len(labels) <= MOST_CLASSES
    known = [(value, one) for value, one in zip(values, classes, strict=True) if value is not None and value == value]
    assert {one for value, one in zip(values, classes, strict=True) if value is None or value != value} <= {UNKNOWN}
    assert {one for _, one in known} == set(range(len(labels)))
    known.sort()
    assert [one for _, one in known] == sorted(one for _, one in known)
    by_value = {}
    assert all(by_value.setdefault(value, one) == one for value, one in known)
    assert len(labels) == min(len(by_value), MOST_CLASSES) or len(by_value) > MOST_CLASSES


def test_classes_hold_about_as_many_each():
    rng = np.random.default_rng(0)
    labels, classes = found(rng.normal(0, 5, 8_000).tolist())
    assert list(Counter(classes).values()) == [1_000] * MOST_CLASSES
    assert labels[0].startswith("-")
    assert all(" to " in label for label in labels)


def test_one_value_that_most_objects_have_is_a_class_of_its_own():
    """The others share what is left."""
    values = [0] * 9_000 + list(range(1, 701))
    labels, classes = found(values)
    assert labels == ("0", "1 to 100", *(f"{100 * i + 1} to {100 * i + 100}" for i in range(1, 7)))
    assert Counter(classes) == {0: 9_000} | dict.fromkeys(range(1, 8), 100)


@pytest.mark.parametrize(
    ("values", "kind", "labels", "classes"),
    [
        ([3, 1, None, 3, 2], pa.int8(), ("1", "2", "3"), [2, 0, UNKNOWN, 2, 1]),
        ([2**63 - 1, -(2**63)], pa.int64(), ("-9.223e+18", "9.223e+18"), [1, 0]),
        ([1.5, 1e20, np.inf], pa.float32(), ("1.5", "1e+20", "inf"), [0, 1, 2]),
        ([Decimal("1.25"), Decimal("2.00")], pa.decimal128(5, 2), ("1.25", "2"), [0, 1]),
        ([1_234_567], pa.uint64(), ("1,234,567",), [0]),
        ([True, None, False], pa.bool_(), ("false", "true"), [1, UNKNOWN, 0]),
        ([None, None], pa.int64(), (), [UNKNOWN] * 2),
        ([None, None], pa.string(), (), [UNKNOWN] * 2),
        ([], pa.float64(), (), []),
        ([b"a"], pa.binary(), (), [UNKNOWN]),
        ([[1]], pa.list_(pa.int64()), (), [UNKNOWN]),
        (["b", "a", None, "b"], pa.string(), ("b", "a"), [0, 1, UNKNOWN, 0]),
        (["b", "a"], pa.dictionary(pa.int32(), pa.string()), ("a", "b"), [1, 0]),
        (["x" * 50, "<img onerror>"], pa.large_string(), ("<img onerror>", "x" * 39 + "…"), [1, 0]),
        ([datetime.date(2026, 1, 3), datetime.date(2026, 1, 1)], pa.date32(), ("0 s", "2 days"), [0, 1]),
    ],
)
def test_types_of_all_kinds_have_classes(values, kind, labels, classes):
    assert found(values, kind) == (labels, classes)


def test_of_many_texts_the_most_frequent_have_classes():
    """Ties go to the lower; all others are one class."""
    values = ["z"] * 5 + ["é"] * 3 + [f"t{i}" for i in range(9, -1, -1)]
    labels, classes = found(values)
    assert labels == ("z", "é", "t0", "t1", "t2", "t3", "t4", "other")
    assert classes == [0] * 5 + [1] * 3 + [7] * 5 + [6, 5, 4, 3, 2]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_times_are_classed_by_their_age(unit, zone):
    """The newest first: what is newer than the sample is as new as can be."""
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    kind = pa.timestamp(unit, zone)
    ages = [0, 5, 90, 200, 7_200, 10**6]
    column = pa.array([(BEGIN - age) * factor for age in ages], kind)
    classes = classes_of(column)
    assert classes.labels == ("0 s", "5 s", "90 s", "3.33 min", "2 h", "11.6 days")
    assert classes.of(column).tolist() == [0, 1, 2, 3, 4, 5]
    others = pa.array([(BEGIN + 60) * factor, None, (BEGIN - 100) * factor, (BEGIN - 10**8) * factor], kind)
    assert classes.of(others).tolist() == [0, UNKNOWN, 2, 5]
    many = classes_of(pa.array([(BEGIN + second) * factor for second in range(800)], kind))
    assert many.labels[:2] == ("0 s to 99 s", "100 s to 3.32 min")
