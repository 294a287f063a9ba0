"""Kills and full disks at every stage of everything that changes a history, and files whose bits were turned over.

As a script (``python -m tests.dtoss.history.maintenance.faults``, a part of check-data) a hundred kills of each kind, a
full disk at each step, and a thousand flipped bytes; ``--few`` takes some, as the tests do.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import dtoss
from dtoss.errors import StoreError
from dtoss.history.adaptive.adapt import adapt
from dtoss.history.layouts.compaction import make_order, settle
from dtoss.history.maintenance.erase_rows import forget, retain
from dtoss.history.maintenance.history_table import clear, restore, verify_history
from dtoss.history.query.open_history import Learner
from dtoss.history.row_blocks import ORDER_NAMES
from dtoss.history.versions import Home, files_of
from tests.dtoss.history.drop_orders import drop_orders
from tests.dtoss.history.worlds import PLANE, put_batch, schema_of, table_of
from tests.dtoss.snapshots.small_stores import faults_at
from tests.ends import end_now

SCHEMA = schema_of(PLANE, t_type="int64", kind=pa.large_string())
BATCHES, ROWS, MANY = 9, 60, 60_000
Step = Callable[[Home], Any]


def batch(seed: int, rows: int = ROWS) -> pa.Table:
    """Return the rows of a batch, an even number; the object 3 is in every one."""
    rng = np.random.default_rng(seed)
    ids = np.append(rng.integers(0, 9, rows - 1), 3)
    kinds = ["a", None] * (rows // 2)
    return table_of(
        SCHEMA, ids, rng.integers(10 * seed, 10 * seed + 50, rows), rng.uniform(0, 1, (rows, 2)), kind=kinds
    )


def made_home(folder: str) -> Home:
    """Return a history with small periods and one that has all orders, and some versions that can end."""
    home = Home(folder)
    for number in range(BATCHES):
        put_batch(home, batch(number), SCHEMA, str(number))
    for order in ORDER_NAMES[1:]:
        make_order(home, 0, order, leaf_bytes=500.0)
    return home


def asked_home(folder: str) -> Home:
    """Return a history of many blocks, one leaf by place, of which a corner was asked again and again."""
    home = Home(folder)
    put_batch(home, batch(0, MANY), SCHEMA, "0")
    make_order(home, 0, "place", leaf_bytes=1e9)
    adapt(home, request_bytes=1.0)
    ask_corner(home, (0.2, 0.2), 40)
    return home


def ask_corner(home: Home, corner: tuple[float, float], times: int) -> None:
    """Ask what is around a corner, so that it is noted."""
    history = dtoss.history.open(home.path)
    for _ in range(times):
        history.range([corner], 0.03)
    assert isinstance(history.listen, Learner)
    history.listen.flush()


def damaged(home: Home) -> None:
    """Damage the order by time of period 0, which has others."""
    version = home.version()
    leaf = int(np.flatnonzero((version.leaves.order == 0) & (version.leaves.period == 0))[0])
    path = Path(home.folder.path(version.files.name[version.leaves.file[leaf]]))
    path.write_bytes(b"")


STEPS: dict[str, Step] = {
    "append": lambda home: dtoss.history.append(batch(99), home.path, batch="99", deleted="deleted"),
    "settle": lambda home: settle(home, orders=["time", "place", "object"], leaf_bytes=900.0, period_bytes=1.0),
    "order": lambda home: make_order(home, 1, "place", leaf_bytes=500.0),
    "adapt": lambda home: adapt(home, request_bytes=1.0),
    "drop": lambda home: drop_orders(home, ["place"]),
    "forget": lambda home: forget(home, [3]),
    "retain": lambda home: retain(home, 30),
    "clear": lambda home: clear(home, now=True),
    "restore": restore,
}
"""What changes a history, by its name."""


def state(home: Home) -> tuple[int, int]:
    """Return the rows and the sum of the newest version, all of whose files were read and compared.

    Raises
    ------
    AssertionError
        If anything of it is damaged or missing.
    """
    assert verify_history(home).damaged == []
    version = home.version()
    return version.rows, version.sum


def _left_is_needed(home: Home) -> None:
    """Check that clearing leaves what the newest version needs, and nothing else."""
    clear(home, now=True, grace=0.0)
    needed = files_of(home.version())
    found = _files(home)
    assert found == needed, (found - needed, needed - found)


def _files(home: Home) -> set[str]:
    return {f"{room}/{name}" for room in (*ORDER_NAMES, "segments") for name in home.folder.files(room)}


class Ready(NamedTuple):
    """A history and a change: how many changes of files that is, and what stands before and after it."""

    kind: str
    first: Home
    steps: int
    before: tuple[int, int]
    after: tuple[int, int]


def ready(kind: str, place: Path, made: Home | None = None) -> Ready:
    """Return a history that a change is made of, a copy of one that is :func:`made_home` where that is given."""
    if made is not None and kind != "adapt":
        first = Home(str(shutil.copytree(made.path, place / "first")))
    else:
        first = (asked_home if kind == "adapt" else made_home)(str(place / "first"))
    before = state(first)
    if kind == "restore":
        damaged(first)
    done = Home(str(shutil.copytree(first.path, place / "done")))
    steps = _steps(kind, done)
    assert kind != "adapt" or done.version().what == "adapt", "nothing was cut"
    return Ready(kind, first, steps, before, state(done))


def faulty(ready: Ready, place: Path, count: int, seed: int, fault: Callable[[str], None]) -> int:
    """Let a fault come at so many seeded steps of a change, each upon a copy of one history; return how often it came.

    After each, the history has the rows from before or from after, whoever comes next finishes, and nothing is left. A
    change that could fail by itself has left nothing of its own by then.
    """
    kind, first, steps, before, after = ready
    came = 0
    for step in sorted(random.Random(seed).sample(range(1, steps + 1), min(count, steps))):
        home = Home(str(shutil.copytree(first.path, place / f"{step}")))
        there = _files(home)
        came += _in_a_child(partial(_with_fault, kind, home, step, fault)) != 0
        if fault is not kill:
            committed = range(first.version().number + 1, home.version().number + 1)
            named = {name for number in committed for name in files_of(home.version(number))}
            assert _files(home) <= there | named, (kind, step)
        if kind == "restore" and verify_history(home).damaged:
            assert (home.version().rows, home.version().sum) == before
        else:
            assert state(home) in (before, after), (kind, step)
        with suppress(StoreError):
            STEPS[kind](home)  # an append that was committed is there already
        assert state(home) == after, (kind, step)
        _left_is_needed(home)
        assert state(home) == after, (kind, step)
        shutil.rmtree(home.path)
    return came


def _with_fault(kind: str, home: Home, step: int, fault: Callable[[str], None]) -> None:
    faults_at(step, fault)
    STEPS[kind](home)


def _steps(kind: str, home: Home) -> int:
    """Make a change, and return how many changes of files that is."""
    here, there = os.pipe()
    seen = [0]

    def count(_name: str) -> None:
        seen[0] += 1

    def work() -> None:
        faults_at(0, count, each=True)
        STEPS[kind](home)
        os.write(there, str(seen[0]).encode())

    assert _in_a_child(work) == 0
    found = int(os.read(here, 20))
    os.close(here)
    os.close(there)
    return found


def _in_a_child(work: Callable[[], Any]) -> int:
    """Return the status of a process that does something; 256 where the disk was full, as it should be told."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            work()
            code = 0
        except OSError as error:
            code = 1 if error.errno == errno.ENOSPC else 2
        finally:
            end_now(code)
    status = os.waitpid(child, 0)[1]
    assert status in (0, 256, signal.SIGKILL), status
    return status


