"""Real data through windows in a store, held to numpy over all rows: `python -m tests.dtoss.windows.real [NAMES...]`.

Check-ins of Brightkite and Gowalla as positions, aircraft (out of order, spoofed, on both sides of the globe), ships at
Piraeus by sites, raw files of GeoLife, files of the form of T-Drive's, and a day of taxis, of which some have clocks
that are hours ahead. Each set is played batch after batch without Spark, in the order of its file or of time with some
rows late and some twice. Told are the rows, and how many values of answers, counts and flows differ; code 1 where any
does. A set that is not there is named. Part of `make check-data`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from datasets.aircraft import SCHEMA as AIRCRAFT
from datasets.aircraft import aircraft
from datasets.geolife import SCHEMA as GEOLIFE
from datasets.geolife import geolife
from datasets.tables.rows import collect
from datasets.tdrive import SCHEMA as TDRIVE
from datasets.tdrive import tdrive
from dtoss.buckets import bucket_of
from dtoss.commits.source import Source
from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of
from dtoss.partitioning.pivots import choose_pivots
from dtoss.windows.spec import MEASURES, spec_of
from dtoss.windows.stored.asked import Windows, open_windows
from dtoss.windows.stored.batch import run_batch
from dtoss.windows.stored.home import Home
from dtoss.windows.stored.keys_file import keys_from, of_regions, of_sites, write_keys
from dtoss.windows.stored.plan import Options, plan_batch
from dtoss.windows.stored.spec_file import Fixed, fix
from dtoss.windows.stored.verify import verify_windows
from dtoss.windows.tracks.rows_in import WindowRows
from tests.data import DATA, RAW
from tests.dtoss.windows.plain import Plain, accepted

SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000
ENDS = 40
"""That are compared, of each set."""
SPACE = space_of()


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the order in which they arrive."""

    ids: Any
    t: NDArray[np.int64]
    places: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.t)

    def take(self, order: NDArray[Any]) -> Rows:
        """Return some of them, in that order."""
        return Rows(self.ids.take(pa.array(order)), self.t[order], self.places[order])


@dataclass(frozen=True, eq=False)
class Case:
    """A set, and what is asked of it.

    Parameters
    ----------
    rows
        In the order in which they arrive.
    asked
        Arguments of a spec.
    batches
        How many.
    sites
        Keys by the user's own places; by partitions where there are none.
    tasks
        Of a batch.
    cuts
        Where each batch ends; batches of about the same size when None.
    """

    rows: Rows
    asked: dict[str, Any]
    batches: int
    sites: NDArray[np.float64] | None = None
    tasks: int = 2
    cuts: list[int] | None = None


@dataclass
class Told:
    """What came of a set."""

    rows: int = 0
    batches: int = 0
    late: int = 0
    losers: int = 0
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
    fixed = Fixed(wanted, write_keys(home, tables))
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
    told.late, told.losers, told.jumps = int((~good).sum()), plain.losers, plain.jumps
    found = open_windows(home.store, home.name)
    totals = found.head.commit.document["totals"]
    told.same("rows read", totals["rows"], len(rows))
    told.same("late", totals["quarantined"], told.late)
    told.same("losers", totals["losers"], plain.losers)
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


def _set(name: str, who: Callable[[pa.Table], Any] = lambda table: table["uid"]) -> Rows:
    table = pq.read_table(DATA / f"{name}.parquet")
    ids = who(table).combine_chunks()
    ids = ids.cast(pa.string() if pa.types.is_large_string(ids.type) or pa.types.is_string(ids.type) else pa.int64())
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    return Rows(ids, table["t"].cast(pa.int64()).to_numpy(), positions)


def arriving(rows: Rows, late: int, share: float = 0.1, twice: float = 0.01, seed: int = 0) -> Rows:
    """Return rows by time, of which a share comes up to so many microseconds late, and some a second time."""
    rng = np.random.default_rng(seed)
    again = rng.choice(len(rows), round(twice * len(rows)))
    all_of = np.concatenate([np.arange(len(rows)), again])
    behind = np.where(rng.random(len(all_of)) < share, rng.integers(0, late, len(all_of)), 0)
    behind[len(rows) :] = rng.integers(0, late, len(again))
    return rows.take(all_of[np.argsort(rows.t[all_of] + behind, kind="stable")])


def checkins(name: str, who: Callable[[pa.Table], Any] = lambda table: table["uid"]) -> Iterator[Case]:
    """Check-ins as positions: years by the hour, and in one batch in the order of the file."""
    rows = _set(name, who)
    asked = {"lengths": "1h,24h,168h", "slide": "1h", "late": "240h", "max_gap": "12h", "expire": "48h"}
    yield Case(arriving(rows, 200 * HOUR), asked, 9, tasks=3)
    yield Case(rows, asked | {"late": "0s"}, 1)


def _source_and_user(table: pa.Table) -> Any:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(table["src"].cast(pa.string()), table["uid"].cast(pa.string()), " ")


def planes() -> Iterator[Case]:
    """All aircraft in the order of their files, in one batch; by time with rows late; and those that jump."""
    rows = _set("aircraft_adsb")
    yield Case(rows, {"lengths": "5min,1h"}, 1)
    asked = {"lengths": "5min,1h", "slide": "5min", "late": "1h", "max_speed": 350.0}
    yield Case(arriving(rows, 50 * MINUTE), asked, 7, tasks=7)


