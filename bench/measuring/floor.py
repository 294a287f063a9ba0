"""A cycle's work in one process, without Spark: what of a cycle's time is the work itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from dtoss.rows.input_columns import DELETED, attribute_column
from dtoss.rows.store_clock import Clock
from dtoss.snapshots.store import Store, on_stderr
from pipelines.cycles import write_snapshot
from pipelines.cycles.arrivals import Arrivals, Place, send
from pipelines.cycles.build_tasks import BuildPlan
from pipelines.cycles.current_state import stands_of
from pipelines.cycles.merge_tasks import compare
from pipelines.cycles.spread import Here
from pipelines.cycles.upsert_rules import rule

ALL = Here(1 << 60, 1 << 60, 1 << 60, 1 << 60)
"""All that Spark would do is done in this process."""


@dataclass
class Seconds:
    """Stands in for `pipelines.engines.progress.Stages`: processor seconds of this process by stage."""

    seconds: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[name] += time.process_time() - began


def floor(store: str, updates: pa.Table) -> Counter[str]:
    """Return processor seconds by stage of making the next snapshot's files, which are thrown away."""
    home, stages = Store(store), Seconds()
    manifest = home.manifest()
    stands = stands_of(home, manifest)
    pairs = tuple((attribute_column(name), name) for name in stands.order)
    clock = Clock(stands.scale, stands.scale.now(), "wall")
    with home.writer(on_stderr) as lock:
        with home.fresh(on_stderr) as snapshot:
            place = Place(home, snapshot)
            place.make()
            with stages.stage("updates"):
                rows = updates.rename_columns([_column(name) for name in updates.column_names])
                rows = rows.append_column(DELETED, pa.repeat(False, len(rows)))
                carried = [column for column, _ in pairs]
                sent = send(place, rows.to_batches(), carried, stands.regions, stands.reach, stands.space)
                arrivals = Arrivals.gathered(place, [] if sent is None else [sent])
            build = BuildPlan(home, snapshot, stands.space, stands.regions, stands.reach, stands.bounds, stands.order)
            plan = write_snapshot.plan_of(stands, build, arrivals, clock, pairs)
            with stages.stage("compare"):
                found = compare(plan, range(len(stands.entries)))
                ruling = rule(arrivals, found, stands.tombstones, clock, False)
            write_snapshot.renew_snapshot(None, plan, ruling, found, False, stands, stages, ALL)  # type: ignore[arg-type]
        home.clear(None, lock=lock, warn=on_stderr)
    return stages.seconds


def _column(name: str) -> str:
    return {"lon": "x", "lat": "y"}.get(name, name if name in ("id", "t") else attribute_column(name))
