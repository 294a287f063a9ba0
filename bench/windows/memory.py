"""What windows hold in memory and on disk, without Spark: `python -m bench.windows.memory [replay] [pairs] [million]`.

E8. `replay`: Cabspotting (8,339,836 rows, 526 taxis) replayed as 18 days of files of four hours, each a batch in a
store, all measures but percentiles; the most memory of the last day beside that of the third. `million`: a million
objects in 128 places for a day, a batch every two hours; memory of the process and bytes of state, and `pairs`: bytes
for each object and place of the longest window, and for each row that may still change. Memory is resident, and does
not depend on the load.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.measuring.points import DATA
from dtoss.buckets import BUCKETS, bucket_of
from dtoss.commits.offsets import Source
from dtoss.commits.table import remove_orphans
from dtoss.geometry.space import space_of
from dtoss.windows.measures import MEASURES, PERCENTILES
from dtoss.windows.processing.hour_compaction import merge_hours
from dtoss.windows.processing.windows_tables import table_of
from dtoss.windows.spec import spec_of
from dtoss.windows.state.state_files import read_objects
from dtoss.windows.storage.keys_file import keys_from, of_sites, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import begun_windows
from dtoss.windows.storage.window_folder import Home
from dtoss.windows.storage.window_plan import Options, plan_batch
from dtoss.windows.trajectories.sorted_rows import WindowRows
from tests.dtoss.windows.window_batch import run_batch

FILE = DATA / "cabspotting_sf.parquet"
PLACES, TASKS = 128, 2
SECOND_US, BATCH_HOURS, FILE_HOURS = 1_000_000, 2, 4
MEGABYTE = 1e6
FAR_FUTURE_US = 1 << 59
ADDITIVE = ",".join(name for name in MEASURES if name not in PERCENTILES)
MILLION_ROUNDS = 13


def resident() -> float:
    """Return the megabytes of memory that the process holds."""
    return _status("VmRSS:")


def most_resident() -> float:
    """Return the most megabytes that the process held since this was asked last."""
    found = _status("VmHWM:")
    Path("/proc/self/clear_refs").write_text("5")
    return found


def _status(name: str) -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024 / MEGABYTE


class Run:
    """Windows in a store of their own, run batch by batch."""

    def __init__(
        self, folder: str, places: NDArray[np.float64], lengths: str, measures: str, late: str = "10min"
    ) -> None:
        space = space_of()
        digest = keys_from(space, of_sites(places)).digest
        self.spec = spec_of(lengths, "1min", measures, "sites:places", space, digest, late=late)
        self.home = Home(folder, "fleet")
        self.fixed = FixedSpec(self.spec, write_keys(self.home, of_sites(places)))
        fix(self.home, self.fixed)

    def commit(self, ids: NDArray[np.int64], t: NDArray[np.int64], positions: NDArray[np.float64]) -> dict[str, Any]:
        """Commit a batch, and return what the commit says."""
        array = pa.array(ids)
        options = Options(max_bad=1.0)
        plan = plan_batch(self.home, self.fixed, ("int64", "double"), Source(), options, FAR_FUTURE_US, TASKS)
        assert plan is not None
        rows = WindowRows(array, t, np.ascontiguousarray(positions), bucket_of(array))
        return run_batch(plan, rows).document

    def tend(self) -> None:
        """Merge hours that are past, and clear what is replaced."""
        merge_hours(self.home, self.spec, begun_windows(self.home))
        remove_orphans(table_of(self.home), 0.0)

    def state(self) -> dict[str, int]:
        """Return the bytes of files of state, by kind."""
        head = begun_windows(self.home)
        return {room: sum(part.file.bytes for part in head.files[room]) for room in ("objects", "panes")}


def replay() -> None:
    """Print the most memory of each day of a replay."""
    table = pq.read_table(FILE, columns=["uid", "t", "lon", "lat"])
    t = table["t"].cast("int64").to_numpy()
    order = np.argsort(t, kind="stable")
    t, uid = t[order], table["uid"].to_numpy().astype(np.int64)[order]
    positions = np.stack([table["lon"].to_numpy()[order], table["lat"].to_numpy()[order]], axis=1)
    del table, order
    few = np.random.default_rng(0).choice(len(t), PLACES, replace=False)
    file_of = t // (FILE_HOURS * 3600 * SECOND_US)
    days: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder, positions[few], "5min,15min,1h,24h", ADDITIVE)
        began, files = time.process_time(), 0
        for number in np.unique(file_of).tolist():
            first, last = np.searchsorted(file_of, (number, number + 1))
            run.commit(uid[first:last], t[first:last], positions[first:last])
            run.tend()
            files += 1
            day = (number - int(file_of[0])) * FILE_HOURS // 24
            if day not in days and day > 0:
                print(f"  day {day}: {max(days[day - 1]):.0f} MB", flush=True)
            days.setdefault(day, []).append(most_resident())
        held = sum(len(run.home.folder.files(room)) for room in ("results", "objects", "panes", "quarantine", "hours"))
        said = begun_windows(run.home).totals
        state = run.state()
    whole = sorted(day for day, some in days.items() if len(some) == 24 // FILE_HOURS)
    third, last_day = max(days[whole[2]]), max(days[whole[-1]])
    print(
        f"replay of {said['rows']:,} rows in {files} batches, {said['results']:,} results: last day "
        f"{last_day:.0f} MB, third {third:.0f} MB: {last_day / third:.3f} (goal 1.05); {held:,} files of data, "
        f"state {sum(state.values()) / MEGABYTE:.1f} MB; {time.process_time() - began:.0f} s of a processor"
    )


def pairs(run: Run) -> None:
    """Print the bytes of state for each object and place, and for each row that may still change."""
    head = begun_windows(run.home)
    state = read_objects(
        run.home, head.files["objects"], np.arange(BUCKETS), head.commit.document["id"], None
    ).to_arrow()  # fmt: skip
    seen, rows = state["visits"], state["rows"]
    each = seen.nbytes / max(len(seen), 1)
    late = rows.nbytes / max(len(rows), 1)
    print(
        f"distinct state: {each:.1f} bytes for each of {len(seen):,} objects and places (goal 16), and {late:.1f} "
        f"for each of {len(rows):,} rows that may still change or came last (goal 16: a row keeps its place and time)"
    )


def million(objects: int = 1_000_000) -> None:
    """Print memory and state of a day of a million objects."""
    rng = np.random.default_rng(0)
    places = np.stack([rng.uniform(8, 9, PLACES), rng.uniform(50, 51, PLACES)], axis=1)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder, places, "24h", "objects,speed,flow")
        positions = np.stack([rng.uniform(8, 9, objects), rng.uniform(50, 51, objects)], axis=1)
        base = resident()
        most_resident()
        began = 1_700_000_000 * SECOND_US
        most = 0.0
        for number in range(MILLION_ROUNDS):
            t = (
                began
                + number * BATCH_HOURS * 3600 * SECOND_US
                + rng.integers(0, BATCH_HOURS * 3600 * SECOND_US, objects)
            )
            positions += rng.normal(0, 0.03, positions.shape)
            before = time.process_time()
            run.commit(np.arange(objects), t, positions)
            run.tend()
            most = max(most, most_resident())
            print(
                f"  batch {number}: {time.process_time() - before:.1f} s of a processor, most {most:,.0f} MB, state "
                f"{sum(run.state().values()) / MEGABYTE:,.0f} MB",
                flush=True,
            )
        state = run.state()
        print(
            f"{objects:,} objects, 24 h, {PLACES} places: most {most:,.0f} MB in one process (goal 1,500; "
            f"{base:,.0f} MB before any batch); state {sum(state.values()) / MEGABYTE:,.0f} MB (goal 400), of objects "
            f"{state['objects'] / MEGABYTE:,.0f} MB"
        )
        pairs(run)


def main() -> None:
    """Print what was asked for, all of it if nothing was."""
    asked = sys.argv[1:] or ["replay", "million"]
    if "million" in asked or "pairs" in asked:
        million()
    if "replay" in asked:
        replay()


if __name__ == "__main__":
    main()
