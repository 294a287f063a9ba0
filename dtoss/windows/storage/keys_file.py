"""What the keys of windows are made of, in a file beside them: places keep their keys, polygons are such keys."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.file_entry import FileEntry, map_entry, write_entry
from dtoss.errors import InputError, StoreError
from dtoss.geometry.distance import SPHERE
from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygons import BY_VECTORS, Polygon, Rings, polygons_in
from dtoss.geometry.space import Space
from dtoss.partitioning.regions import Regions
from dtoss.row_runs import offsets
from dtoss.watch.index.build_index import build
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.matching.matcher import Matcher
from dtoss.watch.subscription import INSIDE, POLYGON, SUBSCRIPTION_SCHEMA
from dtoss.watch.subscriptions.subscription_text import polygon_text
from dtoss.watch.watch_settings import Rows
from dtoss.windows.keys import DIGEST_DIGITS, Keys, Labels, h3_keys, region_keys, site_keys
from dtoss.windows.patches import NO_KEY
from dtoss.windows.storage.bundle import bundle_tables, unbundle_tables
from dtoss.windows.storage.window_document import KEY_FILES, Home

_RESTORE = "restore it from a copy"
_FIRSTS = ("ring", "polygon", "shape")


def of_regions(regions: Regions) -> dict[str, pa.Table]:
    """Return what keys of partitions are made of, as tables."""
    columns = {f"pivot_{i}": np.ascontiguousarray(column) for i, column in enumerate(regions.pivots.T)}
    return {"regions": pa.table({**columns, "weight": regions.weights})}


def of_sites(positions: NDArray[np.float64], names: pa.Array | None = None) -> dict[str, pa.Table]:
    """Return what keys of sites (n, 2) are made of, as tables; what they are called changes no key."""
    x, y = (np.ascontiguousarray(column) for column in positions.T)
    return {"sites": pa.table({"x": x, "y": y}), **_named(names)}


def of_polygons(rings: Rings, names: pa.Array | None = None) -> dict[str, pa.Table]:
    """Return what keys of polygons are made of, as tables; what they are called changes no key."""
    x, y = (np.ascontiguousarray(column) for column in rings.corners.T)
    return {
        "corners": pa.table({"x": x, "y": y}),
        **{name: pa.table({"first": getattr(rings, name)}) for name in _FIRSTS},
        **({} if rings.edges == BY_VECTORS else {"edges": pa.table({"edges": [rings.edges]})}),
        **_named(names),
    }


def rings_from(tables: dict[str, pa.Table]) -> Rings:
    """Return the rings that tables of polygons are about; edges that they do not say are by vectors, as they were."""
    corners = np.stack([tables["corners"][name].to_numpy() for name in ("x", "y")], axis=1)
    edges = tables["edges"]["edges"][0].as_py() if "edges" in tables else BY_VECTORS
    ring, polygon, shape = (np.array(tables[name]["first"].to_numpy()) for name in _FIRSTS)
    return Rings(corners, ring, polygon, shape, edges)


def of_h3(resolution: int) -> dict[str, pa.Table]:
    """Return what keys of cells of H3 are made of, as tables."""
    return {"h3": pa.table({"resolution": [resolution]})}


def _named(names: pa.Array | None) -> dict[str, pa.Table]:
    return {} if names is None else {"names": pa.table({"name": names.cast(pa.string())})}


def keys_from(space: Space, tables: dict[str, pa.Table]) -> Keys:
    """Return the keys that tables are about."""
    if "regions" in tables:
        table = tables["regions"]
        pivots = [table[f"pivot_{i}"].to_numpy() for i in range(table.num_columns - 1)]
        regions = Regions(np.ascontiguousarray(np.stack(pivots, axis=1)), np.array(table["weight"].to_numpy()))
        return region_keys(space, regions)
    if "corners" in tables:
        return polygon_keys(space, rings_from(tables))
    if "h3" in tables:
        return h3_keys(space, tables["h3"]["resolution"][0].as_py())
    table = tables["sites"]
    return site_keys(space, np.stack([table["x"].to_numpy(), table["y"].to_numpy()], axis=1))


def write_keys(home: Home, tables: dict[str, pa.Table]) -> FileEntry:
    """Write what keys are made of to the folder of windows, and return the file."""
    return FileEntry.of(
        write_entry(home.folder, bundle_tables(tables), sum(map(len, tables.values())), "arrow", KEY_FILES)
    )


@lru_cache(maxsize=4)
def read_keys(home: Home, file: FileEntry, space: Space, digest: str) -> Keys:
    """Return the keys of windows; they stay open in this process."""
    found = keys_from(space, read_material(home, file))
    if found.digest != digest:
        path = home.folder.path(KEY_FILES, file.name)
        raise StoreError(f"{path} is damaged: its keys are not those of the spec; {_RESTORE}")
    return found


def read_material(home: Home, file: FileEntry) -> dict[str, pa.Table]:
    """Return what the keys of windows are made of, as tables."""
    return unbundle_tables(
        map_entry(home.folder, KEY_FILES, file.name, _RESTORE), home.folder.path(KEY_FILES, file.name)
    )


def keys_in(tables: dict[str, pa.Table]) -> tuple[int | None, pa.Array | None]:
    """Return how many keys there are, None where any number may be one, and what they are called, None by numbers."""
    names = tables["names"]["name"].combine_chunks() if "names" in tables else None
    if "h3" in tables:
        return None, None
    if "corners" in tables:
        return len(tables["shape"]) - 1, names
    return len(tables["regions" if "regions" in tables else "sites"]), names


_TOLERANCE = 1e-13
"""Of an orientation, for its factors: what is less may be rounding, and is no crossing."""
_INWARD = 1e-6
"""Of the length of an edge: how far from its middle a place is tried that only one of two polygons may hold."""
_EDGES = 1 << 22


def polygon_keys(space: Space, rings: Rings) -> Keys:
    """Return shapes as keys, by their numbers. Cost O(v log v) for v corners, besides comparing neighbours' edges."""
    if len(rings) == 0:
        raise InputError("there are no polygons: one at least is wanted")
    empty = np.flatnonzero(np.diff(rings.shape) == 0)
    if len(empty):
        raise InputError(f"polygon {empty[0]} is empty: rings of three corners or more are wanted")
    try:
        shapes = polygons_in(rings, space)
    except ValueError as error:
        raise InputError(str(error).replace("zone ", "polygon ", 1)) from None
    overlap = _overlap(shapes)
    built = build(_table(rings), space, {}, False, False)

    def find(positions: NDArray[np.float64], _: NDArray[np.float64]) -> Labels:
        return _held(built, positions, overlap is None)

    return Keys(space, _digest(rings), len(rings), overlap is None, find, overlap)


