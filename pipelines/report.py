"""Plans in, a report out: what they cost and save, as one HTML page and as JSON and CSV. Needs no Spark.

Also a script: ``python -m pipelines.report PLAN... --out FOLDER``, or by spark-submit, with the options of
``dtoss report``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ceps
from ceps import Patterns, Plan
from ceps.model.patterns import WEEK
from ceps.model.servers import RequestCosts
from dtoss.errors import InputError
from dtoss.export.land import land_outline
from dtoss.geometry.space import NO_CRS
from pipelines.plan_files import WEEKDAYS, checksum, load_plan, manifest_of, read_patterns

STEP = 2.0
"""Degrees between the corners of an edge on the map at the most."""


def region_rings(manifest: dict[str, Any]) -> dict[int, list[NDArray[np.float64]]]:
    """Return the outer rings of each partition's region by its number, float64 (v, 2), lon and lat for a map.

    A ring over the antimeridian stands there twice, once at either edge; one round a pole is closed along it. In a
    plane without a CRS, coordinates are as they are.
    """
    from dtoss.geometry.space import to_lonlat
    from dtoss.partitioning.region_polygons import region_shapes
    from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest

    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    bounds = None if manifest["bounds"] is None else np.array(manifest["bounds"], np.float64)
    found: dict[int, list[NDArray[np.float64]]] = {}
    for number, shape in enumerate(region_shapes(regions, bounds)):
        rings = [polygon[0] for polygon in shape.polygons]
        if space.metric == "sphere":
            found[number] = [piece for ring in rings for piece in unroll(to_lonlat(space, densify(ring)))]
        else:
            found[number] = [to_lonlat(space, ring) for ring in rings]
    return found


def densify(ring: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a closed ring of unit vectors (v, 3) with so many corners that no edge is longer than :data:`STEP`."""
    begin, end = ring[:-1], ring[1:]
    angle = 2 * np.arcsin(np.clip(np.linalg.norm(end - begin, axis=1) / 2, 0, 1))
    pieces = np.maximum(np.ceil(np.degrees(angle) / STEP - 1e-9), 1).astype(np.int64)
    edge = np.repeat(np.arange(len(begin)), pieces)
    share = ((np.arange(len(edge)) - (np.cumsum(pieces) - pieces)[edge]) * (1 / pieces)[edge])[:, None]
    a, b, wide = begin[edge], end[edge], angle[edge, None]
    between = a * np.sinc((1 - share) * wide / np.pi) * (1 - share) + b * np.sinc(share * wide / np.pi) * share
    return np.concatenate([between / np.linalg.norm(between, axis=1, keepdims=True), ring[-1:]])


