"""Conditions: what they mean, what they refuse."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoss.where import parse_condition

HOURS = [datetime.datetime(2008, 5, 18, hour) for hour in range(4)]
TABLE = {
    "occupied": pa.array([0, 1, None, 0], pa.int8()),
    "kind": pa.array(["taxi", "bus", "taxi", None]),
    "utc": pa.array([h.replace(tzinfo=datetime.UTC) for h in HOURS], pa.timestamp("us", "UTC")),
    "naive": pa.array(HOURS, pa.timestamp("ms")),
    "fine": pa.array(HOURS, pa.timestamp("ns")),
    "day": pa.array([datetime.date(2008, 5, 17 + i) for i in range(4)]),
    "speed": pa.array([1.5, 2.5, float("nan"), None]),
    "fare": pa.array([decimal.Decimal("1.10"), decimal.Decimal("2.50"), None, decimal.Decimal("0")]),
    "free": pa.array([True, False, None, True]),
    "my col": pa.array([1, 2, 3, 4], pa.uint64()),
    "a.b": pa.array([1, 2, 3, 4]),
    "stops": pa.array([[1], [2], None, [3]]),
    "make": pa.array(["vw", "bmw", "vw", "o'k"]).dictionary_encode(),
}
SCHEMA = {name: column.type for name, column in TABLE.items()}


def matching(text):
    return "".join("x" if m else "." for m in parse_condition(text, SCHEMA).matches(TABLE.__getitem__))


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
        ("occupied = 99999999999999999999", "does not fit in 64 bits"),
        ("speed is 5", "is null, or is true or false"),
        ("occupied in (select 1)", "a list such as (1, 2) is wanted"),
        ("len(kind) = 4", "is not understood"),
        ("cast(speed as int) = 1", "is not understood"),
        ("case when free then true end", "is not understood"),
        ("exists(select 1)", "is not understood"),
        ("__import__('os').system('true')", "is not"),
        ("drop table x", "is not understood"),
        ("free; free", "is not one condition"),
        ("speed = ", "is not a condition near column"),
        ("my col = 1", "is not a condition near column"),
        ("1 = 1", "names no column"),
        ("true", "names no column"),
        ("", "a condition such as"),
        ("   ", "a condition such as"),
    ],
)
def test_refusals(text, says):
    with pytest.raises(ValueError, match="where") as error:
        parse_condition(text, SCHEMA)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_overflow_is_an_error_and_no_answer():
    big = {"n": pa.array([2**62])}
    condition = parse_condition("n * 4 > 0", {"n": pa.int64()})
    with pytest.raises(ValueError, match="overflow"):
        condition.matches(big.__getitem__)


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
    found = parse_condition(text, {"a": pa.int16(), "b": pa.float64()}).matches(table.__getitem__)
    assert found.tolist() == [oracle({"a": a, "b": b}) is True for a, b in rows]
