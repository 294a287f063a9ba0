"""Building an index in process, without Spark and without a store: the same steps, the same answers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.building.border import fix
from dtoss.building.construct import construct
from dtoss.building.reach import choose_reach
from dtoss.frames.kinds import Frame, Places
from dtoss.frames.objects import given_objects
from dtoss.geometry.land_squares import look_swapped
from dtoss.geometry.space import SMALLEST, Space, as_positions, space_of
from dtoss.ids import as_ids
from dtoss.index import Index
from dtoss.names import free_names
from dtoss.partition import Ids
from dtoss.partitioning.assign import assign
from dtoss.partitioning.bounds import planar_bounds
from dtoss.partitioning.pivots import OBJECTS_PER_PARTITION, SAMPLE_PER_PARTITION, choose_pivots
from dtoss.queries.open_partitions import OpenPartitions, facts_of

if TYPE_CHECKING:
    import pyproj

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
) -> Index:
    """Return an index of objects, built in this process: of a frame, or of ids and positions.

    Parameters
    ----------
    ids
        (n,) distinct integers or strings; their kind is kept. Or a frame, and nothing else: a GeoDataFrame, a DataFrame
        of pandas or Polars, an Arrow table, or anything with ``__arrow_c_stream__``
        (:func:`dtoss.frames.objects.objects_of`).
    positions
        (n, 2): lon, lat in degrees or x, y in CRS units. Of a table (pandas, Arrow, a dictionary) the columns lon and
        lat, or x and y, whatever their order (:func:`dtoss.geometry.axes.by_name`); of a GeoSeries, shapely or GeoArrow
        points their coordinates. Where they would lie on land only with the axes exchanged, a warning says so.
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
    given = given_objects(ids, positions, id=id, geometry=geometry, x=x, y=y, columns=columns, crs=crs, metric=metric)
    space = space_of(given.crs, metric)
    places = as_positions(given.positions, space)
    if (near := space.too_near(places)).any():
        row = int(near.argmax())
        x, y = places[row].tolist()
        raise ValueError(
            f"positions row {row} is ({x:g}, {y:g}): a coordinate that is not 0 is at least {SMALLEST:g} in size; "
            "choose a smaller unit"
        )
    keys = as_ids(given.ids)
    if len(keys) != len(places):
        raise ValueError(f"there are {len(keys)} ids and {len(places)} positions: as many are wanted")
    _check_distinct(keys)
    attributes = _attributes(given.columns, len(keys))
    _warn_of_swapped(places, space)
    vectors = space.vectors(places)
    box = planar_bounds(vectors, bounds) if space.dimension == 2 else None
    if partitions is None:
        partitions = max(-(-len(keys) // OBJECTS_PER_PARTITION), 1)
    rows = _sample(len(keys), partitions, seed)
    regions = choose_pivots(vectors[rows], partitions, method=pivots, seed=seed)
    count = len(regions)
    if reach is None:
        reaches = choose_reach(vectors[rows], len(keys), regions, box)
    else:
        if not reach >= 0.0:
            raise ValueError(f"reach is {reach!r}: a number that is not negative is wanted")
        reaches = np.full(count, np.inf if count == 1 else float(reach))
    sent = assign(vectors, regions, reaches)
    member, start = _members(sent.home, sent.row, sent.partition, count)

    def one(number: int) -> Any:
        mine = member[start[number] : start[number + 1]]
        taken = pa.array(mine)
        return construct(
            number,
            keys.take(taken) if isinstance(keys, pa.Array) else keys[mine],
            places[mine],
            sent.home[mine],
            space,
            regions,
            float(reaches[number]),
            box,
            attributes={name: column.take(taken) for name, column in attributes.items()},
            engine=engine,
        )

    if threads > 1 and count > 1:
        with ThreadPoolExecutor(threads) as pool:
            built = list(pool.map(one, range(count)))
    else:
        built = [one(number) for number in range(count)]
    return Index(
        space,
        regions,
        reaches,
        OpenPartitions([b.partition for b in built], [facts_of(b.partition) for b in built]),
        bounds=box,
        string_ids=isinstance(keys, pa.Array),
        border=fix([b.border for b in built], box, threads=threads, engine=engine),
    )


def _check_distinct(ids: Ids) -> None:
    values = ids.to_numpy(zero_copy_only=False) if isinstance(ids, pa.Array) else ids
    ordered = np.sort(values)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]]) if len(ordered) else ordered
    if len(repeated):
        some = ", ".join(str(value) for value in repeated[:3])
        raise ValueError(f"{len(repeated)} ids stand more than once, {some} among them: ids must be distinct")


def _attributes(columns: Mapping[str, Any], count: int) -> dict[str, pa.Array]:
    if nameless := [name for name in columns if not isinstance(name, str)]:
        raise ValueError(f"a column is called {nameless[0]!r}: names are text")
    free = free_names(columns)
    return {free[name]: _column(name, value, count) for name, value in columns.items()}


def _column(name: str, value: Any, count: int) -> pa.Array:
    column = value if isinstance(value, (pa.Array, pa.ChunkedArray)) else pa.array(value)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if len(column) != count:
        raise ValueError(f"column {name!r} has {len(column)} values for {count} objects: as many are wanted")
    return column


def _warn_of_swapped(places: NDArray[np.float64], space: Space) -> None:
    if not space.geographic:
        return
    some = places[:: max(-(-len(places) // LOOKED_AT), 1)]
    if note := look_swapped(some[:, 0], some[:, 1]):
        warnings.warn(f"{note}: lon comes before lat", stacklevel=3)


def _sample(n: int, partitions: int, seed: int) -> NDArray[np.int64]:
    most = SAMPLE_PER_PARTITION * partitions
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _members(
    home: NDArray[np.int32], row: NDArray[np.int32], partition: NDArray[np.int32], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of each partition, owned and copied, one partition after another, and where each begins."""
    where = np.concatenate([home, partition])
    rows = np.concatenate([np.arange(len(home), dtype=np.int64), row.astype(np.int64)])
    order = np.argsort(where, kind="stable")
    return rows[order], np.searchsorted(where[order], np.arange(count + 1))
