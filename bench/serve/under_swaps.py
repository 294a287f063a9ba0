"""What clients notice of swaps: latencies of a server of one worker, by itself and through a swap each second or two.

    python -m bench.serve.under_swaps STORE [--swaps N] [--connections C] [--rounds R]

Needs `wrk`. The server is on one core, wrk and what commits on another. Each swap is a commit of the same files under
another name, so that the server opens, verifies and warms all of them again; the store is left with these snapshots.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
import urllib.request

from bench.serve.requests import Measured, load, pinned, serve_command, targets_of
from bench.serve.swaps import commit_again

BETWEEN_SECONDS = 1.5
"""From one commit to the next: the server looks each second."""


def commit_of(url: str) -> int:
    """Return the commit that a server answers from."""
    with urllib.request.urlopen(f"{url}/snapshot", timeout=10) as answer:
        number: int = json.load(answer)["commit"]
    return number


def row(name: str, found: Measured, swaps: int) -> str:
    """Return a row of the table."""
    return (
        f"| {name} | {swaps} | {found.per_second:,.0f} | {found.p50_us / 1e3:.2f} | {found.p99_us / 1e3:.2f} | "
        f"{found.p99_us / found.p50_us:.1f} | {found.worst_us / 1e3:.1f} | {found.wrong} |"
    )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--swaps", type=int, default=10)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    targets = targets_of(given.store)["knn"]
    seconds = given.swaps * BETWEEN_SECONDS + 2.0
    print("| knn, 8 nearest | swaps | requests/s | p50 ms | p99 ms | p99 / p50 | worst ms | failed |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name, options in {"short way": [], "framework": ["--no-hot"]}.items():
        with pinned(serve_command(given.store, *options), r"on (http://[0-9.:]+)") as (server, url):
            load(server, url, targets, given.connections, 1.0)
            for _ in range(given.rounds):
                print(row(name, load(server, url, targets, given.connections, seconds), 0), flush=True)
                before = commit_of(url)

                def commit() -> None:
                    for _ in range(given.swaps):
                        time.sleep(BETWEEN_SECONDS)
                        commit_again(given.store)

                committing = threading.Thread(target=commit)
                committing.start()
                found = load(server, url, targets, given.connections, seconds)
                committing.join()
                print(row(name, found, commit_of(url) - before), flush=True)


if __name__ == "__main__":
    main()
