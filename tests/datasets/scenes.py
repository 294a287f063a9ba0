"""The generators with small arguments, by name."""

from datasets.cities.taxis import make_fleet
from datasets.degenerate import degenerate
from datasets.fleet import fleet_at, fleet_updates
from datasets.hotspots import hotspots
from datasets.requests import requests
from datasets.uniform import uniform_plane, uniform_sphere

GENERATORS = {
    "plane": uniform_plane,
    "moved": lambda rows, seed=0: uniform_plane(rows, seed, cycle=2, moving=0.5),
    "sphere": uniform_sphere,
    "hotspots": lambda rows, seed=0: hotspots(rows, seed, count=20),
    "updates": lambda rows, seed=0: fleet_updates(make_fleet(1_000, seed=seed), rows),
    "at": lambda rows, seed=0: fleet_at(make_fleet(rows, seed=seed), 10_000.5),
    "requests": lambda rows, seed=0: requests(make_fleet(500, seed=seed), rows, 3),
    "duplicates": lambda rows, seed=0: degenerate("duplicates", rows, seed),
}
