"""The command that rehearses strategies on a stream."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from dtoss.option import Option
from dtoss.plain_numbers import is_whole
from pipelines.command.terminal import options
from pipelines.command.terminal.option_objects import Only
from pipelines.command.terminal.output import print_columns
from pipelines.options.said_amounts import duration
from pipelines.options.snapshot_options import Reading
from pipelines.options.streaming import Questions, StreamColumns

Numbers = Annotated[str, Option("How many; several separated by commas.", "N,N", name="--workers")]


@dataclass(frozen=True)
class Costs:
    """What work costs."""

    title: ClassVar[str] = "What work costs"
    cost_row: Annotated[float, Option("What a row costs.", more={"min": 0.0})] = 1.0
    cost_candidate: Annotated[float, Option("What a subscription costs that is looked at.", more={"min": 0.0})] = 0.01
    cost_match: Annotated[float, Option("What a match costs.", more={"min": 0.0})] = 0.0


@dataclass(frozen=True)
class Rounds:
    """Which strategies are tried."""

    title: ClassVar[str] = "What is tried"
    strategy: Annotated[str, Option("Names separated by commas; all for all of them.", "NAMES")] = "all"
    workers: Numbers = "8"
    round_: Annotated[
        float,
        Option(
            "Time after which a layout may change: 30min, 1h.",
            "TIME",
            "--round",
            parse=duration(None, "--round"),
            shown="30min",
        ),
    ] = 1800.0
    memory: Annotated[
        str | None, Option("Of a worker, 500m: what fits is stored by all. 64 MB unless given; auto wants it.", "SIZE")
    ] = None
    cells: Annotated[int, Option("Rows and columns of the grid.", more={"min": 1, "max": 1024})] = 128


def rehearse(
    positions: Annotated[str, typer.Argument(help="File, folder or glob of positions with times.", show_default=False)],
    out: Annotated[str, Option("Folder for report.html, rehearsal.json and rounds.csv.", "FOLDER")],
    columns: StreamColumns,
    costs: Costs,
    standing: Questions,
    rounds: Rounds,
    reading: Annotated[Reading, Only(["crs", "metric"])],
    as_json: options.Json = False,
) -> None:
    """Say what each strategy would have done with a stream: how even, how much moves, and which to take."""
    from ceps.balance.round_costs import WorkModel
    from ceps.model.number_text import per_cent
    from dtoss.export.targets import check_folder
    from dtoss.snapshots.store import on_stderr
    from pipelines.options.said_amounts import bytes_of
    from pipelines.reports.rehearsal_page import advice, write_rehearsal
    from pipelines.simulation.simulate import facts_of, rehearse_stream

    check_folder("--out", out)
    counts = _counts(rounds.workers)
    done = rehearse_stream(
        positions,
        standing,
        strategies=[name.strip() for name in rounds.strategy.split(",")],
        workers=counts,
        round_seconds=rounds.round_,
        columns=columns,
        space=reading.space,
        memory_bytes=None if rounds.memory is None else bytes_of(rounds.memory),
        model=WorkModel(costs.cost_row, costs.cost_candidate, costs.cost_match),
        side=rounds.cells,
    )
    if done.skipped:
        on_stderr(f"{done.skipped:,} rows have no legal position, time or id, and are left out")
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
                per_cent(one["movedShare"]),
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
