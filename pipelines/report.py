"""Plans in, a report out: what they cost and save, as one HTML page and as JSON and CSV. Needs no Spark.

Also a script: ``python -m pipelines.report PLAN... --out FOLDER``, or by spark-submit, with the options of
``dtoss report``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import ceps
from ceps import Patterns, Plan
from ceps.patterns import WEEK
from dtoss.errors import InputError
from dtoss.export.map_rings import region_rings
from pipelines.plan_files import WEEKDAYS, checksum, load_plan, manifest_of, read_patterns


def report(
    plans: Sequence[str],
    out: str,
    *,
    patterns: str | None = None,
    current: str | None = None,
    store: str | None = None,
    seed: int = 0,
    time_limit: float | None = None,
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
    warn
        Is told what is missing.

    Raises
    ------
    InputError
        A file is missing or of no use, plotly is not installed, or plans and store are of different pivots.
    ValueError
        Plans and patterns are for different pivots or partitions.
    """
    warn = warn or (lambda message: None)
    made = [load_plan(path) for path in plans]
    if not made:
        raise InputError("no plan is given: name at least one file that dtoss plan wrote")
    best = min(made, key=lambda one: one.cost_per_day)
    given = patterns_of(best, patterns, warn)
    regions = None if store is None else region_rings(manifest_of(store, best.pivots_hash, "plans"))
    try:
        return ceps.write_report(
            out,
            made,
            patterns=given,
            current=None if current is None else load_plan(current),
            regions=regions,
            seed=seed,
            time_limit=time_limit,
        )
    except ImportError as error:
        raise InputError(str(error)) from None


def patterns_of(plan: Plan, path: str | None, warn: Callable[[str], None]) -> Patterns | None:
    """Return the patterns that a plan was made from, with the plan's bytes; None, and a warning, if they are gone.

    Raises
    ------
    InputError
        A path is given and holds none.
    """
    if path is None:
        path = plan.options.get("patterns")
        if path is None or not Path(path).exists() or checksum(path) != plan.options.get("patterns_sha256"):
            what = "the plan does not say where its patterns are" if path is None else f"{path} is gone or has changed"
            warn(f"{what}: methods are not compared; --patterns FILE does")
            return None
    week = plan.loads.shape[1] * plan.slot_seconds == WEEK
    given = read_patterns(path, "week" if week else "mean" if plan.weekday is None else WEEKDAYS[plan.weekday])
    sizes = dict(zip(plan.partitions.tolist(), plan.sizes.tolist(), strict=True))
    if set(sizes) != set(given.partitions.tolist()):
        return given
    return replace(given, sizes=np.array([sizes[number] for number in given.partitions.tolist()], np.float64))


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("report")
