"""A file imports only files of a lower layer, and what a query server needs imports no Spark."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "dtoss": {"dtoss"},
    "ceps": {"ceps"},
    "datasets": {"datasets", "dtoss", "ceps"},
    "pipelines": {"pipelines", "dtoss", "ceps"},
}
OURS = {*MAY_IMPORT, "tests", "bench"}
LIBRARIES = {
    "dtoss": {"numpy", "scipy", "numba", "llvmlite", "pyarrow", "pyproj", "sqlglot"},
    "ceps": {"numpy", "scipy", "numba", "llvmlite"},
}
"""What a layer may need where a module is imported; inside functions it may ask for more."""
ABOVE = {("datasets", "demo.py"), ("datasets", "demo_picture.py")}
"""The demo runs the jobs: it is an entrance, which nothing imports."""


def imported(tree, *, everywhere):
    """Top-level names that a module imports; where it is imported only, unless ``everywhere``."""
    names = set()
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            names.add(node.module.partition(".")[0])
        elif everywhere or not (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        ):
            waiting += ast.iter_child_nodes(node)
    return names


def modules(layer):
    found = sorted((ROOT / layer).rglob("*.py"))
    assert found
    return [(path, ast.parse(path.read_text())) for path in found]


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_file_imports_only_lower_layers(layer):
    """Also inside functions and for types."""
    for path, tree in modules(layer):
        if (layer, path.name) in ABOVE:
            continue
        wrong = imported(tree, everywhere=True) & OURS - MAY_IMPORT[layer]
        assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("layer", LIBRARIES)
def test_a_layer_needs_only_its_libraries(layer):
    """Anything else is imported where it is used."""
    import sys

    for path, tree in modules(layer):
        if "serve" in path.relative_to(ROOT).parts:
            continue  # an extra of its own
        wrong = imported(tree, everywhere=False) - LIBRARIES[layer] - {layer} - sys.stdlib_module_names
        assert not wrong, f"{path.relative_to(ROOT)} needs {', '.join(sorted(wrong))}"


def test_nothing_imports_the_entrances():
    """Nor are there modules whose name says nothing."""
    for layer in OURS:
        for path, tree in modules(layer):
            assert path.stem not in ("utils", "helpers", "common", "misc")
            if (layer, path.name) not in ABOVE and layer != "tests":
                names = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))}
                assert not [name for name in names if "datasets.demo" in name]


def test_the_check_finds_what_it_looks_for():
    """Imports in functions count where they should, and only there."""
    tree = ast.parse(
        "import a.b\ndef f():\n    from c import d\nif TYPE_CHECKING:\n    import e\nclass G:\n    import h"
    )
    assert imported(tree, everywhere=True) == {"a", "c", "e", "h"}
    assert imported(tree, everywhere=False) == {"a", "h"}
