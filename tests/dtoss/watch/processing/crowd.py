"""Two who subscribe, one who watches, one who folds, clears and retains, and readers: all at one watch at once.

As a script ``python -m tests.dtoss.watch.processing.crowd`` 200 batches, on a disk and on an object store (a part of
check-data). Each reader keeps its cursor under a name and is told each event once, in its order, as the loop tells it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

from dtoss.commits.chain import Conflict
from dtoss.commits.offsets import Source
from dtoss.errors import StoreError
from dtoss.watch.events.event_compaction import fold_watch, retain
from dtoss.watch.events.event_log import told_events
from dtoss.watch.events.readers import BEGINNING, cursor_of_reader
from dtoss.watch.events.watch_tables import clear_watch, verify_watch
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.subscriptions.current import table_at
from dtoss.watch.watch_folder import DEFAULT_NAME, Home
from tests.dtoss.watch.keep_cursor import keep_cursor
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.processing.scripted import EVERY, FEW, by_object
from tests.dtoss.watch.streams import NOW, SECOND, SPHERE, change, random_asked, random_rows, rows_of, run, settings_of
from tests.dtoss.watch.watch_batch import run_batch

ROOT = Path(__file__).parents[4]
ROWS = 8
EXPIRE = 40 * SECOND
SPARED_SECONDS = 60.0
"""Files that nothing names stay so long: a batch that is under way may be about to name one."""
WAITED_SECONDS = 300.0
"""For others to have done something."""
READERS = ("first", "second")
SECONDS = 1500
"""After which a process is taken to hang."""


def watches(home: Home, done: Path, folder: Path, batches: int, pause: float) -> dict[str, int]:
    """Make batches of a stream, each as often as others commit meanwhile; write what the loop tells of each."""
    rng = np.random.default_rng(1)
    rows = random_rows(rng, ROWS * batches, objects=9, seconds=3 * batches)
    rows.sort(key=lambda row: row["t"] + int(rng.integers(0, 4)) * SECOND)
    others = [folder / name for name in ("changed 1", "changed 2", "removed")]
    loop = Watched(SPHERE, settings_of().schema, EXPIRE)
    lost = number = 0
    with (folder / "wanted").open("w") as out:
        while number < batches:
            some = rows[number * ROWS : (number + 1) * ROWS]
            try:
                options, now = Options(expire=EXPIRE), NOW + number * EVERY
                plan = plan_batch(home, settings_of(), Source(query="q", batch=number), options, now)
                commit = run_batch(plan, rows_of(some), 2)
            except Conflict:
                lost += 1
                continue
            document = commit.document
            wanted = loop.batch(some, document["changes"], table_at(home, document["changes"]).to_pylist())
            out.write(json.dumps([commit.number, wanted]) + "\n")
            number += 1
            time.sleep(pause)
            ends = time.monotonic() + WAITED_SECONDS
            # all others have come to something before the second half
            while number == batches // 2 and not (done.exists() or all(one.exists() for one in others)):
                assert time.monotonic() < ends, [one.name for one in others if not one.exists()]
                time.sleep(0.01)
    done.touch()
    return {"lost": lost}


def subscribes(home: Home, done: Path, folder: Path, seed: int) -> dict[str, int]:
    """Subscribe and unsubscribe some of a few, until all is watched."""
    rng, changes, again = np.random.default_rng(seed), 0, 0
    while not done.exists():
        names = [f"s{one}" for one in rng.choice(8, 3, replace=False)]
        try:
            change(home, [random_asked(rng, name) for name in names[:2]], names[2:] if rng.random() < 0.5 else [])
            changes += 1
            (folder / f"changed {seed}").touch()
        except Conflict:
            again += 1
        time.sleep(float(rng.uniform(0.0, 0.3)))
    return {"changes": changes, "again": again}


def tends(home: Home, done: Path, folder: Path) -> dict[str, int]:
    """Fold, clear and remove what all readers have read, as if it were hours later, until all is watched."""
    folded = removed = beaten = rounds = 0
    while not done.exists():
        now = NOW + 10**6 * EVERY
        try:
            folded += fold_watch(home, now).events
            removed += retain(home, 0, now, SPARED_SECONDS).events
            clear_watch(home, SPARED_SECONDS)
            if removed:
                (folder / "removed").touch()
        except Conflict:
            beaten += 1
        rounds += 1
        time.sleep(0.05)
    return {"folded": folded, "removed": removed, "beaten": beaten, "tended": rounds}


def reads(home: Home, done: Path, folder: Path, name: str) -> dict[str, int]:
    """Read what is behind the cursor, again and again, and move it on; write what was told."""
    told, rounds, over = 0, 0, False
    with (folder / name).open("w") as out:
        while not over:
            over = done.exists()
            for part in told_events(home, cursor_of_reader(home, name)):
                for row in part.events.to_pylist() if part.events is not None else ():
                    out.write(json.dumps(row) + "\n")
                    told += 1
                keep_cursor(home, name, part.upto)
            rounds += 1
            time.sleep(0.05)
    return {"told": told, "rounds": rounds}


def parts(folder: Path, batches: int, pause: float) -> list[list[str]]:
    """What is done at once."""
    return [
        ["watches", str(folder), str(batches), str(pause)],
        ["subscribes", str(folder), "1"],
        ["subscribes", str(folder), "2"],
        ["tends", str(folder)],
        *(["reads", str(folder), name] for name in READERS),
    ]


def part(home: Home, kind: str, folder: Path, *rest: str) -> dict[str, int]:
    """Do one of them."""
    done = folder / "done"
    if kind == "watches":
        return watches(home, done, folder, int(rest[0]), float(rest[1]))
    if kind == "subscribes":
        return subscribes(home, done, folder, int(rest[0]))
    return reads(home, done, folder, rest[0]) if kind == "reads" else tends(home, done, folder)


def begin(home: Home) -> None:
    """Subscribe to something, and let readers stand before the first event; what a batch calls is compiled by then."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as scratch:
        warm = Home(scratch)
        for number in range(2):
            change(warm, [random_asked(rng, f"s{one}") for one in range(10 * number, 10 * number + 10)])
            run(warm, settings_of(), random_rows(rng, 20), source=Source(query="q", batch=number), expire=EXPIRE)
    change(home, [random_asked(np.random.default_rng(0), "s0") | {"expires": None}])
    for name in READERS:
        keep_cursor(home, name, BEGINNING)


