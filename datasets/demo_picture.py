"""A picture of an index's partitions: the world, and the region of one city from near."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

import dtoss
from datasets.cities.taxis import Fleet
from dtoss.export.land import land_outline
from dtoss.partitioning.region_polygons import region_shapes

Box = tuple[float, float, float, float]

WORLD: Box = (-180.0, -58.0, 180.0, 80.0)
WIDE = 1800
"""Places along a map at which the region is looked up."""
INK, PAPER, LAND, DOT = "#1d2733", "#ffffff", "#5b6875", "#d1343f"


def draw_partitions(index: dtoss.Index, positions: Path, path: Path, *, near: Fleet, points: int = 60_000) -> None:
    """Draw the regions of an index, coloured by their area, with a sample of its objects, into a PNG.

    Parameters
    ----------
    index
        The one whose regions are drawn.
    positions
        Parquet file of the objects.
    path
        The picture to write.
    near
        Its first city is shown from near.
    points
        Objects drawn on the map of the world, about; from near there are more of them.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    table = pq.read_table(positions, columns=["lon", "lat"])
    places = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    areas = np.array([shape.area for shape in region_shapes(index.partitioning, None)]) / 1e6
    colours = {"norm": LogNorm(areas.min(), areas.max()), "cmap": "YlGnBu_r", "alpha": 0.8}
    lon, lat = float(near.lon[0, 0]), float(near.lat[0, 0])
    tall = 0.115
    wide = tall * 180 / 69 / np.cos(np.radians(lat))
    city = (lon - wide, lat - tall, lon + wide, lat + tall)

    figure = Figure(figsize=(13, 11.4), dpi=130, facecolor=PAPER, layout="constrained")
    world, town = figure.subplots(2, 1)
    drawn = _draw(world, index, areas, WORLD, colours)
    for ring in land_outline():
        world.plot(ring[:, 0], ring[:, 1], color=LAND, linewidth=0.6)
    some = places[:: max(len(places) // points, 1)]
    world.scatter(*some.T, s=5, c=DOT, linewidths=0)
    _draw(town, index, areas, city, colours)
    some = places[:: max(len(places) // (20 * points), 1)]
    town.scatter(*some[_inside(some, city)].T, s=1.2, c=DOT, linewidths=0, alpha=0.5)
    for axes, box in ((world, WORLD), (town, city)):
        axes.set_xlim(box[0], box[2])
        axes.set_ylim(box[1], box[3])
        axes.tick_params(colors=INK, labelsize=9, length=0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _degrees(value, "EW")))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _degrees(value, "NS")))
        axes.spines[:].set_visible(False)
    headline = f"{len(places):,} objects in {len(areas)} partitions of equal load: one Voronoi region each"
    world.set_title(headline, loc="left", fontsize=15, color=INK, pad=10)
    town.set_title(f"{near.cities[0]}: regions are small where objects crowd", loc="left", fontsize=15, color=INK)
    bar = figure.colorbar(drawn, ax=[world, town], shrink=0.4, pad=0.01, aspect=28)
    bar.set_label("area of the region, km²", color=INK, fontsize=11)
    bar.outline.set_visible(False)
    figure.savefig(path)


def _draw(axes: Any, index: dtoss.Index, areas: NDArray[np.float64], box: Box, colours: dict[str, Any]) -> Any:
    """Draw the regions inside a box of lon and lat, lines between them; return what the colours belong to."""
    west, south, east, north = box
    lon = np.linspace(west, east, WIDE)
    lat = np.linspace(south, north, int(WIDE * 69 / 180))
    grid = np.stack([axis.ravel() for axis in np.meshgrid(lon, lat)], axis=1)
    region = index.partitioning.nearest(index.space.vectors(grid)).reshape(len(lat), len(lon))
    extent = (west, east, south, north)
    image = axes.imshow(areas[region], extent=extent, origin="lower", aspect="auto", **colours)
    edge: NDArray[np.bool_] = np.zeros(region.shape, np.bool_)
    for ahead, behind in ((np.s_[:, 1:], np.s_[:, :-1]), (np.s_[1:], np.s_[:-1])):
        differs = np.asarray(region[ahead] != region[behind])
        edge[ahead] = edge[ahead] | differs
        edge[behind] |= differs
    lines = np.zeros((*region.shape, 4))
    lines[edge] = (0.36, 0.44, 0.53, 0.9)
    axes.imshow(lines, extent=extent, origin="lower", aspect="auto", interpolation="antialiased")
    return image


def _inside(places: NDArray[np.float64], box: Box) -> NDArray[np.bool_]:
    west, south, east, north = box
    x, y = places.T
    inside: NDArray[np.bool_] = (x >= west) & (x <= east) & (y >= south) & (y <= north)
    return inside


def _degrees(value: float, sides: str) -> str:
    return f"{abs(value):.4g}°{sides[0] if value > 0 else sides[1] if value < 0 else ''}"
