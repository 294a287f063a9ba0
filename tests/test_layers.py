"""The floor plan: what may import what, between folders, between the rooms of a folder, and never in a circle."""

from __future__ import annotations

import ast
import re
import runpy
from functools import cache
from pathlib import Path

import pytest

from tests.sources import many_trees, statements_in, trees

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
ABOVE = {("datasets", name) for name in ("demo.py", "demo_picture.py", "replay.py")}
"""The demo runs the jobs, a replay feeds them: they are entrances, which nothing else imports."""

MOST_FILES = 40
PLAN = Path(__file__).parent / "rooms.txt"
"""Of each room, lowest first, the other rooms of its folder that it imports: each stands above it.

A room is a folder; the files at the top of ``dtoss`` are a room each, ``dtoss`` is the package itself. Of the other
folders the name alone stands for all files at the top.
"""


@pytest.fixture(scope="module", autouse=True)
def _trees():
    """Those of the whole project are held at a time."""
    with many_trees():
        yield
    for held in (imports, imported, everything):
        held.cache_clear()


def is_guard(node):
    """Whether it is the end of a script: there, and only there, a job may import the command that runs it."""
    maybe = isinstance(node, ast.If) and isinstance(node.test, ast.Compare)
    return maybe and ast.unparse(node.test) == "__name__ == '__main__'"


@cache
def imports(tree):
    """All import statements of a module, also inside functions and for types, but those of a script's end."""
    waiting, found = list(tree.body), []
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif not is_guard(node):
            waiting += statements_in(node)
    return found


@cache
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
            waiting += statements_in(node)
    return names


def modules(layer):
    found = trees(ROOT / layer)
    assert found
    return found.items()


def name_of(path):
    """The dotted name of a module's file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def targets(tree, known):
    """The modules of ours that a module imports, of the dotted names ``known``."""
    for node in imports(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        else:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else node.module


@cache
def room_of(module, packages):
    """The folder and the room of a module."""
    layer, *rest = module.split(".")
    if module not in packages:
        rest = rest if layer == "dtoss" and len(rest) == 1 else rest[:-1]
    return layer, "/".join(rest)


@cache
def everything():
    """All modules by their dotted names, and which of them are packages."""
    found = {name_of(path): tree for layer in OURS for path, tree in modules(layer)}
    packages = (name_of(path) for layer in OURS for path, _ in modules(layer) if path.stem == "__init__")
    return found, frozenset(packages)


def doors(trees, packages):
    """Of each room, by the name that it has in the plan, the other rooms of its layer that it imports, and by what."""
    found = {}
    for module, tree in trees.items():
        layer, inner = room_of(module, packages)
        if layer == "tests":
            continue
        opened = found.setdefault(f"{layer}/{inner}".rstrip("/"), {})
        for target in targets(tree, trees):
            other_layer, other = room_of(target, packages)
            if other_layer == layer and other != inner:
                opened.setdefault(f"{other_layer}/{other}".rstrip("/"), f"{module} imports {target}")
    return found


def read_plan(text):
    """The rooms of the plan in their order, each with those that it imports."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {room: set(others.split()) for room, others in (line.split(":") for line in lines)}


def faults_of_plan(plan, found):
    """What is wrong with a plan: rooms that it lacks, has too many, or in the wrong order, and doors that differ."""
    yield from (f"{room} is not on the plan" for room in found.keys() - plan.keys())
    yield from (f"{room} is on the plan, and gone" for room in plan.keys() - found.keys())
    order = {room: number for number, room in enumerate(plan)}
    for room, others in plan.items():
        yield from (f"{room} stands above {other}, which it imports" for other in others if order[other] > order[room])
        opened = found.get(room, {})
        yield from (f"{opened[other]}: {other} is not among the rooms of {room}" for other in opened.keys() - others)
        yield from (f"{room} does not import {other}" for other in others - opened.keys())


