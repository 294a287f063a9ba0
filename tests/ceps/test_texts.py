"""One of a thing is written in the singular, wherever a number stands before a noun."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import ceps
from ceps import Patterns, ServerType
from ceps.model.number_text import how_many
from pipelines.plan import diff_rows, server_rows, summary

ROOT = Path(__file__).parents[2]
NOUNS = (
    "server",
    "partition",
    "day",
    "move",
    "method",
    "thread",
    "slot",
    "weekday",
    "action",
    "step",
    "hour",
)
WRONG = re.compile(rf"(?<![\d.,])1 ({'|'.join(noun + 's' for noun in NOUNS)}|copies)\b|\b\w+\(s\)")


def one_of_each():
    """A plan of one partition on one server, and the one before it on another."""
    patterns = Patterns(np.full((1, 24), 600.0), np.full(1, 1e9), positions=np.zeros((1, 2)))
    kinds = (ServerType("a", 1000.0, np.inf, 1.0), ServerType("b", 2000.0, np.inf, 2.0))
    before = ceps.plan(patterns, None, kinds[1:], pinned=[7])
    return patterns, ceps.plan(patterns, None, kinds, previous=before), before


def test_what_a_plan_of_one_server_says():
    """Summary, table and difference."""
    _, plan, before = one_of_each()
    said = [*summary(plan, ceps.diff(plan, before)), *server_rows(plan)]
    text = "\n".join(" ".join(row) for row in said)
    assert not WRONG.search(text), text
    moved = ceps.diff(ceps.plan(Patterns(np.full((1, 24), 1.0), np.ones(1)), None, plan.servers, pinned=[3]), before)
    assert ("", "1 partition moves (0)") in diff_rows(moved)


def test_what_is_refused_counts_one_as_one():
    """Errors about one partition, and about one server."""
    with pytest.raises(ceps.InfeasibleError, match=r"^1 partition fits no server type: 0\."):
        ceps.plan([[9.0] * 24], [1.0], [ServerType("a", 1.0, 1.0, 1.0)])
    with pytest.raises(ceps.InfeasibleError, match="more on 1 server than any type holds"):
        ceps.plan([[9.0] * 24] * 2, [1.0] * 2, [ServerType("a", 12.0, 9.0, 1.0)], method="gp-r", cells=1)


def test_the_report_of_one_server(tmp_path):
    """The page and its numbers."""
    patterns, plan, before = one_of_each()
    text = ceps.write_report(tmp_path, [plan], patterns=patterns, current=before).read_text()
    assert not WRONG.search(re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))


def decimals(value):
    """Whether a value is written with some, as 1.00 is."""
    return value.format_spec is not None and bool(re.search(r"\.[1-9]f", ast.unparse(value.format_spec)))


def plurals_after_numbers(tree):
    """Texts in which a value stands right before a noun in the plural, so that 1 would read wrong."""
    found = []
    nouns = "|".join([*(noun + "s" for noun in NOUNS), "copies"])
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                text = str(after.value) if isinstance(after, ast.Constant) else ""
                match = re.match(rf" (?:{nouns})\b|[^ ]*\(s\)| \w+\(s\)", text)
                if isinstance(value, ast.FormattedValue) and match and not decimals(value):
                    found.append(ast.unparse(value.value) + match[0])
    return found


MORE_THAN_ONE = {"made.copies copies"}
"""Written only where there are several."""


@pytest.mark.parametrize("folder", ["ceps", "pipelines"])
def test_no_text_puts_a_number_before_a_plural(folder):
    """They go through how_many; the check finds one that does not."""
    assert plurals_after_numbers(ast.parse("f'{n} servers'")) == ["n servers"]
    assert plurals_after_numbers(ast.parse("f'{n:.2f} servers'")) == []
    assert plurals_after_numbers(ast.parse("f'{len(x):,} partition(s) here'")) == ["len(x) partition(s)"]
    for file in (ROOT / folder).rglob("*.py"):
        found = set(plurals_after_numbers(ast.parse(file.read_text()))) - MORE_THAN_ONE
        assert not found, f"{file.relative_to(ROOT)}: {found}"
    assert [how_many(n, "server") for n in (0, 1, 2, 10_000_000)] == [
        "0 servers", "1 server", "2 servers", "10,000,000 servers",
    ]  # fmt: skip
