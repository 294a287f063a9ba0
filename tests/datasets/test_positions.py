import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.tables.legal_positions import Numbers, judge, look_swapped, numbers, pair, wkt
from datasets.uniform import uniform_sphere

COORDINATE = st.floats(-1_000, 1_000) | st.sampled_from([np.nan, 180.0, -180.0, 90.0, 181.0, 91.0])


def plain(values):
    values = np.array(values, dtype=np.float64)
    none = np.zeros(len(values), dtype=bool)
    return Numbers(values, none, none)


def reasons(lon, lat):
    found = {reason: rows.nonzero()[0].tolist() for reason, rows in judge(lon, lat).items()}
    return {reason: rows for reason, rows in found.items() if rows}


def test_numbers_in_the_notations_of_csv_files():
    texts = ["1.5", " -2 ", "+3", "1e2", "", None, "nan", "NULL", "\\N", "x", "1,5", "0x10", "inf", "1_0"]
    found = numbers(pa.array(texts))
    assert found.value[:4].tolist() == [1.5, -2, 3, 100]
    assert found.missing.nonzero()[0].tolist() == [4, 5, 6, 7, 8]
    assert found.unreadable.nonzero()[0].tolist() == [9, 10, 11, 12, 13]
    assert numbers(pa.array(["1,5", "-0,25"]), decimal=",").value.tolist() == [1.5, -0.25]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_numbers_are_exact(values):
    texts = [repr(value) for value in values]
    assert numbers(pa.array(texts, pa.string())).value.tolist() == values
    assert numbers(pa.array([*texts, "x"])).value[:-1].tolist() == values


def test_two_numbers_in_one_field():
    texts = ["38.74 -90.37", "38.74,-90.37", " (38.74; -90.37) ", "38.74", "", "a b", "1 2 3"]
    first, second = pair(pa.array(texts))
    assert first.value[:3].tolist() == [38.74] * 3
    assert second.value[:3].tolist() == [-90.37] * 3
    assert first.unreadable.nonzero()[0].tolist() == [3, 5, 6]
    assert first.missing.nonzero()[0].tolist() == [4]


def test_well_known_text():
    good = ["POINT(-74.25 40.5)", " point ( -74.25  40.5 ) "]
    lon, lat = wkt(pa.array([*good, "POINT EMPTY", "", None, "LINESTRING (0 0, 1 1)", "x"]))
    assert lon.value[:2].tolist() == [-74.25] * 2
    assert lat.value[:2].tolist() == [40.5] * 2
    assert lon.missing.nonzero()[0].tolist() == [3, 4]
    assert lat.unreadable.nonzero()[0].tolist() == [2, 5, 6]


@given(st.lists(st.floats(-180, 180), min_size=1))
def test_well_known_text_is_exact(values):
    lon, lat = wkt(pa.array([f"POINT ({value!r} 0.1)" for value in values]))
    assert lon.value.tolist() == values
    assert set(lat.value) == {0.1}


def test_each_illegal_position_has_one_reason():
    lon = [0, 180, -180, 116.2, 40.7, 181, 181, 10, 200, 360, 361, -181, 500]
    lat = [0, 90, -90, 400.17, -120.0, 91, 10, 91, 10, 0, 0, 0, 500]
    assert reasons(plain(lon), plain(lat)) == {
        "latitude out of range": [3, 12],
        "axes look swapped (|lat| > 90 and |lon| <= 90)": [4],
        "AIS 'position not available' (lon 181 or lat 91)": [5, 6, 7],
        "longitude in (180, 360]": [8, 9],
        "longitude out of range": [10, 11],
    }
    lon, lat = numbers(pa.array(["", "x", "5", "inf"])), numbers(pa.array(["1", "", "y", "1"]))
    assert reasons(lon, lat) == {"no position": [0, 1], "position is not a number": [2, 3]}


@given(st.lists(st.tuples(COORDINATE, COORDINATE), min_size=1))
def test_legal_rows_and_reasons_part_all_rows(points):
    lon, lat = (np.array(axis) for axis in zip(*points, strict=True))
    bad = [Numbers(axis, np.isnan(axis), np.zeros(len(axis), dtype=bool)) for axis in (lon, lat)]
    times_named = np.sum(list(judge(*bad).values()), axis=0)
    legal = (np.abs(lon) <= 180) & (np.abs(lat) <= 90)
    assert (times_named == ~legal).all()


def test_axes_look_swapped_only_when_land_says_so():
    rng = np.random.default_rng(0)
    lon, lat = -74 + rng.normal(0, 0.1, 200), 41 + rng.normal(0, 0.1, 200)
    assert look_swapped(lon, lat) is None
    note = look_swapped(lat, lon)
    assert note is not None
    assert "--swap" in note
    assert look_swapped(lat[:10], lon[:10]) is None
    globe = pa.Table.from_batches(uniform_sphere(2_000))
    assert look_swapped(globe["lon"].to_numpy(), globe["lat"].to_numpy()) is None
    assert look_swapped(np.full(100, -40.0), np.full(100, 30.0)) is None  # ships


@pytest.mark.parametrize("texts", [[], [None, None]])
def test_nothing_is_legal_input(texts):
    empty = pa.array(texts, pa.string())
    for found in (numbers(empty), *pair(empty), *wkt(empty)):
        assert len(found.value) == len(texts)
        assert found.missing.all()