def check(home: Home, folder: Path) -> int:
    """Hold what each reader was told to the loop, and all files to what commits say; return how many events."""
    wanted = {number: [tuple(one) for one in some] for number, some in map(json.loads, _lines(folder / "wanted"))}
    for name in READERS:
        found: dict[int, list[tuple]] = {}
        last = (0, -1)
        for row in map(json.loads, _lines(folder / name)):
            assert (row["batch"], row["number"]) > last, "twice, or not in order"
            last = (row["batch"], row["number"])
            event = (row["kind"], row["subscription"], row["version"], row["object"], row["t"], row["reason"])
            found.setdefault(row["batch"], []).append(event)
        assert set(found) <= set(wanted)
        for number, some in wanted.items():
            assert Counter(found.get(number, [])) == Counter(some), (name, number)
            assert by_object(found.get(number, [])) == by_object(some), (name, number)
    assert verify_watch(home).damaged == []
    return sum(map(len, wanted.values()))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def in_threads(home: Home, folder: Path, batches: int) -> Counter[str]:
    """Do all parts in threads of this process."""
    begin(home)
    told: Counter[str] = Counter()
    failed: list[BaseException] = []

    def one(arguments: list[str]) -> None:
        try:
            kind, _, *rest = arguments
            told.update(part(Home(home.store, home.name, home.limits), kind, folder, *rest))
        except BaseException as error:
            failed.append(error)
            (folder / "done").touch()

    threads = [threading.Thread(target=one, args=(arguments,)) for arguments in parts(folder, batches, 0.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    told["events"] = check(home, folder)
    return told


def in_processes(place: str, batches: int) -> Counter[str]:
    """Do all parts in processes."""
    home = Home(place, DEFAULT_NAME, FEW)
    begin(home)
    told: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        processes = [_start(place, *arguments) for arguments in parts(folder, batches, 0.2)]
        try:
            for process in processes:
                out, err = process.communicate(timeout=SECONDS)
                (folder / "done").touch()
                assert process.returncode == 0, err
                told.update(json.loads(out))
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        told["events"] = check(home, folder)
    return told


def _start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.dtoss.watch.processing.crowd", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main(arguments: list[str]) -> None:
    """Do one part, or all of them without arguments."""
    if arguments:
        place, kind, folder, *rest = arguments
        print(json.dumps(part(Home(place, DEFAULT_NAME, FEW), kind, Path(folder), *rest)))
        return
    from tests.object_store import object_store

    with tempfile.TemporaryDirectory() as scratch:
        print(f"disk: {dict(in_processes(scratch, 200))}")
    with object_store() as bucket:
        print(f"object store: {dict(in_processes(bucket.uri(), 200))}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except StoreError as error:
        sys.exit(f"{type(error).__name__}: {error}")
