"""Docstrings of what users call are numpydoc that a parser reads, and say what the signature says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ceps
import dtoss
from tests.sources import many_trees, trees

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dtoss", "ceps", "pipelines", "datasets")
SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "Notes", "References", "Examples")
"""In this order."""
ENTRIES = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")
"""Sections of entries: a line each, and what is to be said of it below, indented."""
MOST_WORDS = 4
"""Of a type; more of them are a sentence that stands on the wrong line."""


@pytest.fixture(scope="module", autouse=True)
def _trees():
    """Those of the whole project are held at a time."""
    with many_trees():
        yield


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def is_overload(node: Definition) -> bool:
    """Whether it is one of the signatures of a function that follows and has the docstring."""
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)


@cache
def said_by_bases() -> dict[str, dict[str, Definition]]:
    """The methods of the classes of the project from which others have some, with their docstrings, by both names."""
    named = {
        node.name: node
        for tree in trees(ROOT / "dtoss").values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    bases = {base.id for node in named.values() for base in node.bases if isinstance(base, ast.Name)}
    return {
        name: {one.name: one for one in named[name].body if isinstance(one, Definition) and ast.get_docstring(one)}
        for name in bases & named.keys()
    }


def from_bases(node: ast.Module | ast.ClassDef) -> dict[str, Definition]:
    """What a class has from others of the project: a method that one of them documents says no more of itself."""
    found = {}
    for base in getattr(node, "bases", ()):
        if isinstance(base, ast.Name):
            found |= said_by_bases().get(base.id, {})
    return found


def public(tree: ast.Module | ast.ClassDef, place: str) -> Iterator[tuple[str, Definition]]:
    """Yield the public functions, classes and methods of a module with their names."""
    said = from_bases(tree)
    for node in tree.body:
        if isinstance(node, Definition) and node.name in said and not ast.get_docstring(node):
            assert parameters(node) == parameters(said[node.name]), f"{place}.{node.name} takes other parameters"
        elif isinstance(node, Definition) and not node.name.startswith("_") and not is_overload(node):
            yield f"{place}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{place}.{node.name}")


def sections(doc: str) -> dict[str, list[str]]:
    """The lines of each section by its heading; the text before the first one by an empty name."""
    lines, found, name = doc.split("\n"), {"": []}, ""
    at = 0
    while at < len(lines):
        if at + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[at + 1]):
            name = lines[at]
            assert name in SECTIONS, f"no section is called {name!r}"
            assert len(lines[at + 1]) == len(name), f"{name} has a line of {len(lines[at + 1])} below it"
            assert name not in found, f"{name} stands twice"
            assert lines[at - 1] == "", f"no empty line is before {name}"
            found[name] = []
            at += 2
            continue
        found[name].append(lines[at])
        at += 1
    order = [SECTIONS.index(name) for name in found if name]
    assert order == sorted(order), f"sections stand as {', '.join(found)}"
    for name, held in found.items():
        assert not name or any(line.strip() for line in held), f"{name} is empty"
        assert not any(line.strip() in SECTIONS for line in held), (
            f"a heading in {name or 'the text'} has no line below"
        )
    return found


def entries(name: str, lines: list[str]) -> list[str]:
    """The first lines of a section's entries, each of which has something said below it."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    heads = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("    ") or not line:
            continue
        assert not line.startswith(" "), f"{name}: {line.strip()!r} is indented by less than 4"
        assert re.match(r" {4,}\S", after), f"{name}: nothing is said below {line!r}"
        kind = line.split(" : ", 1)[-1] if name != "Raises" else ""
        assert " : " not in line or len(kind.split()) <= MOST_WORDS, f"{name}: {kind!r} is no type"
        heads.append(line)
    return heads


def names_of(heads: list[str]) -> list[str]:
    """The names of entries, without stars and types."""
    return [name.strip().lstrip("*") for head in heads for name in head.split(" : ")[0].split(",")]


def parameters(node: Definition) -> list[str] | None:
    """The parameters of a function, or of what makes an object of a class; None where its base does.

    Fields whose names begin with an underscore are what an object keeps for itself.
    """
    if isinstance(node, ast.ClassDef):
        fields = [line.target.id for line in node.body if isinstance(line, ast.AnnAssign)]
        fields = [name for name in fields if not name.startswith("_")]
        made = next((line for line in node.body if isinstance(line, ast.FunctionDef) and line.name == "__init__"), None)
        return fields or (parameters(made) if made else None)
    asked = node.args
    ordered = [*asked.posonlyargs, *asked.args, asked.vararg, *asked.kwonlyargs, asked.kwarg]
    return [one.arg for one in ordered if one is not None and one.arg not in ("self", "cls")]


