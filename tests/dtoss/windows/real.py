"""Real data through windows in a store, held to numpy over all rows: `python -m tests.dtoss.windows.real [NAMES...]`.

The sets are those of real_cases.py. Each is played batch after batch without Spark, in the order of its file or of time
with some rows late and some twice; check-ins are an access log as well. Told are the rows, and how many values of
answers, counts and flows differ; code 1 where any does. A set that is not there is named. Part of `make check-data`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import ceps
import dtoss
from dtoss.buckets import bucket_of
from dtoss.commits.offsets import Source
from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of
from dtoss.partitioning.pivots import choose_pivots
from dtoss.snapshots.manifest import regions_of_manifest
from dtoss.snapshots.store import Store
from dtoss.windows.measures import MEASURES
from dtoss.windows.processing.windows_tables import verify_windows
from dtoss.windows.query.window_query import Windows, open_windows
from dtoss.windows.spec import spec_of
from dtoss.windows.storage.keys_file import keys_from, of_regions, of_sites, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import Home
from dtoss.windows.storage.window_plan import Options, plan_batch
from dtoss.windows.trajectories.map_step import WindowRows
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.windows.plain import Plain, accepted
from tests.dtoss.windows.real_cases import CASES, Case, real_rows
from tests.dtoss.windows.window_batch import run_batch
from tests.pipelines.load_patterns.logs import World, flushes, patterns_bytes, write

SECOND = 1_000_000
ENDS = 40
"""That are compared, of each set."""
SPACE = space_of()


@dataclass
class Told:
    """What came of a set."""

    rows: int = 0
    batches: int = 0
    late: int = 0
    duplicates: int = 0
    jumps: int = 0
    values: int = 0
    differ: int = 0
    which: list[str] = field(default_factory=list)

    def same(self, what: str, ours: Any, theirs: Any) -> None:
        """Count one value, and that it differs."""
        self.values += 1
        if ours != theirs:
            self.differ += 1
            if len(self.which) < 5:
                self.which.append(f"{what}: {ours} and not {theirs}")


def played(case: Case, folder: Path) -> Told:
    """Play a set, and hold counts, watermarks and answers to numpy."""
    rows, pivots = case.rows, None
    if case.sites is None:
        pivots = choose_pivots(SPACE.vectors(np.unique(rows.places, axis=0)[:: max(1, len(rows) // 20_000)]), 64)
    tables = of_sites(case.sites) if pivots is None else of_regions(pivots)
    asked = {"slide": "1min", "measures": ",".join(MEASURES), "late": "10min", "max_gap": "10min"} | case.asked
    kind = "sites:places" if pivots is None else "partition"
    wanted = spec_of(by=kind, space=SPACE, keys=keys_from(SPACE, tables).digest, **asked)
    home = Home(str(folder), "real")
    fixed = FixedSpec(wanted, write_keys(home, tables))
    fix(home, fixed)
    cuts = case.cuts or np.linspace(0, len(rows), case.batches + 1).astype(int).tolist()[1:]
    batches = [slice(a, b) for a, b in zip([0, *cuts], cuts, strict=False)]
    bucket, types = bucket_of(rows.ids), (str(rows.ids.type), "double")
    _, who = np.unique(np.asarray(rows.ids.to_pylist()), return_inverse=True)
    good, marks = accepted(wanted, who, rows.t, batches)
    told = Told(len(rows), len(batches))
    for part, mark in zip(batches, marks, strict=True):
        plan = plan_batch(home, fixed, types, Source(), Options(1.0), time.time_ns() // 1000, case.tasks)
        assert plan is not None
        few = np.arange(part.start, part.stop)
        one = rows.take(few)
        commit = run_batch(plan, WindowRows(one.ids, one.t, one.places, bucket[part]))
        told.same("watermark", commit.document["watermark"], mark)
    if pivots is None:
        vectors, weights = SPACE.vectors(case.sites), np.zeros(len(case.sites))  # type: ignore[arg-type]
    else:
        vectors, weights = pivots.pivots, pivots.weights
    plain = Plain(wanted, who[good], rows.t[good], rows.places[good], _nearest(vectors, weights), _far)
    told.late, told.duplicates, told.jumps = int((~good).sum()), plain.duplicates, plain.jumps
    found = open_windows(home.store, home.name)
    totals = found.head.commit.document["totals"]
    told.same("rows read", totals["rows"], len(rows))
    told.same("late", totals["quarantined"], told.late)
    told.same("losers", totals["losers"], plain.duplicates)
    told.same("jumps", totals["jumps"], plain.jumps)
    told.same("damaged files", verify_windows(home).damaged, [])
    _compare(found, plain, told)
    return told


def _compare(found: Windows, plain: Plain, told: Told) -> None:
    """Hold answers about some ends, early and late ones, to numpy."""
    spec, mark = found.spec, found.watermark
    assert mark is not None
    first, last = int(plain.t.min()) // spec.slide + 1, mark // spec.slide
    some = np.random.default_rng(1).choice(plain.t[plain.t < mark], ENDS) // spec.slide + 1
    ends = np.unique(np.clip(np.concatenate([[first, last, last - 1], some]), first, last)) * spec.slide
    for end in ends.tolist():
        for name, length in zip(spec.names, spec.lengths, strict=True):
            _held(found.at(end / SECOND, name), plain.window(end, length), f"{name} up to {end}", told)
    for name, length in zip(spec.names, spec.lengths, strict=True):
        if "flow" in spec.measures:
            moves = {(one["from"], one["to"]): one["moves"] for one in found.flow(window=name).to_pylist()}
            told.same(f"flow of {name}", moves, plain.flow(mark, length))
    between = spec.longest // 2 * spec.pane
    _held(found.at(window=f"{between // SECOND}s"), plain.window(mark, between), "a length between", told)


def _held(answer: pa.Table, known: dict[int, dict[str, Any]], what: str, told: Told) -> None:
    ours = {row["key"]: row for row in answer.to_pylist()}
    measures = [name for name in answer.column_names if name in MEASURES]
    for key in ours.keys() | known.keys():
        for measure in measures:
            nothing = None if "speed" in measure else 0
            mine = ours.get(key, {}).get(measure, nothing)
            told.same(f"{measure} of {key}, {what}", mine, known.get(key, {}).get(measure, nothing))


def _nearest(vectors: NDArray[np.float64], weights: NDArray[np.float64]) -> Callable[..., NDArray[np.int64]]:
    """Return a function that gives the least power of all, ties to the first."""

    def key_of(places: NDArray[np.float64]) -> NDArray[np.int64]:
        found = []
        for part in np.array_split(places, len(places) // 10_000 + 1):
            gaps = SPACE.vectors(part)[:, None, :] - vectors[None, :, :]
            found.append(((gaps * gaps).sum(axis=2) - weights).argmin(axis=1))
        return np.concatenate(found).astype(np.int64)

    return key_of


def _far(places: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    return distance(SPACE.vectors(places), SPACE.vectors(others))


def logged(name: str, folder: Path) -> Told:
    """Play check-ins as the access log of three servers, in four runs: requests by partition and time of day."""
    rows = real_rows(name)
    places = np.unique(rows.places, axis=0)
    store = stored(dtoss.build(np.arange(len(places)), places, partitions=16), folder / "store")
    order = np.argsort(rows.t, kind="stable")
    weight = 1 + rows.ids.to_numpy(zero_copy_only=False)[order] % 7
    table = pa.table(
        {
            "t": pa.array(rows.t[order], pa.timestamp("us", "UTC")),
            "lon": rows.places[order, 0],
            "lat": rows.places[order, 1],
            "k": pa.nulls(len(rows), pa.int32()),
            "radius": pa.nulls(len(rows), pa.float64()),
            "weight": weight,
        }
    )
    manifest = Store(str(store)).manifest()
    world = World(str(store), table, table, manifest)
    files = list(flushes(table, np.random.default_rng(3), files=60).items())
    for part in np.array_split(np.random.default_rng(4).permutation(len(files)), 4):
        write(world.log, dict(files[i] for i in part))
        patterns_bytes(world, folder / "live.parquet")
    found = ceps.read_patterns(folder / "live.parquet", week=False)
    regions = regions_of_manifest(manifest)
    home = _nearest(regions.pivots, regions.weights)(rows.places[order])
    known = np.zeros(found.loads.shape)
    np.add.at(known, (home, rows.t[order] // SECOND % 86_400 // 300), weight)
    told = Told(len(rows), len(files))
    ours = np.rint(found.loads * 300 * found.days)
    told.values, told.differ = known.size, int((ours != known).sum())
    told.same("requests", round(found.reads.total * found.days), int(weight.sum()))  # type: ignore[union-attr]
    return told


LOGS = {"brightkite as a log": "brightkite_checkins", "gowalla as a log": "gowalla_checkins"}


def main() -> int:
    """Play all sets, or those that are named."""
    wrong, asked = 0, sys.argv[1:] or [*CASES, *LOGS]
    for name in asked:
        if name not in CASES and name not in LOGS:
            print(f"{name}: none of {', '.join([*CASES, *LOGS])}", file=sys.stderr)
            return 2
        try:
            for case in CASES[name]() if name in CASES else [None]:
                began = time.process_time()
                with tempfile.TemporaryDirectory() as folder:
                    told = logged(LOGS[name], Path(folder)) if case is None else played(case, Path(folder))
                wrong += told.differ
                print(
                    f"{name}: {told.rows:,} rows in {told.batches} batches, {told.late:,} late, "
                    f"{told.duplicates:,} duplicates, {told.jumps:,} jumps; {told.differ} of {told.values:,} values "
                    f"differ, {time.process_time() - began:.1f} s of a processor",
                    flush=True,
                )
                for line in told.which:
                    print(f"  {line}")
        except FileNotFoundError as error:
            print(f"{name}: {error.filename} is not there", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
