"""Kernels can be read: few arguments, no more than a page, and a name for every number."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "dtoss"
MOST_ARGUMENTS = 8
"""Of a kernel that kernels call. One that Python calls takes its arrays one by one: each costs the call."""
MOST_LINES = 100
"""With its signature and docstring."""
PLAIN = (0, 1, 2, 0.5, 4)
"""Numbers that need no name."""


def kernels_of(text):
    """Every kernel and step in a module, as (its definition, whether it states a signature: then Python calls it)."""
    found = []
    if "@kernel" not in text and "@step" not in text:
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                called = isinstance(mark, ast.Call)
                name = mark.func if called else mark
                if isinstance(name, ast.Name) and name.id in ("kernel", "step"):
                    found.append((node, called))
    return found


def faults(text):
    """What is wrong with the kernels of a module, a line each."""
    wrong = []
    for node, declared in kernels_of(text):
        arguments = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
        lines = node.end_lineno - min(mark.lineno for mark in node.decorator_list) + 1
        numbers = {
            part.value
            for statement in node.body
            for part in ast.walk(statement)
            if isinstance(part, ast.Constant) and type(part.value) in (int, float) and part.value not in PLAIN
        }
        if arguments > MOST_ARGUMENTS and not declared:
            wrong.append(f"{node.name} takes {arguments} arguments")
        if lines > MOST_LINES:
            wrong.append(f"{node.name} has {lines} lines")
        if numbers:
            wrong.append(f"{node.name} has numbers without a name: {sorted(numbers)}")
    return wrong


def modules():
    return sorted(path for path in ROOT.rglob("*.py") if kernels_of(path.read_text()))


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in modules()])
def test_a_kernel_can_be_read(path):
    """A group of arguments that is passed on is a named tuple; a long kernel is cut at its steps."""
    wrong = faults(path.read_text())
    assert not wrong, "; ".join(wrong)


def test_the_check_finds_what_it_looks_for():
    """Too many arguments, too many lines, a number without a name; and no more than these."""
    many = ", ".join("abcdefghi")
    assert faults(f"@kernel\ndef f({many}):\n    return a * 0.5 + 4") == ["f takes 9 arguments"]
    assert faults(f"@kernel('void()')\ndef f({many}):\n    return -1") == []
    assert faults("@kernel\ndef f(a):\n" + "    a += 1\n" * 99) == ["f has 101 lines"]
    assert faults("@kernel\ndef f(a):\n    return a << 3, a[-5], 0.25") == [
        "f has numbers without a name: [0.25, 3, 5]"
    ]
    assert faults(f"@step\ndef f({many}):\n    return 0") == ["f takes 9 arguments"]
    assert faults("def f(a):\n    return 3") == []
    assert len(modules()) > 20
