"""Distances with units, as they are typed: every spelling, every space, and both ways to an answer."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtoss
from dtoss.geometry.space import space_of
from pipelines.command import planner
from pipelines.command.terminal.options import UNITS, Length, in_space, in_store, length_of
from tests.pipelines.command.query.without_spark import stored

METRES = {"m": "1", "km": "1000", "ft": "0.3048", "mi": "1609.344", "nmi": "1852", "nm": "1852"}
"""International foot: 0.3048 m, of which a mile has 5,280. Nautical mile: 1,852 m."""
PLANES = {
    "EPSG:32610": ("1", "1"),
    "EPSG:2263": ("1200", "3937"),
    "EPSG:8353": ("1", "1"),
    "EPSG:2222": ("0.3048", "1"),
}
"""Metres of the unit of a plane, as a quotient: metres, US survey feet, metres, international feet."""
SPHERES = [space_of(), space_of("EPSG:32610", "sphere")]


def slowly(number, unit, quotient=("1", "1")):
    """A length in units of a plane, in decimals of 400 digits."""
    with localcontext() as context:
        context.prec = 400
        return float(Decimal(number) * Decimal(METRES[unit]) * Decimal(quotient[1]) / Decimal(quotient[0]))


numbers = st.one_of(
    st.from_regex(
        r"[+-]?(\d{1,9}(\.\d{0,9})?|\.\d{1,9})([eE][+-]?\d{1,2})?", fullmatch=True, alphabet="0123456789+-.eE"
    ),
    st.floats(0, 1e9).map(repr),
)


@given(
    numbers,
    st.sampled_from(sorted(METRES)),
    st.sampled_from([str, str.upper, str.title]),
    st.sampled_from(["", " ", "\t "]),
)
def test_what_has_a_unit_is_converted_exactly(number, unit, case, gap):
    """Rounded once, in any case and with blanks; a number alone stays as it is."""
    length = length_of(f" {number}{gap}{case(unit)} ")
    assert length == Length(number, unit)
    assert [in_space("--radius", length, space) for space in SPHERES] == [slowly(number, unit)] * 2
    for crs, quotient in PLANES.items():
        assert in_space("--radius", length, space_of(crs)) == slowly(number, unit, quotient)
        assert in_space("--radius", length_of(number), space_of(crs)) == float(number)
    assert in_space("--radius", length_of(number), space_of("none")) == float(number)


def test_units_are_those_of_the_table():
    """No other is known, and none is missing."""
    assert UNITS == METRES
    # by floats alone these lie beside
    assert in_space("--radius", length_of("4.1km"), space_of()) == 4100.0 != 4.1 * 1000.0 * (1 + 2**-52)
    assert in_space("--radius", length_of("5280ft"), space_of()) == in_space("--radius", length_of("1mi"), space_of())
    assert in_space("--radius", length_of("1ft"), space_of("EPSG:2263")) != 1.0  # a survey foot is longer


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5kms", "'5kms' has an unknown unit: m, km, ft, mi, nmi are known; did you mean km?"),
        ("5furlong", "'5furlong' has an unknown unit: m, km, ft, mi, nmi are known"),
        ("5 miles", "'5 miles' has an unknown unit: m, km, ft, mi, nmi are known"),
        ("", "'' is no distance: a number is wanted, with a unit or without, as in 300 or 5km"),
        ("km", "'km' is no distance"),
        ("infkm", "'infkm' is no distance"),
        ("nan m", "'nan m' is no distance"),
        ("5km6", "'5km6' is no distance"),
        ("5,5km", "'5,5km' is no distance"),
        ("0x10m", "'0x10m' is no distance"),
        ("--count", "'--count' is no distance"),
        ("1e308km", "'1e308km' is beyond 1.8e308 metres"),
        ("1e999999999999m", "'1e999999999999m' is beyond 1.8e308 metres"),
    ],
)
def test_what_is_no_length_is_one_line(text, said):
    """Which names what there is."""
    with pytest.raises(ValueError) as raised:
        length_of(text)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_the_smallest_and_the_largest():
    """Neither costs a power of ten with a billion digits."""
    assert in_space("--radius", length_of("1e-999999999999km"), space_of()) == 0.0
    assert in_space("--radius", length_of("-0ft"), space_of("EPSG:2263")) == 0.0
    assert in_space("--radius", length_of("1e305km"), space_of()) == 1e308
    assert in_space("--radius", length_of("inf"), space_of()) == math.inf
    assert math.isnan(in_space("--radius", length_of("nan"), space_of()))


def test_a_plane_without_a_crs_takes_plain_numbers_only():
    """Nothing says how long its unit is."""
    with pytest.raises(ValueError, match=r"--radius is 5km: the plane of this store has no CRS, .* leave the unit out"):
        in_space("--radius", length_of("5km"), space_of("none"))


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Stores of the same objects: degrees, feet, and a plane without a CRS."""
    grid = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 2)
    feet = 950_000.0 + 250.0 * grid
    return {
        "sphere": stored(tmp_path_factory, np.arange(64), grid * 0.001),
        "feet": stored(tmp_path_factory, np.arange(64), feet, crs="EPSG:2263"),
        "none": stored(tmp_path_factory, np.arange(64), grid, crs="none"),
    }


