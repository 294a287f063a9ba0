"""All partitions of a snapshot from all rows: which regions, what is sent where, and what comes back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from ceps.model.number_text import how_many
from dtoss.building.reach import choose_reach
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.partitioning.pivots import OBJECTS_PER_PARTITION, choose_pivots
from dtoss.partitioning.regions import Regions
from pipelines.cycles.build_tasks import BuildPlan, build_one, builder, discard, fixer, sender
from pipelines.rows import parcels
from pipelines.rows.by_id import by_hash, count_repeated, task_count
from pipelines.rows.position_frame import RAW, REASON, Positions
from pipelines.rows.survey import Profile, sampled_vectors
from pipelines.rows.text_types import exactly
from pipelines.spark.by_bucket import freeze_imports
from pipelines.spark.session import cores
from pipelines.spark.stage_progress import Stages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BALANCED_ENOUGH = 1.25
"""``pivots="keep"`` keeps the last ones while the largest partition of a sample is at most this many times the mean."""


@dataclass(frozen=True)
class Wishes:
    """What a user may say of partitions when a store is made; later cycles keep to it."""

    partitions: int | None = None
    objects_per_partition: int | None = None
    pivots: str = "balanced"
    reach: float | None = None
    seed: int = 0
    bounds: ArrayLike | None = None

    @classmethod
    def of(cls, said: Any) -> Wishes:
        """Return the wishes among a manifest's parameters, or among arguments."""
        return cls(**{name: said[name] for name in cls.__dataclass_fields__ if said.get(name) is not None})

    def facts(self) -> dict[str, Any]:
        """Return them as a manifest's parameters hold them."""
        bounds = None if self.bounds is None else np.asarray(self.bounds, dtype=np.float64).tolist()
        return asdict(self) | {"bounds": bounds}


def choose_regions(
    session: SparkSession,
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
    from pyspark.sql import functions as F

    rows = positions.frame.where(F.col(REASON).isNull())
    session = rows.sparkSession
    carried = [name for name in positions.frame.columns if name not in ("id", "x", "y", "t", REASON, RAW)]
    count = len(plan.regions)
    build_tasks = min(count, 4 * cores(session))

    def build(*, keep_latest: bool, check: bool) -> list[dict[str, Any]]:
        names = ["id", "x", "y", *(["t"] if positions.timed else []), *carried]
        frame = rows.select(*map(exactly, names))
        if keep_latest:
            tasks = task_count(profile.good, cores(session))
            frame = frame.repartitionById(tasks, by_hash(F.col("id"), tasks))
        if check and positions.string_ids:
            frame = frame.withColumn("key", F.xxhash64("id"))
        send = sender(plan, carried, build_tasks, keep_latest=keep_latest, check=check)
        sent = frame.mapInArrow(freeze_imports(send), parcels.SCHEMA).repartitionById(build_tasks, F.col("task"))
        made = sent.mapInArrow(freeze_imports(builder(plan, build_tasks)), "entry string").toArrow()
        return [json.loads(text) for text in made.column(0).to_pylist()]

    with stages.stage("build"):
        made = build(keep_latest=positions.timed and not distinct, check=not (positions.timed or distinct))
    if any("repeated" in entry for entry in made):
        with stages.stage("ids"):
            discard(plan, [entry for entry in made if "repeated" not in entry])
            # keys of strings may be equal by chance
            many, some = count_repeated(rows, profile.good)
        if many and on_duplicate == "error":
            raise repeats(many, some)
        with stages.stage("build"):
            made = build(keep_latest=many > 0, check=False)
    entries = {entry["number"]: entry for entry in made}
    with stages.stage("build"):
        for number in sorted(set(range(count)) - set(entries)):
            entries[number] = build_one(plan, number, _nothing(rows, carried, positions.timed))
    with stages.stage("borders"):
        shares = [entries[number].pop("border") for number in range(count)]
        once = session.createDataFrame([(json.dumps(shares),)], "shares string").coalesce(1)
        borders = json.loads(once.mapInArrow(fixer(plan), "entry string").toArrow().column(0)[0].as_py())
    duplicates = profile.good - sum(entry["objects"] for entry in entries.values())
    return [entries[number] for number in range(count)], borders, duplicates


def _nothing(frame: DataFrame, carried: list[str], timed: bool) -> pa.Table:
    """Return a table without rows in the columns that a build expects."""
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import to_arrow_schema

    kinds = {field.name: field for field in frame.schema.fields}
    fields = [kinds[name] for name in ("id", "x", "y", *(["t"] if timed else []), *carried)]
    return to_arrow_schema(T.StructType(fields).add("home", T.IntegerType()), timezone="UTC").empty_table()


def repeats(count: int, some: list[str]) -> InputError:
    """Return the error of ids that stand more than once: how many, and some of them."""
    return InputError(
        f"{count:,} ids stand more than once, {', '.join(some)} among them: name a time column (--time) to "
        "keep the latest row of each, or --on-duplicate any"
    )
