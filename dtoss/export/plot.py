"""Objects, cells and regions of an index drawn by matplotlib: in lon and lat on the sphere, in x and y in the plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.arguments import whole_number
from dtoss.export.land import land_outline
from dtoss.extras import need
from dtoss.geometry.space import Space, to_lonlat
from dtoss.partitioning.region_polygons import region_shapes

Box = tuple[float, float, float, float]

MOST_DRAWN = {"objects": 20_000, "cells": 10_000, "regions": 100_000}
"""What is drawn unless a limit is given: of more objects a sample, of more cells or regions none."""
STYLE: dict[str, dict[str, Any]] = {
    "objects": {"color": "#1f6fb2", "linewidths": 0.0, "zorder": 3},
    "cells": {"facecolor": "none", "edgecolor": "#7a8694", "linewidths": 0.5, "zorder": 2},
    "regions": {"facecolor": "none", "edgecolor": "#c25a12", "linewidths": 1.2, "zorder": 4},
}
_INK = 4_000.0
"""Square points of ink for all objects: fewer are drawn larger."""
_LAND = "#b9c3cd"
_WORLD: Box = (-180.0, -90.0, 180.0, 90.0)
_TURN, _POLE = 360.0, 90.0
_MARGIN = 0.04
_FINEST, _COARSEST = 0.05, 2.0
"""Degrees between the corners of an arc: a hundredth of the view, but within these."""
_COAST = 10.0
"""Degrees that a view spans where the shores are drawn."""


_TICKS, _NARROW = 6, 0.4
"""Numbers along a view as wide as tall; a view this much narrower has them upright, as two would not fit."""


def draw(index: Any, what: str, bounds: ArrayLike | None, ax: Any, limit: int | None, style: dict[str, Any]) -> Any:
    """Draw an index and return the Axes; what :meth:`dtoss.Index.plot` does.

    ``what``: "objects", "cells" or "regions"; ``bounds``: west, south, east, north in degrees, or xmin, ymin, xmax,
    ymax: the view; ``ax``: matplotlib's Axes; a new figure's when None.
    """
    if what not in MOST_DRAWN:
        raise ValueError(f"what is {what!r}: objects, cells or regions are wanted")
    most = MOST_DRAWN[what] if limit is None else whole_number("limit", limit, 1)
    pyplot = need("matplotlib.pyplot", "index.plot()", "plot")
    view = _view(index, bounds, ax)
    # what may fail comes before a figure is made
    if what == "objects":
        places, count = _objects(index, view, most)
        drawn = f"{count:,} objects" if len(places) == count else f"{len(places):,} of {count:,} objects"
    else:
        shapes = list(_cells(index, view, most) if what == "cells" else _regions(index, view))
        drawn = f"{len(shapes):,} {what}"
    fresh = ax is None
    if fresh:
        ax = pyplot.subplots(figsize=(8.0, 6.0), layout="constrained")[1]
    if fresh or not ax.has_data():
        _frame(ax, index.space, view)
    if what == "objects":
        size = min(max(_INK / max(len(places), 1), 2.0), 25.0)
        ax.scatter(places[:, 0], places[:, 1], **{**STYLE[what], "s": size, "label": drawn, **style})
    else:
        from matplotlib.collections import PathCollection
        from matplotlib.path import Path

        paths = [Path.make_compound_path(*(Path(ring, closed=True) for ring in rings)) for rings in shapes]
        label = style.pop("label", drawn)
        outlines = PathCollection(paths, **{**STYLE[what], **style})
        ax.add_collection(outlines, autolim=False)
        # a legend shows nothing of such a collection: a line without a point stands for it
        edges = outlines.get_edgecolor()
        ax.plot([], [], color=edges[0] if len(edges) else "none", linewidth=1.5, label=label)
    before = ax.get_title(loc="left")
    ax.set_title(f"{before}, {drawn}" if before else drawn, loc="left")
    ax.set_xlim(view[0], view[2])
    ax.set_ylim(view[1], view[3])
    return ax


def _view(index: Any, bounds: ArrayLike | None, ax: Any) -> Box:
    """Return what is to be seen; a view over the antimeridian ends east of 180."""
    sphere = index.space.metric == "sphere"
    if bounds is None:
        if ax is not None and ax.has_data():
            return _limits(ax)
        return _grown(_extent(index), sphere)
    box = np.asarray(bounds, dtype=np.float64)
    if box.shape != (4,) or not np.isfinite(box).all():
        raise ValueError(f"bounds are {bounds!r}: west, south, east, north or xmin, ymin, xmax, ymax are wanted")
    x0, y0, x1, y1 = box.tolist()
    if sphere and not (max(abs(x0), abs(x1)) <= _TURN / 2 and max(abs(y0), abs(y1)) <= _POLE):
        raise ValueError(f"bounds are {bounds!r}: longitudes from -180 to 180 and latitudes from -90 to 90 are wanted")
    if sphere and x0 > x1:
        x1 += _TURN
    if not (x0 < x1 and y0 < y1):
        raise ValueError(f"bounds are {bounds!r}: the first two are less than the last two")
    return x0, y0, x1, y1


def _limits(ax: Any) -> Box:
    (x0, x1), (y0, y1) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
    return x0, y0, x1, y1


def _extent(index: Any) -> Box:
    found = [places for places in _places(index) if len(places)]
    if not found:
        return index.bounds or _WORLD
    low = np.min([places.min(axis=0) for places in found], axis=0)
    high = np.max([places.max(axis=0) for places in found], axis=0)
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _grown(box: Box, sphere: bool) -> Box:
    """Return a box with room on all sides, within the world; one of a single place gets some."""
    x0, y0, x1, y1 = box
    room = _MARGIN * max(x1 - x0, y1 - y0) or max(abs(x0), abs(y0), 1.0) * 1e-3
    if not sphere:
        return x0 - room, y0 - room, x1 + room, y1 + room
    west, south, east, north = _WORLD
    return max(x0 - room, west), max(y0 - room, south), min(x1 + room, east), min(y1 + room, north)


def _places(index: Any) -> Iterator[NDArray[np.float64]]:
    """Yield where the objects of each partition are drawn, along the curve."""
    for number in range(len(index.parts)):
        partition = index.parts[number]
        places = partition.positions[: partition.owned_objects]
        if index.space.to_lonlat and len(places):
            places = to_lonlat(index.space, index.space.vectors(places))
        yield places


def _seen(places: NDArray[np.float64], view: Box, sphere: bool) -> NDArray[np.float64]:
    """Return those places that lie in a view, turned into it on the sphere."""
    x, y = places[:, 0], places[:, 1]
    if sphere:
        # a place on the eastern edge stays there
        x = np.where((x >= view[0]) & (x <= view[2]), x, view[0] + (x - view[0]) % _TURN)
    inside = (x >= view[0]) & (x <= view[2]) & (y >= view[1]) & (y <= view[3])
    return np.stack([x[inside], y[inside]], axis=1)


def _objects(index: Any, view: Box, most: int) -> tuple[NDArray[np.float64], int]:
    """Return where objects of a view are, each n-th along the curve where there are more than ``most``, and how many.

    That leaves out as many everywhere, and the same on every run.
    """
    sphere = index.space.metric == "sphere"
    counts = [len(_seen(places, view, sphere)) for places in _places(index)]
    count = sum(counts)
    step = max(-(-count // most), 1)
    taken = [np.zeros((0, 2))]
    before = 0
    for places, here in zip(_places(index), counts, strict=True):
        if here:
            taken.append(_seen(places, view, sphere)[-before % step :: step])
        before += here
    return np.concatenate(taken), count


def _cells(index: Any, view: Box, most: int) -> Iterator[list[NDArray[np.float64]]]:
    """Yield the rings of cells that reach into a view: the one at its middle, and from neighbour to neighbour."""
    space, middle = index.space, _middle(index, view)
    if len(index) == 0 or middle is None:
        return
    start = index.locate(middle)[0]
    waiting, known, drawn = [start], {start}, 0
    while waiting:
        one = waiting.pop()
        corners = index._outline(one)[0]
        rings = _turned([corners] if len(corners) else [], space, view)
        if not rings:
            continue
        drawn += 1
        if drawn > most:
            raise ValueError(
                f"more than {most:,} cells lie in this view: draw a smaller one (bounds=), objects or regions, or say "
                "how many may be drawn (limit=)"
            )
        yield rings
        fresh = [other for other in index.neighbours(one).tolist() if other not in known]
        known.update(fresh)
        waiting += fresh


def _middle(index: Any, view: Box) -> NDArray[np.float64] | None:
    """Return a position in the view, and in the bounds of planar cells; None where these do not meet."""
    x0, y0, x1, y1 = view
    if (box := index.bounds) is not None:
        x0, y0, x1, y1 = max(x0, box[0]), max(y0, box[1]), min(x1, box[2]), min(y1, box[3])
        if x0 > x1 or y0 > y1:
            return None
        return np.array([[(x0 + x1) / 2, (y0 + y1) / 2]])
    lonlat = np.array([[((x0 + x1) / 2 + 180.0) % _TURN - 180.0, (y0 + y1) / 2]])
    sphere = Space("EPSG:4326", "sphere")
    return np.asarray(index.space.positions(sphere.vectors(lonlat)))


def _regions(index: Any, view: Box) -> Iterator[list[NDArray[np.float64]]]:
    """Yield the rings of each region that reaches into a view."""
    box = None if index.bounds is None else np.array(index.bounds)
    for shape in region_shapes(index.partitioning, box):
        if shape.area > 0.0:
            pieces = [piece for polygon in shape.polygons for piece in _turned(polygon, index.space, view)]
            if not shape.polygons:
                pieces = _turned([], index.space, view)
            if pieces:
                yield pieces


def _turned(rings: Sequence[NDArray[np.float64]], space: Space, view: Box) -> list[NDArray[np.float64]]:
    """Return rings of vectors as they are seen in a view, once for each turn that reaches into it.

    No rings are the whole sphere, and so all of the view.
    """
    if space.metric != "sphere":
        # a path ends where it began, whatever its last corner is
        return [np.concatenate([ring, ring[:1]]) for ring in rings if _meets(ring, view)]
    if not rings:
        x0, y0, x1, y1 = view
        return [np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]])]
    step = min(max((view[2] - view[0]) / 100.0, _FINEST), _COARSEST)
    flat = [turned for ring in rings for turned in _flat(to_lonlat(space, arcs(ring, step)))]
    return [ring for ring in flat if _meets(ring, view)]


def _meets(ring: NDArray[np.float64], view: Box) -> bool:
    (x0, y0), (x1, y1) = ring.min(axis=0), ring.max(axis=0)
    return bool(x0 <= view[2] and x1 >= view[0] and y0 <= view[3] and y1 >= view[1])


def arcs(ring: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return a ring of unit vectors (v, 3), open or closed, as a closed one without an arc longer than step degrees."""
    begin = ring[:-1] if (ring[0] == ring[-1]).all() else ring
    end = np.roll(begin, -1, axis=0)
    angle = 2 * np.arcsin(np.clip(np.linalg.norm(end - begin, axis=1) / 2, 0, 1))
    pieces = []
    for a, b, wide in zip(begin, end, angle, strict=True):
        share = np.linspace(0.0, 1.0, max(int(np.ceil(np.degrees(wide) / step)), 1), endpoint=False)[:, None]
        between = a * np.sin((1 - share) * wide) + b * np.sin(share * wide) if wide > 0.0 else a[None]
        pieces.append(between / np.linalg.norm(between, axis=1, keepdims=True))
    return np.concatenate([*pieces, begin[:1]])


