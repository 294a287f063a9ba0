"""Races and kills that everything passes which commits through a chain: see :class:`User`, and join :data:`USERS`.

Also a script: ``python -m tests.dtoss.commits.races "race USER PLACE WRITERS COMMITS"``, see :func:`main`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dtoss.commits.chain import Chain, Conflict
from dtoss.commits.log_compaction import clear_passing, fold
from dtoss.commits.verify_report import verify_chain
from dtoss.errors import StoreError
from dtoss.history.append_frame import Key, commit_batch
from dtoss.history.data_file import read_blocks, write_file
from dtoss.history.maintenance.history_table import clear, verify_history
from dtoss.history.sums import sum_of
from dtoss.history.versions import Home, files_of
from dtoss.snapshots.store import Store
from dtoss.snapshots.store_location import folder_of
from tests.dtoss.history.worlds import schema_of, table_of
from tests.dtoss.snapshots.small_stores import faults_at, manifest_of, silent
from tests.ends import end_now

ROOT = Path(__file__).parents[3]
Counts = dict[str, int]
"""What is committed: how often each writer has added to it. A lost update is a count that is too low."""


@dataclass(frozen=True)
class User:
    """Something that commits through a chain.

    Parameters
    ----------
    add
        Read what stands at a place, add 1 to a writer's count, commit. It raises :class:`Conflict` where another one
        was faster, and may then leave nothing; or it commits upon that one, and returns that it did.
    read
        Return the number of the version at a place and what stands there, all of it read and compared.
    check
        Raise where anything at a place is not whole, or left behind.
    """

    add: Callable[[str, str], bool | None]
    read: Callable[[str], tuple[int, Counts]]
    check: Callable[[str], None]


def _chain(place: str) -> Chain:
    return Chain(folder_of(place), block=4)


def _add_document(place: str, who: str) -> None:
    chain = _chain(place)
    head = chain.head()
    counts = {} if head is None else head.document["counts"]
    chain.folder.make()
    chain.append({"counts": counts | {who: counts.get(who, 0) + 1}}, head)
    # as if all were old: folding goes on under the others
    fold(chain, keep=6, now=datetime.now(UTC) + timedelta(days=2))
    clear_passing(chain)


def _read_document(place: str) -> tuple[int, Counts]:
    head = _chain(place).head()
    return (0, {}) if head is None else (head.number, head.document["counts"])


def _check_documents(place: str) -> None:
    chain = _chain(place)
    clear_passing(chain)
    # a process that was killed after its commit leaves a hint that lags, and nothing else
    assert list(verify_chain(chain)) == []
    assert set(chain.folder.files()) <= {"CURRENT"}
    assert all(name.endswith((".json", ".jsonl")) for name in chain.folder.files("commits"))


def _add_snapshot(place: str, who: str) -> None:
    store = Store(place)
    with store.writer(silent, lease=False) as lock:
        while True:
            after = store.head()
            try:
                counts: Counts = {} if after is None else store.manifest(after.document["snapshot"])["counted"]
                break
            except StoreError:
                # another one has committed and cleared
                if after == store.head():
                    raise
        counts = counts | {who: counts.get(who, 0) + 1}
        with store.fresh(silent) as name:
            data = json.dumps(counts, sort_keys=True).encode()
            files = {"partitions/00000.arrow": data, "borders.arrow": data}
            for file, content in files.items():
                store.write(name, file, content)
            store.finish(name, manifest_of(name, files) | {"counted": counts}, lock, after)
        store.tidy(2, lock, silent, 0.0)


def _read_snapshot(place: str) -> tuple[int, Counts]:
    store = Store(place)
    head = store.head()
    if head is None:
        return 0, {}

    def whole(name: str) -> Counts:
        counts: Counts = store.manifest(name)["counted"]
        for file in ("partitions/00000.arrow", "borders.arrow"):
            data = store.folder.read("snapshots", name, *file.split("/"))
            if data is None:
                raise StoreError(f"{file} of {name} is missing")
            assert json.loads(data) == counts, "a mixture"
        return counts

    # the version may go on meanwhile: it is at least this one
    return head.number, store.of_current(whole)


def _check_snapshots(place: str) -> None:
    store = Store(place)
    store.clear(None, warn=silent)
    assert store.unfinished() == []
    assert store.current() in store.snapshots()
    assert not any(store.misses(name, store.manifest(name)) for name in store.snapshots())
    if store.local:
        assert sorted(store.folder.files()) == ["CURRENT"]
    assert list(verify_chain(store.chain)) == []


def _add_batch(place: str, who: str) -> bool:
    home = Home(place)
    before = home.head()
    known = 0 if before is None else before.ledger().column("source").to_pylist().count(who)
    rows = table_of(BATCHES, [who], [known], [[0.0, 0.0]])
    file = write_file(home.folder, 0, [(rows, None)], BATCHES)
    made = commit_batch(home, BATCHES, [file], [Key(f"{who}:{known}", source=who)])
    return made.number > (0 if before is None else before.number) + 1


def _read_batches(place: str) -> tuple[int, Counts]:
    version = Home(place).head()
    if version is None:
        return 0, {}
    counts: Counts = {}
    total = 0
    for leaf, file in enumerate(version.leaves.file.tolist()):
        rows = read_blocks(Home(place), version.files.name[file], version.blocks(leaf), version.schema)
        total += sum_of(rows)
        for who in rows.column("id").to_pylist():
            counts[who] = counts.get(who, 0) + 1
    assert total % 2**64 == version.sum, "a mixture"
    return version.number, counts


def _check_batches(place: str) -> None:
    home = Home(place)
    version = clear(home, keep=10**9, grace=0.0).version
    assert verify_history(home).damaged == []
    needed: set[str] = set()
    for number in range(1, version.number + 1):
        needed |= files_of(home.version(number))
    found = {f"{room}/{name}" for room in ("time", "segments") for name in home.folder.files(room)}
    assert found == needed


BATCHES = schema_of(id_type="string", t_type="int64")
USERS = {
    "batches": User(_add_batch, _read_batches, _check_batches),
    "documents": User(_add_document, _read_document, _check_documents),
    "snapshots": User(_add_snapshot, _read_snapshot, _check_snapshots),
}


def writes(user: User, place: str, who: str, count: int) -> dict[str, int]:
    """Add so often, again after each conflict; return how many there were."""
    conflicts = 0
    for _ in range(count):
        while True:
            try:
                conflicts += bool(user.add(place, who))
                break
            except Conflict:
                conflicts += 1
    return {"conflicts": conflicts}


def polls(user: User, place: str, done: str) -> dict[str, int]:
    """Read until there is a file ``done``; versions and counts only go forward."""
    versions, seen, before = 0, 0, (0, dict[str, int]())
    while not Path(done).exists():
        now = user.read(place)
        assert now[0] >= before[0], (before, now)
        assert all(now[1].get(who, 0) >= count for who, count in before[1].items()), (before, now)
        assert sum(now[1].values()) >= now[0], now
        versions += now[0] > before[0]
        before = now
        seen += 1
    return {"seen": seen, "versions": versions}


def race(name: str, place: str, writers: int, commits: int) -> dict[str, int]:
    """Let forked processes commit at once and one read meanwhile; check all, and return what they told."""
    user, each = USERS[name], commits // writers
    with tempfile.TemporaryDirectory() as scratch:
        user.add(f"{scratch}/first", "a")  # or each of them would load what it needs
        done = Path(scratch) / "done"
        reading = Forked(lambda: polls(user, place, str(done)))
        writing = [Forked(lambda who=f"w{number}": writes(user, place, who, each)) for number in range(writers)]
        try:
            wrote = [one.told() for one in writing]
            done.touch()
            saw = reading.told()
        finally:
            # one that has failed leaves the others at it
            for one in [*writing, reading]:
                one.end()
    number, counts = user.read(place)
    assert counts == {f"w{who}": each for who in range(writers)}, "an update was lost"
    assert number == each * writers, "a gap, or a fork"
    user.check(place)
    return {"conflicts": sum(told["conflicts"] for told in wrote), "versions": saw["versions"]}


class Forked:
    """A forked process that does some work."""

    def __init__(self, work: Callable[[], dict[str, int]]) -> None:
        self._said, there = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            code = 1
            try:
                os.write(there, json.dumps(work()).encode())
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                end_now(code)
        os.close(there)

    def told(self) -> dict[str, int]:
        """Wait until it has ended, and return what came of its work."""
        with os.fdopen(self._said) as pipe:
            said = pipe.read()
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        assert status == 0, f"a process ended with {os.waitstatus_to_exitcode(status)}"
        found: dict[str, int] = json.loads(said)
        return found

    def end(self) -> None:
        """Kill it where it is still at work."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)


