"""``dtoss history report``: the page of a history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dtoss.errors import InputError
from dtoss.export.targets import check_folder
from pipelines.command.terminal.output import print_table


def report(
    out: Annotated[str, typer.Option(help="Folder for report.html and report.json.", metavar="FOLDER")],
    history: Annotated[
        str | None, typer.Option("--history", help="Path or URI of the history.", metavar="H", show_default=False)
    ] = None,
    named: Annotated[
        str | None, typer.Argument(help="The same, as it was named before.", metavar="HISTORY", show_default=False)
    ] = None,
    version: Annotated[int | None, typer.Option(help="Of the history; the newest if not given.")] = None,
    a_day: Annotated[float, typer.Option(help="Questions a day, for which requests, bytes and dollars are told.")] = (
        1000.0
    ),
    prices: Annotated[
        str | None, typer.Option(help="Your prices, JSON; list prices where it names none.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Write what a history's questions cost, and would in other files, and where it is cut, as one page and JSON."""
    from pipelines.history_report import history_report, prices_in

    if (history is None) == (named is None):
        raise InputError(f"name one history (--history H), not {'two' if history else 'none'}")
    history = history or named
    assert history is not None
    check_folder("--out", out)
    given = None if prices is None else prices_in(prices)
    page = history_report(history, out, version=version, a_day=a_day, prices=given)
    numbers = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    if as_json:
        print(json.dumps(numbers))
        return
    print_table(_rows(numbers, page))


def _rows(numbers: dict[str, Any], page: Path) -> list[tuple[str, str]]:
    from pipelines.reports.history_page import saving_sentence

    said = saving_sentence(numbers) if numbers["contestants"] else "nothing is remembered of what was asked"
    return [("history", f"{numbers['history']}, version {numbers['version']}"), ("cost", said), ("page", str(page))]
