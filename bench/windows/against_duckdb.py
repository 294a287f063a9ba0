"""Sliding sums and exact distinct objects of a day of taxis, ours beside DuckDB and numpy, one thread each.

`python -m bench.windows.against_duckdb`: 470,309 rows, 128 regions, four windows at 1,440 ends. Regions are known to
all. Processor seconds, the best of runs in turns; answers are compared. Goals: DuckDB's distinct 60 times, its sums 5
times, numpy 40 times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.measuring.points import DATA
from bench.measuring.race import in_turns
from dtoss.geometry.space import space_of
from dtoss.partitioning.pivots import SAMPLE_PER_PARTITION, choose_pivots
from dtoss.windows.aggregation.pane_state import PaneState
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.keys import Keys, Labels, region_keys
from dtoss.windows.spec import Spec, spec_of
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.map_step import WindowRows, objects_step
from dtoss.windows.watermark import watermark_of

FILE = DATA / "cabspotting_sf.parquet"
PARTITIONS = 128
DAY_US, MINUTE_US = 86_400_000_000, 60_000_000
FOUR = "5min,15min,1h,24h"
UNSEEN = 8
"""The day, from 0, of the race: 470,309 rows."""
TIMES = 3
_DISTINCT = """
    select region, t, {windows} from (select region, t // {minute} as t, uid from day)
    window {frames}
"""


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


def ours(day: Fleet, wanted: Spec) -> pa.Table:
    """Return results of both steps."""
    step = objects_step(wanted, day.keys, ObjectState.none(pa.int64(), True), day.rows, None, day.labels)
    after = watermark_of(wanted, step.reached, None)
    return groups_step(wanted, PaneState.none(wanted), step.patches, None, after).results


def theirs_distinct(connection: Any, wanted: Spec) -> pa.Table:
    """Return different objects by region and minute, by windows over the rows of each region."""
    panes = [length // MINUTE_US for length in wanted.lengths]
    windows = ", ".join(f"count(distinct uid) over w{i} as objects_{name}" for i, name in enumerate(wanted.names))
    frames = ", ".join(
        f"w{i} as (partition by region order by t range between {pane - 1} preceding and current row)"
        for i, pane in enumerate(panes)
    )
    query = _DISTINCT.format(windows=windows, frames=frames, minute=MINUTE_US)
    found = ", ".join(f"max(objects_{name}) as objects_{name}" for name in wanted.names)
    return connection.sql(f"select region, t, {found} from ({query}) group by region, t").to_arrow_table()


def theirs_sums(connection: Any, wanted: Spec) -> pa.Table:
    """Return rows by region and minute: panes, then windows over the panes of each region."""
    panes = [length // MINUTE_US for length in wanted.lengths]
    windows = ", ".join(f"sum(n) over w{i} as rows_{name}" for i, name in enumerate(wanted.names))
    frames = ", ".join(
        f"w{i} as (partition by region order by t range between {pane - 1} preceding and current row)"
        for i, pane in enumerate(panes)
    )
    return connection.sql(
        f"select region, t, {windows} from (select region, t // {MINUTE_US} as t, count(*) as n from day group by all)"
        f" window {frames}"
    ).to_arrow_table()


def differing(results: pa.Table, theirs: pa.Table, column: str, names: tuple[str, ...]) -> int:
    """Return how many values differ, of the regions and minutes that DuckDB speaks of: those that have a row."""
    end, key = results["end"].to_numpy() // MINUTE_US, results["key"].to_numpy()
    pane, region = theirs["t"].to_numpy(), theirs["region"].to_numpy()
    due = pane < end.max()
    first = int(end.min())
    differ = 0
    for name in names:
        dense = np.zeros((int(end.max()) - first + 1, PARTITIONS), np.int64)
        dense[end - first, key] = results[f"{column}_{name}"].to_numpy()
        said = theirs[f"{column}_{name}"].to_numpy().astype(np.int64)
        differ += int((dense[pane[due] + 1 - first, region[due]] != said[due]).sum())
    return differ


def by_numpy(day: Fleet, wanted: Spec) -> pa.Table:
    """Return rows and different objects by region and minute, each window anew from its rows, by bits of objects."""
    order = np.argsort(day.rows.t, kind="stable")
    t, region, uid = day.rows.t[order], day.region[order], day.rows.ids.to_numpy()[order]
    objects = int(uid.max()) + 1
    pair = region * objects + uid
    there = np.zeros(PARTITIONS * objects, np.bool_)  # quicker than sorting the pairs of each window
    ends = np.arange(int(t.min()) // MINUTE_US + 1, int(t.max()) // MINUTE_US + 1)
    found: dict[str, Any] = {"t": np.repeat(ends - 1, PARTITIONS), "region": np.tile(np.arange(PARTITIONS), len(ends))}
    for name, length in zip(wanted.names, wanted.lengths, strict=True):
        rows, counts = [], []
        for end in ends.tolist():
            begin, last = np.searchsorted(t, (end * MINUTE_US - length, end * MINUTE_US))
            rows.append(np.bincount(region[begin:last], minlength=PARTITIONS))
            there[:] = False
            there[pair[begin:last]] = True
            counts.append(there.reshape(PARTITIONS, objects).sum(axis=1))
        found[f"rows_{name}"], found[f"objects_{name}"] = np.concatenate(rows), np.concatenate(counts)
    return pa.table(found)


def main() -> None:
    """Print the ratios."""
    day = fleet().of_day(UNSEEN)
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.register("rows", pa.table({"region": day.region, "t": day.rows.t, "uid": day.rows.ids}))
    connection.execute("create table day as select * from rows")
    for other, columns, ask, goal in (
        ("DuckDB", "objects", partial(theirs_distinct, connection), 60),
        ("DuckDB", "rows", partial(theirs_sums, connection), 5),
        ("numpy", "rows,objects", partial(by_numpy, day), 40),
    ):
        wanted = spec(day, FOUR, columns)
        spent, answers = in_turns({"ours": partial(ours, day, wanted), other: partial(ask, wanted)}, TIMES)
        differ = sum(differing(answers["ours"], answers[other], one, wanted.names) for one in columns.split(","))
        best = {name: min(times) for name, times in spent.items()}
        print(
            f"{columns}, {len(day.rows):,} rows, four windows: ours {best['ours']:.3f} s, {other} {best[other]:.3f} s: "
            f"{best[other] / best['ours']:.1f}x (goal {goal}); {differ} differ",
            flush=True,
        )


if __name__ == "__main__":
    main()
