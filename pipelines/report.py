"""Plans in, a report out: what they cost and save, as one HTML page and as JSON and CSV. Needs no Spark.

Also a script: ``python -m pipelines.report PLAN... --out FOLDER``, or by spark-submit, with the options of
``dtoss report``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import ceps
from ceps import Patterns, Plan
from ceps.model.costs import RequestCosts
from ceps.model.patterns import WEEK
from dtoss.errors import InputError
from dtoss.export.land import land_outline
from dtoss.export.map_rings import region_rings
from dtoss.geometry.space import NO_CRS
from pipelines.plan_files import WEEKDAYS, checksum, load_plan, manifest_of, read_patterns


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
