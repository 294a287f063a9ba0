"""Each promise of the documents has a test in `make test`: docs/promises.md says which."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "promises.md").read_text()
ROWS = [tuple(part.strip() for part in re.split(r"(?<!\\)\|", line)[1:3]) for line in PAGE.splitlines()
        if line.startswith("| ") and "::" in line]  # fmt: skip
SAID_ELSEWHERE = {"docs/README.md", "docs/commands.md", "docs/promises.md", "docs/rooms.md"}
"""Documents that promise nothing of their own."""


DECORATED = re.compile(r"((?:^.+\n)*)^def (test_\w+)\(", re.MULTILINE)
"""A test, behind all that stands above it without an empty line between."""
DEEP = re.compile(r"^@pytest\.mark\.deep\(", re.MULTILINE)


@cache
def marks_of(file):
    """The decorators of each test of a module, by name; None where all of it is in the deep tier."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if re.search(r"^pytestmark = .*\bdeep\(", text, re.MULTILINE):
        return None
    return {name: marks for marks, name in DECORATED.findall(text)}


def broken(test):
    """What is wrong with the test of a promise, or nothing."""
    file, _, name = test.strip("`").partition("::")
    if not (ROOT / file).is_file():
        return f"{file} is not there"
    if marks_of(file) is None:
        return f"{file} is deep"
    if name not in marks_of(file):
        return f"{name} is not in {file}"
    return f"{test} is deep" if DEEP.search(marks_of(file)[name]) else ""


def test_a_promise_has_a_test_that_is_always_run():
    """A test is there, and neither it nor its module is deep; each of these is found."""
    assert [f"{promise}: {broken(test)}" for promise, test in ROWS if broken(test)] == []
    deep = "tests/test_reference.py::test_the_reference_has_every_module_and_no_warning"
    nowhere, nobody = "tests/test_nowhere.py::test_a", "tests/test_promises.py::test_nobody"
    assert [broken(test).rpartition(" ")[2] for test in (deep, nowhere)] == ["deep", "there"]
    assert broken(nobody) == "test_nobody is not in tests/test_promises.py"


def test_every_document_is_in_the_table_and_no_promise_stands_twice():
    documents = {"README.md", "SECURITY.md"} | {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert set(re.findall(r"^## \[(.+?)\]", PAGE, re.MULTILINE)) == documents - SAID_ELSEWHERE
    assert len({promise for promise, _ in ROWS}) == len(ROWS) > 140
