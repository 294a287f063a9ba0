"""A figure as a table of text and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

COLUMNS = 20
"""Of a table at the most, about; a picture has all points."""
Points = Mapping[float, float]


@dataclass(frozen=True)
class Figure:
    """One figure of the paper again.

    Parameters
    ----------
    number : of the paper's figure.
    title, x, y : what stands above and at the axes.
    lines : by name, y by x.
    said : what the paper's text says, and what was found, a sentence each.
    log : whether y has a logarithmic scale.
    """

    number: str
    title: str
    x: str
    y: str
    lines: Mapping[str, Points]
    said: Sequence[str] = ()
    log: bool = False


def short(value: float) -> str:
    """Return a number of three digits or more."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def table(figure: Figure) -> str:
    """Return it as a table in Markdown, and what is said below."""
    xs = sorted({x for points in figure.lines.values() for x in points})
    xs = xs[:: max(1, len(xs) // COLUMNS)]
    rows = [[f"{figure.x} / {figure.y}", *map(short, xs)]]
    for name, points in figure.lines.items():
        rows.append([name, *(short(points[x]) if x in points else "" for x in xs)])
    rows.insert(1, ["---"] * len(rows[0]))
    text = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([f"Figure {figure.number}: {figure.title}", "", text, "", *(f"- {one}" for one in figure.said)])


def draw(figures: Sequence[Figure], path: Path) -> None:
    """Write them as one picture, in the colours and marks that matplotlib has."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    columns = min(len(figures), 2)
    height = -(-len(figures) // columns)
    page, all_axes = plt.subplots(height, columns, figsize=(6.4 * columns, 4.2 * height), squeeze=False)
    for axes in all_axes.flat[len(figures) :]:
        axes.axis("off")
    for figure, axes in zip(figures, all_axes.flat, strict=False):
        for (name, points), mark in zip(figure.lines.items(), "os^vDx+*" * 3, strict=False):
            many = len(points) > 12
            axes.plot(list(points), list(points.values()), label=name, marker="" if many else mark, linewidth=1.4)
        axes.set(title=f"Figure {figure.number}: {figure.title}", xlabel=figure.x, ylabel=figure.y)
        if figure.log:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    page.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    page.savefig(path, dpi=80)
    plt.close(page)
