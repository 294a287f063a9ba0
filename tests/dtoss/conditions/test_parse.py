"""Conditions: what they mean, what they refuse."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoss.conditions.parse import parse_condition
from tests.dtoss.conditions.table import SCHEMA, TABLE


def matching(text):
    return "".join("x" if m else "." for m in parse_condition(text, SCHEMA).matches(TABLE.__getitem__, 4))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("occupied = 0", "x..x"),
        ("occupied == 0", "x..x"),
        ("occupied <> 0", ".x.."),
        ("not occupied = 0", ".x.."),  # of an unknown the opposite is unknown
        ("occupied = 0 and kind in ('taxi')", "x..."),
        ("occupied = 0 or kind = 'taxi'", "x.xx"),
        ("occupied = 1 or kind is null and not occupied = 1", ".x.x"),
        ("kind not in ('bus')", "x.x."),
        ("occupied in (1, null)", ".x.."),
        ("kind like 'ta%'", "x.x."),
        ("kind like 'TA%'", "...."),
        ("kind ilike 'TA_I'", "x.x."),
        ("kind not like 'ta%'", ".x.."),
        ("kind not ilike 'TA%'", ".x.."),
        ("not kind not like 'ta%'", "x.x."),
        ("kind not like 't!axi' escape '!'", ".x.."),
        ("occupied between symmetric 2 and 1", ".x.."),
        ("occupied not between symmetric 1 and 0", "...."),
        ("`my col` = 3 or `kind` = 'bus'", ".xx."),
        ("kind || '-' || make = 'taxi-vw'", "x.x."),
        ("occupied is distinct from 1", "x.xx"),
        ("occupied is not distinct from null", "..x."),
        ("occupied = 1 is null", "..x."),
        ("kind is null", "...x"),
        ("kind is not null", "xxx."),
        ("kind > 'bus'", "x.x."),
        ("make = 'o''k'", "...x"),
        ("utc >= '2008-05-18 02:00'", "..xx"),
        ("utc > timestamp '2008-05-18T02:00:00+01:00'", "..xx"),
        ("naive between '2008-05-18' and '2008-05-18 01:00:00'", "xx.."),
        ("fine < '2008-05-18 01:00:00'", "x..."),
        ("fine = naive and naive = utc", "xxxx"),
        ("day >= date '2008-05-19'", "..xx"),
        ("day < '2008-05-18'", "x..."),
        ("speed > 1", "xx.."),  # NaN is greater than nothing
        ("speed + 1 >= 2.5 and speed * 2 - 1 < 3", "x..."),
        ("-speed < -2", ".x.."),
        ("occupied / 0 > 5", ".x.."),
        ("occupied * 100 + 100 > 127", ".x.."),  # beyond what int8 holds
        ("fare = 1.1", "x..."),
        ("fare >= occupied", "xx.x"),
        ("free", "x..x"),
        ("free = true", "x..x"),
        ("free is false", ".x.."),
        ("not free", ".x.."),
        ('"my col" between 2 and 3', ".xx."),
        ("a.b = 2", ".x.."),
        ("stops is null", "..x."),
        ("speed = null", "...."),
        ("(occupied = 0 or free) and make = 'vw'", "x..."),
    ],
)
def test_meaning(text, rows):
    assert matching(text) == rows


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nope = 1", "column 'nope' is not carried by the objects; they carry occupied, kind"),
        ('kind = "bus"', "column 'bus' is not carried"),
        ("kind = 3", "kind = 3 compares string with int64"),
        ("occupied = 'a'", "compares int8 with large_string"),
        ("free = 1", "compares bool with int64"),
        ("utc = 5", "compares timestamp"),
        ("day = 'soon'", "'soon' is not a time"),
        ("stops = 1", "compares list"),
        ("speed like 'a'", "speed is of type double, not text"),
        ("kind like occupied", "a pattern such as"),
        ("kind + 1 = 2", "computes with string"),
        ("occupied", "is a value of type int8"),
        ("speed", "is a value of type double"),
        ("not 5", "5 is of type int64, not a condition"),
        ("occupied and free", "occupied is of type int8, not a condition"),
        ("speed is 5", "is null, or is true or false"),
        ("occupied in (select 1)", "a list such as (1, 2) is wanted"),
        ("len(kind) = 4", "is not understood"),
        ("exists(select 1)", "is not understood"),
        ("__import__('os').system('true')", "is not"),
        ("drop table x", "is not a condition near column"),
        ("free; free", "is not one condition"),
        ("speed = ", "is not a condition near column"),
        ("my col = 1", "is not a condition near column"),
        ("", "a condition such as"),
        ("   ", "a condition such as"),
    ],
)
def test_refusals(text, says):
    with pytest.raises(ValueError, match="where") as error:
        parse_condition(text, SCHEMA)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


EDGES = {
    "u8": pa.array([0, 5, 255, None], pa.uint8()),
    "i64": pa.array([-(2**63), 2**53 + 1, 2**63 - 1, None]),
    "u64": pa.array([0, 2**53 + 1, 2**63, None], pa.uint64()),
    "f32": pa.array([0.1, float("inf"), 16_777_216.0, None], pa.float32()),
    "f64": pa.array([-float("inf"), 2.0**53, 2.0**63, float("nan")]),
    "half": pa.array([0.5, 65504.0, float("nan"), None], pa.float16()),
    "dec": pa.array(
        [decimal.Decimal(x) for x in ("-0.01", "9007199254740993.00", "7.50")] + [None], pa.decimal128(18, 2)
    ),
    "wide": pa.array([decimal.Decimal(x) for x in ("0", "9" * 38, "-1")] + [None], pa.decimal128(38, 0)),
    "tiny": pa.array([decimal.Decimal("0." + "0" * 59 + "1")] * 3 + [None], pa.decimal256(76, 70)),
    "far": pa.array([-(2**62), 0, 2**62, None], pa.timestamp("s")),
    "fine": pa.array([-(2**63) + 1, 1, 2**63 - 1, None], pa.timestamp("ns", "UTC")),
    "day": pa.array([-(2**31), 0, 2**31 - 1, None], pa.int32()).cast(pa.date32()),
}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("u8 > 5", "..x."),
        ("u8 > -1 and u8 < 256 and u8 <> 256 and u8 <> 5.5 and not u8 = 99999999999999999999", "xxx."),
        ("u8 >= 255.0 or u8 < 0.5", "x.x."),
        ("u8 in (5, 256, -1, 255.5, 1e300)", ".x.."),
        ("u8 between -1e300 and 5.5", "xx.."),
        ("u64 > 5", ".xx."),  # whether or not a value is beyond int64
        ("u64 > -1", "xxx."),
        ("u64 > 1e19", "...."),
        ("u64 > 9007199254740992e0", ".xx."),
        ("u64 = i64", ".x.."),
        ("u64 > i64", "x.x."),
        ("i64 <= u64", "xxx."),
        ("u64 > u8 and u8 < u64", ".xx."),
        ("u64 + 1 > 9223372036854775808", "..x."),
        ("-u64 < -9223372036854775807", "..x."),
        ("i64 > -1e19 and i64 < 1e19", "xxx."),
        ("i64 > 9223372036854775807", "...."),
        ("i64 >= 9223372036854775807.0", "..x."),
        ("i64 < 9223372036854775808e0", "xxx."),  # 2^63 itself
        ("i64 = 9007199254740993", ".x.."),
        ("i64 = 9007199254740992e0", "...."),
        ("i64 > f64", "xx.."),
        ("coalesce(u64, i64) = f64", "..x."),
        ("coalesce(u64, i64) < f64 or f64 < u64 + 0", "xx.."),
        ("f64 < i64", "xx.."),
        ("f64 in (9007199254740993, 9223372036854775808)", "..x."),
        ("f64 > 9007199254740991 and f64 < 9007199254740993", ".x.."),
        ("f64 < -" + "9" * 70, "x..."),
        ("f64 <> 9007199254740993", "xxxx"),  # NaN too is another number
        ("f32 = 0.1", "x..."),
        ("f32 = 1e-1", "...."),
        ("f32 > 100000000000000000000000000000000000000000", ".x.."),
        ("f32 > 100000000000000000000000000000000000000000.5 and f32 <= 1e300 * 1e300", ".x.."),
        ("f32 = 16777217", "...."),
        ("f32 in (0.1, 16777216)", "x.x."),
        ("half = 0.5 or half in (65504)", "xx.."),
        ("half < 65505 and half > f32", "x..."),
        ("dec > 9007199254740992", ".x.."),
        ("dec = 7.5 or dec in (-0.010, 7.501, 1e5)", "x.x."),
        ("dec > 7.499999 and dec < 1e17", ".xx."),
        ("dec < 1e300 and dec > -1e300 and dec < 10000000000000000000000000000000000000000", "xxx."),
        ("dec < i64 or dec > u64", "..x."),
        ("dec = 9007199254740992e0", ".x.."),  # a decimal beside a float is rounded
        ("wide > 1e37", ".x.."),
        ("wide >= 99999999999999999999999999999999999999", ".x.."),
        ("wide < dec", "..x."),
        ("tiny > 0 and tiny < 1 and tiny < 0." + "0" * 58 + "1", "xxx."),
        ("dec + 0.01 = 0 or dec * 2 = 15 or dec - 0.001 = 9007199254740992.999", "xxx."),
        ("dec % 2 = 1.5", "..x."),
        ("i64 % -1 = 0 and u8 % 0 is null", "xxx."),
        ("far > '2008-05-18'", "..x."),
        ("far < fine", "xx.."),
        ("fine < '9999-12-31' and fine > '0001-01-01'", "xxx."),
        ("fine = timestamp '1970-01-01 00:00:00.000000001'", ".x.."),
        ("fine > '1970-01-01'", ".xx."),
        ("fine in ('1970-01-01 00:00:00.000000001', '1970-01-01')", ".x.."),
        ("day > far or day < fine", "xx.."),
        ("cast(1.5 as int) = 2 and cast(2.5e0 as int) = 2 and cast(-2.5 as int) = -3 and u8 = 5", ".x.."),
        ("case when u8 > 5 then u64 else i64 end > 9223372036854775807", "..x."),
        ("case when u8 = 5 then cast('7' as int) when u8 > 5 then cast('8' as int) end = 7", ".x.."),
        ("coalesce(u8, 300) = 300", "...x"),
    ],
)
def test_numbers_compare_as_numbers(text, rows):
    """Constants beyond a column's range, numbers that the other type cannot hold: no overflow, whatever the data."""
    types = {name: column.type for name, column in EDGES.items()}
    found = parse_condition(text, types).matches(EDGES.__getitem__, 4)
    assert "".join("x" if m else "." for m in found) == rows


