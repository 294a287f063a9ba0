"""The notebooks of the docs run from their first cell to their last, and are kept without what they print."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shown_html import html_of

nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat and nbclient, of the extra dev")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
SECONDS = 300
"""That a cell may take on a machine with other work."""


def kernel_manager():
    """A kernel of the Python that runs the tests: a fresh environment need not have one by name."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    class OfThisPython(AsyncKernelManager):
        @property
        def kernel_spec(self):
            argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return KernelSpec(argv=argv, display_name="this Python", language="python")

    return OfThisPython()


def execute(path, ran, folder):
    """Run all cells of a notebook in a folder and write it with what they print."""
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, km=kernel_manager(), timeout=SECONDS, resources={"metadata": {"path": folder}}
    )
    client.execute()
    nbformat.write(notebook, ran)


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def values_of(path):
    """Run the cells of a notebook here, and return the value that each ends in; None where it ends in none."""
    names, found = {}, []
    for number, cell in enumerate(cells_of(path)):
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            *steps, last = ast.parse(source).body
            shown = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
            kept = ast.Module(steps if shown else [*steps, last], [])
            exec(compile(kept, f"{path.name}, cell {number}", "exec"), names)
            found.append(eval(compile(ast.Expression(last.value), path.name, "eval"), names) if shown else None)
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_of_a_notebook_run(path, tmp_path, monkeypatch, capfd):
    """One after the other, in this process: nothing is printed to stderr, and there are tables and pictures."""
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    try:
        found = values_of(path)
        assert plt.get_fignums()
    finally:
        plt.close("all")
    assert any(hasattr(value, "_repr_html_") and html_of(value) for value in found)
    assert capfd.readouterr().err == ""


@pytest.mark.deep("starts a kernel of IPython; the same cells run in make test without one")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    """Nothing is printed to stderr; tables and pictures are there.

    It runs in a process of its own: nbclient leaves loops and sockets to the collector, which warns of them.
    """
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "DTOSS_QUIET": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    kept = Path(os.environ.get("DTOSS_NOTEBOOKS") or tmp_path) / path.name
    command = [sys.executable, __file__, path, kept, tmp_path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-4_000:]
    outputs = [output for cell in cells_of(kept) for output in cell.get("outputs", ())]
    assert not [output["text"] for output in outputs if output.get("name") == "stderr"]
    kinds = [kind for output in outputs for kind in output.get("data", {})]
    assert "text/html" in kinds
    assert "image/png" in kinds


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["a_fleet", "from_accesses_to_a_plan", "places_and_zones"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_of_a_run_is_stored(path):
    """No outputs, no counts, nothing of an editor, each cell with its name; a story: text before each step."""
    text = path.read_text(encoding="utf-8")
    assert text.endswith("}\n")
    for cell in cells_of(path):
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    names = [cell["id"] for cell in cells_of(path)]
    assert len(set(names)) == len(names)
    assert cells_of(path)[0]["cell_type"] == "markdown"
    assert "".join(cells_of(path)[0]["source"]).startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_needs_no_network_and_its_links_lead_somewhere(path):
    for cell in cells_of(path):
        source = "".join(cell["source"])
        assert "http" not in source.replace("https://github.com", "")
        for target in re.findall(r"\]\(([\w./-]+)\)", source):
            assert (path.parent / target).exists(), target
        assert all(len(line) <= 120 for line in source.splitlines()), source


if __name__ == "__main__":
    execute(*sys.argv[1:])