def _held(built: SubscriptionIndex, positions: NDArray[np.float64], single: bool) -> Labels:
    """Return the keys of the shapes that hold each position."""
    matcher = Matcher(built, np.ones(len(built.table), np.bool_))
    pieces = list(matcher.pieces(Rows(positions), INSIDE))
    row = np.concatenate([np.zeros(0, np.int64), *(piece.row for piece in pieces)])
    key = np.concatenate([np.zeros(0, np.int32), *(piece.subscription for piece in pieces)]).astype(np.int64)
    order = np.lexsort((key, row))
    row, key = row[order], key[order]
    if not single:
        return Labels(key, offsets(np.bincount(row, minlength=len(positions))))
    found = np.full(len(positions), NO_KEY, np.int64)
    found[row[::-1]] = key[::-1]  # the last that is written is the least
    return Labels(found)


def _table(rings: Rings) -> pa.Table:
    """Return the shapes as what is searched."""
    count = len(rings)
    columns = {
        "id": pa.array([f"{number:09}" for number in range(count)]),
        "kind": pa.array([POLYGON] * count, pa.uint8()),
        "polygon": pa.array([polygon_text(rings.of_shape(number), rings.edges) for number in range(count)]),
        "events": pa.array([INSIDE] * count, pa.uint8()),
        "version": pa.array([0] * count, pa.int64()),
    }
    arrays = [columns.get(one.name, pa.nulls(count, one.type)) for one in SUBSCRIPTION_SCHEMA]
    return pa.table(arrays, schema=SUBSCRIPTION_SCHEMA)