def unroll(ring: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return a closed ring of lon and lat (v, 2) without jumps at the antimeridian: once or, where it crosses, twice.

    Examples
    --------
    >>> square = np.array([(170.0, 0.0), (-170.0, 0.0), (-170.0, 9.0), (170.0, 9.0), (170.0, 0.0)])
    >>> [piece[:, 0].tolist() for piece in unroll(square)]
    [[170.0, 190.0, 190.0, 170.0, 170.0], [-190.0, -170.0, -170.0, -190.0, -190.0]]
    """
    lon = np.unwrap(ring[:, 0], period=360.0)
    flat = np.column_stack([lon, ring[:, 1]])
    if abs(lon[-1] - lon[0]) > 180.0:
        pole = 90.0 if ring[:, 1].mean() > 0 else -90.0
        flat = np.concatenate([flat, [(lon[-1], pole), (lon[0], pole)], flat[:1]])
    pieces, turn = [flat], np.array([360.0, 0.0])
    if flat[:, 0].max() > 180.0:
        pieces.append(flat - turn)
    if flat[:, 0].min() < -180.0:
        pieces.append(flat + turn)
    return pieces


@dataclass(frozen=True)
class RealisedTime:
    """A time that has passed, of which a report tells."""

    accesses: str
    begin: str
    end: str
    costs: RequestCosts | None = None


def report(
    plans: Sequence[str],
    out: str,
    *,
    patterns: str | None = None,
    current: str | None = None,
    store: str | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    methods: bool = False,
    realised: RealisedTime | None = None,
    warn: Callable[[str], None] | None = None,
) -> Path:
    """Write report.html, report.json and report.csv into a folder and return the path of the page.

    Parameters
    ----------
    plans
        Files of plans for the same partitions; the cheapest is recommended.
    out
        The folder; made if it is not there.
    patterns
        The file that the plans were made from; the one that the cheapest plan remembers when None.
    current
        The plan in force, to compare with.
    store
        Its current snapshot must have the plans' pivots; the map shows its regions.
    seed, time_limit
        Of the methods that are priced here; seconds each.
    methods
        Price the methods of the papers as well, and plans for other target utilisations.
    realised
        The time that has passed and the log of which it is told what the recommended plan came to.
    warn
        Is told what is missing.

    Raises
    ------
    InputError
        A file is missing or of no use, or plans and store are of different pivots.
    ValueError
        Plans and patterns are for different pivots or partitions.
    """
    warn = warn or (lambda message: None)
    made = [load_plan(path) for path in plans]
    if not made:
        raise InputError("no plan is given: name at least one file that dtoss plan wrote")
    best = min(made, key=lambda one: one.cost_per_day)
    path = patterns_path(best, patterns, warn)
    billed = None
    if realised is not None:
        from pipelines.bill import bill

        recommended = plans[made.index(best)]
        time = (realised.accesses, realised.begin, realised.end)
        billed = bill(recommended, *time, store=store, costs=realised.costs).bill
    regions, shores = None, land_outline()
    if store is not None:
        manifest = manifest_of(store, best.pivots_hash, "plans")
        regions = region_rings(manifest)
        shores = () if manifest["crs"] == NO_CRS else shores
    return ceps.write_report(
        out,
        made,
        patterns=None if path is None else patterns_of(best, path),
        current=None if current is None else load_plan(current),
        regions=regions,
        seed=seed,
        time_limit=time_limit,
        methods=methods,
        weekdays=() if path is None else weekdays_of(best, path),
        shores=shores,
        names=[Path(one).name for one in plans],
        bill=billed,
    )


def patterns_path(plan: Plan, path: str | None, warn: Callable[[str], None]) -> str | None:
    """Return the file of the patterns that a plan was made from; None, and a warning, if it is gone or has changed."""
    if path is not None:
        return path
    path = plan.options.get("patterns")
    if path is not None and Path(path).exists() and checksum(path) == plan.options.get("patterns_sha256"):
        return path
    what = "the plan does not say where its patterns are" if path is None else f"{path} is gone or has changed"
    warn(f"{what}: methods are not compared; --patterns FILE does")
    return None


def patterns_of(plan: Plan, path: str) -> Patterns:
    """Return the patterns that a plan was made from, with the plan's bytes."""
    week = plan.loads.shape[1] * plan.slot_seconds == WEEK
    given = read_patterns(path, "week" if week else "mean" if plan.weekday is None else WEEKDAYS[plan.weekday])
    sizes = dict(zip(plan.partitions.tolist(), plan.sizes.tolist(), strict=True))
    if set(sizes) != set(given.partitions.tolist()):
        return given
    return replace(given, sizes=np.array([sizes[number] for number in given.partitions.tolist()], np.float64))


def weekdays_of(plan: Plan, path: str) -> tuple[Patterns, ...]:
    """Return the patterns of Monday to Sunday where the file holds all seven in slots of the plan's length, else ()."""
    try:
        week = read_patterns(path, "week")
    except ValueError:
        return ()
    slots = week.slots // 7
    if week.slot_seconds != plan.slot_seconds:
        return ()
    days = range(7)
    return tuple(replace(week, loads=week.loads[:, day * slots : (day + 1) * slots], weekday=day) for day in days)


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("report")
