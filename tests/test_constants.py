"""A constant's name means one thing in all of the index."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.sources import many_trees, trees

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dtoss"
NUMBERS = {
    "ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE", "TEN", "TWELVE", "SIXTEEN",
    "HUNDRED", "THOUSAND", "MILLION", "BILLION", "HALF", "THIRD", "QUARTER", "FIFTH", "TENTH", "TWICE", "DOUBLE",
}  # fmt: skip


def constants(tree):
    """The public constants that a module defines: names in capitals, those of type variables aside."""
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and "TypeVar" not in ast.unparse(node):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
            yield from (name.id for name in names if name.id.isupper() and not name.id.startswith("_"))


def test_a_constant_is_defined_in_one_module():
    """Others import it; two that mean different things have different names."""
    homes = defaultdict(list)
    with many_trees():
        for path, tree in trees(PACKAGE).items():
            for name in constants(tree):
                homes[name].append(str(path.relative_to(PACKAGE)))
    assert len(homes) > 100
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def is_no_number(node):
    return isinstance(node, ast.Call) or isinstance(getattr(node, "value", 0), str)


def named_by_value(tree):
    """Numbers that are called by their value: the name lies once that changes, and serves two meanings before."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and not any(is_no_number(part) for part in ast.walk(node.value)):
            yield from (part.id for part in ast.walk(node.targets[0]) if getattr(part, "id", "").strip("_") in NUMBERS)


def test_no_constant_is_named_by_its_value():
    """It says what it is for, or is the number itself."""
    with many_trees():
        found = {
            str(path.relative_to(ROOT)): names
            for layer in ("dtoss", "ceps", "pipelines", "datasets")
            for path, tree in trees(ROOT / layer).items()
            if (names := list(named_by_value(tree)))
        }
    assert found == {}
    assert list(named_by_value(ast.parse("_HUNDRED = 100\nA, TWICE = 1, 2\nHUNDREDS = 3\none = TWO\nTEN = 'ten'"))) == [
        "_HUNDRED",
        "TWICE",
    ]


def test_the_check_finds_what_it_looks_for():
    """Names that are assigned together count each."""
    tree = ast.parse("A = 1\nB, C = 2, 3\nD: int = 4\n_E = 5\nf = 6\nT = TypeVar('T')\ndef g():\n    H = 7")
    assert list(constants(tree)) == ["A", "B", "C", "D"]