def raw_planes(name: str) -> Iterator[Case]:
    """A raw sample as its reader gives it, some rows late and some twice: what comes too late is set aside."""
    table = collect(aircraft([RAW / f"aircraft_noisy_{name}.json.gz"]), AIRCRAFT)[0]
    table = table.filter(table["uid"].is_valid())
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    ids = table["uid"].combine_chunks().cast(pa.string())
    rows = arriving(Rows(ids, table["t"].cast(pa.int64()).to_numpy(), positions), 4 * MINUTE, 0.3)
    for late in ("0s", "1min", "5min"):
        asked = {"lengths": "1min,5min", "slide": "10s", "late": late, "max_gap": "1min", "max_speed": 400.0}
        yield Case(rows, asked, 30)


def ships() -> Iterator[Case]:
    """Ships by twenty places where some of them were."""
    rows = _set("ais_piraeus")
    sites = np.unique(rows.places, axis=0)
    sites = sites[np.random.default_rng(2).choice(len(sites), 20, replace=False)]
    asked = {"lengths": "15min,1h,24h", "slide": "5min", "late": "2h", "max_gap": "30min", "expire": "3h"}
    yield Case(arriving(rows, 110 * MINUTE), asked, 12, sites)


def people() -> Iterator[Case]:
    """Raw files of GeoLife through their reader, a file a batch."""
    parts = [collect(geolife([path]), GEOLIFE)[0] for path in sorted((RAW / "geolife").glob("*.plt"))]
    table = pa.concat_tables(parts)
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    rows = Rows(table["uid"].combine_chunks().cast(pa.int64()), table["t"].cast(pa.int64()).to_numpy(), positions)
    sites = positions[:: max(1, len(positions) // 30)]
    cuts = np.cumsum([len(part) for part in parts]).tolist()
    yield Case(rows, {"lengths": "5min,1h,24h", "max_gap": "5min"}, 0, sites, cuts=cuts)


def beijing() -> Iterator[Case]:
    """Files as T-Drive has them, one a taxi, through its reader: no raw one may be kept here, so rows are of taxis."""
    rows = _set("cabspotting_sf")
    rows = rows.take(np.flatnonzero((rows.ids.to_numpy() % 20 == 0) & (rows.t - rows.t.min() < 7 * 24 * HOUR)))
    local = (rows.t + 8 * HOUR).astype("datetime64[us]").astype("datetime64[s]").astype(str)
    with tempfile.TemporaryDirectory() as folder:
        for number in np.unique(rows.ids.to_numpy()).tolist():
            lines = [
                f"{number},{local[i].replace('T', ' ')},{rows.places[i, 0]},{rows.places[i, 1]}\n"
                for i in np.flatnonzero(rows.ids.to_numpy() == number).tolist()
            ]
            (Path(folder) / f"{number}.txt").write_text("".join(lines))
        table = collect(tdrive([folder]), TDRIVE)[0]
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    found = Rows(table["uid"].combine_chunks().cast(pa.int64()), table["t"].cast(pa.int64()).to_numpy(), positions)
    yield Case(found, {"lengths": "15min,1h,24h", "slide": "5min", "expire": "30min"}, 1)


def taxis() -> Iterator[Case]:
    """A day of taxis: a file each in one batch, and by time where three clocks of all are six hours ahead."""
    rows = _set("cabspotting_sf")
    day = rows.t // (24 * HOUR)
    rows = rows.take(np.flatnonzero(day == day.min() + 8))
    who = rows.ids.to_numpy()
    asked = {"lengths": "5min,15min,1h,24h", "slide": "5min", "late": "1h", "expire": "15min"}
    yield Case(rows.take(np.argsort(who, kind="stable")), asked | {"late": "0s"}, 1, tasks=7)
    fast = np.isin(who, np.unique(who)[:3])
    ahead = Rows(rows.ids, rows.t + np.where(fast, 6 * HOUR, 0), rows.places)
    seen = np.argsort(rows.t, kind="stable")  # when they arrive, whatever their clocks say
    yield Case(ahead.take(seen), asked | {"late": "0s"}, 24)
    yield Case(arriving(rows, 55 * MINUTE), asked, 24)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "brightkite": lambda: checkins("brightkite_checkins"),
    "gowalla": lambda: checkins("gowalla_checkins", _source_and_user),
    "gowalla week": lambda: checkins("gowalla_weekpattern"),
    "aircraft": planes,
    "aircraft, times out of order": lambda: raw_planes("time_issue"),
    "aircraft, spoofed": lambda: raw_planes("spoofing"),
    "ships": ships,
    "geolife": people,
    "tdrive": beijing,
    "taxis": taxis,
}


def main() -> int:
    """Play all sets, or those that are named."""
    wrong, asked = 0, sys.argv[1:] or list(CASES)
    for name in asked:
        if name not in CASES:
            print(f"{name}: none of {', '.join(CASES)}", file=sys.stderr)
            return 2
        try:
            for case in CASES[name]():
                began = time.process_time()
                with tempfile.TemporaryDirectory() as folder:
                    told = played(case, Path(folder))
                wrong += told.differ
                print(
                    f"{name}: {told.rows:,} rows in {told.batches} batches, {told.late:,} late, "
                    f"{told.losers:,} losers, {told.jumps:,} jumps; {told.differ} of {told.values:,} values differ, "
                    f"{time.process_time() - began:.1f} s of a processor",
                    flush=True,
                )
                for line in told.which:
                    print(f"  {line}")
        except FileNotFoundError as error:
            print(f"{name}: {error.filename} is not there", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
