"""What contributors are told beside the documents: targets of make, checks before a commit, how to cite."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import check_reasons
from tests.sources import many_trees, statements_in, trees

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def files():
    """Names of the project's files, as git knows them."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def test_each_target_of_make_is_explained():
    """`make help` has a line for each, and documents name no other."""
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    said = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[:2] for line in said.splitlines()] == [["make", target] for target in targets]
    assert all(len(line.split()) > 4 and len(line) <= 100 for line in said.splitlines())
    assert set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split()) == set(targets)
    for name in files():
        if name.endswith((".md", "/run", ".yaml")):
            named = re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / name).read_text(), re.MULTILINE)
            assert set(named) <= set(targets), name


def test_files_are_as_the_checks_before_a_commit_want_them():
    """The patterns are read from the configuration of pre-commit; each of them finds what it looks for."""
    config = (ROOT / ".pre-commit-config.yaml").read_text()
    end, blanks = (re.compile(found) for found in re.findall(r"entry: '(.*)'", config))
    assert [bool(end.search(text)) for text in ("text", "text\n\n", "text\n", "")] == [True, True, False, False]
    assert [bool(blanks.search(line)) for line in ("text ", "text\r", "a text")] == [True, True, False]
    (most,) = (int(found) for found in re.findall(r"-le (\d+)", config))
    (exempt,) = set(re.findall(r"exclude: (.*vendor.*)", config))
    for name in files():
        if re.match(exempt, name):
            continue
        held = (ROOT / name).read_bytes()
        if b"\0" in held:
            continue
        text = held.decode()
        assert not end.search(text), name
        assert not [line for line in text.split("\n") if blanks.search(line)], name
        assert len(held) <= most, name


def test_no_file_names_a_place_of_the_machine_that_it_was_made_on():
    """Neither the folders round the checkout, nor home; nor what a lock file says of where packages were found."""
    places = {str(ROOT), str(ROOT.parent), str(Path.home())} - {"/"}
    locked = re.compile(rb'"(?:resolv|integrit)(?:ed|y)"\s*:')
    looked_for = [re.compile(rb"(?<![\w./])" + re.escape(place).encode() + rb"(?=[/\"'\s])") for place in places]
    assert all(any(one.search(f'"{place}/data"'.encode()) for one in looked_for) for place in places)
    for name in files():
        held = (ROOT / name).read_bytes()
        assert not [one.pattern for one in [locked, *looked_for] if one.search(held)], name


def test_what_is_cited_is_this_version():
    """And the length of lines is the same for editors and for ruff."""
    citation = (ROOT / "CITATION.cff").read_text()
    assert f'\nversion: "{PROJECT["project"]["version"]}"\n' in citation
    assert f"\nlicense: {PROJECT['project']['license']}\n" in citation
    assert f"\nmax_line_length = {PROJECT['tool']['ruff']['line-length']}\n" in (ROOT / ".editorconfig").read_text()


SOME = """
import pytest
from hypothesis import given, settings, strategies as st
from tests.examples import examples

made = {"many": 0, "usual": 0, "few": 0, "dear": 0}

@settings(max_examples=200, deadline=None)
@given(st.floats())
def test_many(x):
    made["many"] += 1

@given(st.floats())
def test_usual(x):
    made["usual"] += 1

@settings(max_examples=5)
@given(st.floats())
def test_few(x):
    made["few"] += 1

@settings(max_examples=examples(80))
@given(st.floats())
def test_dear(x):
    made["dear"] += 1

def test_that_took_long():
    pass

def test_spark(spark):
    pass

@pytest.mark.parametrize("case", range(9))
def test_cases(case):
    pass

@pytest.mark.parametrize("case", range(3))
def test_fewer_cases(case):
    pass

@pytest.mark.deep("more of the same kind")
def test_wide():
    pass

@pytest.mark.parametrize("case", [0, pytest.param(1, marks=pytest.mark.deep("more of the same kind"))])
def test_two(case):
    pass

def test_all():
    print(made)
"""


@pytest.fixture
def tier(tmp_path):
    """Run a folder of tests with some options; return what became of each, and what was printed."""
    conftest = "import tests.costs\ntests.costs.FILE = tests.costs.Path(__file__).with_name('durations.json')\n"
    took = {"test_some.py": {"test_that_took_long": [1, 0.1, 7.0, False], "": [9, 0.3, 0.3, False]}}
    (tmp_path / "durations.json").write_text(json.dumps(took))
    wanted = "from tests.conftest import *\n\n@pytest.fixture\ndef spark():\n    return None\n"
    (tmp_path / "conftest.py").write_text(conftest + wanted)
    (tmp_path / "test_some.py").write_text(SOME)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    deep\naddopts = --strict-markers\n")

    def run(*options):
        plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "-p", "xdist"]
        run = [sys.executable, "-m", "pytest", "-vs", *plugins, *options, "."]
        env = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return re.findall(r"::test_([\w\[\]]+) ", done.stdout), done.stdout

    return run


