"""Writing a report: one HTML page, and JSON and CSV with the same numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ceps.plan.plans import Plan
from ceps.reporting.report import build_report


def write_report(folder: str | Path, plans: Sequence[Plan], **options: Any) -> Path:
    """Write report.html, report.json and report.csv into `folder`; returns the path of the page.

    `options` are those of `build_report`. The page holds all that it shows and needs no network.

    Raises
    ------
    ValueError
        As `build_report`.
    """
    from ceps.reporting.report_page import page

    report = build_report(plans, **options)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    html = page(report)
    text = json.dumps(report.numbers, indent=1, allow_nan=False)
    (target / "report.json").write_text(text + "\n", encoding="utf-8")
    with (target / "report.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(report.numbers["methods"][0]))
        writer.writeheader()
        writer.writerows(report.numbers["methods"])
    (target / "report.html").write_text(html, encoding="utf-8")
    return target / "report.html"
