"""What a person waits for at the map: the first picture, panning, a click, a swap; in a headless browser.

    python -m bench.serve.page STORE [--workers W] [--rounds N] [--width PIXELS]

Needs Chromium; it draws by software. The server and the browser share the cores. Each first picture is that of a new
browser window with nothing kept. A swap is timed from the commit, and from when the server answers from it. Swaps
commit the same files under another name: the store is left with them.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import time
from typing import Any
from urllib.request import urlopen

import numpy as np

import dtoss
from bench.serve.requests import serve_command
from bench.serve.swaps import commit_again
from tests.dtoss.serve.page.browsing import browser, idle, opened

PAN_PIXELS = 512
"""A tile's width on the screen."""
PANS = 10
"""Each of them shows two further tiles in a window of 700 pixels' height."""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=1000)
    given = parser.parse_args()
    index = dtoss.open(given.store)
    partition = index.parts[int(np.argmax([facts.objects for facts in index.parts.facts]))]
    lon, lat = partition.positions[partition.owned_objects // 2].tolist()
    server = subprocess.Popen(
        serve_command(given.store, "--workers", str(given.workers)), stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        url = next(found[1] for line in server.stderr if (found := re.search(r"on (http://[0-9.:]+)", line)))
        print(f"{len(index):,} objects, {given.workers} workers, window of {given.width} x 700")
        print("| what | median s | worst s | requests |\n|---|---|---|---|", flush=True)
        with browser() as driver:
            for name, measured in measurements(driver, url, given, (lon, lat)).items():
                seconds = [one[0] for one in measured]
                requests = max(one[1] for one in measured)
                print(f"| {name} | {statistics.median(seconds):.2f} | {max(seconds):.2f} | {requests} |", flush=True)
    finally:
        server.terminate()
        server.wait(20)


def measurements(driver: Any, url: str, given: Any, place: tuple[float, float]) -> dict[str, list[tuple[float, int]]]:
    """Return seconds and requests of each round of each thing that a person waits for."""
    found: dict[str, list[tuple[float, int]]] = {}
    lon, lat = place

    def timed(name: str, seen: Any, began: float, before: int) -> None:
        found.setdefault(name, []).append((time.perf_counter() - began, len(seen.asked) - before))

    for _ in range(given.rounds):
        began = time.perf_counter()
        with opened(driver, url, width=given.width) as seen:
            idle(seen.page)
            timed("first picture", seen, began, 0)
    for _ in range(given.rounds):
        with opened(driver, url, f"/#at={lon},{lat}&zoom=11", width=given.width) as seen:
            page = seen.page
            times = idle(page)
            began, before = time.perf_counter(), len(seen.asked)
            page.keyboard.press("m")
            for _ in range(PANS):
                page.keyboard.press("ArrowRight")
                page.wait_for_timeout(60)
            idle(page, times)
            timed(f"{PANS} pans", seen, began, before)
            began, before = time.perf_counter(), len(seen.asked)
            page.keyboard.press("Enter")
            page.locator("#answer").wait_for()
            timed("click to hits", seen, began, before)
            times = int(page.locator("#stage").get_attribute("data-idle") or 0)
            snapshot = page.locator("#stage").get_attribute("data-drawn")
            commit_again(given.store)
            began, before = time.perf_counter(), len(seen.asked)
            while snapshot_of(url) == snapshot:
                page.wait_for_timeout(20)
            answers = time.perf_counter()
            while page.locator("#stage").get_attribute("data-drawn") == snapshot:
                page.wait_for_timeout(20)
            timed("commit to drawn", seen, began, before)
            timed("answers to drawn", seen, answers, before)
    return found


def snapshot_of(url: str) -> str:
    """Return the name of the snapshot that answers."""
    with urlopen(f"{url}/snapshot", timeout=20) as answer:
        return str(json.load(answer)["snapshot"])


if __name__ == "__main__":
    main()
