"""What is not understood is refused: arguments nobody reads, nesting, sizes; and nothing is said on stderr."""

from __future__ import annotations

import logging
import random
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import exp

from dtoss.conditions.evaluate import LONGEST
from dtoss.conditions.language import DEEPEST, Mismatch, parse_tree
from dtoss.conditions.parse import parse_condition
from dtoss.conditions.program import READ, parse_program
from tests.dtoss.conditions.table import SCHEMA, TABLE

NUMBERS = {"n": pa.array([1, 5, None, 9])}


def matching(text, table=NUMBERS):
    schema = {name: column.type for name, column in table.items()}
    rows = len(next(iter(table.values())))
    return parse_condition(text, schema).matches(table.__getitem__, rows).tolist()


EXAMPLES = [
    "not kind = 'a' and free or speed <> 1 and speed < 2 and speed <= 2 and speed > 0 and speed >= 0",
    "kind like 'a' or kind ilike 'b' or kind like 'c' escape '!' or starts_with(kind, 'a')",
    "speed between 1 and 2 or speed in (1, 2) or speed is null",
    "speed is not distinct from 1 or speed is distinct from 2",
    "abs(-speed + 1 - 2 * 3 / 4 % 5) = cast(coalesce(kind, lower(make || 'a'), upper(make)) as decimal(9, 1))",
    "case when free is true then null else (true) end",
]  # fmt: skip


def test_every_kind_of_node_has_an_example():
    seen = {type(node) for text in EXAMPLES for node in parse_tree(text).walk()}
    assert seen == set(READ)


