"""What contributors are told beside the documents: targets of make, checks before a commit, how to cite."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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


def test_a_fast_run_makes_fewer_examples_and_starts_no_spark(tmp_path):
    """Each test of a folder is run, left out, or has fewer examples or cases; the run says what it leaves out."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_some.py").write_text(
        """
import pytest
from hypothesis import given, settings, strategies as st

made = {"many": 0, "usual": 0, "few": 0}

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

@pytest.mark.slow
def test_slow():
    raise AssertionError

def test_spark(spark):
    raise AssertionError

@pytest.mark.parametrize("case", range(9))
def test_cases(case):
    assert case in (0, 4, 8)

@pytest.mark.parametrize("case", range(3))
def test_fewer_cases(case):
    pass

def test_all():
    assert made == {"many": 20, "usual": 10, "few": 3}
"""
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    run = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "--fast", str(tmp_path)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "10 passed, 8 deselected" in done.stdout, done.stdout
    assert "`make test` runs all" in done.stdout


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
        waiting += ast.iter_child_nodes(node)
    return found


def test_all_functions_but_kernels_have_types():
    """Also in modules with kernels, where mypy does not ask for them; what writes LLVM's instructions has none."""
    for package in ("dtoss", "ceps", "pipelines", "datasets"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.parent.name != "compiled":
                assert untyped(ast.parse(path.read_text())) == [], path.relative_to(ROOT)
    code = "@kernel\ndef a(x): pass\n@once\ndef b(x): pass\nclass C:\n def d(self) -> int: pass\ndef e(x: int): pass"
    assert untyped(ast.parse(code)) == ["e", "b"]
