"""Questions that name a row which they want to see: they wait until what answers holds it."""

from __future__ import annotations

import re
from urllib.parse import parse_qs

from dtoss.serve.core.problems import Problem
from dtoss.serve.state.worker_state import WorkerState

MIN_SEQ = "min_seq"
"""The parameter: a sequence number of the log, up to which an answer holds all rows."""
_WHOLE = re.compile(r"[0-9]{1,18}").fullmatch


async def wait_for_seq(state: WorkerState, query: bytes) -> None:
    """Wait for the row that a question names, for some seconds; then it is refused with the number that there is."""
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    if MIN_SEQ not in given:
        return
    text = given[MIN_SEQ][-1]
    if state.settings.updates is None:
        raise Problem(400, f"{MIN_SEQ} needs a server of --updates: this one reads no log", limit=MIN_SEQ)
    if len(given[MIN_SEQ]) > 1 or not _WHOLE(text):
        raise Problem(400, f"{MIN_SEQ} is {text!r}: one sequence number is wanted", limit=MIN_SEQ, value=text)
    if given.keys() & {"snapshot", "cursor"}:
        raise Problem(400, f"{MIN_SEQ} is for what answers now: leave it out beside a snapshot", limit=MIN_SEQ)
    if not await state.serving.reach(int(text), state.paces.fresh_wait):
        there = state.serving.now.seq
        raise Problem(
            503, f"the answer would hold rows up to {there}, and {MIN_SEQ} is {text}: ask again", limit=MIN_SEQ,
            value=int(text), bound=there, retry_after=1,
        )  # fmt: skip
