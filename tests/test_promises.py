"""Each promise of the documents has a test in `make test`: docs/promises.md says which."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "promises.md").read_text()
ROWS = [tuple(part.strip() for part in re.split(r"(?<!\\)\|", line)[1:3]) for line in PAGE.splitlines()
        if line.startswith("| ") and "::" in line]  # fmt: skip
SAID_ELSEWHERE = {"docs/README.md", "docs/commands.md", "docs/promises.md", "docs/rooms.md"}
"""Documents that promise nothing of their own."""


@cache
def functions(file):
    """The test functions of a module, by name."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@cache
def deep_module(file):
    """Whether all of a module is in the deep tier."""
    return re.search(r"^pytestmark = .*\bdeep\(", (ROOT / file).read_text(), re.MULTILINE) is not None


@pytest.mark.parametrize(("promise", "test"), ROWS, ids=[re.sub(r"\W+", "_", row[0])[:60] for row in ROWS])
def test_a_promise_has_a_test_that_is_always_run(promise, test):
    file, _, name = test.strip("`").partition("::")
    assert (ROOT / file).is_file(), f"{promise}: {file} is not there"
    assert name in functions(file), f"{promise}: {name} is not in {file}"
    marks = [ast.unparse(mark) for mark in functions(file)[name].decorator_list]
    assert not [mark for mark in marks if mark.startswith("pytest.mark.deep(")], f"{promise}: {test} is deep"
    assert not deep_module(file), f"{promise}: {file} is deep"


def test_every_document_is_in_the_table_and_no_promise_stands_twice():
    documents = {"README.md", "SECURITY.md"} | {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert set(re.findall(r"^## \[(.+?)\]", PAGE, re.MULTILINE)) == documents - SAID_ELSEWHERE
    assert len({promise for promise, _ in ROWS}) == len(ROWS) > 140
