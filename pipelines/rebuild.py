"""Positions in, a current snapshot out: the rebuild of everything as one Spark job.

Also a script for spark-submit: ``spark-submit pipelines/rebuild.py POSITIONS... --store STORE``, with the options of
``dtoss rebuild``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.commits.lease import Writer
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.names import free_names, renamed_of_manifest, renames, said_renamed
from dtoss.partitioning.pivots import OBJECTS_PER_PARTITION
from dtoss.partitioning.regions import Regions, bounds_round
from dtoss.rows.input_columns import Columns, attribute_name
from dtoss.snapshots.manifest import make_manifest, reach_of, regions_of_manifest, space_of_manifest
from dtoss.snapshots.manifest_fields import Shape, Wishes
from dtoss.snapshots.store import Store
from pipelines.cycles.build_tasks import BuildPlan
from pipelines.cycles.partitions import choose_regions, make_partitions, repeats
from pipelines.cycles.spread import WorkContext
from pipelines.engines.progress import Stages
from pipelines.loop.known_sources import current_manifest
from pipelines.options.snapshot_options import Guards, Keeping, Reading, SnapshotOptions
from pipelines.rows.position_frame import (
    Positions,
    quarantine,
    screen_positions,
    source_of,
    taken_of,
    time_of,
    without_forgotten,
)
from pipelines.rows.read_files import positions_in
from pipelines.rows.survey import Profile, count_ids, judge, objects_now, survey
from pipelines.spark.session import configure_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dtoss.frames.arrow_tables import Frame


def rebuild(
    positions: DataFrame | Frame | Positions,
    store: str,
    *,
    crs: str | None = None,
    metric: str | None = None,
    bounds: ArrayLike | None = None,
    id: str = "id",
    x: str | None = None,
    y: str | None = None,
    time: str | None = None,
    columns: Sequence[str] | str = "all",
    partitions: int | None = None,
    objects_per_partition: int | None = None,
    pivots: str = "balanced",
    reach: float | None = None,
    on_duplicate: str = "error",
    max_bad: float = 0.10,
    wrap: bool = False,
    min_objects: int = 0,
    max_shrink: float | None = None,
    allow_empty: bool = False,
    dry_run: bool = False,
    keep: int | None = 3,
    keep_for: float | None = None,
    seed: int = 0,
    stages: Stages | None = None,
    warn: Callable[[str], None] | None = None,
    lock: Writer | None = None,
    lease: bool = True,
) -> dict[str, Any]:
    """Build a new snapshot of all positions, make it current, and return its manifest.

    Parameters
    ----------
    positions
        A DataFrame of Spark's, or a frame of this process as :func:`dtoss.build` takes them, with an id, two
        coordinates, and perhaps a time and attributes. It is read several times: persist one that costs much to make.
    store
        Path or URI of the store; made if it is not there.
    crs, metric
        As :func:`dtoss.geometry.space.space_of`; EPSG:4326 when neither is given.
    bounds
        Plane only: xmin, ymin, xmax, ymax; the box of all rows grown by a tenth when None.
    id, x, y, time
        Names of the columns; x and y are lon and lat, or x and y in the plane, when None. Where there is a time (a
        column named, or one called ``t``), the row with the latest one counts for each id, and of rows with equal times
        the one with the greatest (x, y, attributes).
    columns
        Attributes to carry along: names, "all" or "none"; one with a reserved name gets an underscore behind
        (:mod:`dtoss.names`), and ``warn`` is told.
    partitions, objects_per_partition
        How many, or how large; 250,000 objects a partition and at least one a core when None.
    pivots
        "balanced", "spread" (dissertation, 3.1.1), or "keep" those of the current snapshot, lambdas too: it fails where
        they are not balanced, or not as many as ``partitions`` says (or about as many as the objects ask for).
    reach
        Lambda of all partitions, a distance (plane) or chord (sphere); chosen from a sample when None.
    on_duplicate
        Without a time, an id that repeats is an "error", or "any" keeps the row with the greatest (x, y, attributes).
    max_bad
        The share of rows that may be set aside; with more the rebuild fails and the current snapshot stays.
    wrap
        Take 360 from longitudes above 180.
    min_objects
        Fewer fail the rebuild.
    max_shrink
        The share of the current snapshot's objects that may be missing; more fails the rebuild. More than half is only
        told when None.
    allow_empty
        An input without an object makes an empty snapshot; else it fails the rebuild.
    dry_run
        Read and judge all rows, and write nothing.
    keep
        Finished snapshots that stay in the store; all when None.
    keep_for
        Seconds: what was current less than that ago stays too. None is ten minutes on object stores, where readers open
        files late, and 0 elsewhere.
    seed
        Of the sample and the random choices.
    stages
        Times the stages and shows them.
    warn
        Is told what looks wrong but is legal, and what could not be removed of old snapshots; the latter goes to stderr
        when None.
    lock
        The right to write to the store, if the caller has it already; taken for the while when None.
    lease
        Whether it is a lease, which keeps others out from the start. Without one, who commits first is through, and the
        others fail when all is built.

    Returns
    -------
    dict
        The manifest: see :func:`dtoss.snapshots.manifest.make_manifest`; of a dry run ``counts``, and ``input`` (the
        box and the span of times of the rows that can be used).

    Raises
    ------
    InputError
        If a column is missing, too many rows are bad, objects are too few, ids repeat, or pivots cannot be kept; the
        current snapshot stays as it was.
    StoreError
        If another process writes to the store or has committed meanwhile, or it cannot be written.
    ValueError
        If an argument is out of its bounds.

    Notes
    -----
    The same rows and options give the same snapshot, whatever the number of cores and input splits, apart from its
    name and times; ask for a number of partitions to be independent of the cores too. This is an action: it runs
    several jobs.
    """
    if not isinstance(positions, Positions):
        positions = positions_in(positions, Columns(id=id, x=x, y=y, time=time, attributes=columns))
    options = SnapshotOptions(
        Reading(crs=crs, metric=metric, max_bad=max_bad, wrap=wrap),
        Wishes(partitions, objects_per_partition, pivots, reach, seed, bounds),
        guards=Guards(min_objects, max_shrink, allow_empty),
        keeping=Keeping(keep, keep_for, lease),
    )
    work = WorkContext(stages, warn, lock)
    return build_snapshot(positions, store, options, work, on_duplicate=on_duplicate, dry_run=dry_run)


def build_snapshot(
    positions: Positions,
    store: str,
    options: SnapshotOptions,
    work: WorkContext,
    *,
    on_duplicate: str = "error",
    dry_run: bool = False,
) -> dict[str, Any]:
    """Make a snapshot of all positions current, and return its manifest, as :func:`rebuild`; lets the positions go."""
    reading, wishes, guards = options.reading, options.wishes, options.guards
    if on_duplicate not in ("error", "any"):
        raise ValueError(f"on_duplicate is {on_duplicate!r}: error or any is wanted")
    space = reading.space_of(positions.crs)
    reading.check_wrap(space)
    report, warn = work.warn_or_stderr, work.warn_or_silent
    session = positions.session
    if session is not None:
        configure_session(session)
    stages = work.stages or Stages(session)
    # workers of a cluster run in other directories
    home = Store(str(store) if "://" in str(store) else str(Path(store).absolute()))
    positions = screen_positions(without_forgotten(positions, home.path), space, reading.wrap)
    held = work.lock
    try:
        if not dry_run:
            held = held or home.writer(report, options.keeping.lease)
            # what was left goes first: it may be what fills the disk
            home.clear(None, lock=held, warn=report)
        last = home.last()
        per = wishes.objects_per_partition or OBJECTS_PER_PARTITION
        with stages.stage("sample"):
            profile = survey(positions, space, wishes.partitions, per, wishes.seed)
        judge(profile, space, reading.max_bad, warn)
        if reserved := renames(positions.attributes):
            report(f"attributes with reserved names are stored under others: {said_renamed(reserved)}")
        before = objects_now(home)
        # there are no more objects than rows
        guards.check(profile.good, before, lambda message: None)
        if dry_run:
            with stages.stage("ids"):
                kept = _count_objects(positions, profile, on_duplicate)
            guards.check(kept, before, warn)
            return {
                "counts": _counts(positions, profile, kept, profile.good - kept),
                "input": profile.extent | taken_of(positions),
            }
        assert held is not None  # a dry run has ended
        box = None
        if space.dimension == 2:
            low, high = (profile.low, profile.high) if profile.good else (np.zeros(2), np.zeros(2))
            box = bounds_round(low, high, wishes.bounds)
        with stages.stage("pivots"):
            stood = _last_regions(home, space) if wishes.pivots == "keep" else None
            regions, reaches = choose_regions(session, positions, space, profile, box, wishes, stood)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with home.fresh(report) as snapshot:
            plan = BuildPlan(home, snapshot, space, regions, reaches, box, positions.attributes)
            entries, borders, duplicates = make_partitions(positions, plan, profile, on_duplicate, stages)
            rejected = []
            if profile.good < profile.read:
                with stages.stage("quarantine"):
                    rejected = quarantine(positions, home, snapshot, profile.read - profile.good)
            kept = sum(entry["objects"] for entry in entries)
            guards.check(kept, before, warn)
            manifest = make_manifest(
                snapshot,
                created,
                space,
                regions,
                reaches,
                box,
                entries,
                borders,
                id_type="string" if positions.string_ids else "int64",
                columns=_column_types(positions),
                time=time_of(positions),
                source=source_of(positions),
                policy=Shape.of(entries).facts(box),
                parameters={
                    **wishes.facts(),
                    "max_bad": reading.max_bad,
                    "on_duplicate": on_duplicate,
                    "timed": positions.timed,
                },
                counts=_counts(positions, profile, kept, duplicates),
                timings={name: round(seconds, 3) for name, seconds in stages.seconds.items()},
            )
            manifest["quarantine"] = rejected
            manifest["renamed"] = renames(positions.attributes)
            manifest["input"] = profile.extent | taken_of(positions)
            home.finish(snapshot, manifest, held, last)
        home.tidy(options.keeping.keep, held, report, options.keeping.keep_for)
    finally:
        if held is not None and held is not work.lock:
            held.release()
        positions.release()
    return manifest


def _counts(positions: Positions, profile: Profile, kept: int, duplicates: int) -> dict[str, Any]:
    return {
        "read": profile.read,
        "kept": kept,
        "duplicates": duplicates,
        "quarantined": {reason: n for reason, n in profile.bad.items() if n},
        **positions.dropped_rows,
    }


def _count_objects(positions: Positions, profile: Profile, on_duplicate: str) -> int:
    """Return how many ids the rows that can be used have, without building anything."""
    ids, repeated, some = count_ids(positions, profile.good)
    if repeated and not positions.timed and on_duplicate == "error":
        raise repeats(repeated, some)
    return ids


def _last_regions(store: Store, space: Space) -> tuple[Regions, NDArray[np.float64]] | None:
    """Return the regions of the current snapshot, which are to be kept; None where there is none yet."""
    manifest = current_manifest(store)
    if manifest is None:
        return None
    held = space_of_manifest(manifest)
    if held != space:
        raise InputError(
            f"--pivots keep: those of the current snapshot are in {held.crs} ({held.metric}), and the positions in "
            f"{space.crs} ({space.metric}): --pivots balanced chooses others"
        )
    return regions_of_manifest(manifest), reach_of(manifest)


def _column_types(positions: Positions) -> dict[str, str]:
    kinds = {attribute_name(column): kind for column, kind in positions.types.items() if column.startswith("a:")}
    free = free_names(kinds)
    return {free[name]: kind for name, kind in kinds.items()}


def summary(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a user wants to know of a rebuild, as rows of two texts."""
    counts, built = manifest["counts"], "snapshot" in manifest
    sites = f" on {manifest['sites']:,} sites" if built else ""
    rows = [
        ("snapshot", manifest["snapshot"] if built else "none: a dry run writes nothing"),
        ("rows read", f"{counts['read']:,}"),
        *_taken(manifest),
        *_extent(manifest["input"]),
        ("objects kept", f"{counts['kept']:,}{sites}"),
        ("duplicates", f"{counts['duplicates']:,} rows gave way to others of their id"),
    ]
    rows += [("quarantined", f"{n:,} {reason}") for reason, n in counts["quarantined"].items()]
    if counts.get("forgotten"):
        rows.append(("forgotten", f"{counts['forgotten']:,} rows of those who are to stay away"))
    if not built:
        return rows
    sizes = [entry["objects"] for entry in manifest["partitions"]]
    if reserved := renamed_of_manifest(manifest):
        rows.append(("renamed", said_renamed(reserved)))
    mean = sum(sizes) / len(sizes)
    rows.append(("partitions", f"{len(sizes)}: min {min(sizes):,}, mean {mean:,.0f}, max {max(sizes):,} objects"))
    open_cells = sum(entry["uncertified"] for entry in manifest["partitions"])
    sure = 1.0 - open_cells / max(manifest["sites"], 1)
    rows.append(("cells", f"{sure:.2%} certified at once, {manifest['borders']['fixed']:,} fixed, all exact"))
    share = manifest["replicas"] / max(manifest["objects"], 1)
    finite = [value for value in manifest["reach"] if value is not None]
    unit, name = (6_371_008.8, " m") if manifest["metric"] == "sphere" else (1.0, "")
    reach = f", reach {min(finite) * unit:,.1f} to {max(finite) * unit:,.1f}{name}" if finite else ""
    rows.append(("replicas", f"{manifest['replicas']:,} ({share:.2%} of the objects){reach}"))
    rows.append(("bytes", f"{manifest['bytes']:,}"))
    total = sum(manifest["timings"].values())
    spent = ", ".join(f"{name} {seconds:.1f}" for name, seconds in manifest["timings"].items())
    rows.append(("seconds", f"{total:.1f} ({spent})"))
    return rows


def _taken(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Return which columns were taken for what, and in which CRS positions are."""
    taken = dict(manifest["input"].get("taken") or {})
    if "crs" in manifest and "crs" not in taken:
        said = not taken or (manifest.get("source") or {}).get("crs")
        taken["crs"] = manifest["crs"] if said else f"{manifest['crs']}, as nothing says another"
    return list(taken.items())


def _extent(extent: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if extent["box"] is not None:
        rows.append(("box", " ".join(f"{value:.10g}" for value in extent["box"])))
    if extent["times"] is not None:
        rows.append(("times", " to ".join(str(value) for value in extent["times"])))
    return rows


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("rebuild")
