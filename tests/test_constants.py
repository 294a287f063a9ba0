"""A constant's name means one thing in all of the index."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.sources import many_trees, trees

PACKAGE = Path(__file__).parents[1] / "dtoss"


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


def test_the_check_finds_what_it_looks_for():
    """Names that are assigned together count each."""
    tree = ast.parse("A = 1\nB, C = 2, 3\nD: int = 4\n_E = 5\nf = 6\nT = TypeVar('T')\ndef g():\n    H = 7")
    assert list(constants(tree)) == ["A", "B", "C", "D"]
