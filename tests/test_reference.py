"""The reference of all modules is built, without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_reference_has_every_module_and_no_warning(tmp_path):
    """A page for each public module, whether its package lists it or not; a warning would be an error."""
    run = [sys.executable, "docs/reference.py", str(tmp_path)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {str(path.relative_to(tmp_path).with_suffix("")).replace("/", ".") for path in tmp_path.rglob("*.html")}
    for package in ("dtoss", "ceps", "pipelines", "datasets"):
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            assert name in pages or path.name == "__main__.py", name
    (join,) = tmp_path.glob("pipelines/join.html")
    text = re.sub(r"<[^>]+>", "", join.read_text(encoding="utf-8"))
    assert "exclude_self: Leave out the object" in text  # an entry by its name
