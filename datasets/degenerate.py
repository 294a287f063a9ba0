"""Inputs that break naive geometry: grids, lines, rings, one point, duplicates, poles, the antimeridian.

`python -m datasets.degenerate --kind grid --rows 10000 --out grid.parquet` writes one; `--metric sphere` puts
it on the globe.
"""

import math
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from datasets.cities.geonames import travel
from datasets.tables.command import BadInput, Out, run, say
from datasets.tables.seeded_batches import BATCH_ROWS, spans, stream, write_parquet
from datasets.uniform import PLANE_SCHEMA, SPHERE_SCHEMA, Metric

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Points = tuple[Floats, Floats]

SITES = 100
"""Distinct places of the kind ``duplicates``."""
CENTRE = (116.4, 39.9)
"""Degrees; where the kinds of the sphere that are small lie."""


class Kind(StrEnum):
    """What is degenerate; see `degenerate`."""

    grid = "grid"
    line = "line"
    meridian = "meridian"
    parallel = "parallel"
    great_circle = "great-circle"
    point = "point"
    duplicates = "duplicates"
    poles = "poles"
    antimeridian = "antimeridian"
    ring = "ring"
    far = "far"
    tiny = "tiny"


def degenerate(
    kind: Kind | str, rows: int, seed: int = 0, metric: Metric | str = Metric.plane
) -> Iterator[pa.RecordBatch]:
    """Yield ``id, x, y`` (plane) or ``id, lon, lat`` (sphere).

    Parameters
    ----------
    kind
        - ``grid``: whole numbers, or whole multiples of 1/1024 degree: every inner cell has four cocircular
          neighbours.
        - ``line``: collinear and evenly spaced; on the sphere along the equator.
        - ``meridian``, ``parallel``, ``great-circle`` (sphere only): evenly spaced; the meridian from pole to
          pole, the parallel at 60 N, the great circle tilted by 40 degrees.
        - ``point``: all on one place.
        - ``duplicates``: on `SITES` places, in random numbers.
        - ``poles`` (sphere only): in turns on the north pole and the south pole with any longitude, and
          within a degree of them.
        - ``antimeridian`` (sphere only): within a degree of it, on both sides, some on it written as 180 and
          some as -180.
        - ``ring``: cocircular. In the plane exactly so: whole numbers with x^2 + y^2 a square, ring round
          ring of 972 when there are more rows. On the sphere round `CENTRE`, at 10 km.
        - ``far``: two clusters far apart, 1 unit or 1 m wide.
        - ``tiny``: all within 1e-9 units or degrees.
    rows
        Number of objects; ids are 0 .. rows - 1.
    seed
        0 or more, for the kinds that are random.
    metric
        ``"plane"`` or ``"sphere"``.

    Raises
    ------
    BadInput
        A kind that this metric does not have.
    """
    kinds = PLANE if Metric(metric) is Metric.plane else SPHERE
    schema = PLANE_SCHEMA if Metric(metric) is Metric.plane else SPHERE_SCHEMA
    if Kind(kind) not in kinds:
        raise BadInput(f"{kind} does not exist on the {metric}; there is {', '.join(kinds)}")
    for number, start, stop in spans(rows):
        row = np.arange(start, start + BATCH_ROWS)
        x, y = kinds[Kind(kind)](row, rows, seed, stream(seed, 0, number))
        columns = [row, np.broadcast_to(x, row.shape), np.broadcast_to(y, row.shape)]
        yield pa.record_batch([column[: stop - start] for column in columns], schema=schema)