CASES = [f"cases[{case}]" for case in range(9)]
ALWAYS = ["many", "usual", "few", "dear", *CASES[::4], *(f"fewer_cases[{case}]" for case in range(3)), "two[0]", "all"]


def test_a_fast_run_makes_fewer_examples_and_starts_no_spark(tier):
    """Each test of a folder is run, left out, or has fewer examples or cases; the run says what it leaves out."""
    ran, said = tier("--fast")
    assert sorted(ran) == sorted(ALWAYS)
    assert "{'many': 20, 'usual': 3, 'few': 3, 'dear': 3}" in said
    assert f"{len(ALWAYS)} passed, 10 deselected" in said
    assert "no Spark, nothing slow" in said
    assert "`make test` decides" in said


def test_the_deep_tier_is_all_tests_with_all_examples(tier):
    """What is marked is left out by the usual run, cases as well; all but tests of a number make a quarter."""
    usual = [*ALWAYS, *(case for case in CASES if case not in ALWAYS), "that_took_long", "spark"]
    ran, said = tier()
    assert sorted(ran) == sorted(usual)
    assert "2 deselected" in said
    assert "{'many': 200, 'usual': 25, 'few': 5, 'dear': 20}" in said
    ran, said = tier("--deep")
    assert sorted(ran) == sorted([*usual, "wide", "two[1]"])
    assert "deselected" not in said
    assert "{'many': 200, 'usual': 100, 'few': 5, 'dear': 80}" in said


@pytest.mark.parametrize(
    ("mark", "wrong"),
    [
        (pytest.mark.deep("more seeds of the same kind"), False),
        (pytest.mark.deep, True),
        (pytest.mark.deep(), True),
        (pytest.mark.deep("slow"), True),
        (pytest.mark.deep(3), True),
        (pytest.mark.deep("more seeds of", "the same kind"), True),
    ],
)
def test_a_test_of_the_deep_tier_says_why(mark, wrong):
    """In three words at least."""
    item = SimpleNamespace(nodeid="test_x.py::test_y", iter_markers=lambda name: [mark.mark] if name == "deep" else [])
    with pytest.raises(pytest.UsageError, match="test_y: deep has no reason") if wrong else nullcontext():
        check_reasons([item])


KERNELS = ("kernel", "step", "intrinsic")
"""Decorators, or how they begin, of functions that numba gives their types."""


def untyped(tree):
    """Names of functions without the types of all parameters and of the result; kernels are left out."""
    found, waiting = [], list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(ast.unparse(mark).startswith(KERNELS) for mark in node.decorator_list):
                continue
            asked = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if node.returns is None or any(one.annotation is None and one.arg not in ("self", "cls") for one in asked):
                found.append(node.name)
        waiting += statements_in(node)
    return found


def shared_draws(tree):
    """Calls of the random numbers that a whole process shares: of the module, not of a generator of that name."""
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    made = [(ast.unparse(call.value), call.attr) for call in calls if isinstance(call, ast.Attribute)]
    kinds = {"random", "np.random"}
    return [
        f"{name}.{what}"
        for name, what in made
        if name in kinds and what[0].islower() and what != "default_rng" and (name != "random" or name in imported)
    ]


def test_all_functions_but_kernels_have_types():
    """Also in modules with kernels, where mypy does not ask for them; what writes LLVM's instructions has none.

    And none draws from the numbers that a caller has seeded, be it while garbage is collected.
    """
    with many_trees():
        for package in ("dtoss", "ceps", "pipelines", "datasets"):
            for path, tree in trees(ROOT / package).items():
                if path.parent.name != "compiled":
                    assert untyped(tree) == [], path.relative_to(ROOT)
                assert "random" not in path.read_text(encoding="utf-8") or shared_draws(tree) == [], path
    code = "@kernel\ndef a(x): pass\n@once\ndef b(x): pass\nclass C:\n def d(self) -> int: pass\ndef e(x: int): pass"
    assert untyped(ast.parse(code)) == ["e", "b"]
    code = "import random; random.random(); np.random.rand(3); a = np.random.default_rng(0); random.Random(1)"
    assert shared_draws(ast.parse(code)) == ["random.random", "np.random.rand"]
