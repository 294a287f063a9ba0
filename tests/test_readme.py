"""What the README shows works, what it prints is printed, and its figures have commands."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_SCREEN = 50
"""Lines of the README that are seen first."""


def example():
    """The lines that build an index and ask it."""
    return next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "dtoss.build" in block)


def test_the_example_is_right(capsys):
    """The fifteen lines begin with a frame, and their answers are those of brute force.

    `tests/documents/test_examples.py` compares what they print with what is shown.
    """
    assert len([line for line in example().splitlines() if line.strip()]) <= 15
    names: dict[str, object] = {}
    exec(example(), names)
    said = capsys.readouterr().out
    index, here = names["index"], names["here"]
    taxis = names["taxis"]
    assert type(taxis).__name__ == "DataFrame"
    positions = taxis[["lon", "lat"]].to_numpy()
    free = np.flatnonzero(taxis["occupied"] == 0)
    nearest = free[np.argsort(np.linalg.norm((positions[free] - here) * [np.cos(np.radians(37.78)), 1], axis=1))[:3]]
    assert str(nearest) in said
    assert str(round(index.area(42))) in said
    assert "[]" not in said  # an empty answer shows nothing


def test_how_to_install_and_what_is_printed_are_seen_first():
    """`pip install` above the example, the answers below it, all before anybody has to scroll far."""
    first = "\n".join(README.splitlines()[:FIRST_SCREEN])
    install, asked, answered = first.index("pip install"), first.index("import dtoss"), first.index("```text")
    assert install < asked < answered
    assert first.count("```") == 6


def test_six_rows_of_numbers():
    """Each names the command that repeats it; `tests/bench/test_experiments.py` holds them to their tables."""
    rows = re.findall(r"^\|.*$", README.partition("## Numbers")[2].partition("\n## ")[0], re.MULTILINE)
    assert len(rows) == 2 + 6
    assert all(re.search(r"`python -m bench\.run ours_\w+` \|$", row) for row in rows[2:])


def test_the_page_of_commands_is_what_they_say():
    """`python docs/commands.py > docs/commands.md` makes it, and the README leads there."""
    page = runpy.run_path(str(ROOT / "docs" / "commands.py"))["page"]()
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == page
    assert page.count("\n### dtoss ") > 45
    assert "(docs/commands.md)" in README


def test_files_and_documents_exist():
    """Links and folders of the README lead somewhere."""
    for target in re.findall(r"\]\(([\w/.-]+)\)", README):
        assert (ROOT / target).exists(), target
    for folder in re.findall(r"^\| `(\w+)/`", README, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder
