"""Windows over a fleet, in process, one thread: rows a second, what more lengths cost, and recomputation beside them.

`python -m bench.windows.sliding [DAYS]`: Cabspotting (8,339,836 rows, 526 taxis, 18 days), 128 regions of balanced
pivots, panes and ends of a minute. Processor seconds, the best of three runs in turns; goals E2 and E3.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.measuring.points import DATA
from dtoss.geometry.space import space_of
from dtoss.partitioning.pivots import SAMPLE_PER_PARTITION, choose_pivots
from dtoss.windows.aggregation.pane_state import PaneState
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.keys import Keys, Labels, region_keys
from dtoss.windows.measures import MEASURES, PERCENTILES
from dtoss.windows.spec import Spec, spec_of
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.map_step import objects_step
from dtoss.windows.trajectories.sorted_rows import WindowRows
from dtoss.windows.watermark import watermark_of

FILE = DATA / "cabspotting_sf.parquet"
PARTITIONS = 128
DAY_US, MINUTE_US = 86_400_000_000, 60_000_000
FOUR, DAY = "5min,15min,1h,24h", ",".join(f"{hours}h" for hours in range(1, 25))
ALL = ",".join(name for name in MEASURES if name != "p99_speed")  # Those that docs have figures of
ADDITIVE = ",".join(name for name in MEASURES if name not in PERCENTILES)
COUNTS = "rows,objects"
UNSEEN = 8
"""The day, from 0, that is recomputed: 470,309 rows."""


@dataclass(frozen=True, eq=False)
class Fleet:
    """Rows by object and time.

    Parameters
    ----------
    rows, labels, keys
        Those, the region of each, and how it is found.
    """

    rows: WindowRows
    labels: Labels
    keys: Keys

    @property
    def region(self) -> NDArray[np.int64]:
        """The region of each row."""
        return self.labels.key

    def of_day(self, day: int, days: int = 1) -> Fleet:
        """Return the rows of a day, from 0, or of so many from it on."""
        at = self.rows.t // DAY_US - int(self.rows.t.min()) // DAY_US - day
        mine = np.flatnonzero((at >= 0) & (at < days))
        return Fleet(self.rows.take(mine), Labels(self.region[mine]), self.keys)


def fleet() -> Fleet:
    """Return Cabspotting with its regions."""
    table = pq.read_table(FILE, columns=["uid", "t", "lon", "lat"])
    uid, t = table["uid"].to_numpy().astype(np.int64), table["t"].cast("int64").to_numpy()
    order = np.lexsort((t, uid))
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)[order]
    space = space_of()
    few = np.random.default_rng(0).choice(len(positions), PARTITIONS * SAMPLE_PER_PARTITION, replace=False)
    keys = region_keys(space, choose_pivots(space.vectors(positions[few]), PARTITIONS))
    rows = WindowRows(pa.array(uid[order]), t[order], positions, np.zeros(len(t), np.int64))
    return Fleet(rows, keys.of(positions), keys)


def spec(of: Fleet, lengths: str, measures: str) -> Spec:
    """Return windows of a minute's slide."""
    return spec_of(lengths, "1min", measures, "partition", of.keys.space, of.keys.digest, witnesses="1")


@dataclass(frozen=True)
class Run:
    """Processor seconds of both steps, and how many results there were."""

    objects: float
    panes: float
    results: int

    @property
    def seconds(self) -> float:
        """Of both."""
        return self.objects + self.panes


def run(of: Fleet, wanted: Spec, *, known: bool = True) -> Run:
    """Run both steps over all rows as one batch; results are made, and looked at by nobody."""
    began = time.process_time()
    none = ObjectState.none(pa.int64(), True)
    step = objects_step(wanted, of.keys, none, of.rows, None, of.labels if known else None)
    middle = time.process_time()
    groups = groups_step(
        wanted, PaneState.none(wanted), step.patches, None, watermark_of(wanted, step.reached, None), into=len
    )
    return Run(middle - began, time.process_time() - middle, groups.rows)


def best(works: Mapping[str, Callable[[], Run]], times: int = 3) -> dict[str, Run]:
    """Return the best run of each, in turns."""
    found: dict[str, Run] = {}
    for _ in range(times):
        for name, work in works.items():
            one = work()
            if name not in found or one.seconds < found[name].seconds:
                found[name] = one
    return found


def recomputed(of: Fleet, lengths: Mapping[str, int]) -> dict[tuple[int, str], Any]:
    """Return rows and different objects of each region at each minute of a day, each window from its rows."""
    order = np.argsort(of.rows.t, kind="stable")
    t, region = of.rows.t[order], of.region[order]
    uid = of.rows.ids.to_numpy()[order]
    objects = int(uid.max()) + 1
    pair = region * objects + uid
    there = np.zeros(PARTITIONS * objects, np.bool_)  # quicker than sorting the pairs of each window
    found = {}
    first = int(t.min()) // MINUTE_US + 1
    for end in range(first, int(t.max()) // MINUTE_US + 1):
        last = int(np.searchsorted(t, end * MINUTE_US))
        for name, length in lengths.items():
            begin = int(np.searchsorted(t, end * MINUTE_US - length))
            rows = np.bincount(region[begin:last], minlength=PARTITIONS)
            there[:] = False
            there[pair[begin:last]] = True
            found[end, name] = rows, there.reshape(PARTITIONS, objects).sum(axis=1)
    return found


def throughput(of: Fleet) -> None:
    """Print E2: rows a second."""
    four, sums = spec(of, FOUR, ALL), spec(of, FOUR, ADDITIVE)
    runs = best(
        {
            "all measures, regions known (goal 6)": lambda: run(of, four),
            "all but percentiles, regions known": lambda: run(of, sums),
            "all measures, from lon and lat (goal 2.5)": lambda: run(of, four, known=False),
            "all but percentiles, from lon and lat": lambda: run(of, sums, known=False),
        }
    )
    for name, one in runs.items():
        print(
            f"{name}: {len(of.rows) / one.seconds / 1e6:.2f} M rows/s; objects {one.objects:.2f} s, panes "
            f"{one.panes:.2f} s, {one.results:,} results"
        )


def sharing(of: Fleet) -> None:
    """Print E3: what more lengths and longer ones cost."""
    for measures, said in ((COUNTS, COUNTS), (ADDITIVE, "all but percentiles"), (ALL, "all measures")):
        lengths = {"5min": "5min", "24h": "24h", "four": FOUR, "24 of 1 to 24 h": DAY}
        specs = {name: spec(of, text, measures) for name, text in lengths.items()}
        runs = best({name: lambda wanted=wanted: run(of, wanted) for name, wanted in specs.items()})
        one, day = runs["5min"], runs["24h"]
        mean = (one.seconds + day.seconds) / 2
        print(f"{said}: " + "; ".join(f"{name} {it.objects:.2f} + {it.panes:.2f} s" for name, it in runs.items()))
        four, many = runs["four"].seconds / mean, runs["24 of 1 to 24 h"].seconds / mean
        wide = day.seconds / one.seconds
        print(f"  four / one {four:.2f} (goal 1.5), 24 / one {many:.2f} (goal 3), 24 h / 5 min {wide:.2f} (goal 1.2)")


def recomputing(of: Fleet) -> None:
    """Print a day's rows and different objects in four windows, ours and each window from its rows."""
    day = of.of_day(UNSEEN)
    wanted = spec(of, FOUR, COUNTS)
    ours = best({"ours": lambda: run(day, wanted)}, 5)["ours"]
    began = time.process_time()
    truth = recomputed(day, dict(zip(wanted.names, wanted.lengths, strict=True)))
    slow = time.process_time() - began
    differ = compared(day, wanted, truth)
    ends = len(truth) // len(wanted.names)
    print(
        f"a day of {len(day.rows):,} rows, four windows at {ends:,} ends: ours {ours.seconds:.3f} s, recomputed "
        f"{slow:.2f} s: {slow / ours.seconds:.0f}x (goal 40); {differ} differ"
    )


def compared(day: Fleet, wanted: Spec, truth: Mapping[tuple[int, str], Any]) -> int:
    """Return how many values differ from those that were recomputed."""
    step = objects_step(wanted, day.keys, ObjectState.none(pa.int64(), True), day.rows, None, day.labels)
    groups = groups_step(wanted, PaneState.none(wanted), step.patches, None, watermark_of(wanted, step.reached, None))
    table = groups.results
    end, key = table["end"].to_numpy() // MINUTE_US, table["key"].to_numpy()
    differ = 0
    first = min(end for end, _ in truth)
    for name in wanted.names:
        for i, measure in enumerate(("rows", "objects")):
            dense = np.zeros((len(truth) // len(wanted.names), PARTITIONS), np.int64)
            dense[end - first, key] = table[f"{measure}_{name}"].to_numpy()
            expected = np.stack([truth[first + at, name][i] for at in range(len(dense))])
            differ += int((dense != expected).sum())
    return differ


def main() -> None:
    """Print all of it; the first argument is for how many days, all if there is none."""
    of = fleet()
    recomputing(of)
    if len(sys.argv) > 1:
        of = of.of_day(0, int(sys.argv[1]))
    run(of.of_day(0), spec(of, FOUR, ALL))  # compiles
    throughput(of)
    sharing(of)


if __name__ == "__main__":
    main()