def check(node: Definition, *, called: bool = True) -> None:
    """Compare a docstring with its signature; an assertion says what is wrong.

    What users do not call says in its text what comes back, shapes and units; it has no list of parameters.
    """
    doc = ast.get_docstring(node)
    assert doc, "there is no docstring"
    found = sections(doc)
    lists = [name for name in ("Parameters", "Attributes", "Returns", "Raises") if name in found]
    assert called or not lists or is_told_to_users(node), f"{', '.join(lists)} of what users do not call"
    heads = {name: entries(name, lines) for name, lines in found.items() if name in ENTRIES}
    for name in ("Parameters", "Attributes"):
        if name in heads:
            said, there = names_of(heads[name]), parameters(node)
            assert said == there, f"{name} are {', '.join(said)}; the signature has {', '.join(there or [])}"
    for head in heads.get("Raises", []):
        assert re.fullmatch(r"[\w.]+(, [\w.]+)*", head), f"{head!r} is no exception"


def is_told_to_users(node: Definition) -> bool:
    """Whether a framework shows the docstring: of a command or a route, whose decorator is a method."""
    calls = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return any(isinstance(one, ast.Attribute) for one in calls)


JOBS = {
    "as_of.as_of", "bill.bill", "calibrate.calibrate", "cycle.cycle", "forget.allow_again", "forget.forget",
    "graph.knn_graph", "history.append", "history.append_files", "history_frame.history_frame",
    "history_joins.history_knn_join", "history_joins.history_range_join", "history_report.history_report",
    "join.knn_join", "join.range_join", "patterns.patterns", "plan.plan", "rebuild.rebuild", "report.report",
    "spark.session.spark_session", "sql.register.register", "stream.stream", "watch.watch", "watch.watch_files",
    "windows.windows", "zones_join.within_join",
}  # fmt: skip
"""In pipelines."""
OTHERS = {
    "ceps.streams.fusion.fuse", "ceps.streams.rebalance.rebalance",
    "dtoss.watch.events.event_log.event_paths", "dtoss.watch.watch_folder.Home",
}  # fmt: skip
"""That documents import from their modules."""


@cache
def called_by_users() -> set[str]:
    """What users and writers of plugins call, by module and name; the methods of its classes are theirs too."""
    offered = [getattr(package, name) for package in (dtoss, ceps) for name in package.__all__]
    offered += [getattr(dtoss.history, name) for name in dir(dtoss.history) if name in ("History", "append", "open")]
    offered += [base for one in offered if isinstance(one, type) for base in one.__mro__ if "dtoss" in base.__module__]
    named = {f"{one.__module__}.{one.__qualname__}" for one in offered if hasattr(one, "__qualname__")}
    return named | {f"pipelines.{job}" for job in JOBS} | OTHERS


def is_called(place: str) -> bool:
    """Whether users call what stands at ``folder/file.py.name``; of datasets every reader and maker."""
    path, _, name = place.partition(".py.")
    module, top = path.replace("/", "."), name.split(".")[0]
    return f"{module}.{top}" in called_by_users() or (path.startswith("datasets/") and path.count("/") == 1)


def test_what_users_call_is_there():
    """The lists name what is defined, so a name that was moved is not forgotten."""
    defined = {
        f"{str(path.relative_to(ROOT)).removesuffix('.py').replace('/', '.')}.{node.name}"
        for package in PACKAGES
        for path, tree in trees(ROOT / package).items()
        for node in tree.body
        if isinstance(node, Definition)
    }
    assert sorted(called_by_users() - defined) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_are_read_and_true(package):
    """Sections have their names and lines; where users call, entries have text and each parameter its entry."""
    wrong = []
    assert trees(ROOT / package)
    for path, tree in trees(ROOT / package).items():
        for name, node in public(tree, str(path.relative_to(ROOT))):
            try:
                check(node, called=is_called(name))
            except AssertionError as error:
                wrong.append(f"{name}: {str(error).splitlines()[0]}")
    assert not wrong, "\n".join(wrong)


GOOD = '''
def f(a, b=1, *more, key, **rest):
    """Return a.

    Parameters
    ----------
    a, b : int
        Both.
    *more
        float64 (n,). Others, with a
        second line.

        And a paragraph.
    key
        A key : of a kind.
    **rest
        The rest.

    Raises
    ------
    ValueError
        If it is.
    """
'''


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (changed("    key\n        A key : of a kind.", "    key : a key of some kind\n        Of it."), "no type"),
        (changed("    key\n        A key : of a kind.", "    key : a key of a certain kind."), "nothing is said below"),
        (changed("    key\n        A key : of a kind.\n", ""), "Parameters are a, b, more, rest"),
        (changed("    **rest\n", "    **other\n"), "Parameters are a, b, more, key, other"),
        (changed("    a, b : int", "    b, a : int"), "Parameters are b, a, more"),
        (changed("    Raises\n", "    Throws\n"), "no section is called 'Throws'"),
        (changed("    ------\n    V", "    -----\n    V"), "a line of 5 below"),
        (changed("    ------\n    V", "    V"), "a heading in Parameters has no line below"),
        (changed("    ValueError\n", "    a wrong value\n"), "is no exception"),
        (changed("        The rest.\n", "      The rest.\n"), "nothing is said below"),
        ("def g(): pass", "no docstring"),
        ("class A:\n    '''A.\n\n    Parameters\n    ----------\n    x\n        One.\n    '''\n    y: int", "are x"),
        (
            "class A:\n    '''A.\n\n    Notes\n    -----\n    x\n\n    Raises\n    ------\n    E\n        x\n    '''",
            "sections stand",
        ),
    ],
)
def test_the_check_finds_what_it_looks_for(source, said):
    """The first definition is right; each of the others has one thing wrong."""
    check(ast.parse(GOOD).body[0])
    with pytest.raises(AssertionError, match=re.escape(said)):
        check(ast.parse(source).body[0])


