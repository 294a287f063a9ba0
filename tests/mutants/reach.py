"""Which tests can reach a fault: those that enter the function it is in, by the marks of a run.

Kernels carry no marks. A fault in one is reached by whoever enters a function that names it, or names what names it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache

from tests.mutants.faults import ROOT
from tests.mutants.recorder.sitecustomize import PACKAGES, functions_of


class Reach:
    """Functions of all modules by name, and the tests that enter each."""

    def __init__(self, names, found):
        self.number = {name: n for n, name in enumerate(names)}
        self.tests = defaultdict(set)
        for test, marks in found.items():
            if test != "none":
                for n in marks.nonzero()[0].tolist():
                    self.tests[n].add(test)

    def of(self, fault):
        """Return the ids of the tests that reach a fault."""
        source = (ROOT / fault.file).read_text()
        module = ".".join((ROOT / fault.file).relative_to(ROOT).with_suffix("").parts)
        begin = source.count("\n", 0, source.index(fault.text)) + 1
        first = next((i for i, (a, b) in enumerate(zip(fault.text, fault.other, strict=False)) if a != b), 0)
        line = begin + fault.text.count("\n", 0, first)
        inside = [
            (node.lineno, name) for name, node in functions_of(ast.parse(source), module)
            if node.lineno <= line <= node.end_lineno and name in self.number
        ]  # fmt: skip
        if inside:
            return self.tests[self.number[max(inside)[1]]]
        owner = owner_at(source, line)
        if owner is None:  # of a module or a class: whoever enters anything of the module
            return set().union(*(self.tests[n] for name, n in self.number.items() if name.startswith(f"{module}:")))
        return self.by_name(owner)

    def by_name(self, owner):
        """Return the tests that enter a function which names a kernel, or a kernel that names it, and so on."""
        reached, look, seen = set(), [owner], {owner}
        while look:
            for name, simple in callers().get(look.pop(), ()):
                if name in self.number:
                    reached |= self.tests[self.number[name]]
                elif simple not in seen:
                    seen.add(simple)
                    look.append(simple)
        return reached


def owner_at(source, line):
    """Return the name of the outermost function or class around a line; None outside of all."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno <= line <= node.end_lineno:
            return node.name if isinstance(node, ast.FunctionDef) else None
    return None


@cache
def callers():
    """Return for each name the functions whose text names it: (module:function, its own name)."""
    found = defaultdict(set)
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            tree = ast.parse(file.read_text())
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            marked = {id(node): name for name, node in functions_of(tree, module)}
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    name = marked.get(id(node), f"kernel {module}:{node.name}")
                    for part in ast.walk(node):
                        used = getattr(part, "id", None) or getattr(part, "attr", None)
                        if isinstance(used, str) and used != node.name:
                            found[used].add((name, node.name))
    return found