def _flat(ring: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return a closed ring of lon and lat without jumps, once for each turn that a view may show.

    One round a pole comes once, so many turns long that no view shows where it is closed, along the pole on its left.
    """
    lon = np.unwrap(ring[:, 0], period=_TURN)
    flat = np.stack([lon, ring[:, 1]], axis=1)
    turns = [np.array([turn * _TURN, 0.0]) for turn in range(-2, 3)]
    if abs(lon[-1] - lon[0]) < _TURN / 2:
        return [flat + turn for turn in turns]
    east = lon[-1] > lon[0]
    long = np.concatenate([flat + turn for turn in (turns if east else turns[::-1])])
    pole = _POLE if east else -_POLE
    return [np.concatenate([long, [(long[-1, 0], pole), (long[0, 0], pole)], long[:1]])]


def _frame(ax: Any, space: Space, view: Box) -> None:
    """Name the axes, and draw the shores where the view is wide."""
    ax.ticklabel_format(useOffset=False, style="plain")
    # as wide as tall on the ground, at the middle; a map of the world is not stretched
    wide, tall = view[2] - view[0], view[3] - view[1]
    middle = 0.0 if space.metric != "sphere" or wide > 90.0 else min(abs(view[1] + view[3]) / 2, 85.0)
    squeeze = float(np.cos(np.radians(middle)))
    share = wide * squeeze / tall
    ax.locator_params(axis="x", nbins=int(np.clip(_TICKS * share, 1, _TICKS)), min_n_ticks=1)
    if share < _NARROW:
        ax.tick_params(axis="x", labelrotation=90.0)
    if space.metric != "sphere":
        unit = "" if space.crs.lower() == "none" else f", {space.crs}"
        ax.set_xlabel(f"x{unit}")
        ax.set_ylabel(f"y{unit}")
        ax.set_aspect("equal")
        return
    ax.set_xlabel("longitude, degrees")
    ax.set_ylabel("latitude, degrees")
    ax.set_aspect(1.0 / squeeze)
    if view[2] > 180.0 or view[0] < -180.0:
        ax.xaxis.set_major_formatter(lambda value, _: f"{(value + 180.0) % _TURN - 180.0:g}")
    if wide >= _COAST:
        for ring in land_outline():
            for turned in (ring + np.array([turn, 0.0]) for turn in (-_TURN, 0.0, _TURN)):
                if _meets(turned, view):
                    ax.plot(turned[:, 0], turned[:, 1], color=_LAND, linewidth=0.6, zorder=1)
