"""The regions of a snapshot as rings of longitude and latitude, for maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP = 2.0
"""Degrees between the corners of an edge on the map at the most."""


def region_rings(manifest: dict[str, Any]) -> dict[int, list[NDArray[np.float64]]]:
    """Return the outer rings of each partition's region by its number, float64 (v, 2), lon and lat for a map.

    A ring over the antimeridian stands there twice, once at either edge; one round a pole is closed along it. In a
    plane without a CRS, coordinates are as they are.
    """
    from dtoss.geometry.space import to_lonlat
    from dtoss.partitioning.region_polygons import region_shapes
    from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest

    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    bounds = None if manifest["bounds"] is None else np.array(manifest["bounds"], np.float64)
    found: dict[int, list[NDArray[np.float64]]] = {}
    for number, shape in enumerate(region_shapes(regions, bounds)):
        rings = [polygon[0] for polygon in shape.polygons]
        if space.metric == "sphere":
            found[number] = [piece for ring in rings for piece in unrolled(to_lonlat(space, densified(ring)))]
        else:
            found[number] = [to_lonlat(space, ring) for ring in rings]
    return found


def densified(ring: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a closed ring of unit vectors (v, 3) with so many corners that no edge is longer than :data:`STEP`."""
    begin, end = ring[:-1], ring[1:]
    angle = 2 * np.arcsin(np.clip(np.linalg.norm(end - begin, axis=1) / 2, 0, 1))
    pieces = [begin[:0]]
    for a, b, wide in zip(begin, end, angle, strict=True):
        share = np.linspace(0.0, 1.0, max(int(np.ceil(np.degrees(wide) / STEP - 1e-9)), 1), endpoint=False)[:, None]
        pieces.append(a * np.sinc((1 - share) * wide / np.pi) * (1 - share) + b * np.sinc(share * wide / np.pi) * share)
        pieces[-1] /= np.linalg.norm(pieces[-1], axis=1, keepdims=True)
    return np.concatenate([*pieces, ring[-1:]])


def unrolled(ring: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return a closed ring of lon and lat (v, 2) without jumps at the antimeridian: once or, where it crosses, twice.

    Examples
    --------
    >>> square = np.array([(170.0, 0.0), (-170.0, 0.0), (-170.0, 9.0), (170.0, 9.0), (170.0, 0.0)])
    >>> [piece[:, 0].tolist() for piece in unrolled(square)]
    [[170.0, 190.0, 190.0, 170.0, 170.0], [-190.0, -170.0, -170.0, -190.0, -190.0]]
    """
    lon = np.unwrap(ring[:, 0], period=360.0)
    flat = np.column_stack([lon, ring[:, 1]])
    if abs(lon[-1] - lon[0]) > 180.0:
        pole = 90.0 if ring[:, 1].mean() > 0 else -90.0
        flat = np.concatenate([flat, [(lon[-1], pole), (lon[0], pole)], flat[:1]])
    pieces, turn = [flat], np.array([360.0, 0.0])
    if flat[:, 0].max() > 180.0:
        pieces.append(flat - turn)
    if flat[:, 0].min() < -180.0:
        pieces.append(flat + turn)
    return pieces