def _grid(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    side = math.isqrt(max(rows - 1, 0)) + 1
    y, x = np.divmod(row, side)
    return x.astype(np.float64), y.astype(np.float64)


def _sphere_grid(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    x, y = _grid(row, rows, seed, rng)
    step = min(1 / 1024, 60 / max(1.0, math.sqrt(rows)))
    return x * step, y * step


def _line(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    step = row.astype(np.float64)
    return 3.0 * step, 7.0 * step + 1.0


def _share(row: Ints, rows: int) -> Floats:
    return np.minimum(row / max(rows - 1, 1), 1.0)


def _equator(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    return 340.0 * _share(row, rows) - 170.0, np.zeros(len(row))


def _meridian(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    return np.full(len(row), CENTRE[0]), 180.0 * _share(row, rows) - 90.0


def _parallel(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    return 360.0 * (row % max(rows, 1)) / max(rows, 1) - 180.0, np.full(len(row), 60.0)


def _great_circle(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    angle = 2 * np.pi * row / max(rows, 1)
    tilt = np.radians(40.0)
    y, z = np.sin(angle) * np.cos(tilt), np.sin(angle) * np.sin(tilt)
    return np.degrees(np.arctan2(y, np.cos(angle))), np.degrees(np.arcsin(z))


def _point(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    return np.full(len(row), CENTRE[0]), np.full(len(row), CENTRE[1])


def _duplicates(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    x, y = stream(seed, 1).random((2, SITES)) * 1_000.0
    site = rng.integers(0, SITES, len(row))
    return x[site], y[site]


def _sphere_duplicates(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    x, y = _duplicates(row, rows, seed, rng)
    return np.round(x * 0.36 - 180.0, 5), np.round(y * 0.18 - 90.0, 5)


def _poles(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    lon = rng.uniform(-180.0, 180.0, len(row))
    away = np.where(row % 4 < 2, 0.0, rng.uniform(0.0, 1.0, len(row)))
    return lon, np.where(row % 2, -1.0, 1.0) * (90.0 - away)


def _antimeridian(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    side = np.where(row % 2, -1.0, 1.0)
    away = np.where(row % 8 < 2, 0.0, rng.uniform(0.0, 1.0, len(row)))
    return side * (180.0 - away), rng.uniform(-80.0, 80.0, len(row))


def _ring(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    lattice = _lattice_circle()
    larger, at = np.divmod(row, len(lattice))
    x, y = (lattice[at] * (1 + larger)[:, None]).T.astype(np.float64)
    return x, y


def _lattice_circle() -> Ints:
    """Return the whole-number points at distance 5 * 13 * 17 * 29 * 37 from 0, in a turn, int64 (972, 2)."""
    radius = 5 * 13 * 17 * 29 * 37
    x = np.arange(-radius, radius + 1)
    y = np.round(np.sqrt((radius - x) * (radius + x))).astype(np.int64)
    exact = y * y == (radius - x) * (radius + x)
    x, y = x[exact], y[exact]
    upper, lower = np.column_stack([x, y])[::-1], np.column_stack([x, -y])[1:-1]
    return np.vstack([upper, lower])


def _sphere_ring(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    bearing = 2 * np.pi * row / max(rows, 1)
    size = np.ones(len(row))
    return travel(CENTRE[0] * size, CENTRE[1] * size, bearing, 10_000.0 * size)


def _far(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    x, y = rng.random((2, len(row)))
    return x + 1e9 * (row % 2), y + 1e9 * (row % 2)


def _sphere_far(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    x, y = rng.random((2, len(row))) * 1e-5
    other = row % 2
    return np.where(other, CENTRE[0] - 180.0, CENTRE[0]) + x, np.where(other, -CENTRE[1], CENTRE[1]) + y


def _tiny(row: Ints, rows: int, seed: int, rng: np.random.Generator) -> Points:
    x, y = rng.random((2, len(row))) * 1e-9
    return CENTRE[0] + x, CENTRE[1] + y


_Maker = Callable[[Ints, int, int, np.random.Generator], Points]
PLANE: dict[Kind, _Maker] = {
    Kind.grid: _grid,
    Kind.line: _line,
    Kind.point: _point,
    Kind.duplicates: _duplicates,
    Kind.ring: _ring,
    Kind.far: _far,
    Kind.tiny: _tiny,
}
SPHERE: dict[Kind, _Maker] = {
    Kind.grid: _sphere_grid,
    Kind.line: _equator,
    Kind.meridian: _meridian,
    Kind.parallel: _parallel,
    Kind.great_circle: _great_circle,
    Kind.point: _point,
    Kind.duplicates: _sphere_duplicates,
    Kind.poles: _poles,
    Kind.antimeridian: _antimeridian,
    Kind.ring: _sphere_ring,
    Kind.far: _sphere_far,
    Kind.tiny: _tiny,
}


def main(
    kind: Annotated[Kind, typer.Option(help="What is degenerate.")],
    rows: Annotated[int, typer.Option(help="Number of objects.")],
    out: Out,
    seed: Annotated[int, typer.Option(help="0 or more; the same seed gives the same bytes.")] = 0,
    metric: Annotated[Metric, typer.Option(help="plane: id, x, y. sphere: id, lon, lat.")] = Metric.plane,
) -> None:
    """Write objects in a degenerate position."""
    schema = PLANE_SCHEMA if metric is Metric.plane else SPHERE_SCHEMA
    written = write_parquet(degenerate(kind, rows, seed, metric), schema, out)
    say(f"degenerate: {written:,} rows, {kind} on the {metric} -> {out}")


if __name__ == "__main__":
    run(main)
