"""The reference of all modules is built, without a warning."""

from __future__ import annotations

import ast
import gc
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pdoc
import pytest

from tests.sources import trees

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dtoss", "ceps", "pipelines", "datasets")


def modules():
    """The names of all modules, but of those that only run."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.name != "__main__.py"]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files}


@pytest.fixture
def reference(monkeypatch):
    """The program that builds it."""
    monkeypatch.delenv("DTOSS_QUIET", raising=False)  # pdoc warns of a constant that a variable equals
    place = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture
def types_stay(reference):
    """What is said of the fields of named tuples for the pages is taken back."""
    gc.disable()  # as the program does
    names = [module for name in reference.modules() for module in pdoc.extract.walk_specs([name])]
    held = {id(kind): kind for name in names for kind in vars(importlib.import_module(name)).values()}
    tuples = [kind for kind in held.values() if isinstance(kind, type) and hasattr(kind, "_fields")]
    before = [(kind, kind.__new__.__annotations__) for kind in tuples if issubclass(kind, tuple)]
    reference.with_types(names)
    yield names
    for kind, types in before:
        kind.__new__.__annotations__ = types
    gc.enable()


def test_what_pages_would_say_is_read_without_a_warning(types_stay):
    """Docstrings of all that is public in every module; signatures and types of the files on top; the page of one."""
    for package in PACKAGES:
        for path, tree in trees(ROOT / package).items():
            for node in public(tree):
                pdoc.docstrings.convert(ast.get_docstring(node) or "", "numpy", str(path))
    assert modules() <= set(types_stay)
    made = {name: pdoc.doc.Module(importlib.import_module(name)) for name in types_stay if name.count(".") < 2}
    seen = 0
    for module in made.values():
        for member in module.flattened_own_members:
            if any(part.startswith("_") for part in member.qualname.split(".")):
                continue
            seen += 1
            assert member.kind != "function" or str(member.signature)
            assert member.kind != "variable" or member.annotation_str is not None
    assert seen > 400
    pdoc.render.configure(docformat="numpy", show_source=False, search=True)
    check_join(pdoc.render.html_module(made["pipelines.join"], made))


def public(tree):
    """Yield a module, and the classes and functions in it that have a page or stand on one."""
    yield tree
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public(node)


def check_join(page):
    """It has an entry by its name."""
    assert "exclude_self: Leave out the object" in re.sub(r"<[^>]+>", "", page)


@pytest.mark.deep("every page is drawn: half a minute; docstrings and what stands on top are read in make test")
def test_the_reference_has_every_module_and_no_warning(tmp_path):
    """A page for each public module, whether its package lists it or not; a warning would be an error."""
    run = [sys.executable, "docs/reference.py", str(tmp_path)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {str(path.relative_to(tmp_path).with_suffix("")).replace("/", ".") for path in tmp_path.rglob("*.html")}
    assert modules() <= pages
    (join,) = tmp_path.glob("pipelines/join.html")
    check_join(join.read_text(encoding="utf-8"))
