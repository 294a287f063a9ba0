"""What importing ceps brings in, and its public names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ceps
from ceps.plan.planning import planner

PACKAGE = Path(ceps.__file__).parent


def test_import_is_light():
    """`import ceps` brings neither numba, scipy, pyarrow nor matplotlib: a command that only reads a plan is quick."""
    heavy = ("numba", "scipy", "pyarrow", "matplotlib", "pandas")
    code = f"import sys, ceps; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_ceps_knows_nothing_of_the_index_or_of_spark():
    """No file of the package imports dtoss, pipelines or pyspark; pyarrow only where patterns are files."""
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text())
        names = {
            alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        } | {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not names & {"dtoss", "pipelines", "pyspark", "datasets"}, file
        assert "pyarrow" not in names or file.name == "patterns_file.py"
        assert len(file.read_text().splitlines()) < 600, file


def test_public_names_exist_and_are_described():
    """Everything in __all__ is there, and has a docstring."""
    for name in ceps.__all__:
        assert getattr(ceps, name).__doc__, name


@pytest.mark.parametrize("method", ceps.METHODS)
def test_planners_share_one_call_shape(method):
    """planner(problem, rng, effort, progress=None, **options), whatever the method."""
    import inspect

    call, _ = planner(method)
    names = list(inspect.signature(call).parameters)
    assert names[:4] == ["problem", "rng", "effort", "progress"]
