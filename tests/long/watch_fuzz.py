"""Made subscriptions against made rows, judged by other means: `python -m tests.long.watch_fuzz --worlds 400`.

Places in long double and in fractions, words by Unicode's categories, conditions and streams in plain Python: the
oracles (`tests/dtoss/watch/judged_*.py`) share no code with the watch. Ends with code 1 where an answer differs, and
names the kind and the seed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from datasets.tables.command import BadInput, run, say
from tests.dtoss.watch import judged_rows, judged_stays, judged_streams, judged_words


def _stream(seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return judged_streams.play(seed, folder)


KINDS: dict[str, Callable[[int], Any]] = {
    "sphere": lambda seed: judged_rows.differing(seed, plane=False),
    "plane": lambda seed: judged_rows.differing(seed, plane=True),
    "words": judged_words.differing,
    "streams": _stream,
    "stays": lambda seed: judged_stays.play(seed)[0],
}
"""What a seed is made into, by name; each returns lines about what differs."""


def main(
    worlds: Annotated[int, typer.Option(help="How many, spread evenly over the kinds.")] = 400,
    first: Annotated[int, typer.Option(help="The first seed; other seeds are other worlds.")] = 1000,
    only: Annotated[list[str] | None, typer.Option(help="Kinds; all if not given. Repeat it.")] = None,
) -> None:
    """Compare what a watch says of small made worlds with oracles of other means."""
    kinds = only or list(KINDS)
    unknown = set(kinds) - set(KINDS)
    if unknown:
        raise BadInput(f"{', '.join(sorted(unknown))}: not one of {', '.join(KINDS)}")
    each = -(-worlds // len(kinds))
    differ = 0
    for kind in kinds:
        began, wrong = time.process_time(), 0
        for seed in range(first, first + each):
            lines = KINDS[kind](seed)
            wrong += bool(lines)
            if lines:
                say(f"{kind}, {lines[0]}")
        differ += wrong
        say(f"{kind}: {each} worlds, {wrong} differ, {time.process_time() - began:.0f} s of a processor")
    if differ:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
