"""The command that rehearses strategies on a stream."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from dtoss.plain_numbers import is_whole
from dtoss.watch.watch_folder import DEFAULT_NAME
from pipelines.command.terminal import options
from pipelines.command.terminal.options import seconds_said
from pipelines.command.terminal.output import print_columns, say_compiling

Numbers = Annotated[str, typer.Option("--workers", help="How many; several separated by commas.", metavar="N,N")]


def rehearse(
    positions: Annotated[str, typer.Argument(help="File, folder or glob of positions with times.", show_default=False)],
    out: Annotated[
        str, typer.Option("--out", help="Folder for report.html, rehearsal.json and rounds.csv.", metavar="FOLDER")
    ],
    subscriptions: Annotated[
        list[str] | None,
        typer.Option("--subscriptions", help="File of subscriptions; may stand again.", metavar="FILE"),
    ] = None,
    store: Annotated[str | None, typer.Option("--store", help="Take those of a watch of this store.")] = None,
    watch: Annotated[str, typer.Option("--watch", help="Name of that watch.", metavar="NAME")] = DEFAULT_NAME,
    strategy: Annotated[
        str, typer.Option("--strategy", help="Names separated by commas; all for all of them.", metavar="NAMES")
    ] = "all",
    workers: Numbers = "8",
    round_: Annotated[
        str, typer.Option("--round", help="Time after which a layout may change: 30min, 1h.", metavar="TIME")
    ] = "30min",
    memory: Annotated[
        str | None, typer.Option("--memory", help="Of a worker, for strategy auto: 4g, 500m.", metavar="SIZE")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Column of ids.", metavar="COLUMN")] = None,
    x: Annotated[str | None, typer.Option("--x", help="Column of lon or x.", metavar="COLUMN")] = None,
    y: Annotated[str | None, typer.Option("--y", help="Column of lat or y.", metavar="COLUMN")] = None,
    time: Annotated[str | None, typer.Option("--time", help="Column of times.", metavar="COLUMN")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Column of text.", metavar="COLUMN")] = None,
    cost_row: Annotated[float, typer.Option("--cost-row", help="What a row costs.", min=0.0)] = 1.0,
    cost_candidate: Annotated[
        float, typer.Option("--cost-candidate", help="What a subscription costs that is looked at.", min=0.0)
    ] = 0.01,
    cost_match: Annotated[float, typer.Option("--cost-match", help="What a match costs.", min=0.0)] = 0.0,
    cells: Annotated[int, typer.Option("--cells", help="Rows and columns of the grid.", min=1, max=1024)] = 128,
    crs: Annotated[str | None, typer.Option(help="Of the positions; degrees if not given.")] = None,
    metric: options.MetricOfRows = None,
    as_json: options.Json = False,
) -> None:
    """Say what each strategy would have done with a stream: how even, how much moves, and which to take."""
    from ceps.balance.round_costs import WorkModel
    from dtoss.export.targets import check_folder
    from dtoss.geometry.space import space_of
    from dtoss.snapshots.store import on_stderr
    from pipelines.reports.rehearsal_page import advice, write_rehearsal
    from pipelines.rows.durations_and_shares import bytes_of
    from pipelines.simulation.simulate import facts_of, rehearse_stream
    from pipelines.simulation.stream_in import Names

    check_folder("--out", out)
    counts = _counts(workers)
    say_compiling("build")
    done = rehearse_stream(
        positions,
        subscriptions or (),
        store=store,
        watch=watch,
        strategies=[name.strip() for name in strategy.split(",")],
        workers=counts,
        round_seconds=seconds_said(round_, "--round"),
        columns=Names(id_, x, y, time, text),
        space=None if crs is None and metric is None else space_of(crs, metric),
        memory_bytes=None if memory is None else bytes_of(memory),
        model=WorkModel(cost_row, cost_candidate, cost_match),
        side=cells,
    )
    if done.skipped:
        on_stderr(f"{done.skipped:,} rows have no legal position or no time, and are left out")
    page = write_rehearsal(done, out)
    facts = facts_of(done)
    if as_json:
        print(json.dumps(facts))
        return
    print_columns(
        ["strategy", "workers", "busiest / mean", "worst", "moved a round", "copies"],
        [
            [
                one["strategy"],
                str(one["workers"]),
                f"{one['mean']:.3f}",
                f"{one['worst']:.2f}",
                f"{100 * one['movedShare']:.2f} %",
                f"{one['copies']:.3f}",
            ]
            for one in sorted(facts["strategies"], key=lambda one: (one["workers"], one["mean"]))
        ],
    )
    for count in sorted(set(counts)):
        print(advice(facts, count))
    print(page)


def _counts(text: str) -> list[int]:
    counts = [part.strip() for part in text.split(",")]
    wrong = [part for part in counts if not (is_whole(part) and int(part) > 0)]
    if wrong:
        raise ValueError(f"--workers has {wrong[0]!r}: whole numbers from 1 on, separated by commas, are wanted")
    return list(dict.fromkeys(map(int, counts)))
