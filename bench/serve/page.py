"""What a person waits for at the map: the first picture, panning, a click, a swap; in a headless browser.

    python -m bench.serve.page STORE [STORE ...] [--workers W] [--rounds N] [--width PIXELS]

Needs Chromium; it draws by software. The servers and the browser share the cores, and the stores take turns, so that
what else runs slows all of them. Each first picture is that of a new browser window with nothing kept. A swap is timed
from the commit, and from when the server answers from it. Swaps commit the same files under another name: the stores
are left with them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.request import urlopen

import numpy as np

import dtoss
from bench.serve.requests import serve_command
from bench.serve.swaps import commit_again
from tests.dtoss.serve.map.browsing import browser, idle, opened

PANS = 10
"""Each of them shows two further tiles in a window of 700 pixels' height."""


@dataclass
class Measured:
    """A store, its server, and what was waited for: seconds and requests by what it was."""

    store: str
    url: str
    objects: int
    place: tuple[float, float]
    found: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    def took(self, what: str, seen: Any, began: float, before: int) -> None:
        """Keep what has just come to its end."""
        self.found.setdefault(what, []).append((time.perf_counter() - began, len(seen.asked) - before))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="+")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=1000)
    given = parser.parse_args()
    servers: list[subprocess.Popen[str]] = []
    try:
        measured = [served(store, given.workers, servers) for store in given.stores]
        print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before;", end=" ")
        print(f"{given.workers} workers, window of {given.width} x 700, {given.rounds} rounds")
        with browser() as driver:
            for of in measured * given.rounds:
                began = time.perf_counter()
                with opened(driver, of.url, width=given.width) as seen:
                    idle(seen.page)
                    of.took("first picture", seen, began, 0)
            for of in measured * given.rounds:
                visit(driver, of, given.width)
        print("| objects | what | median s | worst s | requests |\n|---|---|---|---|---|")
        for of in measured:
            for what, all_of in of.found.items():
                seconds, requests = zip(*all_of, strict=True)
                print(
                    f"| {of.objects:,} | {what} | {statistics.median(seconds):.2f} | {max(seconds):.2f} "
                    f"| {max(requests)} |"
                )
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(20)


def served(store: str, workers: int, servers: list[subprocess.Popen[str]]) -> Measured:
    """Start the server of a store."""
    index = dtoss.open(store)
    partition = index.parts[int(np.argmax([facts.objects for facts in index.parts.facts]))]
    lon, lat = partition.positions[partition.owned_objects // 2].tolist()
    server = subprocess.Popen(serve_command(store, "--workers", str(workers)), stderr=subprocess.PIPE, text=True)
    servers.append(server)
    assert server.stderr is not None
    url = next(found[1] for line in server.stderr if (found := re.search(r"on (http://[0-9.:]+)", line)))
    return Measured(store, url, len(index), (lon, lat))


def visit(driver: Any, of: Measured, width: int) -> None:
    """Look at a city, move on, ask, and see a swap."""
    lon, lat = of.place
    with opened(driver, of.url, f"/#at={lon},{lat}&zoom=11", width=width) as seen:
        page = seen.page
        times = idle(page)
        began, before = time.perf_counter(), len(seen.asked)
        page.keyboard.press("m")
        for _ in range(PANS):
            page.keyboard.press("ArrowRight")
            page.wait_for_timeout(60)
        idle(page, times)
        of.took(f"{PANS} pans", seen, began, before)
        began, before = time.perf_counter(), len(seen.asked)
        page.keyboard.press("Enter")
        page.locator("#answer").wait_for()
        of.took("click to hits", seen, began, before)
        snapshot = page.locator("#stage").get_attribute("data-drawn")
        commit_again(of.store)
        began, before = time.perf_counter(), len(seen.asked)
        while snapshot_of(of.url) == snapshot:
            page.wait_for_timeout(20)
        answers = time.perf_counter()
        while page.locator("#stage").get_attribute("data-drawn") == snapshot:
            page.wait_for_timeout(20)
        of.took("commit to drawn", seen, began, before)
        of.took("answers to drawn", seen, answers, before)


def snapshot_of(url: str) -> str:
    """Return the name of the snapshot that answers."""
    with urlopen(f"{url}/snapshot", timeout=20) as answer:
        return str(json.load(answer)["snapshot"])


if __name__ == "__main__":
    main()
