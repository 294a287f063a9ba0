"""Uniform positions: the dissertation's UD (3.4.1) in the plane, and even density on the sphere.

`python -m datasets.uniform --rows 1000000 --out ud.parquet --seed 0` writes UD;
`--metric sphere --box -75 40 -73 41` makes it a lon/lat box.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from datasets.tables.command import BadInput, Out, run, say
from datasets.tables.seeded_batches import BATCH_ROWS, spans, stream, write_parquet

Box = tuple[float, float, float, float]

UD_BOX: Box = (0.0, 0.0, 1e9, 1e9)
GLOBE: Box = (-180.0, -90.0, 180.0, 90.0)
STEP = (100.0, 250.0)
"""How far an object moves along each axis in a cycle, in units (3.4.6: a walker where 1e9 is the globe)."""

PLANE_SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])
SPHERE_SCHEMA = pa.schema([("id", pa.int64()), ("lon", pa.float64()), ("lat", pa.float64())])


def uniform_plane(
    rows: int, seed: int = 0, box: Box = UD_BOX, cycle: int = 0, moving: float = 1.0
) -> Iterator[pa.RecordBatch]:
    """Yield ``id, x, y`` with x and y uniform in a box, after ``cycle`` rounds of movement.

    In each round a share ``moving`` of the objects moves by 100 to 250 units along each axis, in either
    direction (3.4.6); at the border it turns back. Row i is the same object in every cycle and for every
    number of rows.

    Parameters
    ----------
    rows
        Number of objects; ids are 0 .. rows - 1.
    seed
        0 or more.
    box
        West, south, east, north in units, each side at least 250 long where objects move.
    cycle
        Rounds of movement; the cost is O(rows * (1 + cycle)).
    moving
        Share of the objects that move in one round, 0 to 1.

    Raises
    ------
    BadInput
        A box that is empty or not finite, or smaller than a step; a share outside 0..1; a negative cycle.
    """
    low, high = np.array(box[:2]), np.array(box[2:])
    if not np.isfinite(box).all() or (high <= low).any():
        raise BadInput(f"box {box} is not west south east north with west < east and south < north")
    if cycle < 0 or not 0 <= moving <= 1:
        raise BadInput(f"cycle {cycle} and moving {moving}: cycle is 0 or more, moving lies in 0..1")
    if cycle and (high - low).min() < STEP[1]:
        raise BadInput(f"box {box} has a side shorter than a step of {STEP[1]:g} units; use cycle 0")
    for number, start, stop in spans(rows):
        at = low + (high - low) * stream(seed, 0, number).random((BATCH_ROWS, 2))
        for step in range(1, cycle + 1):
            at = _walk(at, low, high, moving, stream(seed, step, number))
        x, y = at[: stop - start].T
        yield pa.record_batch([np.arange(start, stop), x, y], schema=PLANE_SCHEMA)


def _walk(
    at: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    moving: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    step = rng.uniform(*STEP, at.shape) * rng.choice((-1.0, 1.0), at.shape)
    there = at + np.where(rng.random((len(at), 1)) < moving, step, 0.0)
    there = np.where(there < low, 2 * low - there, there)
    return np.where(there > high, 2 * high - there, there)


def uniform_sphere(rows: int, seed: int = 0, box: Box = GLOBE) -> Iterator[pa.RecordBatch]:
    """Yield ``id, lon, lat``: as many rows, on average, on each square kilometre of a lon/lat box.

    Parameters
    ----------
    rows
        Number of objects; ids are 0 .. rows - 1.
    seed
        0 or more.
    box
        West, south, east, north in degrees. West greater than east crosses the antimeridian.

    Raises
    ------
    BadInput
        Longitudes outside -180..180, latitudes outside -90..90, or south not below north.
    """
    west, south, east, north = box
    if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south < north <= 90 and west != east):
        raise BadInput(f"box {box} is not west south east north in degrees; is latitude before longitude?")
    width = east - west if west < east else east - west + 360
    bottom, top = np.sin(np.radians([south, north]))
    for number, start, stop in spans(rows):
        u, v = stream(seed, 0, number).random((2, BATCH_ROWS))[:, : stop - start]
        lon = west + width * u
        lon = np.where(lon > 180, lon - 360, lon)
        lat = np.clip(np.degrees(np.arcsin(bottom + (top - bottom) * v)), south, north)
        yield pa.record_batch([np.arange(start, stop), lon, lat], schema=SPHERE_SCHEMA)


class Metric(StrEnum):
    """Where the positions lie."""

    plane = "plane"
    sphere = "sphere"


def main(
    rows: Annotated[int, typer.Option(help="Number of objects.")],
    out: Out,
    seed: Annotated[int, typer.Option(help="0 or more; the same seed gives the same bytes.")] = 0,
    metric: Annotated[Metric, typer.Option(help="plane: id, x, y. sphere: id, lon, lat.")] = Metric.plane,
    box: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(help="West south east north; default [0, 1e9]^2 or the globe."),
    ] = None,
    cycle: Annotated[int, typer.Option(help="Plane: rounds of movement so far.")] = 0,
    moving: Annotated[float, typer.Option(help="Plane: share of the objects that move in a round.")] = 1.0,
) -> None:
    """Write uniformly distributed objects."""
    if metric is Metric.plane:
        written = write_parquet(uniform_plane(rows, seed, box or UD_BOX, cycle, moving), PLANE_SCHEMA, out)
    elif cycle:
        raise BadInput("--cycle moves objects in the plane only; datasets.fleet moves them on the sphere")
    else:
        written = write_parquet(uniform_sphere(rows, seed, box or GLOBE), SPHERE_SCHEMA, out)
    say(f"uniform: {written:,} rows -> {out}")


if __name__ == "__main__":
    run(main)