def kills(name: str, place: str, count: int, seed: int) -> dict[str, int]:
    """Kill a process that adds, at so many seeded steps; return how many were killed, and how many had committed.

    After each it stands as it stood or with one more; whoever comes next goes on from there, and nothing is left.
    """
    user, rng = USERS[name], random.Random(seed)
    user.add(place, "a")
    killed = committed = 0
    steps = _steps(user, place)
    for step in sorted(rng.sample(range(1, steps + 1), min(count, steps))):
        number, counts = user.read(place)
        child = os.fork()
        if child == 0:
            faults_at(step, lambda _: os.kill(os.getpid(), signal.SIGKILL))
            user.add(place, "a")
            end_now(0)
        _, status = os.waitpid(child, 0)
        killed += status != 0
        now = user.read(place)
        assert now in ((number, counts), (number + 1, counts | {"a": counts["a"] + 1})), (step, number, now)
        committed += status != 0 and now[0] > number
        user.add(place, "b")
        assert user.read(place)[0] == now[0] + 1
        user.check(place)
    return {"killed": killed, "committed": committed}


def _steps(user: User, place: str) -> int:
    """Return how many changes of files one addition makes."""

    def counted() -> dict[str, int]:
        seen = [0]

        def count(_name: str) -> None:
            seen[0] += 1

        faults_at(0, count, each=True)
        user.add(place, "a")
        return {"steps": seen[0]}

    return Forked(counted).told()["steps"]


def script(*jobs: tuple[Any, ...]) -> list[dict[str, int]]:
    """Run :func:`main` in a process of its own, and return what each job tells."""
    command = [sys.executable, "-m", "tests.dtoss.commits.races", *[" ".join(map(str, job)) for job in jobs]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(jobs: list[str]) -> None:
    """Do each ``race USER PLACE WRITERS COMMITS`` or ``kills USER PLACE COUNT SEED``; print a line of it."""
    for kind, name, place, *numbers in map(str.split, jobs):
        print(json.dumps((race if kind == "race" else kills)(name, place, *map(int, numbers))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
