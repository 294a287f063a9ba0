"""Windows in a store, played batch by batch without Spark, and held to the oracle."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dtoss.buckets import bucket_of
from dtoss.commits.offsets import Source
from dtoss.geometry.space import space_of
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.spec import spec_of
from dtoss.windows.storage.keys_file import keys_from, of_sites, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import Home
from dtoss.windows.storage.window_plan import Options, plan_batch
from dtoss.windows.trajectories.map_step import WindowRows
from tests.dtoss.windows.brute import SPEEDS, World
from tests.dtoss.windows.window_batch import run_batch

SECOND = 1_000_000
FAR_FUTURE = 1 << 59
ALL = "rows,objects,here,arrivals,departures,flow,speed,max_speed,p50_speed,p95_speed,p99_speed"
SITES = np.array([[0.0, 0.0], [10.0, 0.0], [5.0, 8.0]])
PLANE = space_of(None, "plane")


def spec(lengths="4s,10s", slide="2s", measures=ALL, space=PLANE, sites=SITES, **more):
    """A spec of windows by sites."""
    digest = keys_from(space, of_sites(sites)).digest
    return spec_of(lengths, slide, measures, "sites:shops", space, digest, **{"late": "5s", "max_gap": "6s"} | more)


def begin(folder, wanted=None, name="w"):
    """Return the home of windows that stand for a spec, and the spec with the file of its keys."""
    wanted = wanted or spec()
    home = Home(str(folder), name)
    fixed = FixedSpec(wanted, write_keys(home, of_sites(SITES)))
    fix(home, fixed)
    return home, fixed


def rows_of(rows):
    """Return rows (id, t, x, y) as windows take them; t in microseconds."""
    ids = pa.array([row[0] for row in rows], pa.string() if rows and isinstance(rows[0][0], str) else pa.int64())
    return WindowRows(
        ids,
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2:] for row in rows], np.float64).reshape(-1, 2),
        bucket_of(ids),
    )


def commit(home, fixed, rows, source=None, tasks=1, now_us=FAR_FUTURE, **options):
    """Commit a batch; None where it is committed already."""
    kind = "string" if rows and isinstance(rows[0][0], str) else "int64"
    given = Options(**{"max_bad": 1.0} | options)
    plan = plan_batch(home, fixed, (kind, "double"), source or Source(), given, now_us, tasks)
    return None if plan is None else run_batch(plan, rows_of(rows))


def made(seed, batches=6, rows=30, ids=5, step=4.0):
    """Batches of rows of objects that move about, some late, some twice."""
    rng = np.random.default_rng(seed)
    found, before = [], []
    for number in range(batches):
        t = (rng.uniform(0, 6, rows) + number * step - rng.exponential(2.0, rows)).clip(0) * SECOND
        places = rng.integers(-2, 12, (rows, 2)) + rng.choice([0.0, 0.25], (rows, 2))
        batch = [
            (int(i), int(at), *map(float, place))
            for i, at, place in zip(rng.integers(0, ids, rows), t, places, strict=True)
        ]
        again = [before[i] for i in rng.integers(0, len(before), 3)] if before else []
        moved = [(one[0], one[1], one[2] + 1.0, one[3]) for one in again]
        found.append(batch + again + moved)
        before += batch
    return found


def key_of(x, y):
    """The keys of a place."""
    return [int(((SITES - (x, y)) ** 2).sum(axis=1).argmin())]


def far(a, b):
    """The distance of two places."""
    return float(np.hypot(a[0] - b[0], a[1] - b[1]))


def check(home, accepted, first=0):
    """Hold all answers about all ends that are due to the oracle; return how many rows of answers there were."""
    found = open_windows(home.store, home.name)
    want, world, count = found.spec, World(found.spec, accepted, key_of, far), 0
    ends = range(first, found.watermark + 1, want.slide)
    for end in ends:
        known = world.at(end)
        for name in want.names:
            answer = found.at(end / SECOND, name)
            assert answer["end"].to_pylist() == [end] * len(answer)
            assert set(answer["final"].to_pylist()) <= {end <= found.watermark - want.late}
            count += check_answer(answer, known, name)
    for key in range(len(SITES)):
        line = found.series(key, want.names[0], first / SECOND)
        assert line["end"].to_pylist() == list(ends)
        for row in line.to_pylist():
            check_row(row, world.at(row["end"]).get(key, {}), want.names[0])
    for panes in range(1, want.longest + 1):
        name = f"{panes * want.pane / SECOND:g}s"
        if panes * want.pane not in want.lengths:
            known = world.at(found.watermark, {name: panes * want.pane})
            count += check_answer(found.at(window=name), known, name)
        if "flow" in want.measures:
            flow = {(row["from"], row["to"]): row["moves"] for row in found.flow(window=name).to_pylist()}
            assert flow == world.flow(found.watermark, panes * want.pane)
    return count


def check_answer(answer, known, name):
    """Hold an answer to the oracle's rows."""
    rows = {row["key"]: row for row in answer.to_pylist()}
    assert list(rows) == sorted(rows)
    for key in set(rows) | set(known):
        check_row(rows.get(key, {}), known.get(key, {}), name)
    return len(rows)


def check_row(row, known, name):
    """Hold the row of a key to the oracle's."""
    for measure in ("rows", "objects", "arrivals", "departures"):
        assert row.get(measure, 0) == known.get(f"{measure}_{name}", 0), measure
    assert row.get("here", 0) == known.get("here", 0)
    for measure in SPEEDS:
        millimetres = known.get(f"{measure}_{name}")
        assert row.get(measure) == (None if millimetres is None else millimetres / 1000)
    distance, moving = known.get(f"distance_mm_{name}", 0), known.get(f"moving_us_{name}", 0)
    assert row.get("speed") == (distance / 1000 / (moving / 1e6) if moving else None)


def counts_add_up(document):
    """Check that each row was counted, lost or set aside."""
    counts = document["counts"]
    assert counts["rows"] == counts["counted"] + counts["losers"] + sum(document["reasons"].values())
    totals = document["totals"]
    assert totals["rows"] == totals["counted"] + totals["losers"] + totals["quarantined"]
