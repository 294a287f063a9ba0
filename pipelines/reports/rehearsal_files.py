"""A rehearsal as files: a page, JSON, and a line for each round."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from pipelines.reports.rehearsal_page import page
from pipelines.simulation.simulate import Rehearsal, facts_of


def csv_of(facts: dict[str, Any]) -> str:
    """Return a line for each round of each strategy."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["strategy", "workers", "round", "begin", "max_over_mean", "sigma", "moved_bytes"])
    for one in facts["strategies"]:
        columns = zip(facts["begin"], one["maxOverMean"], one["sigma"], one["movedBytes"], strict=True)
        for number, values in enumerate(columns, start=1):
            writer.writerow([one["strategy"], one["workers"], number, *("" if v is None else v for v in values)])
    return out.getvalue()


def write_rehearsal(rehearsal: Rehearsal, out: str) -> Path:
    """Write report.html, rehearsal.json and rounds.csv into a folder, and return the path of the page."""
    facts = facts_of(rehearsal)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rehearsal.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (folder / "rounds.csv").write_text(csv_of(facts), encoding="utf-8")
    path = folder / "report.html"
    path.write_text(page(facts, rehearsal.rounds, rehearsal.results, rehearsal.space.geographic), encoding="utf-8")
    return path