@pytest.mark.parametrize(
    ("kind", "at", "length", "number"),
    [
        ("sphere", (0.0035, 0.0035), "0.3km", 300.0),
        ("sphere", (0.0035, 0.0035), "1000FT", 304.8),
        ("sphere", (0.0035, 0.0035), ".2 mi", 321.8688),
        ("sphere", (0.0035, 0.0035), "300", 300.0),
        ("feet", (950_600.0, 950_600.0), "0.2km", 200.0 * 3937 / 1200),
        ("feet", (950_600.0, 950_600.0), "700", 700.0),
        ("none", (3.5, 3.5), "2.5", 2.5),
    ],
)
def test_all_ways_to_an_answer_take_the_same_lengths(stores, command, kind, at, length, number):
    """Those of both commands."""
    index = dtoss.open(stores[kind])
    where = ["--store", stores[kind], "--at", *map(repr, at)]
    ranged = index.range(at, number)
    assert 0 < len(ranged) < 64
    nearest = index.knn(at, 64, max_distance=number)
    assert nearest.id.tolist() == ranged.id.tolist()
    for asked in (["range", "--radius", length], ["knn", "-k", "64", f"--max-distance={length}"]):
        code, out, err = command(*asked, *where)
        assert (code, err) == (0, "")
        assert [int(row.split(",")[1]) for row in out.splitlines()[1:]] == ranged.id.tolist()
    assert in_store("--radius", length_of(length), stores[kind], None) == number


@pytest.mark.parametrize(
    ("length", "said"),
    [
        ("5kms", "Invalid value for '--radius': '5kms' has an unknown unit: m, km, ft, mi, nmi are known; did"),
        ("", "Invalid value for '--radius': '' is no distance"),
        ("-5km", "radius is -5000: a number that is not negative is wanted"),
        ("nan", "radius is nan: a number that is not negative is wanted"),
        ("1e308km", "Invalid value for '--radius': '1e308km' is beyond 1.8e308 metres"),
    ],
)
@pytest.mark.parametrize("extra", [[], ["--verify", "no"]])
def test_a_length_that_is_none_ends_with_one_line(stores, command, length, said, extra):
    """Also behind an equals sign."""
    for option in (["--radius", length], [f"--radius={length}"]):
        asked = ("range", *option, "--store", stores["sphere"], "--at", 0, 0, *extra)
        assert command.fails(*asked).startswith(said)


def test_a_radius_of_accesses_is_a_length_or_a_column(stores):
    """What is no length is the name of a column."""
    asked = planner.length_or_column
    assert [asked(text, stores["sphere"], None) for text in (None, "2KM", "250", "radius")] == [
        None,
        2e3,
        250.0,
        "radius",
    ]
    assert asked("1200m", stores["feet"], None) == 3937.0
    with pytest.raises(ValueError, match="--radius is 5m: the plane of this store has no CRS"):
        asked("5m", stores["none"], None)


def test_a_unit_behind_a_blank_and_a_plane_without_one(stores, command):
    """Both say how to write it."""
    said = command.fails("range", "--radius", 5, "km", "--at", 0, 0, "--store", stores["sphere"])
    assert said == "Got unexpected extra argument(s) (km); write 5km, without a blank"
    said = command.fails("knn", "--max-distance", "5km", "--at", 0, 0, "--store", stores["none"])
    assert said.startswith("--max-distance is 5km: the plane of this store has no CRS")