@pytest.mark.parametrize("kind", sorted(READ, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_an_argument_that_is_not_read_is_an_error(kind, monkeypatch):
    """Whatever argument a node may have, or one that it gets in a later version: set, it is refused by name."""
    for name in [*set(kind.arg_types) - READ[kind], "argument_of_tomorrow"]:
        for text in EXAMPLES:
            tree = parse_tree(text)
            if found := tree.find(kind):
                found.set(name, exp.Literal.number(1))
                monkeypatch.setattr("dtoss.conditions.program.parse_tree", lambda _, tree=tree: tree)
                with pytest.raises(Mismatch, match=f"{name} of {kind.__name__.lower()} is not read|list such as"):
                    parse_program(text)
                break


def parts(text):
    return tuple(int(part) for part in text.split("."))


def test_the_parser_is_of_the_range_that_is_tested():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    (stated,) = [one for one in project["project"]["dependencies"] if one.startswith("sqlglot")]
    least, below = re.fullmatch(r"sqlglot>=([0-9.]+),<([0-9.]+)", stated).groups()
    assert parts(least) == (30, 24)  # the first that says how IS binds
    assert parts(least) <= parts(version("sqlglot")) < parts(below) == (parts(least)[0] + 1,)


@pytest.mark.parametrize("count", [500, 2000])
@pytest.mark.parametrize("sign", ["or", "and", "+", "||"])
def test_long_chains_are_evaluated(count, sign):
    if sign in ("or", "and"):
        text = f" {sign} ".join(f"n {'=' if sign == 'or' else '<>'} {i}" for i in range(1, count))
        expected = [sign == "or"] * 2 + [False] + [sign == "or"]
    elif sign == "+":
        text, expected = " + ".join(["n"] * count) + f" = {5 * count}", [False, True, False, False]
    else:
        text, expected = " || ".join(["'a'"] * count) + f" = '{'a' * count}' and n > 1", [False, True, False, True]
    assert matching(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "(" * 400 + "n = 1" + ")" * 400,
        "not " * 400 + "n = 1",
        "n = " + "- " * 400 + "1",
        "n = " + "+ " * 400 + "1",
        "n = " + "abs(" * 400 + "n" + ")" * 400,
        "case when " * 400 + "n = 1" + " then true end" * 400,
        "n = " + "case n when 1 then " * 400 + "1" + " end" * 400,
        "n in (" * 400 + "1" + ")" * 400,
        "n = " + "[" * 5000 + "1" + "]" * 5000,
        "n = " + "{" * 5000,
        "n = 1" + " between 1 and (n" * 400,
    ],
    ids=lambda text: text[:12],
)
def test_nesting_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match="nests too deep: at most 32") as error:
        matching(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_what_may_nest_does():
    some = DEEPEST - 1
    assert matching("(" * some + "n = 5" + ")" * some) == [False, True, False, False]
    assert matching("not " * (some - some % 2) + "n = 5") == [False, True, False, False]
    assert matching("abs(" * some + "n" + ")" * some + " = 5") == [False, True, False, False]
    assert matching("case when " * 10 + "n = 5" + " then true end" * 10) == [False, True, False, False]


def test_a_caller_who_is_deep_in_calls_gets_an_error_or_the_answer():
    def call(depth):
        return call(depth - 1) if depth else matching("(" * 20 + "n = 5" + ")" * 20)

    ends = set()
    for depth in range(100, sys.getrecursionlimit(), 60):
        try:
            ends.add(tuple(call(depth)))
        except ValueError as error:
            assert "nests too deep" in str(error)  # noqa: PT017
            ends.add("refused")
        except RecursionError:
            ends.add("out of room before")
    assert (False, True, False, False) in ends


def test_a_list_of_a_thousand_values():
    """As comparisons one by one; constants that the column cannot hold are in nobody's way."""
    wanted = ", ".join(map(str, range(5, 1000)))
    assert matching(f"n in ({wanted}, 1e30, 2.5, 99999999999999999999)") == [False, True, False, True]
    assert matching(f"n not in ({wanted})") == [True, False, False, False]
    assert matching(f"n not in ({wanted}, null)") == [False] * 4
    texts = {"t": pa.array(["a7", None, "it's", "a1000"])}
    listed = ", ".join(f"'a{i}'" for i in range(1000))
    assert matching(f"t in ({listed}, 'it''s')", texts) == [True, False, True, False]
    assert matching(f"t not in ({listed})", texts) == [False, False, True, True]


def test_nothing_reaches_stderr(capfd, caplog):
    """Neither the parser's log nor the lines of the library of regular expressions."""
    million = "a" * 1_000_000
    texts = {"t": pa.array(["abc", million, None])}
    with caplog.at_level(logging.DEBUG, logger="sqlglot"):
        assert matching(f"t like '{million}'", texts) == [False, True, False]
        assert matching(f"t like '%{million}%' or t ilike 'A%{'%' * 100_000}'", texts) == [True, True, False]
        for pattern in (million + "_", "%_" * 500_000, f"a%{million}", "_" * (LONGEST + 1)):
            for word in ("like", "ilike", "not like"):
                with pytest.raises(ValueError, match="at most 1,000 are possible") as error:
                    matching(f"t {word} '{pattern}'", texts)
                assert len(str(error.value)) < 700
        for pattern in ("_" * LONGEST, "%_" * (LONGEST // 2), "%a" * (LONGEST // 2), "é_" * (LONGEST // 2)):
            for word in ("like", "ilike"):
                matching(f"t {word} '{pattern}'", texts)
        for text in (
            "drop table n",
            "show n",
            "n = 1 limit",
            "describe n",
            "create x",
            "n = interval '1' day",
            million,
        ):
            with pytest.raises(ValueError, match=r"^where "):
                matching(text)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_the_log_of_others_stays(caplog):
    with caplog.at_level(logging.WARNING, logger="sqlglot"):
        logging.getLogger("sqlglot").warning("of somebody else")
    assert [record.getMessage() for record in caplog.records] == ["of somebody else"]


WORDS = [
    "occupied", "kind", "free", "speed", "utc", "fare", "stops", "make", '"my col"', "`my col`", "a.b", "1", "2.5",
    "1e5", "'x'", "'%'", "null", "true", "(", ")", ",", "+", "-", "*", "/", "%", "||", "=", "<>", "<", ">=", "and",
    "or", "not", "in", "between", "like", "is", "distinct", "from", "case", "when", "then", "else", "end", "cast(",
    "as", "int", "date", "decimal(", "lower(", "coalesce(", "abs(", "escape", "symmetric", "any", "exists", "select",
    "over", "::", "[", "]", "{", "}", ";", "--", "/*", "?", ":x", "@x", "\\", "~", "^", "&", "interval", "collate",
    "similar", "to", "glob", "xor", "div", "//", "<=>", "->", "=>", ":=", "if(", "values", "union", "where", "limit",
    "drop", "show", "set", "unnest(", "array", "x'ff'", "N'x'", "E'x'", "$$x$$", "\n", "\x00", "é", "🚕", "top",
    "filter", "window", "current_date", "default",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_any_words_are_a_condition_or_one_line(seed):
    rng = random.Random(seed)
    for _ in range(1000):
        text = rng.choice(("occupied = 0 and ", "kind ", "")) + " ".join(rng.choices(WORDS, k=rng.randrange(1, 9)))
        try:
            found = parse_condition(text, SCHEMA).matches(TABLE.__getitem__, 4)
        except ValueError as error:
            assert str(error).startswith("where ")  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert found.shape == (4,)


def test_half_a_character_is_refused():
    with pytest.raises(ValueError, match="half a character"):
        matching("n = '\ud800'")