# -- names in docstrings ----------------------------------------------------------------------------------------------


def names_in(body: list[ast.stmt], within: str = "") -> Iterator[str]:
    """Yield what a module, or a class in it, defines, with what its classes do, and what it imports."""
    for node in body:
        if isinstance(node, Definition):
            yield within + node.name
            if isinstance(node, ast.ClassDef):
                yield from names_in(node.body, f"{within}{node.name}.")
                yield from (f"{within}{node.name}.{name}" for name in from_bases(node))
        elif isinstance(node, ast.Assign):
            named = [one for target in node.targets for one in getattr(target, "elts", [target])]
            yield from (within + one.id for one in named if isinstance(one, ast.Name))
            if ast.unparse(node.targets[0]) == "__all__":
                yield from ast.literal_eval(node.value)
        elif isinstance(node, ast.AnnAssign):
            yield within + ast.unparse(node.target)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.If):
            yield from names_in(node.body, within)


@cache
def known() -> dict[str, set[str]]:
    """Every module of the project by its name, with the names in it."""
    found = {}
    for package in PACKAGES:
        for path, tree in trees(ROOT / package).items():
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = set(names_in(tree.body))
        for folder in (ROOT / package).rglob("*/"):
            found.setdefault(".".join(folder.relative_to(ROOT).parts), set())  # one without an __init__
    return found


def leads_somewhere(target: str, modules: dict[str, set[str]], module: str, owner: str) -> bool:
    """Whether a name in a docstring of a class, or of a module itself, is that of something."""
    if target.startswith("."):  # of any module whose name ends so
        within = [name for name in modules if target.startswith("." + name.rpartition(".")[2] + ".")]
        return any(held(target[len(name.rpartition(".")[2]) + 2 :], name, modules) for name in within)
    parts = target.split(".")
    if parts[0] not in PACKAGES:
        return f"{owner}.{target}" in modules[module] or held(target, module, modules)
    cuts = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts) + 1)]
    return any(name in modules and (not rest or held(rest, name, modules)) for name, rest in cuts)


def held(name: str, module: str, modules: dict[str, set[str]]) -> bool:
    """Whether a module has a name; of a class that it has from another one, what that one says."""
    first = name.split(".")[0]
    return name in modules[module] or (first in modules[module] and any(name in names for names in modules.values()))


def referred(path: Path, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what docstrings and comments of a file refer to, with the class that they stand in."""
    source, classes = path.read_text(encoding="utf-8"), None
    for match in re.finditer(r":(?:func|class|mod|meth|attr|data|exc):`~?([^`]+)`", source):
        if classes is None:
            classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        line = source.count("\n", 0, match.start()) + 1
        inside = [node.name for node in classes if node.lineno <= line <= (node.end_lineno or 0)]
        yield match[1], inside[-1] if inside else ""


def test_names_in_docstrings_lead_somewhere():
    """A module, function, class or method that a docstring refers to is there, under that name."""
    modules, wrong, seen = known(), [], 0
    for package in PACKAGES:
        for path, tree in trees(ROOT / package).items():
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            for target, owner in referred(path, tree):
                seen += 1
                if not leads_somewhere(target, modules, module, owner):
                    wrong.append(f"{path.relative_to(ROOT)}: {target}")
    assert not wrong, "\n".join(wrong)
    assert seen > 50


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("dtoss.open", True),
        ("dtoss.errors", True),
        ("dtoss.errors.StoreError", True),
        ("dtoss.errors.BookError", False),
        ("dtoss.hats.Hits", False),
        ("dtoss.index.Index.knn", True),
        ("dtoss.index.Index.kin", False),
        (".space.Space", True),
        (".spice.Space", False),
        (".space.Spice", False),
        ("knn", True),
        ("kin", False),
    ],
)
def test_a_name_that_leads_nowhere_is_found(target, found):
    """Modules, what is in them, and methods; by themselves inside a class."""
    assert leads_somewhere(target, known(), "dtoss.index", "Index") is found
