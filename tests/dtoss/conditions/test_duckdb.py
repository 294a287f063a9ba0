"""Conditions against DuckDB: 10,000 random ones, and the list of differences, which is also the documents' table."""

from __future__ import annotations

from decimal import Decimal
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dtoss.conditions.parse import parse_condition
from tests.dtoss.conditions.sql_conditions import Conditions, town
from tests.dtoss.conditions.sql_differences import DIFFERENCES, ERROR, REFUSED, WORKS, tables
from tests.dtoss.conditions.sql_oracle import asked, connection, differing
from tests.examples import examples

DOCUMENT = Path(__file__).parents[3] / "docs" / "queries.md"
TABLE = {
    "kind": pa.array(["taxi", "van", None, "50%"]),
    "make": pa.array(["vw", "bmw", "vw", None]).dictionary_encode(),
    "seats": pa.array([4, 8, None, 3], pa.int16()),
    "my seats": pa.array([4, 8, None, 3], pa.int16()),
    "speed": pa.array([-4.5, 0.0, 3.5, None]),
    "price": pa.array([Decimal("2.50"), Decimal(3), None, Decimal("2.45")], pa.decimal128(9, 2)),
    "free": pa.array([True, False, None, True]),
    "seen": pa.array([1_211_095_800, 0, None, 2**31], pa.timestamp("s", "UTC")),
    "day": pa.array([14_017, 0, None, 20_000], pa.int32()).cast(pa.date32()),
}


MORE = pytest.mark.deep("more seeds of the same kind")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=MORE) for seed in (1, 2, 3)), 4])
def test_random_conditions(seed):
    """Columns of all types at their edges, with nulls, NaN and texts that want quoting; constants beyond each range."""
    assert differing(seed, examples(2000, 800)) == []


def test_the_generator_gives_every_answer():
    """Conditions that hold for some rows, for none, for all; and all of the language."""
    table = town(1)
    some = list(islice(Conditions(1), 400))
    shares = [
        sum(row is True for row in rows) / len(table) for rows in asked(connection(table), [one.duck for one in some])
    ]
    assert sum(0 < share < 1 for share in shares) > 150
    assert 0.0 in shares
    assert 1.0 in shares
    words = " ".join(one.ours for one in islice(Conditions(2), 2000))
    for word in (
        "not like", "ilike", "escape", "symmetric", "is distinct from", "coalesce(", "case when", "cast(", "||", "%",
        "lower(", "upper(", "abs(", "starts_with(", "`", " / ", " in (", "null", "is unknown", "18446744073709551616",
    ):  # fmt: skip
        assert word in words


@pytest.mark.parametrize("one", DIFFERENCES, ids=lambda one: one.condition)
def test_differences_are_as_listed(one):
    try:
        types = {name: column.type for name, column in one.columns.items()}
        condition = parse_condition(one.condition, types)
        known = parse_condition(f"({one.condition}) is not null", types).matches(one.columns.__getitem__, 1)[0]
        here = bool(condition.matches(one.columns.__getitem__, 1)[0]) if known else None
    except ValueError:
        here = ERROR
    try:
        ((there,),) = asked(connection(pa.table(one.columns)), [one.condition])
    except duckdb.Error:
        there = ERROR
    assert (here, there) == (one.here, one.there)
    assert here != there


def parts(examples: str) -> list[str]:
    """Return the conditions of an example: a comma that is followed by more than what stands in brackets ends one."""
    found, depth, quote, start = [], 0, "", 0
    for i, character in enumerate(examples):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        else:
            depth += (character in "([") - (character in ")]")
            if character == "," and depth == 0:
                found.append(examples[start:i].strip())
                start = i + 1
    return [*found, examples[start:].strip()]


@pytest.mark.parametrize("text", [one for _, examples in WORKS for one in parts(examples)])
def test_what_works_does_as_in_duckdb(text):
    found = parse_condition(text, {name: column.type for name, column in TABLE.items()}).matches(TABLE.__getitem__, 4)
    if "symmetric" in text or "\\" in text:  # among the differences
        assert found.tolist() == [i == (3 if "kind" in text else 1) for i in range(4)]
        return
    (expected,) = asked(connection(pa.table(TABLE)), [text.replace("`", '"')])
    assert found.tolist() == [row is True for row in expected]


@pytest.mark.parametrize("text", [one for _, examples in REFUSED for one in parts(examples)])
def test_what_does_not_work_is_one_line(text):
    with pytest.raises(ValueError, match=r"^where ") as error:
        parse_condition(text, {name: column.type for name, column in TABLE.items()})
    assert "\n" not in str(error.value)


def test_the_document_has_the_same_tables():
    """The lists are the documents'; where they differ, the tables to put there are those of the message."""
    assert tables() in DOCUMENT.read_text(encoding="utf-8"), tables()
