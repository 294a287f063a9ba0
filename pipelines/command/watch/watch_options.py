"""Options that the commands of standing questions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dtoss.plain_numbers import is_whole
from dtoss.watch.watch_folder import DEFAULT_NAME

if TYPE_CHECKING:
    from pipelines.watching.spreading import SpreadOptions

WatchName = Annotated[str, typer.Option("--watch", help="Name of the watch in the store.", metavar="NAME")]
NO_NAME = DEFAULT_NAME
"""The watch where none is named."""
Strategy = Annotated[
    str | None,
    typer.Option("--strategy", help="Spread rows over workers by it: ours, swarm, kd, replicated, ...", metavar="NAME"),
]
Workers = Annotated[int | None, typer.Option("--workers", help="How many; with --strategy.", min=1)]
Rebalance = Annotated[
    str,
    typer.Option("--rebalance", help="When the layout may change: round (15 s), N (batches), off.", metavar="WHEN"),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="Of a worker, for --strategy auto: 4g, 500m.", metavar="SIZE"),
]


def spread_said(strategy: str | None, workers: int | None, rebalance: str, memory: str | None) -> SpreadOptions | None:
    """Return how rows are spread over workers; None where they are not."""
    from pipelines.rows.durations_and_shares import bytes_of

    if strategy is None:
        for name, given in (("--workers", workers is not None), ("--memory", memory is not None)):
            if given:
                raise ValueError(f"{name} goes with --strategy NAME, which spreads rows over workers")
        if rebalance != "round":
            raise ValueError("--rebalance goes with --strategy NAME, which spreads rows over workers")
        return None
    if workers is None:
        raise ValueError(f"--strategy {strategy} wants --workers N: over how many rows are spread")
    from pipelines.watching.spreading import ROUND_SECONDS, SpreadOptions, check_strategy

    batches = {"round": 1, "off": 0}.get(rebalance, -1)
    if batches < 0:
        if not (is_whole(rebalance) and int(rebalance) > 0):
            raise ValueError(f"--rebalance {rebalance!r}: round, off, or a number of batches from 1 on is wanted")
        batches = int(rebalance)
    seconds = ROUND_SECONDS if rebalance == "round" else 0.0
    spread = SpreadOptions(strategy, workers, batches, None if memory is None else bytes_of(memory), seconds)
    check_strategy(spread)
    return spread
