"""Appenders, one who settles, adapts and drops orders, one who clears, and a reader: all at one history at once.

As a script ``python -m tests.dtoss.history.maintenance.crowd`` 2 and 8 appenders and 200 commits, on a disk and on an
object store (a part of check-data). Every batch is sent by two appenders at once, and stands once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import dtoss
from dtoss.errors import StoreError
from dtoss.history.adaptive.adapt import adapt
from dtoss.history.append_frame import Key, commit_batch
from dtoss.history.data_file import write_file
from dtoss.history.history_commit import RepeatedKeys, Stale
from dtoss.history.layouts.compaction import settle
from dtoss.history.maintenance.history_table import clear, verify_history
from dtoss.history.row_blocks import BY_TIME, sorted_rows
from dtoss.history.sums import sum_of
from dtoss.history.versions import Home
from tests.dtoss.history.drop_orders import drop_orders
from tests.dtoss.history.maintenance.faults import SCHEMA, batch

ROOT = Path(__file__).parents[4]
SECONDS = 1000
"""After which a process is taken to hang."""


def appends(home: Home, who: int, of: int, count: int) -> dict[str, int]:
    """Append the batches of this one and of the one before it; return how many there were already."""
    repeated = 0
    for number in range(count):
        for one in (who, (who + 1) % of):
            key = number * of + one
            rows = sorted_rows(batch(key), "time")
            try:
                commit_batch(home, SCHEMA, [write_file(home.folder, BY_TIME, [(rows, None)], SCHEMA)], [Key(str(key))])
            except RepeatedKeys:
                repeated += 1
    return {"repeated": repeated}


def rewrites(home: Home, done: Path) -> dict[str, int]:
    """Settle, adapt and drop orders until all is appended, once at least."""
    stale = changes = 0
    while not (changes and done.exists()):
        try:
            settle(home, orders=["time", "place", "object"], leaf_bytes=900.0, period_bytes=1.0, most=3)
            adapt(home, request_bytes=1.0)
            changes += 1
            if changes % 4 == 0:
                drop_orders(home, ["place", "object"])
        except Stale:
            stale += 1
    return {"stale": stale, "changes": changes}


def clears(home: Home, done: Path) -> dict[str, int]:
    """End versions and remove their files all the time; younger ones than 20 seconds stay."""
    ended = 0
    while not done.exists():
        ended += clear(home, keep=3, keep_for=20.0).ended
    return {"ended": ended}


def reads(home: Home, done: Path) -> dict[str, int]:
    """Ask: rows only become more, each answer is of one version."""
    seen = before = 0
    while not (seen and done.exists()):
        history = dtoss.history.open(home.path)
        found = history.box([0.0, 0.0, 1.0, 1.0])
        assert len(found) == history.version.rows >= before, (len(found), history.version.rows, before)
        before = len(found)
        seen += 1
    return {"seen": seen}


def in_processes(place: str, writing: Sequence[Sequence[str]], others: Sequence[str], done: Path) -> dict[str, int]:
    """Let each be at it in a process of its own until all is written, and return what they told."""
    writers = [_start(*arguments) for arguments in writing]
    beside = [_start(kind, place, str(done)) for kind in others]
    told: dict[str, int] = {}
    try:
        for process in writers:
            _add(told, process)
        done.touch()
        for process in beside:
            _add(told, process)
    finally:
        for process in [*writers, *beside]:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return told


def in_threads(place: str, writing: Sequence[Sequence[str]], others: Sequence[str], done: Path) -> dict[str, int]:
    """Let each be at it in a thread until all is written, and return what they told."""
    told: Counter[str] = Counter()
    with ThreadPoolExecutor(len(writing) + len(others)) as pool:
        writers = [pool.submit(part, *arguments) for arguments in writing]
        beside = [pool.submit(part, kind, place, str(done)) for kind in others]
        wait(writers)
        done.touch()
    for one in [*writers, *beside]:
        told.update(one.result())
    return dict(told)


def crowd(place: str, appenders: int, commits: int, do: Any = in_processes) -> dict[str, int]:
    """Let all be at it at once, compare what stands then with the batches, and return what they told."""
    each = commits // appenders
    home = Home(place)
    first = sorted_rows(batch(0), "time")
    commit_batch(home, SCHEMA, [write_file(home.folder, BY_TIME, [(first, None)], SCHEMA)], [Key("0")])
    with tempfile.TemporaryDirectory() as scratch:
        writing = [["appends", place, str(who), str(appenders), str(each)] for who in range(appenders)]
        told = do(place, writing, ["rewrites", "clears", "reads"], Path(scratch) / "done")
    assert verify_history(home).damaged == []
    version = home.version()
    batches = [batch(number) for number in range(each * appenders)]
    assert version.rows == sum(map(len, batches))
    assert version.sum == sum(map(sum_of, batches)) % 2**64
    assert len(set(version.ledger().column("key").to_pylist())) == len(batches)
    return told | {"versions": version.number}


def _start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.dtoss.history.maintenance.crowd", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _add(told: dict[str, int], process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    for name, count in json.loads(out).items():
        told[name] = told.get(name, 0) + count


def main(arguments: list[str]) -> None:
    """Do the part of one process, or all without arguments."""
    if not arguments:
        _all()
        return
    print(json.dumps(part(*arguments)))


def part(kind: str, place: str, *rest: str) -> dict[str, int]:
    """Do the part of one, and return what it has to tell."""
    home = Home(place)
    if kind == "appends":
        return appends(home, *map(int, rest))
    return {"rewrites": rewrites, "clears": clears, "reads": reads}[kind](home, Path(rest[0]))


def _all() -> None:
    from tests.object_store import object_store

    with tempfile.TemporaryDirectory() as scratch:
        for appenders in (2, 8):
            print(f"disk, {appenders} appenders: {crowd(f'{scratch}/{appenders}', appenders, 200)}")
    with object_store() as bucket:
        for appenders in (2, 8):
            print(f"object store, {appenders} appenders: {crowd(bucket.uri(), appenders, 200)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except StoreError as error:
        sys.exit(f"{type(error).__name__}: {error}")
