"""What the README shows works, what it prints is printed, and its figures are those of the benchmarks."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from statistics import median

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
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


def cells(heading, columns, place=0, size=""):
    """Figures in columns of BENCHMARKS' table whose head begins with a text: each one's `place`-th, of one size."""
    table = BENCHMARKS[BENCHMARKS.index(f"\n| {heading}") + 1 :].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]
    rows = [row for row in rows if row[1] != "processor time" and (not size or size in row)]
    return [float(row[column].split(", ")[place].rstrip("x")) for row in rows for column in columns]


def test_knn_row_is_the_table_of_every_kind_of_place():
    """The median of the medians of a million objects, and the worst of the worst."""
    (said,) = re.findall(r"^\| kNN.*?\| (.*?) \|", README, re.MULTILINE)
    medians, worst = (cells("data | objects | k | cKDTree", [3], place, "1 M") for place in (0, 1))
    assert len(medians) == len(worst) == 12
    assert said == f"{median(medians):.1f}x, worst {min(worst):.1f}x"


@pytest.mark.parametrize(
    ("row", "heading", "columns", "worst"),
    [
        ("range of", "data | by distance: ns", [2], min),
        ("join in Spark", "data | clock", [3, 4, 5], min),
        ("exact cells", "sites | microseconds", [2], min),
        ("rebuild", "data | rebuild", [3], max),
    ],
)
def test_figures_are_those_of_the_benchmarks(row, heading, columns, worst):
    """The median of all cells, and the worst one beside it, as far as they are written out."""
    (line,) = re.findall(rf"^\| {row}.*$", README, re.MULTILINE)
    said = line.split("|")[2]
    found = cells(heading, columns)
    assert len(found) > 1
    for figure, exact in zip(re.findall(r"\d+\.\d+", said), (median(found), worst(found)), strict=True):
        assert abs(float(figure) - exact) <= 0.0501  # one digit behind the point


def test_six_rows_of_numbers():
    """And servers, whose figure is a proof and no rate."""
    rows = re.findall(r"^\|.*$", README.partition("## Numbers")[2].partition("\n## ")[0], re.MULTILINE)
    assert len(rows) == 2 + 6
    assert "144 plans of 500 to 2,000 partitions" in rows[-1]
    assert "**1.000 in 144 of 144**" in BENCHMARKS


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
