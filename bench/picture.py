"""The picture in the README: Voronoi cells of taxi positions in San Francisco, coloured by their area.

``python -m bench.picture --out docs/images/taxi_cells.png`` draws it from the Cabspotting positions in the folder
named by DTOSS_DATA. Only pixels leave this program: no position is written to the file.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.collections import PolyCollection
from matplotlib.colors import ListedColormap, LogNorm
from numpy.typing import NDArray
from PIL import Image

import dtoss
from bench.measuring.points import lonlat_of
from dtoss.export.cell_rings import cells_of
from dtoss.queries.cell_of import CellView

mpl.use("agg")

WINDOW = (-122.5165, 37.7265, -122.3790, 37.8125)
"""lon, lat, lon, lat: San Francisco from the ocean to the bay."""
INK, PAPER = "#0b0d1a", "#f4efe6"
SMALL, LARGE = 20.0, 50_000.0
"""Square metres that have the first and the last colour."""
COLOURS = 200
FINER = 2
"""Pixels drawn for each one kept, in both directions."""


@dataclass(frozen=True)
class Drawn:
    """Polygons in degrees, with their areas in square metres."""

    rings: list[NDArray[np.float64]]
    area: NDArray[np.float64]


def cells_in_window(sites: int, seed: int = 0) -> Drawn:
    """Return the cells of randomly chosen positions in the window and round it."""
    lonlat = lonlat_of("taxi")
    west, south, east, north = WINDOW
    near = ((lonlat > [west - 0.05, south - 0.05]) & (lonlat < [east + 0.05, north + 0.05])).all(axis=1)
    lonlat = lonlat[near]
    lonlat = np.unique(lonlat[np.random.default_rng(seed).choice(len(lonlat), sites, replace=False)], axis=0)
    index = dtoss.build(np.arange(len(lonlat)), lonlat, threads=2)
    view = CellView(index.space, index.engine.opened, index._bounds, index.border)
    rings, areas = [], []
    for partition in index.parts.all():
        for cells in cells_of(view, partition):
            box = cells.rings.boxes
            # a cell that reaches round the globe is no polygon in degrees
            shown = box[:, 2] - box[:, 0] < 5.0
            shown &= (box[:, 0] < east) & (box[:, 2] > west) & (box[:, 1] < north) & (box[:, 3] > south)
            first = cells.rings.first
            rings += [cells.rings.points[first[i] : first[i + 1]] for i in np.flatnonzero(shown).tolist()]
            areas.append(cells.area[shown])
    return Drawn(rings, np.concatenate(areas))


def draw(drawn: Drawn, path: str, total: int, width: float = 1600.0) -> None:
    """Write the picture."""
    west, south, east, north = WINDOW
    aspect = 1.0 / np.cos(np.radians(0.5 * (south + north)))
    height = width * (north - south) / (east - west) * aspect
    figure = plt.figure(figsize=(width / 200, height / 200), dpi=200 * FINER, facecolor=INK)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(west, east), ylim=(south, north))
    axes.set_axis_off()
    axes.set_aspect(aspect)
    norm = LogNorm(SMALL, LARGE, clip=True)
    colours = _map()(norm(drawn.area))
    # lines as dark and as wide as their cells allow, or they would hide the smallest
    lines = colours * np.array([0.45, 0.45, 0.45, 1.0])
    wide = np.clip(0.004 * np.sqrt(drawn.area), 0.01, 0.22)
    cells = PolyCollection(drawn.rings, facecolors=colours, edgecolors=lines, linewidths=wide)
    axes.add_collection(cells)
    _legend(figure, norm)
    text = {"color": PAPER, "transform": axes.transAxes, "ha": "left", "va": "top"}
    axes.text(0.035, 0.955, "San Francisco by taxi", fontsize=17, fontweight="bold", **text)
    axes.text(
        0.035,
        0.905,
        f"{total:,} positions of cabs, May 2008. Each cell is all\nthat is nearer to its position than to any other.",
        fontsize=7.5,
        linespacing=1.45,
        alpha=0.85,
        **text,
    )
    figure.canvas.draw()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[:, :, :3])
    plt.close(figure)
    picture = picture.resize((int(width), int(height)), Image.Resampling.LANCZOS)
    picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def _map() -> ListedColormap:
    """Return the colours of areas, from bright to dark, without the black at the end."""
    return ListedColormap(plt.get_cmap("inferno_r")(np.linspace(0.0, 0.93, 256)))


def _legend(figure: plt.Figure, norm: LogNorm) -> None:
    """Draw the scale of areas."""
    axes = figure.add_axes((0.035, 0.075, 0.2, 0.014))
    bar = figure.colorbar(mpl.cm.ScalarMappable(norm, _map()), cax=axes, orientation="horizontal")
    ticks = [100.0, 1_000.0, 10_000.0]
    bar.set_ticks(ticks, labels=["100 m²", "1,000 m²", "1 ha"])
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=PAPER, labelsize=6.5, length=0, pad=3)
    bar.ax.set_title("area of a cell", color=PAPER, fontsize=7, loc="left", pad=4)


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="docs/images/taxi_cells.png")
    parser.add_argument("--sites", type=int, default=120_000)
    options = parser.parse_args()
    draw(cells_in_window(options.sites), options.out, options.sites)


if __name__ == "__main__":
    main()
