"""Pictures of the map at the scale of a city, for the documentation: fences with their names, and what they were told.

    python -m bench.serve.city_picture PATH [--size 1200x760] [--scheme dark] [--without-ground] [--zoom 12.4]

Taxis of San Francisco are made, as are the streets and the shores below them, and fences at well-known places. Four
batches of a watch come in four seconds; the picture is taken while the marks of the last are seen.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import dtoss
from datasets.cities.taxis import make_fleet
from datasets.fleet import fleet_at
from dtoss.commits.offsets import Source
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.subscription import BOX, POLYGON
from dtoss.watch.watch_folder import Home
from tests.dtoss.serve.map.browsing import browser, idle, opened
from tests.dtoss.serve.map.made_ground import BAY, CREDIT, PARK, archive, city
from tests.dtoss.serve.served import running
from tests.dtoss.watch import streams
from tests.dtoss.watch.streams import asked, change, circle, settings_of
from tests.dtoss.watch.watch_batch import run_batch

TAXIS = 3_000
BATCHES, PERIOD = 4, 15.0
"""Of a watch, and the seconds of the fleet between two of them."""
MIDDLE = (-122.442, 37.772)
PLACES = {
    "Mission": (-122.415, 37.759, 900), "Union Square": (-122.4075, 37.788, 450), "Castro": (-122.435, 37.761, 500),
    "Civic Center": (-122.418, 37.779, 500), "Haight": (-122.447, 37.770, 450), "Marina": (-122.437, 37.802, 700),
    "North Beach": (-122.410, 37.801, 450), "Potrero": (-122.400, 37.759, 600), "Noe Valley": (-122.432, 37.749, 550),
    "Richmond": (-122.480, 37.781, 900), "Presidio": (-122.465, 37.795, 700),
}  # fmt: skip
"""Circles: longitude, latitude and metres, about where they are called so."""


def fences() -> list[dict[str, Any]]:
    """Return subscriptions of the places, of a park and of a box."""
    park = {"type": "Polygon", "coordinates": [[[lon, lat] for lon, lat in [*PARK, PARK[0]]]]}
    box = {"west": -122.40, "south": 37.772, "east": -122.387, "north": 37.784}
    return [
        *(circle(name, *place, where="occupied = 0") for name, place in PLACES.items()),
        asked("Golden Gate Park", POLYGON, polygon=json.dumps(park)),
        asked("South Beach", BOX, **box),
    ]


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--size", default="1200x760")
    parser.add_argument("--scheme", default="light")
    parser.add_argument("--zoom", type=float, default=12.4)
    parser.add_argument("--without-ground", action="store_true")
    given = parser.parse_args()
    width, height = map(int, given.size.split("x"))
    fleet = make_fleet(TAXIS, ["San Francisco"])
    moments = [next(iter(fleet_at(fleet, 600.0 + i * PERIOD))) for i in range(BATCHES)]
    first = moments[-1]
    columns = {"occupied": first["occupied"].to_numpy()}
    index = dtoss.build(first["uid"].to_numpy(), places_of(first), columns=columns, partitions=4, progress=False)
    with tempfile.TemporaryDirectory() as folder, browser() as driver:
        ground = Path(folder) / "ground.pmtiles"
        ground.write_bytes(archive(city(), metadata={"attribution": CREDIT}, bounds=BAY))
        store = f"{folder}/store"
        home = Home(store)
        change(home, fences())
        with running(index, store=store, basemap=None if given.without_ground else str(ground)) as server:
            url = "http://{}:{}".format(*server.at)
            target = f"/#at={MIDDLE[0]},{MIDDLE[1]}&zoom={given.zoom}&view=flat&without=cells"
            with opened(driver, url, target, width=width, height=height, scheme=given.scheme, moving=True) as seen:
                for number, moment in enumerate(moments):
                    source, now = Source(files={str(number): TAXIS}), time.time_ns() // 1_000
                    plan = plan_batch(home, settings_of(), source, Options(), now)
                    assert plan is not None
                    run_batch(plan, streams.rows_of(rows_of(moment, now)))
                    time.sleep(1.0)
                seen.page.locator("#map[data-fence-name]").wait_for(state="attached")
                seen.page.locator("#busiest-table tbody tr").first.wait_for(state="attached")
                idle(seen.page)
                seen.page.wait_for_timeout(600)
                seen.page.locator("#watch").evaluate("section => section.scrollIntoView({ block: 'start' })")
                seen.page.screenshot(path=given.path)


def places_of(moment: Any) -> np.ndarray:
    """Return longitudes and latitudes (n, 2) of a batch of the fleet."""
    return np.stack([moment[axis].to_numpy() for axis in ("lon", "lat")], axis=1)


def rows_of(moment: Any, now: int) -> list[dict[str, Any]]:
    """Return the rows of a batch of the fleet as the watch reads them, of a moment in microseconds."""
    columns = (moment["uid"].to_pylist(), *places_of(moment).T.tolist(), moment["occupied"].to_pylist())
    return [
        {"id": uid, "t": now, "x": lon, "y": lat, "attributes": {"occupied": occupied}}
        for uid, lon, lat, occupied in zip(*columns, strict=True)
    ]


if __name__ == "__main__":
    main()
