"""``dtoss windows run --replace``: after a rebuild with other pivots a new set takes over, and no result changes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

import dtoss
from dtoss.snapshots.manifest import regions_of_manifest
from dtoss.snapshots.store import Store
from tests.dtoss.windows.brute import World
from tests.dtoss.windows.storage.kept import SECOND, check_answer
from tests.pipelines.stores import made as made_store
from tests.pipelines.windowing.test_windows_command import (
    ARGUMENTS,
    BEGIN,
    distance_of,
    made,
    other_pivots,
    put,
    run,
)

__all__ = ["run"]


def keys_of(store):
    """The key of a place in the current snapshot of a store."""
    regions, space = regions_of_manifest(Store(str(store)).manifest()), dtoss.open(str(store)).space
    return lambda x, y: [int(regions.nearest(space.vectors(np.array([[x, y]])))[0])]


def test_other_pivots_take_over_without_a_gap(run, tmp_path):
    """Refused with the way out; then both count each file, until ends are those of the new pivots; info says it."""
    store, moves = tmp_path / "store", tmp_path / "in"
    rng = np.random.default_rng(5)
    places = {"id": np.arange(60), "lon": rng.uniform(8.0, 8.4, 60), "lat": rng.uniform(50.0, 50.2, 60)}
    made_store(pa.table(places), store, partitions=4)
    home, files = ("--store", str(store), "--name", "fleet"), [made(1, 0), made(2, 110)]
    put(moves, "a.csv", files[0])
    asked = ("--lengths", "40s,1min", *ARGUMENTS, "--measures", "rows,objects,here,speed")
    assert run("windows", "run", str(moves), *home, *asked, "--once")[0] == 0
    before = keys_of(store)
    other_pivots(places, store)
    code, _, err = run("windows", "run", str(moves), *home, "--once")
    assert code == 2
    assert "let a new set take over without a gap (--replace)" in err[-1]
    assert "takes over" in run("windows", "run", str(moves), *home, "--replace", "--explain")[1][-1]
    code, out, err = run("windows", "run", str(moves), *home, "--replace", "--once")
    assert (code, out) == (0, ["nothing has changed"]), err
    change = dtoss.open_windows(str(store), "fleet").sets.coming
    assert "another set runs beside this one" in err[-1]
    assert "another set runs beside this one" in "".join(run("windows", "show", *home)[2])
    told = json.loads(run("info", "--store", str(store), "--json")[1][0])["windows"]
    assert [(one["name"], one["batches"], one["change"]["set"]) for one in told] == [("fleet", 1, 2)]
    put(moves, "b.csv", files[1])
    code, out, err = run("windows", "run", str(moves), *home, "--once")
    assert code == 0
    assert "the new set has taken over" in "".join(err)
    found, rows = dtoss.open_windows(str(store), "fleet"), [row for file in files for row in file]
    assert (found.home.number, found.since) == (2, change.since)
    spans = ((before, BEGIN * SECOND, found.since), (keys_of(store), found.since, found.watermark))
    for keys_at, since, until in spans:
        world = World(found.spec, rows, keys_at, lambda a, b: distance_of(found.spec.space, a, b))
        for end in range(-(-since // found.spec.slide) * found.spec.slide, until, found.spec.slide):
            for name in found.spec.names:
                check_answer(found.at(end / SECOND, name), world.at(end), name)
    assert run("verify", "--store", str(store), "--windows", "fleet")[0] == 0
    assert run("gc", "--store", str(store))[0] == 0
    line = next(line for line in run("info", "--store", str(store))[1] if line.startswith("windows"))
    assert "fleet: 2 batches" in line
    assert run("windows", "run", str(moves), *home, "--replace", "--once")[1] == ["nothing has changed"]
