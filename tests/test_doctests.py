"""Examples in docstrings run and print what they say: a case for each module that has some."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("dtoss", "ceps", "pipelines", "datasets")
    for file in sorted((ROOT / package).rglob("*.py"))
    if ">>> " in file.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name):
    done = doctest.testmod(importlib.import_module(name), report=False)
    assert done.failed == 0
    assert done.attempted > 0
