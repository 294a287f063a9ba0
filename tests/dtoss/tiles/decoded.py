"""Tiles read back by another program, as shapes in units of a tile with y down, and how large they are in truth."""

from __future__ import annotations

import mapbox_vector_tile
import numpy as np
from shapely.geometry import box, shape

EXTENT = 4096
LEVEL = {"y_coord_down": True}


def layers(data):
    """Each layer's features: (id, properties, shape)."""
    found = mapbox_vector_tile.decode(data, default_options=LEVEL) if data else {}
    return {
        name: [(one.get("id"), one["properties"], shape(one["geometry"])) for one in layer["features"]]
        for name, layer in found.items()
    }


def unit_places(world, z, x, y):
    """Places of the map's square (n, 2) in units of a tile."""
    return (np.asarray(world) * 2**z - [x, y]) * EXTENT


def tile_of(world, z):
    """The tile that holds a place of the map's square."""
    x, y = (min(int(v * 2**z), 2**z - 1) for v in world)
    return z, x, y


def every_tile(z):
    """All tiles of a zoom."""
    return [(z, x, y) for x in range(2**z) for y in range(2**z)]


def cut_to_tile(polygons):
    """Polygons without what lies in the tile's buffer; shapes that touch themselves are put right."""
    return polygons.buffer(0).intersection(box(0, 0, EXTENT, EXTENT))


def area_on_sphere(polygons, z, x, y):
    """The area in steradians of polygons of a tile, whose edges are straight on the map."""
    total = 0.0
    for polygon in getattr(polygons, "geoms", [polygons]):
        if polygon.geom_type != "Polygon":
            continue
        total += _turned(np.array(polygon.exterior.coords), z, x, y)
        total -= sum(_turned(np.array(ring.coords), z, x, y) for ring in polygon.interiors)
    return total


def _turned(ring, z, x, y):
    place = (ring / EXTENT + [x, y]) / 2**z * 2.0 * np.pi
    begin, end = place[:-1], place[1:]
    # sin(lat) is tanh of mercator's y, and lon is its x
    high, low = np.pi - begin[:, 1], np.pi - end[:, 1]
    step = low - high
    flat = np.abs(step) < 1e-9
    mean = np.where(flat, np.tanh(0.5 * (high + low)), 0.0)
    steep = ~flat
    mean[steep] = (np.log(np.cosh(low[steep])) - np.log(np.cosh(high[steep]))) / step[steep]
    return abs(float(((end[:, 0] - begin[:, 0]) * mean).sum()))
