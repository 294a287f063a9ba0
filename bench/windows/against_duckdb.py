"""Sliding sums and exact distinct objects of a day of taxis, ours beside DuckDB on the same columns, one thread each.

`python -m bench.windows.against_duckdb`: 470,309 rows, 128 regions, four windows at 1,440 ends. Regions are known to
both. Processor seconds, the best of runs in turns; answers are compared. Goals: distinct 60 times, sums 5 times.
"""

from __future__ import annotations

import time
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from bench.windows.sliding import FOUR, MINUTE_US, PARTITIONS, UNSEEN, Fleet, fleet, spec
from dtoss.windows.aggregation.pane_state import PaneState
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.spec import Spec
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.map_step import objects_step
from dtoss.windows.watermark import watermark_of

TIMES = 3
_DISTINCT = """
    select region, t, {windows} from (select region, t // {minute} as t, uid from day)
    window {frames}
"""


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


def main() -> None:
    """Print both ratios."""
    day = fleet().of_day(UNSEEN)
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.register("rows", pa.table({"region": day.region, "t": day.rows.t, "uid": day.rows.ids}))
    connection.execute("create table day as select * from rows")
    for column, ask, goal in (("objects", theirs_distinct, 60), ("rows", theirs_sums, 5)):
        wanted = spec(day, FOUR, column)
        best = {"ours": np.inf, "DuckDB": np.inf}
        answers: dict[str, Any] = {}
        for _ in range(TIMES):
            for name in best:
                began = time.process_time()
                answers[name] = ours(day, wanted) if name == "ours" else ask(connection, wanted)
                best[name] = min(best[name], time.process_time() - began)
        differ = differing(answers["ours"], answers["DuckDB"], column, wanted.names)
        ratio = best["DuckDB"] / best["ours"]
        print(
            f"{column}, {len(day.rows):,} rows, four windows: ours {best['ours']:.3f} s, DuckDB {best['DuckDB']:.3f} s:"
            f" {ratio:.1f}x (goal {goal}); {differ} differ"
        )


if __name__ == "__main__":
    main()
