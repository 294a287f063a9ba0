"""The files of a cycle's snapshot: partitions renewed in place, or all of them built anew; and the borders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.partitioning.pivots import OBJECTS_PER_PARTITION
from dtoss.partitioning.regions import Regions
from dtoss.rows.store_clock import Clock
from pipelines.cycles.arrivals import Arrivals
from pipelines.cycles.build_tasks import BuildPlan, fix_borders, remove_files
from pipelines.cycles.current_state import Stands
from pipelines.cycles.merge_tasks import CyclePlan, Wanted, renew, stays
from pipelines.cycles.newer_updates import Findings
from pipelines.cycles.partitions import choose_regions, make_partitions
from pipelines.cycles.spread import USUAL, Here, spread_work
from pipelines.cycles.upsert_rules import Ruling
from pipelines.engines.progress import Stages
from pipelines.engines.spark_rows import numbered_tasks
from pipelines.rows.position_frame import Positions, positions_of_rows
from pipelines.rows.survey import survey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NO_TYPES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class SnapshotFiles:
    """The files of a snapshot, as its manifest lists them, and whose they are."""

    entries: list[dict[str, Any]]
    borders: dict[str, Any]
    regions: Regions
    reach: NDArray[np.float64]
    linked: int


def plan_of(
    stands: Stands,
    build: BuildPlan,
    arrivals: Arrivals,
    clock: Clock,
    carried: tuple[tuple[str, str], ...],
    types: Mapping[str, str] = NO_TYPES,
) -> CyclePlan:
    """Return what the workers of a cycle need to know, from what stands and what arrived."""
    last = "" if stands.manifest is None else stands.manifest["snapshot"]
    entries, scale = tuple(stands.entries), stands.scale
    return CyclePlan(build, last, entries, arrivals, scale, clock.expired_before, carried, types=types)


def renew_snapshot(
    session: SparkSession | None,
    plan: CyclePlan,
    ruling: Ruling,
    found: Sequence[Findings],
    always: bool,
    stands: Stands,
    stages: Stages,
    own: Here = USUAL,
) -> SnapshotFiles:
    """Return the files of a snapshot with the pivots of the last one: partitions that nothing concerns are linked.

    Without a session all is done in this process.
    """
    build = plan.build
    entries = stands.entries
    concerned = {number for parcels in plan.arrivals.parcels for number in parcels.sent.numbers.tolist()}
    wanted, weights = [], []
    for one in found:
        wanted.append(Wanted(one.number, one.replaced, one.ages, always, one.holds))
        objects = entries[one.number]["objects"] + entries[one.number]["replicas"]
        looked = always or one.ages or one.holds or one.replaced is not None or one.number in concerned
        weights.append(float(objects + 1000 if looked else 1000))
    with stages.stage("build"):
        little = sum(weights) - 1000 * len(weights) <= own.built
        here = build.store.local and little
        made = spread_work(session, partial(renew, plan, ruling.dropped), wanted, weights, here=here)
        made.sort(key=lambda entry: entry["number"])
    linked = [entry for entry in made if entry.get("linked")]
    with stages.stage("borders"):
        shares = sorted({entry.pop("border") for entry in made})
        if len(linked) == len(made) and stands.manifest is not None:
            borders = stands.manifest["borders"]
            build.store.link(build.snapshot, borders["file"], plan.last)
            remove_files(build, shares)
        else:
            little = sum(entry["replicas"] for entry in entries) <= own.copies
            here = build.store.local and little
            borders = spread_work(session, partial(_borders, build), [shares], [1.0], here=here)[0]
    whole = [entries[entry["number"]] if entry.get("linked") else entry for entry in made]
    return SnapshotFiles(whole, borders, build.regions, build.reach, len(linked))


def _borders(build: BuildPlan, groups: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    (names,) = groups
    return [fix_borders(build, names)]


def built_anew(
    session: SparkSession | None,
    plan: CyclePlan,
    ruling: Ruling,
    found: Sequence[Findings],
    stands: Stands,
    types: dict[str, str],
    keep: bool,
    stages: Stages,
) -> SnapshotFiles:
    """Return the files of a snapshot that is built of all that counts, with new pivots unless these are to be kept."""
    positions = _counting(session, plan, ruling.dropped, found, stands, types)
    wishes = stands.wishes
    with stages.stage("sample"):
        per = wishes.objects_per_partition or OBJECTS_PER_PARTITION
        profile = survey(positions, stands.space, wishes.partitions, per, wishes.seed)
    with stages.stage("pivots"):
        if keep:
            regions, reach = stands.regions, stands.reach
        else:
            regions, reach = choose_regions(session, positions, stands.space, profile, plan.build.bounds, wishes)
    build = replace(plan.build, regions=regions, reach=reach)
    entries, borders, _ = make_partitions(positions, build, profile, "error", stages, distinct=True)
    return SnapshotFiles(entries, borders, regions, reach, 0)


def _counting(
    session: SparkSession | None,
    plan: CyclePlan,
    dropped: Sequence[str | None],
    found: Sequence[Findings],
    stands: Stands,
    types: dict[str, str],
) -> Positions:
    """Return all objects that stand after the cycle, one row each."""
    wanted = {one.number: Wanted(one.number, one.replaced, one.ages, False) for one in found}
    files = len(plan.arrivals.parcels)
    count = len(wanted)
    ids = "string" if stands.string_ids else "bigint"
    kinds = {"id": ids, "x": "double", "y": "double", "t": stands.scale.kind}
    kinds |= {column: types[name] for column, name in plan.carried}

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for item in batch.column(0).to_pylist():
                if item < count:
                    yield from stays(plan, wanted[item], list(kinds))
                else:
                    yield from plan.arrivals.counted(item - count, dropped[item - count], list(kinds))

    schema = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    numbers = numbered_tasks(session, count + files)
    return positions_of_rows(
        numbers.map(rows, schema), kinds, tuple(name for _, name in plan.carried), string_ids=stands.string_ids
    )