def test_a_case_evaluates_a_branch_where_it_holds_only():
    table = {"t": pa.array(["17", "taxi", None, "9"])}
    text = "case when t like '1%' or t = '9' then cast(t as int) else -1 end > 10"
    assert parse_condition(text, {"t": pa.string()}).matches(table.__getitem__, 4).tolist() == [
        True,
        False,
        False,
        False,
    ]
    condition = parse_condition("cast(t as int) > 10", {"t": pa.string()})
    with pytest.raises(ValueError, match="'taxi'"):
        condition.matches(table.__getitem__, 4)


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_a_condition_may_name_no_column(rows):
    for text, holds in [("true", True), ("1 = 1", True), ("2 < 1", False), ("null", False), ("not null", False)]:
        condition = parse_condition(text, SCHEMA)
        assert condition.matches(TABLE.__getitem__, rows).tolist() == [holds] * rows
        assert condition.columns == frozenset()


def test_overflow_is_an_error_and_no_answer():
    big = {"n": pa.array([2**62])}
    condition = parse_condition("n * 4 > 0", {"n": pa.int64()})
    with pytest.raises(ValueError, match="overflow"):
        condition.matches(big.__getitem__, 1)


def test_columns_are_those_named():
    assert parse_condition("occupied = 0 and (free or kind = 'x')", SCHEMA).columns == {"occupied", "free", "kind"}