def circles(graph):
    """The sets of names that reach each other."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            circle = set(stack[stack.index(name) :])
            del stack[stack.index(name) :]
            if len(circle) > 1:
                found.append(circle)

    for name in graph:
        if name not in index:
            visit(name)
    return found


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
            if (layer, path.name) not in ABOVE and layer != "tests" and "demo" in path.read_text():
                nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
                assert not [name for name in map(ast.unparse, nodes) if "datasets.demo" in name]


def test_rooms_import_as_the_plan_says():
    """Downwards only, also inside functions and for types."""
    trees, packages = everything()
    plan = read_plan(PLAN.read_text())
    assert not list(faults_of_plan(plan, doors(trees, packages)))


def test_a_room_says_in_one_sentence_what_may_live_there():
    """And holds no code beside it, but for the faces of packages that users import."""
    for room in read_plan(PLAN.read_text()):
        folder = ROOT / room
        if not folder.is_dir() or room in ("bench/ceps", "dtoss", "ceps", "dtoss/history"):
            continue
        tree = ast.parse((folder / "__init__.py").read_text())
        assert len(tree.body) == 1, f"{room} holds code in its __init__.py"
        assert ast.get_docstring(tree).rstrip().endswith("."), room


def test_the_list_of_rooms_is_what_they_say():
    """`python docs/rooms.py > docs/rooms.md` makes it."""
    page = runpy.run_path(str(ROOT / "docs" / "rooms.py"))["page"]()
    assert (ROOT / "docs" / "rooms.md").read_text() == page
    assert page.count("\n| `") > 90


def test_a_wrong_plan_is_found():
    """A door that is forbidden, one that nobody uses, a room that is missing, gone or above what it imports."""
    found = {"a": {}, "b": {"a": "b.x imports a.y"}}
    assert list(faults_of_plan(read_plan("# a plan\na:\nb: a\n"), found)) == []
    assert list(faults_of_plan(read_plan("a:\nb:"), found)) == ["b.x imports a.y: a is not among the rooms of b"]
    assert list(faults_of_plan(read_plan("b: a\na:"), found)) == ["b stands above a, which it imports"]
    assert list(faults_of_plan(read_plan("a:\nb: a\nc:"), found)) == ["c is on the plan, and gone"]
    assert list(faults_of_plan(read_plan("a:"), found)) == ["b is not on the plan"]
    assert list(faults_of_plan(read_plan("a:\nb: a\nc: b"), found | {"c": {}})) == ["c does not import b"]


def test_neither_modules_nor_rooms_import_in_a_circle():
    """Counted inside functions and for types too."""
    trees, packages = everything()
    assert circles({module: {*targets(tree, trees)} - {module} for module, tree in trees.items()}) == []
    assert circles({room: set(opened) for room, opened in doors(trees, packages).items()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [{"b", "c"}]


def test_no_folder_holds_more_than_a_reader_can_survey():
    """Forty files."""
    for layer in OURS:
        for folder in {path.parent for path in (ROOT / layer).rglob("*.py")}:
            files = [path for path in folder.iterdir() if path.is_file() and path.name != "py.typed"]  # a mark, empty
            assert len(files) <= MOST_FILES, f"{folder.relative_to(ROOT)} holds {len(files)} files"


ABSENT = re.compile(
    r"""os\.link\(|hardlink_to|O_EXCL|\.open\(\s*"x|open\([^()]*,\s*"x|mode="(create|x)|"create"|PutMode|If-None"""
)
"""How a file is made only where there is none."""


def test_only_one_module_puts_a_file_that_is_absent():
    """Commits rest on it: there is no second one in the project."""
    found = {
        str(path.relative_to(ROOT))
        for layer in ("dtoss", "pipelines", "ceps", "datasets", "bench")
        for path in (ROOT / layer).rglob("*.py")
        if ABSENT.search(path.read_text())
    }
    assert found == {"dtoss/commits/folder.py"}
    for code in ("os.link(a, b)", 'Path(a).open("xb")', 'open(a, "x")', 'put(s, a, b, mode="create")', "os.O_EXCL"):
        assert ABSENT.search(code), code


def test_the_check_finds_what_it_looks_for():
    """Imports in functions count where they should, and only there; the end of a script does not."""
    tree = ast.parse(
        "import a.b\ndef f():\n    from c import d\nif TYPE_CHECKING:\n    import e\nclass G:\n    import h"
    )
    assert imported(tree, everywhere=True) == {"a", "c", "e", "h"}
    assert imported(tree, everywhere=False) == {"a", "h"}
    script = ast.parse("import a.b\nif __name__ == '__main__':\n    from c import d\nelse:\n    import e")
    assert [ast.unparse(node) for node in imports(script)] == ["import a.b"]
