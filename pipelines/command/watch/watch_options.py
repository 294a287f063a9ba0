"""Options that the commands of standing questions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dtoss.names import DEFAULT_NAME
from dtoss.option import Option
from dtoss.plain_numbers import is_whole
from pipelines.options.streaming import SpreadWishes

if TYPE_CHECKING:
    from pipelines.watching.spreading import SpreadOptions

WatchName = Annotated[str, Option("Name of the watch in the store.", "NAME", name="--watch")]
NO_NAME = DEFAULT_NAME
"""The watch where none is named."""


def spread_said(asked: SpreadWishes) -> SpreadOptions | None:
    """Return how rows are spread over workers; None where they are not."""
    from pipelines.rows.durations_and_shares import bytes_of

    if asked.strategy is None:
        for name, given in (("--workers", asked.workers is not None), ("--memory", asked.memory is not None)):
            if given:
                raise ValueError(f"{name} goes with --strategy NAME, which spreads rows over workers")
        if asked.rebalance != "round":
            raise ValueError("--rebalance goes with --strategy NAME, which spreads rows over workers")
        return None
    if asked.workers is None:
        raise ValueError(f"--strategy {asked.strategy} wants --workers N: over how many rows are spread")
    from pipelines.watching.spreading import ROUND_SECONDS, SpreadOptions, check_strategy

    batches = {"round": 1, "off": 0}.get(asked.rebalance, -1)
    if batches < 0:
        if not (is_whole(asked.rebalance) and int(asked.rebalance) > 0):
            raise ValueError(f"--rebalance {asked.rebalance!r}: round, off, or a number of batches from 1 on is wanted")
        batches = int(asked.rebalance)
    seconds = ROUND_SECONDS if asked.rebalance == "round" else 0.0
    memory = None if asked.memory is None else bytes_of(asked.memory)
    spread = SpreadOptions(asked.strategy, asked.workers, batches, memory, seconds)
    check_strategy(spread)
    return spread
