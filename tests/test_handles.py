"""How often tests reach behind the public functions of a room: it makes the house hard to move, and may only fall."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.sources import many_trees, trees

TESTS = Path(__file__).parent
MOST_REPLACED = 156
"""Attributes of modules and objects that tests replace. Lower it when there are fewer; a size is better an argument."""
MOST_PRIVATE = 53
"""Uses of `._name` of anything but the test's own self."""


@pytest.fixture(scope="module")
def nodes():
    """All calls and attributes that are written in the tests."""
    with many_trees():
        written = (node for tree in trees(TESTS).values() for node in ast.walk(tree))
        return [node for node in written if isinstance(node, (ast.Attribute, ast.Call))]


def is_name(node, *names):
    return isinstance(node, ast.Name) and node.id in names


def test_replaced_attributes_become_fewer(nodes):
    calls = [node.func for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    replaced = [func for func in calls if func.attr == "setattr" and is_name(func.value, "monkeypatch", "patch")]
    assert len(replaced) == MOST_REPLACED


def test_private_names_become_fewer(nodes):
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and not is_name(node.value, "self", "cls")]
    private = [one for one in attributes if one.attr.startswith("_") and not one.attr.startswith("__")]
    assert len(private) == MOST_PRIVATE
