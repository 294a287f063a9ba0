"""Building an index in process, without Spark and without a store: the same steps, the same answers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.arguments import distances, whole_number
from dtoss.index import Index
from dtoss.names import renames

if TYPE_CHECKING:
    import pyproj

    from dtoss.frames.arrow_tables import Frame, Places
    from dtoss.geometry.space import Space
    from dtoss.partition import Ids

LOOKED_AT = 1_000
"""Positions of which it is asked whether they are on land."""


@overload
def build(
    frame: Frame,
    /,
    *,
    id: str | None = None,
    geometry: str | None = None,
    x: str | None = None,
    y: str | None = None,
    crs: str | pyproj.CRS | None = None,
    metric: str | None = None,
    partitions: int | None = None,
    pivots: str = "balanced",
    bounds: ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    reach: float | None = None,
    seed: int = 0,
    engine: str = "kernel",
    threads: int = 1,
    progress: bool = True,
) -> Index: ...


@overload
def build(
    ids: ArrayLike | pa.Array,
    positions: Places,
    *,
    crs: str | pyproj.CRS | None = None,
    metric: str | None = None,
    partitions: int | None = None,
    pivots: str = "balanced",
    bounds: ArrayLike | None = None,
    columns: Mapping[str, Any] | None = None,
    reach: float | None = None,
    seed: int = 0,
    engine: str = "kernel",
    threads: int = 1,
    progress: bool = True,
) -> Index: ...


def build(
    ids: Any,
    positions: Any = None,
    *,
    id: str | None = None,
    geometry: str | None = None,
    x: str | None = None,
    y: str | None = None,
    crs: str | pyproj.CRS | None = None,
    metric: str | None = None,
    partitions: int | None = None,
    pivots: str = "balanced",
    bounds: ArrayLike | None = None,
    columns: Mapping[str, Any] | Sequence[str] | None = None,
    reach: float | None = None,
    seed: int = 0,
    engine: str = "kernel",
    threads: int = 1,
    progress: bool = True,
) -> Index:
    """Return an index of objects, built in this process: of a frame, or of ids and positions.

    Parameters
    ----------
    ids
        (n,) distinct integers or strings; their kind is kept. Or a frame, and nothing else: a GeoDataFrame, a DataFrame
        of pandas or Polars, an Arrow table, or anything with ``__arrow_c_stream__``
        (:func:`dtoss.frames.objects_of.objects_of`).
    positions
        (n, 2): lon, lat in degrees or x, y in CRS units. Of a table (pandas, Arrow, a dictionary) the columns lon and
        lat, or x and y, whatever their order (:func:`dtoss.geometry.space.by_name`); of a GeoSeries, shapely or
        GeoArrow points their coordinates. Where they would lie on land only with the axes exchanged, a warning says so.
    id
        Of a frame the column of ids; None is its column ``id``, or else the index of pandas.
    geometry
        Of a frame the column of points; None is the only or the active one.
    x, y
        Of a frame the columns of lon and lat, or x and y; None is those that are called so, where it has no points.
    crs, metric
        As :func:`dtoss.geometry.space.space_of`; those of a frame, or EPSG:4326 when none is given. One that is given
        has to be that of the frame: nothing is transformed.
    partitions
        How many; one for each 250,000 objects when None.
    pivots
        "balanced" or "spread".
    bounds
        Plane only: xmin, ymin, xmax, ymax that hold all objects; the box of the objects grown by a tenth when None.
    columns
        Attributes, each of length n; one with a reserved name gets an underscore behind (:mod:`dtoss.names`). Of a
        frame the names of its columns that become attributes; None is all others.
    reach
        Lambda of every partition, a distance (plane) or chord (sphere); chosen from a sample when None.
    seed
        Of the random choices.
    engine
        Of the diagrams: "kernel" or "scipy".
    threads
        Partitions built at a time; the index is the same for any number.
    progress
        Whether a build of more than two seconds shows in a terminal or a notebook how far it is; never where
        ``DTOSS_QUIET=1`` is set.

    Raises
    ------
    ValueError
        If ids repeat, are neither integers nor strings, or do not fit in 64 bits; if lengths differ, a position is not
        legal or missing, a frame does not say where its objects are or in which CRS, or an argument is out of its
        bounds.
    TypeError
        If there are no positions, and no frame.

    Examples
    --------
    >>> index = build([7, 8, 9], [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    >>> hits = index.knn([[0.0, 0.9]], k=2)
    >>> hits.id.tolist(), hits.distance.round(1).tolist()
    ([8, 7], [11119.5, 100075.6])
    >>> build({"lat": [0.0, 1.0], "lon": [0.0, 0.0], "id": ["a", "b"]}).knn([0.0, 0.9]).id.tolist()
    ['b']
    """
    # numba is loaded with the first index, not with this module
    from dtoss.building.in_memory import build_in_memory, show_progress
    from dtoss.frames.objects_of import attributes_of, given_objects
    from dtoss.geometry.space import SMALLEST, as_positions, space_of
    from dtoss.ids import as_ids, check_distinct
    from dtoss.partitioning.pivots import OBJECTS_PER_PARTITION
    from dtoss.queries.open_partitions import OpenPartitions, facts_of
    from dtoss.save_index import BuildRecord
    from dtoss.snapshots.manifest_fields import Columns, Wishes

    if partitions is not None:
        partitions = whole_number("partitions", partitions, 1)
    if reach is not None:
        reach = float(distances("reach", reach, 1)[0])
    seed, threads = whole_number("seed", seed, 0), whole_number("threads", threads, 1)
    given = given_objects(ids, positions, id=id, geometry=geometry, x=x, y=y, columns=columns, crs=crs, metric=metric)
    space = space_of(given.crs, metric)
    keys = as_ids(given.ids)
    # kernels come after what can be wrong without them: the first one may take half a minute
    check_distinct(keys, _way_out(ids, id) if positions is None else "")
    attributes = attributes_of(given.columns, len(keys))
    places = as_positions(given.positions, space)
    if (near := space.too_near(places)).any():
        row = int(near.argmax())
        x, y = places[row].tolist()
        raise ValueError(
            f"positions row {row} is ({x:g}, {y:g}): a coordinate that is not 0 is at least {SMALLEST:g} in size; "
            "choose a smaller unit"
        )
    if len(keys) != len(places):
        raise ValueError(f"there are {len(keys)} ids and {len(places)} positions: as many are wanted")
    count = partitions or max(-(-len(keys) // OBJECTS_PER_PARTITION), 1)
    _warn_of_swapped(places, space)
    with show_progress(progress) as told:
        made = build_in_memory(
            keys,
            places,
            space,
            attributes,
            partitions=count,
            pivots=pivots,
            bounds=bounds,
            reach=reach,
            seed=seed,
            sample=_sample(keys, count, seed),
            engine=engine,
            threads=threads,
            progress=told,
        )
    return Index(
        space,
        made.regions,
        made.reach,
        OpenPartitions(made.partitions, [facts_of(partition) for partition in made.partitions]),
        bounds=made.bounds,
        string_ids=isinstance(keys, pa.Array),
        border=made.border,
        record=BuildRecord(
            Wishes(partitions=partitions, pivots=pivots, reach=reach, seed=seed, bounds=bounds),
            Columns(id=given.id, x=x, y=y, geometry=geometry, attributes=_wanted(given.columns, positions, columns)),
            renames(given.columns),
            made.areas,
        ),
    )


def _sample(keys: Ids, partitions: int, seed: int) -> NDArray[np.bool_]:
    """Return by which objects partitions are chosen, bool (n,): by the hashes of their ids, as of a rebuild."""
    from dtoss.buckets import hashes_of, seeded_hashes
    from dtoss.partition import numbers
    from dtoss.partitioning.pivots import sampled_one_in

    modulus = sampled_one_in(len(keys), partitions)
    if modulus == 1:
        return np.ones(len(keys), np.bool_)
    ids = keys if isinstance(keys, pa.Array) else numbers(keys)
    return np.asarray(seeded_hashes(hashes_of(ids), seed) % modulus == 0)


def _wanted(found: Mapping[str, Any], positions: Any, columns: Any) -> list[str] | str:
    """Return which columns of updates become attributes: all where those of the frame did."""
    if columns is None and positions is None and not any(name.startswith("_") for name in found):
        return "all"
    return list(found) or "none"


def _way_out(frame: Any, id: str | None) -> str:
    """Return how rows of a frame that stand again are left out."""
    if type(frame).__module__.startswith("polars"):
        return f"; frame.unique({id or 'id'!r}, keep='last') keeps the last row of each"
    return f"; frame.drop_duplicates({id or 'id'!r}, keep='last') keeps the last row of each"


def _warn_of_swapped(places: NDArray[np.float64], space: Space) -> None:
    if not space.geographic:
        return
    from dtoss.geometry.land_squares import look_swapped

    some = places[:: max(-(-len(places) // LOOKED_AT), 1)]
    if note := look_swapped(some[:, 0], some[:, 1]):
        warnings.warn(f"{note}: lon comes before lat", stacklevel=3)