def _digest(rings: Rings) -> str:
    found = hashlib.sha256(b"polygons" + np.ascontiguousarray(rings.corners).astype("<f8").tobytes())
    for array in (rings.ring, rings.polygon, rings.shape):
        found.update(array.astype("<i8").tobytes())
    if rings.edges != BY_VECTORS:  # what is older than that edges could be said keeps its digest
        found.update(rings.edges.encode())
    return found.hexdigest()[:DIGEST_DIGITS]


def _overlap(shapes: Sequence[Sequence[Polygon]]) -> tuple[int, int] | None:
    """Return two shapes that have more in common than their borders, None where there are none."""
    # of straight edges the polygons that they bound, each once
    flat = [list(dict.fromkeys(id(one.straight or one) for one in shape)) for shape in shapes]
    by_id = {id(found): found for shape in shapes for one in shape for found in (one.straight or one,)}
    owner = np.repeat(np.arange(len(shapes)), [len(shape) for shape in flat])
    polygons = [by_id[one] for shape in flat for one in shape]
    middle = np.stack([polygon.middle for polygon in polygons])
    radius = np.array([np.sqrt(((one.corners - one.middle) ** 2).sum(axis=1).max()) for one in polygons])
    for i in range(len(polygons)):
        near = np.sqrt(((middle[i + 1 :] - middle[i]) ** 2).sum(axis=1)) <= radius[i + 1 :] + radius[i]
        for j in (np.flatnonzero(near) + i + 1).tolist():
            if owner[i] != owner[j] and (_crosses(polygons[i], polygons[j]) or _shares(polygons[i], polygons[j])):
                return int(owner[i]), int(owner[j])
    return None


def _lifted(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return points if points.shape[1] == SPHERE else np.column_stack([points, np.ones(len(points))])


def _crosses(a: Polygon, b: Polygon) -> bool:
    """Return whether an edge of one goes through one of the other."""
    (a0, a1), (b0, b1) = ((_lifted(side) for side in polygon.edges()) for polygon in (a, b))
    most = max(_EDGES // len(b0), 1)
    for first in range(0, len(a0), most):
        some0, some1 = a0[first : first + most], a1[first : first + most]
        sides = [_side(some0, some1, point) for point in (b0, b1)]
        others = [_side(b0, b1, point).T for point in (some0, some1)]
        through = (sides[0] * sides[1] < 0) & (others[0] * others[1] < 0)
        if a.corners.shape[1] == SPHERE:  # arcs on the other side of the sphere
            through &= ((some0 + some1) @ (b0 + b1).T) > 0
        if through.any():
            return True
    return False


def _side(begin: NDArray[np.float64], end: NDArray[np.float64], point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return on which side of each edge (n) each place (m) is, float64 (n, m): -1, 1, or 0 where it may be either."""
    across = np.cross(begin, end)
    found = across @ point.T
    tolerance = _TOLERANCE * (np.abs(begin) * np.abs(end).max(axis=1, keepdims=True)).sum(axis=1)[:, None]
    return np.where(np.abs(found) <= tolerance * np.abs(point).max(), 0.0, np.sign(found))


def _shares(a: Polygon, b: Polygon) -> bool:
    """Return whether one holds a place next to the other's border, on the inside of it."""
    for one, other in ((a, b), (b, a)):
        begin, end = one.edges()
        middle, along = (begin + end) / 2.0, end - begin
        sphere = one.corners.shape[1] == SPHERE
        inward = np.cross(middle, along) if sphere else np.column_stack([-along[:, 1], along[:, 0]])
        tried = np.concatenate([middle + _INWARD * inward, middle - _INWARD * inward])
        if sphere:
            tried /= np.sqrt((tried**2).sum(axis=1, keepdims=True))
        if inside(tried[inside(tried, one)], other).any():
            return True
    return False
