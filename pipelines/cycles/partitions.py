"""All partitions of a snapshot from all rows: which regions, what is sent where, and what comes back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.building.reach import choose_reach
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.partitioning.pivots import OBJECTS_PER_PARTITION, choose_pivots
from dtoss.partitioning.regions import Regions
from dtoss.rows.input_columns import REASON
from dtoss.snapshots.column_types import type_named
from dtoss.snapshots.manifest_fields import Shape, Wishes
from pipelines.cycles.build_tasks import (
    BuildPlan,
    build_one,
    builder,
    discard,
    fixer,
    sender,
    share_of,
    write_share,
)
from pipelines.engines.progress import Stages
from pipelines.engines.spark_rows import numbered_tasks
from pipelines.rows import parcels
from pipelines.rows.position_frame import Positions
from pipelines.rows.survey import Profile, count_ids, sampled_vectors, task_count
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BALANCED_ENOUGH = 1.25
"""``pivots="keep"`` keeps the last ones while the largest partition of a sample is at most this many times the mean."""


def choose_regions(
    session: SparkSession | None,
    positions: Positions,
    space: Space,
    profile: Profile,
    bounds: NDArray[np.float64] | None,
    wishes: Wishes,
    last: tuple[Regions, NDArray[np.float64]] | None = None,
) -> tuple[Regions, NDArray[np.float64]]:
    """Return regions and their lambdas for the sampled rows, or ``last`` where these are to be kept."""
    vectors, objects = sampled_vectors(profile, positions, space)
    per = wishes.objects_per_partition or OBJECTS_PER_PARTITION
    count = wishes.partitions or max(-(-objects // per), cores(session))
    method = "balanced" if wishes.pivots == "keep" else wishes.pivots
    if last is not None:
        regions, reach = last
        if len(vectors):
            _check_fit(regions, vectors, count, wishes.partitions is not None)
        if wishes.reach is None:
            return regions, reach
    else:
        regions = choose_pivots(vectors, count, method=method, seed=wishes.seed)
    if wishes.reach is None:
        return regions, choose_reach(vectors, objects, regions, bounds)
    return regions, np.full(len(regions), np.inf if len(regions) == 1 else float(wishes.reach))


def _check_fit(regions: Regions, vectors: NDArray[np.float64], count: int, exactly: bool) -> None:
    """Check that regions are as many as are wanted, within a factor of two if only a size was named, and even."""
    from ceps.model.number_text import how_many

    there = len(regions)
    if not (there == count if exactly else count / 2 <= there <= 2 * count):
        raise InputError(
            f"--pivots keep: the current snapshot has {how_many(there, 'partition')}, and {count:,} are wanted: "
            f"--partitions {there} keeps them, --pivots balanced chooses others"
        )
    sizes = np.bincount(regions.nearest(vectors), minlength=there)
    if sizes.max() > BALANCED_ENOUGH * sizes.mean():
        raise InputError(
            f"--pivots keep: the largest of {how_many(there, 'partition')} would have "
            f"{sizes.max() / sizes.mean():.2f} times the mean of the objects, and {BALANCED_ENOUGH:g} is the "
            "most: --pivots balanced chooses others"
        )


def make_partitions(
    positions: Positions,
    plan: BuildPlan,
    profile: Profile,
    on_duplicate: str,
    stages: Stages,
    *,
    distinct: bool = False,
) -> tuple[list[dict[str, Any]], dict[str, Any], int]:
    """Return the manifest's entries of partitions and borders, and how many rows gave way to others of their id.

    ``on_duplicate``: what an id that repeats does where there is no time: "error" or "any".
    """
    session = positions.session
    carried = [name for name in positions.columns if name not in ("id", "x", "y", "t", REASON)]
    count = len(plan.regions)
    build_tasks = min(count, 4 * cores(session))

    def build(*, keep_latest: bool, check: bool) -> list[dict[str, Any]]:
        names = ["id", "x", "y", *(["t"] if positions.timed else []), *carried]
        rows = positions.good(names)
        if keep_latest:
            rows = rows.exchange_by_hash(task_count(profile.good, cores(session)), "id")
        send = sender(plan, carried, build_tasks, keep_latest=keep_latest, check=check)
        sent = rows.map(send, parcels.SCHEMA).exchange(build_tasks)
        return [json.loads(text) for text in sent.map(builder(plan, build_tasks), "entry string").values()]

    with stages.stage("build"):
        made = build(keep_latest=positions.timed and not distinct, check=not (positions.timed or distinct))
    if any("repeated" in entry for entry in made):
        with stages.stage("ids"):
            discard(plan, [entry for entry in made if "repeated" not in entry])
            # keys of strings may be equal by chance
            _, many, some = count_ids(positions, profile.good)
        if many and on_duplicate == "error":
            raise repeats(many, some)
        with stages.stage("build"):
            made = build(keep_latest=many > 0, check=False)
    entries = {entry["number"]: entry for entry in made}
    with stages.stage("build"):
        if empty := sorted(set(range(count)) - set(entries)):
            built = [build_one(plan, number, _nothing(positions, carried)) for number in empty]
            write_share(plan, empty, [share for _, share in built])
            entries |= {entry["number"]: entry | {"border": share_of(empty)} for entry, _ in built}
    with stages.stage("borders"):
        shares = sorted({entry.pop("border") for entry in entries.values()})
        borders = json.loads(numbered_tasks(session, 1).map(fixer(plan, shares), "entry string").values()[0])
    duplicates = profile.good - sum(entry["objects"] for entry in entries.values())
    return [entries[number] for number in range(count)], borders, duplicates


def _nothing(positions: Positions, carried: list[str]) -> pa.Table:
    """Return a table without rows in the columns that a build expects."""
    kinds = positions.types
    names = ["id", "x", "y", *(["t"] if positions.timed else []), *carried]
    fields = [(name, type_named(kinds[name])) for name in names]
    return pa.schema([*fields, ("home", pa.int32())]).empty_table()


def repeats(count: int, some: list[str]) -> InputError:
    """Return the error of ids that stand more than once: how many, and some of them."""
    return InputError(
        f"{count:,} ids stand more than once, {', '.join(some)} among them: name a time column (--time) to "
        "keep the latest row of each, or --on-duplicate any"
    )


MOST_UNEVEN = 1.25
"""The largest partition, in means, up to which pivots are kept."""
MOST_OPEN = 0.02
"""The share of cells that their partition cannot certify, up to which pivots are kept."""
MOST_COPIED = 0.05
"""Replicas, as a share of the objects, up to which pivots are kept."""
WORSE = 1.25
"""Where new pivots were beyond a bound already: so many times what they were then is the bound."""
GROWN = 2.0
"""So many times more or fewer objects a partition than when pivots were chosen, and others are."""


def why_anew(manifest: dict[str, Any]) -> str | None:
    """Return why pivots should be chosen anew; None while those of a snapshot are good.

    Small stores, or many objects on one site, are beyond a bound whatever the pivots are. So the bound is never below
    what the pivots had when they were chosen, and some.
    """
    now = Shape.of(manifest["partitions"])
    then = manifest.get("policy") or {}
    if now.objects == 0:
        return None
    bounds = (
        ("the largest partition, in means,", now.largest, MOST_UNEVEN, then.get("largest", 0.0), ".3g"),
        ("the share of open cells", now.open, MOST_OPEN, then.get("open", 0.0), ".2%"),
        ("the share of replicas", now.copied, MOST_COPIED, then.get("copied", 0.0), ".2%"),
    )
    for what, share, most, before, form in bounds:
        most = max(most, WORSE * before)
        if share > most:
            return f"{what} is {share:{form}}, {most:{form}} at most"
    chosen = then.get("objects")
    if chosen and manifest["parameters"].get("partitions") is None:
        per = manifest["parameters"].get("objects_per_partition") or OBJECTS_PER_PARTITION
        many = now.objects / (len(manifest["partitions"]) * per)
        if now.objects > GROWN * chosen and many > 1.0:
            return f"there are {now.objects:,} objects, {chosen:,} when pivots were chosen"
        if now.objects * GROWN < chosen:
            return f"there are {now.objects:,} objects, {chosen:,} when pivots were chosen"
    return None