VALUES = st.one_of(st.none(), st.integers(-3, 3))
COMPARE = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@st.composite
def conditions(draw, depth=3):
    """A condition's text, and a function of a row that says True, False or None as SQL does."""
    kind = draw(st.sampled_from(["compare", "among", "between", "null"] + ["and", "or", "not"] * (depth > 0)))
    name = draw(st.sampled_from("ab"))
    if kind == "compare":
        sign, value = draw(st.sampled_from(sorted(COMPARE))), draw(st.integers(-3, 3))
        return f"{name} {sign} {value}", lambda row: None if row[name] is None else COMPARE[sign](row[name], value)
    if kind == "among":
        values = draw(st.lists(st.integers(-3, 3), min_size=1, max_size=3))
        text = f"{name} in ({', '.join(map(str, values))})"
        return text, lambda row: None if row[name] is None else row[name] in values
    if kind == "between":
        low, high = draw(st.integers(-3, 3)), draw(st.integers(-3, 3))
        return f"{name} between {low} and {high}", lambda row: None if row[name] is None else low <= row[name] <= high
    if kind == "null":
        return f"{name} is null", lambda row: row[name] is None
    text, one = draw(conditions(depth=depth - 1))
    if kind == "not":
        return f"not ({text})", lambda row: None if one(row) is None else not one(row)
    more, two = draw(conditions(depth=depth - 1))
    decided = kind == "or"

    def both(row):
        found = [one(row), two(row)]
        return decided if decided in found else None if None in found else not decided

    return f"({text}) {kind} ({more})", both


@given(conditions(), st.lists(st.tuples(VALUES, VALUES), max_size=8))
def test_three_valued_logic(condition, rows):
    """Any condition keeps the rows for which it is true, not those for which it is unknown."""
    text, oracle = condition
    table = {"a": pa.array([a for a, _ in rows], pa.int16()), "b": pa.array([b for _, b in rows], pa.float64())}
    found = parse_condition(text, {"a": pa.int16(), "b": pa.float64()}).matches(table.__getitem__, len(rows))
    assert found.tolist() == [oracle({"a": a, "b": b}) is True for a, b in rows]
