"""Whole cycles in one process that has no Spark.

Also a script, for tests that kill, starve or race what writes: see :func:`main`.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dtoss.commits.verify_report import verify_chain
from dtoss.errors import StoreError
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from tests.dtoss.snapshots.small_stores import faults_at, silent
from tests.ends import end_now
from tests.oracles import Update, apply, standing
from tests.pipelines.cycles.in_place import begun, state_of
from tests.pipelines.cycles.stored import compared, held
from tests.update_worlds import INT_IDS, drawn, table

NAMES = ["id", "t", "deleted", "x", "y", "a:name", "a:size"]
RULES = {
    "first": {"columns": "name,size"},
    "deleted_for": None,
    "max_ahead": None,
    "expire": 90,
    "in_place_until": float("inf"),
}
"""Of the cycles that are broken: whatever is applied twice, or in another order, comes out the same."""


def cycled(store, rows, now, **options):
    """The manifest after a cycle of rows of the slow version, whose clock is ``now``."""
    options = (
        {
            "first": {"columns": "name,size"},
            "deleted": "deleted",
            "pivots": "keep",
            "keep": 2,
            "keep_for": 0.0,
            "warn": silent,
        }
        | RULES
        | options
    )
    return cycle(table(rows), store.path, now=now, **options)


def begin(path, partitions=3):
    """A store of so many partitions without an object."""
    return begun(path, state_of(partitions))


def rows_of(seed, count=40, at=(0, 100)):
    """Updates of thirty objects; the same for the same seed."""
    return drawn(np.random.default_rng(seed), [*INT_IDS, *range(100, 118)], count, at=at, deleted=0.15)


def assert_holds(store, state):
    """The store's current snapshot is whole, and holds just that."""
    import dtoss

    dtoss.open(store.path, verify=True)
    assert compared(standing(held(store.path))) == compared(standing(state))


def assert_clean(store):
    """Nothing is left but commits, the hint, and finished snapshots with the files that they name."""
    home = Path(store.path)
    assert {path.name for path in home.iterdir()} == {"CURRENT", "commits", "snapshots"}
    assert sorted(path.name for path in (home / "snapshots").iterdir()) == sorted(store.snapshots())
    for name in store.snapshots():
        manifest = store.manifest(name)
        files = {entry["file"] for entry in [*manifest["partitions"], manifest["borders"]]} | {"manifest.json"}
        if manifest["tombstones"] is not None:
            files.add(manifest["tombstones"]["file"])
        folder = home / "snapshots" / name
        assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == files
    assert all(path.name.removesuffix(".json").isdigit() for path in (home / "commits").iterdir())


def broken(path: str, how: str, first: int, stride: int) -> dict[str, int]:
    """Break a cycle at its step ``first``, others ``stride`` further on; return how many, and how many had committed.

    After each the store holds the old or the new state, whole, and the next cycle, of other updates and the same once
    more, holds each of them once and leaves nothing behind.

    Parameters
    ----------
    how : "kill" ends the process before a change of files, "error" fails that change, "full" all that follow, too.
    """
    store = begin(path)
    cycled(store, rows_of(0), 100)
    state, _ = apply({}, rows_of(0), now=100, expire=90)
    step, number, told = first, 0, {"broken": 0, "committed": 0}
    while True:
        number += 1
        now, rows, before = 100 + number, rows_of(number, at=(number, 100 + number)), state
        state, _ = apply(before, rows, now=now, expire=90)
        child = os.fork()
        if child == 0:
            end_now(_fails(store, rows, now, how, step))
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL if how == "kill" else os.WEXITSTATUS(status) == 3, status
        told["broken"] += 1
        held_now = compared(standing(held(path)))
        assert held_now in (compared(standing(before)), compared(standing(state)))
        assert_holds(store, state if held_now == compared(standing(state)) else before)
        told["committed"] += held_now == compared(standing(state))
        # the source is at it again, and something new has come
        more = rows_of(10_000 + number, count=5, at=(number, 100 + number))
        state, _ = apply(state, more, now=now, expire=90)
        cycled(store, [*rows, *more], now)
        assert_holds(store, state)
        assert_clean(store)
        step += stride
    assert_holds(store, state)
    return told