def kill(_name: str) -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def full(name: str) -> None:
    """Say that the disk is full, where that can be."""
    if name in ("open", "mkdir", "link", "fsync"):
        raise OSError(errno.ENOSPC, "No space left on device")


def flips(home: Home, count: int, seed: int) -> Iterator[tuple[str, list[str]]]:
    """Turn over so many seeded bits of files of the newest version, one at a time; yield the file and what verify says.

    Half are in files of rows, half in tables and the commit.
    """
    rng, version = random.Random(seed), home.version()
    names = sorted(files_of(version))
    rooms = [
        [name for name in names if not name.startswith("segments")],
        [n for n in names if n.startswith("segments")],
    ]
    rooms[1].append(f"commits/{version.number:020}.json")
    for number in range(count):
        name = rng.choice(rooms[number % 2])
        path = Path(home.path) / name
        whole = path.read_bytes()
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
        try:
            found = verify_history(home, version).damaged
        except StoreError as error:
            found = [str(error)]
        finally:
            path.write_bytes(whole)
        yield name, found


def silent(home: Home, count: int, seed: int) -> list[str]:
    """Return the files of which a flipped bit was not told by name."""
    return [name for name, found in flips(home, count, seed) if not any(Path(name).name in what for what in found)]


def main() -> None:
    """Print a line for each kind of fault."""
    parser = argparse.ArgumentParser(description="faults of a history, at every stage")
    parser.add_argument("--few", action="store_true", help="some of them")
    few = parser.parse_args().few
    with tempfile.TemporaryDirectory() as scratch:
        for kind in STEPS:
            change = ready(kind, Path(scratch) / kind)
            for what, fault in (("killed", kill), ("full", full)):
                came = faulty(change, Path(scratch) / kind / what, 4 if few else 100, 1, fault)
                print(f"{kind}: {what} at {came} steps, nothing lost, doubled or left")
        home = made_home(f"{scratch}/flips")
        count = 40 if few else 1000
        missed = silent(home, count, 2)
        print(f"{count} bits turned over, {count - len(missed)} told with the file's name")
        assert missed == []


if __name__ == "__main__":
    main()
