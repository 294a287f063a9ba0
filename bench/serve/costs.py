"""What a server's books cost a request: the access log, counts, the doors and a scrape, in nanoseconds of one thread.

    python -m bench.serve.costs [--rounds 7]

Each is called in a loop; the best of the rounds counts, as processor time. Of calls for 50 requests the cost of one
request is given. The sample of the access log is full, as it is from the first thousand requests of a minute on. The
counts of partitions hold a second of 16,000 requests, with the look-up of those that were drawn among 128 partitions.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dtoss.geometry.space import space_of
from dtoss.partitioning.regions import Regions
from dtoss.serve.auth.admission import Doors
from dtoss.serve.observability.access_log import Accesses
from dtoss.serve.observability.metrics import Metrics, prepare
from dtoss.serve.observability.partition_counts import HomeCounts, Homes, mark_of

TOGETHER = 50
TOKENS = 10
A_SECOND = 16_000
PARTITIONS = 128


def nanoseconds(work: Callable[[], object], times: int, rounds: int) -> float:
    """Processor time of one call, the best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time_ns()
        for _ in range(times):
            work()
        best = min(best, (time.process_time_ns() - began) / times)
    return best


def counted_second() -> tuple[Callable[[int], object], Callable[[], object]]:
    """Return what counts a second of requests by partition, so many in a turn; and what looks nothing up."""
    space, rng = space_of(), np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-180, 180, A_SECOND), rng.uniform(-60, 60, A_SECOND)])
    regions = Regions(space.vectors(places[:PARTITIONS]), np.zeros(PARTITIONS))
    homes, mark = Homes(HomeCounts(1).of(0)), mark_of(regions.digest)
    x, y = np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1])
    turns = {
        together: [(x[at : at + together], y[at : at + together]) for at in range(0, A_SECOND, together)]
        for together in (1, TOGETHER)
    }

    def settle() -> None:
        homes.settle(mark, PARTITIONS, lambda drawn: regions.nearest(space.vectors(drawn)))

    def second(together: int) -> None:
        for one, other in turns[together]:
            homes.add(one, other, together)
        settle()

    second(TOGETHER)
    return second, settle


def works(folder: str) -> dict[str, tuple[Callable[[], object], int, int]]:
    """Return by name what is measured, how often it is called in a round, and the requests of a call."""
    numbers = prepare(f"{folder}/numbers")
    from dtoss.serve.observability.shared_counts import SharedCounts

    metrics = Metrics(SharedCounts(2), 0, numbers)
    metrics.serves("20260101T000000.000000Z", 1, time.time(), 1_000_000)
    seconds = [0.00012 + 1e-7 * number for number in range(TOGETHER)]
    wide = [10.0 ** (-4.0 - number / TOGETHER) for number in range(TOGETHER)]
    tokens = Path(folder) / "tokens"
    tokens.write_text("".join(f"name{number} token-of-{number}\n" for number in range(TOKENS)))
    headers = [f"Bearer token-of-{number}".encode() for number in range(TOKENS)]
    doors, limited, open_doors = Doors(str(tokens)), Doors(str(tokens), rate=1e9), Doors()
    sampled = Accesses(f"{folder}/sampled", space_of())
    kept = Accesses(f"{folder}/kept", space_of(), sample=10_000_000)
    x = np.linspace(-9.0, 9.0, TOGETHER)
    k = np.full(TOGETHER, 8)
    for _ in range(1_000):
        sampled.many(x, x, k, None)
    second, settle = counted_second()
    return {
        "accesses.many, one by itself": (lambda: sampled.many(x[:1], x[:1], k[:1], None), 50_000, 1),
        "accesses.many, one of 50": (lambda: sampled.many(x, x, k, None), 50_000, TOGETHER),
        "accesses.many, one by itself, all kept": (lambda: kept.many(2.0, 3.0, 8, None), 20_000, 1),
        "accesses.many, one of 50, all kept": (lambda: kept.many(x, x, k, None), 10_000, TOGETHER),
        "homes, one by itself, with the look-up": (lambda: second(1), 5, A_SECOND),
        "homes, one of 50, with the look-up": (lambda: second(TOGETHER), 20, A_SECOND),
        "homes.settle, nothing asked": (settle, 1_000, 1),
        "metrics.hot, one by itself": (lambda: metrics.hot(0, seconds[:1], 390), 50_000, 1),
        "metrics.hot, one of 50 of one bucket": (lambda: metrics.hot(0, seconds, 19_500), 20_000, TOGETHER),
        "metrics.hot, one of 50 of all buckets": (lambda: metrics.hot(0, wide, 19_500), 20_000, TOGETHER),
        "metrics.gathered and .read, a call": (lambda: (metrics.gathered(50), metrics.read(55, 50)), 50_000, 1),
        "metrics.answered (prometheus-client)": (lambda: metrics.answered("/box", 200, 0.001, 400), 10_000, 1),
        "doors.admit, no tokens": (lambda: open_doors.admit(None), 100_000, 1),
        "doors.admit, the same token": (lambda: doors.admit(headers[3]), 50_000, 1),
        "doors.admit, the same token, a rate": (lambda: limited.admit(headers[3]), 50_000, 1),
        "doors.admit, ten tokens in turn": (lambda: [doors.admit(header) for header in headers], 5_000, TOKENS),
        "a scrape": (metrics.text, 50, 1),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        print("| what | ns a request |\n|---|---|")
        for name, (work, times, requests) in works(folder).items():
            print(f"| {name} | {nanoseconds(work, times, rounds) / requests:,.0f} |")


if __name__ == "__main__":
    main()
