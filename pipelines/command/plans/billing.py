"""The command that says what a plan came to in a time that has passed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pipelines.command.terminal import options, row_options
from pipelines.command.terminal.output import print_columns, print_table


def bill(
    plan: Annotated[
        str, typer.Option(help="The plan that was in force all the time.", metavar="FILE", show_default=False)
    ],
    begin: Annotated[str, typer.Option("--from", help="Day or moment of the plan's zone: 2026-03-01.", metavar="TIME")],
    end: Annotated[str, typer.Option("--to", help="Up to which; not included.", metavar="TIME")],
    accesses: Annotated[
        str | None, typer.Option(help="The servers' log; that of --store if not given.", metavar="LOG")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="The store of the plan's pivots; the one that holds the log if not given.")
    ] = None,
    costs: Annotated[
        str | None, typer.Option(help="As the plan's patterns were made with (dtoss patterns --costs).", metavar="FILE")
    ] = None,
    hindsight: Annotated[
        bool, typer.Option("--hindsight/--no-hindsight", help="Make the plan that would have been best, too.")
    ] = True,
    max_bad: row_options.MaxBad = 0.10,
    as_json: options.Json = False,
) -> None:
    """Say what a time that has passed cost and how busy servers were, beside the plan and what hindsight would cost."""
    from ceps.reporting.bill_section import server_rows
    from pipelines.bill import bill as run
    from pipelines.bill import facts, summary
    from pipelines.plan_files import load_costs

    counted = None if costs is None else load_costs(costs)
    billed = run(
        plan, accesses, begin, end, store=store, costs=counted, max_bad=max_bad, hindsight=hindsight
    )  # fmt: skip
    if as_json:
        print(json.dumps(facts(billed)))
        return
    print_columns(*server_rows(billed.bill))
    print()
    print_table(summary(billed))