def _fails(store: Store, rows: list[Update], now: int, how: str, step: int) -> int:
    happened = []

    def fault(name):
        happened.append(name)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "full":
            # from here on no file can hold a byte more
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            return
        raise OSError(errno.EIO, "the disk is broken")

    faults_at(step, fault)
    with suppress(OSError, StoreError):
        cycled(store, rows, now)
        # what was full once everything had been written was no fault
        return 3 if happened else 0
    return 3


def races(path: str, writers: int, each: int) -> dict[str, int]:
    """Let so many processes make cycles at once without a lease, and one open the store; return what happened.

    Every process is a fork of this one, which has no threads.
    """
    with tempfile.TemporaryDirectory() as scratch:
        done = Path(scratch) / "done"
        # what speaks to an object store does not outlive a fork
        _told([partial(_begun, path)])
        parts = [partial(_race, path, number + 1, each) for number in range(writers)]
        told = _told([*parts, partial(_watch, path, done)], done)
    assert list(verify_chain(Store(path).chain)) == []
    return told


def _told(parts: list[Callable[[], dict[str, int]]], done: Path | None = None) -> dict[str, int]:
    """Run each part in a fork, and return the sums of what they tell; the last one ends once there is ``done``."""
    children, answers = [], []
    for part in parts:
        answers.append(os.pipe())
        child = os.fork()
        if child == 0:
            try:
                os.write(answers[-1][1], json.dumps(part()).encode())
            except BaseException:
                traceback.print_exc()
            end_now(0)
        os.close(answers[-1][1])
        children.append(child)
    told: Counter[str] = Counter()
    for number, (child, (answer, _)) in enumerate(zip(children, answers, strict=True), 1):
        if number == len(parts) and done is not None:
            done.touch()
        with os.fdopen(answer) as came:
            told.update(json.loads(came.read() or '{"failed": 1}'))
        os.waitpid(child, 0)
    return dict(told)


def _begun(path: str) -> dict[str, int]:
    begin(path)
    return {}


def racing(writer: int, number: int) -> list[Update]:
    """The updates of one cycle of a writer of a race."""
    return rows_of(1000 * writer + number, count=6)


def _race(path: str, writer: int, each: int) -> dict[str, int]:
    store, told = Store(path), {"committed": 0, "lost": 0}
    while told["committed"] < each:
        try:
            cycled(store, racing(writer, told["committed"]), 100, lease=False, keep=None)
            told["committed"] += 1
        except StoreError as error:
            if "was committed by" not in str(error):
                raise
            told["lost"] += 1
    return told


def _watch(path: str, done: Path) -> dict[str, int]:
    """Open the store until all have committed: numbers of commits only grow, and what opens is whole."""
    import dtoss

    store, last, told = Store(path), 0, {"opened": 0, "swaps": 0}
    while not done.exists():
        head = store.head()
        assert head is not None
        assert head.number >= last
        objects = store.manifest(head.document["snapshot"])["objects"]
        index = dtoss.open(path, verify=True)
        # what was opened is of one commit, this one if no other has come since
        assert store.head().number > head.number or len(index) == objects
        told["swaps"] += head.number > last
        told["opened"] += 1
        last = head.number
        time.sleep(0.01)
    return told


def main(arguments: list[str]) -> None:
    """Run ``broken PATH HOW FIRST STRIDE ...``, three words for each loop, or ``races PATH WRITERS EACH``; print it."""
    kind, path, *rest = arguments
    told: Any
    if kind == "broken":
        loops = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        told = {how: broken(f"{path}-{how}", how, int(first), int(stride)) for how, first, stride in loops}
    else:
        told = races(path, int(rest[0]), int(rest[1]))
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
