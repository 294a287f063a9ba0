"""Made streams of rows through both steps of windows, against the oracle: `python -m tests.dtoss.windows.fuzz 10000`.

Every measure and revision at every end, and what is asked between, by every kind of key, plane and sphere, with rows
late, twice and elsewhere at the same time; each stream in pieces of 1 row and of many. Ends with code 1 and the stream
where anything differs, made as small as it can be.
"""

from __future__ import annotations

import sys
import time

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.dtoss.windows.test_live_windows import differences
from tests.dtoss.windows.window_streams import streams

STREAMS = 10_000
SLICE = 500
"""Streams of a seed."""


def play(number: int, count: int) -> dict[str, int]:
    """Play streams of a seed, and return how much there was; what differs is raised."""
    told = {"streams": 0, "rows": 0, "batches": 0}

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(streams(), st.sampled_from([1, 3, 50, 100_000]))
    def as_the_oracle_says(stream, piece):
        told["streams"] += 1
        told["rows"] += sum(map(len, stream.batches))
        told["batches"] += len(stream.batches)
        wrong = differences(stream, piece)
        assert not wrong, wrong

    as_the_oracle_says()
    return told


def main() -> None:
    """Play streams from a first seed on, and say how many there were."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began, played = time.process_time(), 0
    while played < count:
        told = play(first + played // SLICE, min(SLICE, count - played))
        played += told["streams"]
        said = ", ".join(f"{value:,} {name}" for name, value in told.items())
        print(f"to {played:,}: {said}, 0 differ, {time.process_time() - began:.0f} s of a processor", flush=True)


if __name__ == "__main__":
    main()
