"""People gathered in cities on land: the dissertation's SD (4.4.1.1).

`python -m datasets.hotspots --rows 1000000 --out sd.parquet --hotspots 100` writes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from datasets.cities.geonames import cities, on_land, travel
from datasets.tables.command import BadInput, Out, run, say
from datasets.tables.seeded_batches import BATCH_ROWS, spans, stream, write_parquet

SCHEMA = pa.schema([("id", pa.int64()), ("lon", pa.float64()), ("lat", pa.float64()), ("hotspot", pa.int32())])
DECIMALS = 7
"""Digits kept of a degree (1 cm), so that another processor's last bit of a sine does not show."""


class Sizes(StrEnum):
    """How the objects share out among the hotspots."""

    population = "population"
    equal = "equal"


@dataclass(frozen=True)
class Hotspots:
    """Where objects gather, and how many.

    Attributes
    ----------
    name
        The cities, n of them.
    lon, lat
        Centres in degrees, float64 (n,), on land.
    size
        The dissertation's s, float64 (n,): 1 to 100 by population, or all 1.
    """

    name: tuple[str, ...]
    lon: NDArray[np.float64]
    lat: NDArray[np.float64]
    size: NDArray[np.float64]


def choose_hotspots(count: int, seed: int = 0, sizes: Sizes | str = Sizes.population) -> Hotspots:
    """Draw hotspots at random from the world's cities, a city of twice the people twice as likely.

    The dissertation sets them on random land and sizes them by the internet users of their city, normalised
    to 1..100; here the population stands in for the users, and is normalised the same way.

    Parameters
    ----------
    count
        Number of hotspots, 1 or more (10 to 1,000 in the dissertation).
    seed
        0 or more.
    sizes
        ``"population"``: the largest hotspot gets 100 times the objects of the smallest; ``"equal"``: all get
        as many.

    Raises
    ------
    BadInput
        More hotspots than there are cities, or none.
    """
    world = cities()
    if not 1 <= count <= len(world):
        raise BadInput(f"hotspots is {count}: give 1 to {len(world)}")
    share = world.population / world.population.sum()
    drawn = np.sort(stream(seed, 1).choice(len(world), count, replace=False, p=share))
    people = world.population[drawn].astype(np.float64)
    size = np.ones(count)
    if Sizes(sizes) is Sizes.population and np.ptp(people) > 0:
        size += 99.0 * (people - people.min()) / np.ptp(people)
    return Hotspots(tuple(world.name[i] for i in drawn), world.lon[drawn], world.lat[drawn], size)


def hotspots(
    rows: int,
    seed: int = 0,
    count: int = 100,
    spread: float = 20_000.0,
    sizes: Sizes | str = Sizes.population,
) -> Iterator[pa.RecordBatch]:
    """Yield ``id, lon, lat, hotspot``: objects round `choose_hotspots`, all on the land mask.

    The distance from the hotspot is Gaussian (the absolute value of a normal variable), its direction
    uniform; a draw in the sea is drawn again. Row i does not depend on the number of rows.

    Parameters
    ----------
    rows
        Number of objects; ids are 0 .. rows - 1.
    seed
        0 or more.
    count
        Number of hotspots; 10 is skewed, 1,000 is nearly even.
    spread
        Standard deviation of the distance, metres, above 0 and at most 2,000,000.
    sizes
        See `choose_hotspots`.

    Raises
    ------
    BadInput
        A spread or count outside its bounds.
    """
    if not 0 < spread <= 2_000_000:
        raise BadInput(f"spread is {spread:g} metres: give more than 0 and at most 2,000,000")
    spots = choose_hotspots(count, seed, sizes)
    share = np.cumsum(spots.size) / spots.size.sum()
    for number, start, stop in spans(rows):
        rng = stream(seed, 0, number)
        which = np.minimum(np.searchsorted(share, rng.random(BATCH_ROWS), side="right"), count - 1)
        lon, lat = _scatter(spots.lon[which], spots.lat[which], spread, rng)
        taken = stop - start
        columns = [np.arange(start, stop), lon[:taken], lat[:taken], which[:taken].astype(np.int32)]
        yield pa.record_batch(columns, schema=SCHEMA)


def _scatter(
    lon: NDArray[np.float64], lat: NDArray[np.float64], spread: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    out_lon, out_lat = np.empty_like(lon), np.empty_like(lat)
    left = np.arange(len(lon))
    while len(left):
        bearing = rng.uniform(0, 2 * np.pi, len(left))
        metres = np.abs(rng.normal(0, spread, len(left)))
        new_lon, new_lat = travel(lon[left], lat[left], bearing, metres)
        new_lon, new_lat = np.round(new_lon, DECIMALS), np.round(new_lat, DECIMALS)
        ashore = on_land(new_lon, new_lat)
        out_lon[left[ashore]], out_lat[left[ashore]] = new_lon[ashore], new_lat[ashore]
        left = left[~ashore]
    return out_lon, out_lat


def main(
    rows: Annotated[int, typer.Option(help="Number of objects.")],
    out: Out,
    seed: Annotated[int, typer.Option(help="0 or more; the same seed gives the same bytes.")] = 0,
    count: Annotated[int, typer.Option("--hotspots", help="Number of hotspots.")] = 100,
    spread: Annotated[float, typer.Option(help="Standard deviation of the distance, metres.")] = 20_000.0,
    sizes: Annotated[Sizes, typer.Option(help="How objects share out.")] = Sizes.population,
) -> None:
    """Write objects gathered round real cities."""
    written = write_parquet(hotspots(rows, seed, count, spread, sizes), SCHEMA, out)
    say(f"hotspots: {written:,} rows round {count:,} cities -> {out}")


if __name__ == "__main__":
    run(main)
