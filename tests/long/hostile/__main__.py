"""What hostile clients and peers do to servers, and what is left for the others.

    python -m tests.long.hostile [--objects N] [--messages N] [--minutes N] [peers] [messages] [workers] [plan]

`peers` is what servers of a plan say to each other, said by somebody who reads no answers, sends groups without places,
or is frozen. `messages` are mutated. `workers` and `plan` are minutes of mixed hostile and good load on two workers and
on a plan of three servers; answers to the good ones are compared with brute force. Exits with 1 and the goals that are
missed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measuring.verdicts import Goals
from bench.serve.fleet.servers import made_store
from tests.long.hostile.messages import messages
from tests.long.hostile.mixed import plan, workers
from tests.long.hostile.peers import peers

PARTITIONS = 64
PARTS = ("peers", "messages", "workers", "plan")


def main() -> None:
    """Play the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    given = parser.parse_args()
    goals = Goals()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        store, index = made_store(str(folder / "store"), given.objects, PARTITIONS)
        seconds = 60 * given.minutes
        work: dict[str, Callable[[], Any]] = {
            "peers": lambda: peers(store, index, folder, min(seconds, 60.0), goals),
            "messages": lambda: messages(store, index, folder, given.messages, goals),
            "workers": lambda: workers(store, index, folder, seconds, goals),
            "plan": lambda: plan(store, index, folder, seconds, goals),
        }
        for name in given.parts or PARTS:
            print(f"{name}, {given.objects:,} objects", flush=True)
            work[name]()
    goals.end()


if __name__ == "__main__":
    main()
