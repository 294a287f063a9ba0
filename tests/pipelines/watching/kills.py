"""A hundred faults of a real Spark, seeded: no event is lost, none is told twice (a part of make bench).

``python -m tests.pipelines.watching.kills --count 100`` watches one stream of files after another. Python workers, Java
and the driver are killed in mid-batch and around commits, the disk is full, each Spark has another number of cores,
subscriptions change between two runs, and old events are folded after each batch. After each run every byte that the
commits list is verified; at the end of a stream all that was told is held to the loop over the files that the commits
say were read.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer

from datasets.tables.command import run, say
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.watch_folder import Home
from tests.dtoss.watch.processing.scripted import small
from tests.dtoss.watch.streams import change, random_asked
from tests.pipelines.watching.with_spark import SPREAD, assert_told_once, faults, made, watched

FILES = 16
"""Of a stream; each is a batch."""
FAULTS_OF_A_RUN = 8
DISK_BYTES = 32 << 20
SHARES = {"worker": 0.5, "full": 0.22, "java": 0.12, "commit": 0.08, "driver": 0.08}


@contextmanager
def disk() -> Iterator[tuple[Path, bool]]:
    """A small disk that nobody else writes to, and whether it is one; without the right to mount one, a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", scratch]
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        try:
            yield Path(scratch), mounted
        finally:
            if mounted:
                subprocess.run(["umount", scratch], check=True)


def stream(
    folder: Path, store: Path, rng: np.random.Generator, count: int, kinds: dict[str, float], spread: bool
) -> Counter[str]:
    """Watch the files of a stream to their end, with so many faults at most; return which there were."""
    files = made(folder, store, int(rng.integers(1 << 30)), files=FILES)
    home = Home(str(store))
    cores, changes, ended = "", 0, False
    while not ended:
        left = count - len(faults(folder))
        drawn = rng.choice(list(kinds), max(min(FAULTS_OF_A_RUN, left), 0), p=list(kinds.values())).tolist()
        drawn = [SPREAD, *drawn] if spread else drawn
        code, err = watched(folder, store, int(rng.integers(1 << 30)), *drawn)
        assert code in (0, -signal.SIGKILL), err
        ended = code == 0
        if home.batches.head() is not None:
            assert verify_watch(home).damaged == []
        if not ended:
            change(home, [random_asked(rng, f"s{rng.integers(12)}") | {"expires": None}])
    found = Counter(one["kind"] for one in faults(folder))
    for one in faults(folder):
        changes += cores not in ("", one["cores"])
        cores = one["cores"]
    found["cores changed"] = changes
    found["events"] = assert_told_once(store, files)
    return found


def main(
    count: Annotated[int, typer.Option(help="Faults in all.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Which streams, which faults and when.")] = 0,
    spread: Annotated[bool, typer.Option(help="Over workers, by layouts that change with each batch.")] = False,
) -> None:
    """Kill processes of watches, and hold all that is told to the loop."""
    small(pytest.MonkeyPatch())
    rng, told, began = np.random.default_rng(seed), Counter[str](), time.monotonic()
    with disk() as (there, mounted), tempfile.TemporaryDirectory() as incoming:
        kinds = {kind: share for kind, share in SHARES.items() if mounted or kind != "full"}
        kinds = {kind: share / sum(kinds.values()) for kind, share in kinds.items()}
        if not mounted:
            say("kills: there is no right to mount a small disk, so none is full")
        number = 0
        while sum(told[kind] for kind in kinds) < count:
            left = count - sum(told[kind] for kind in kinds)
            told += stream(Path(incoming) / str(number), there / str(number), rng, left, kinds, spread)
            number += 1
            say(f"kills: stream {number}, {dict(told)}, {time.monotonic() - began:,.0f} s")
    say(f"kills: {sum(told[kind] for kind in kinds)} faults, none lost and none doubled of {told['events']:,} events")


if __name__ == "__main__":
    run(main)
