"""Stores whose partitions are a few bytes: all the steps of a commit without Spark or kernels, many times a second.

Also a script, for tests that kill what writes: see :func:`main`.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dtoss.commits.chain import file_of
from dtoss.commits.lease import LEASE, Holder, take
from dtoss.commits.verify_report import verify_chain
from dtoss.errors import StoreError
from dtoss.snapshots.store import FORMAT, Store
from tests.ends import end_now

FILES = 3
STEPS = ("fsync", "link", "mkdir", "rename", "replace", "rmdir", "unlink", "utime")
"""What of ``os`` changes files; a fault is put before each call of one, and before a file is opened to be written."""


def silent(message):
    """Hear no warning."""


def commit(store: Store, number: int, keep: int | None = 3, warn=silent, lease: bool = True) -> str:
    """Make a snapshot of which every file says ``number`` current, in the steps of a rebuild; return its name."""
    with store.writer(warn, lease) as lock:
        after = store.head()
        store.clear(None, lock=lock, warn=warn)
        with store.fresh(warn) as name:
            files = [f"partitions/{file:05d}.arrow" for file in range(FILES)] + ["borders.arrow"]
            written = {file: f"{number} {file}\n".encode() * 40 for file in files}
            for file, data in written.items():
                store.write(name, file, data)
            store.finish(name, manifest_of(name, written) | {"number": number}, lock, after)
        store.tidy(keep, lock, warn, 0.0)
    return name


def as_before_commits(store: Store, pointer: bytes | None = None) -> None:
    """Make a store one of an earlier version: no commits, and ``CURRENT`` holds a name, or these bytes."""
    current = store.current()
    shutil.rmtree(store.file("commits"))
    Path(store.file("CURRENT")).write_bytes(f"{current}\n".encode() if pointer is None else pointer)


def manifest_of(name: str, files: dict[str, bytes]) -> dict[str, Any]:
    """Return a manifest that fits the schema; the last file is that of the borders, no file holds an object."""
    entries = [
        {
            "number": number, "objects": 0, "sites": 0, "replicas": 0, "uncertified": 0, "furthest": -1.0, "area": 0.0,
            "file": file, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(),
        }
        for number, (file, data) in enumerate(files.items())
    ]  # fmt: skip
    *partitions, borders = entries
    return {
        "format": FORMAT, "snapshot": name, "created": "now", "crs": "none", "metric": "plane", "to_lonlat": False,
        "bounds": [0.0, 0.0, 1.0, 1.0], "id_type": "int64", "columns": {}, "parameters": {}, "timings": {},
        "counts": {"read": 0, "kept": 0, "duplicates": 0, "quarantined": {}},
        "pivots": [[0.0, 0.0]] * len(partitions), "weights": [0.0] * len(partitions), "pivots_hash": "0" * 16,
        "reach": [None] * len(partitions), "partitions": partitions, "borders": borders | {"points": 0, "fixed": 0},
        "objects": 0, "sites": 0, "replicas": 0, "bytes": sum(map(len, files.values())), "area": 0.0,
        "time": None, "tombstones": None, "ledger": {"files": {}, "batches": {}}, "clock": None, "policy": {},
        "cycle": None, "source": None,
    }  # fmt: skip


def read(store: Store, snapshot: str | None = None) -> int:
    """Return the number of a snapshot, of the current one when None, all of whose files were read and compared."""

    def number(name: str) -> int:
        manifest = store.manifest(name)
        for entry in [*manifest["partitions"], manifest["borders"]]:
            path = Path(store.file("snapshots", name, entry["file"]))
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                raise StoreError(f"{path} is missing") from None
            assert hashlib.sha256(data).hexdigest() == entry["sha256"], path
        return manifest["number"]

    return store.of_current(number) if snapshot is None else number(snapshot)


def assert_sound(store: Store) -> None:
    """Every finished snapshot is whole, and the current one is among them."""
    assert store.current() in store.snapshots()
    for name in store.snapshots():
        read(store, name)


def assert_clean(store: Store) -> None:
    """Nothing is in the store but finished snapshots, and a whole chain of commits with its hint."""
    assert sorted(path.name for path in Path(store.path).iterdir()) == ["CURRENT", "commits", "snapshots"]
    head = store.head()
    assert sorted(path.name for path in (Path(store.path) / "commits").iterdir()) == [
        file_of(number) for number in range(1, head.number + 1)
    ]
    assert list(verify_chain(store.chain)) == []
    assert sorted(path.name for path in (Path(store.path) / "snapshots").iterdir()) == store.snapshots()
    assert not list(Path(store.path).rglob("WRITING"))


def faults_at(step: int, fault: Callable[[str], None], *, each: bool = False) -> None:
    """Call ``fault(name)`` before the ``step``-th change of files from now on, or each, in this process, for good."""
    seen = [0]

    def wrapped(name, real):
        def call(*arguments, **options):
            if name != "open" or set(arguments[1]) & set("wxa"):
                seen[0] += 1
                if each or seen[0] == step:
                    fault(name)
            return real(*arguments, **options)

        return call

    for name in STEPS:
        setattr(os, name, wrapped(name, getattr(os, name)))
    io.open = wrapped("open", io.open)


def killed_at(step: int, work: Callable[[], object]) -> int:
    """Work in a process of its own that is killed before the ``step``-th change of a file; return how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            faults_at(step, lambda name: os.kill(os.getpid(), signal.SIGKILL))
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            end_now(code)
    return os.waitpid(child, 0)[1]


def loop_of_writer(path: str, count: int, seed: int) -> dict[str, int]:
    """Commit ``count`` times; return that, and how often another one wrote. All else that fails is raised."""
    store = Store(path)
    told = {"committed": 0, "refused": 0}
    while told["committed"] < count:
        try:
            commit(store, seed * 1_000_000 + told["committed"], keep=1)
            told["committed"] += 1
        except StoreError as error:
            if "is being written by process" not in str(error):
                raise
            told["refused"] += 1
    return told


def loop_of_reader(path: str) -> dict[str, int]:
    """Read the current snapshot until there is a file ``path.done``; return how often, and how many there were."""
    store = Store(path)
    names, opened = [], 0
    while not Path(f"{path}.done").exists():
        read(store)
        opened += 1
        names.append(store.current())
    assert names == sorted(names), "the pointer went back"
    return {"opened": opened, "snapshots": len(set(names))}


def takers(path: str, rounds: int, count: int) -> dict[str, int]:
    """Let processes take over the lock of a dead one at the same time, in rounds; return how many rounds there were.

    In each exactly one gets it, in every other round past the claim of one that died while it took over.
    """
    folder = Store(path).folder
    folder.make()
    for number in range(rounds):
        ended = os.fork()
        if ended == 0:
            end_now(0)
        os.waitpid(ended, 0)
        dead = replace(Holder.me(), pid=ended, start="1", token=f"dead{number}")
        folder.replace(dead.data, LEASE)
        if number % 2:
            folder.replace(replace(dead, token=f"taker{number}").data, f"{LEASE}.dead{number}")
        go, say, held = os.pipe(), os.pipe(), os.pipe()
        children = []
        for _ in range(count):
            child = os.fork()
            if child == 0:
                os.close(go[1])
                os.read(go[0], 1)  # ends when the other side is closed
                try:
                    lock = take(folder, path, silent, lambda: None)
                except StoreError as error:
                    os.write(say[1], b"-" if "is being written by process" in str(error) else b"?")
                    end_now(0)
                os.write(say[1], b"+")
                os.close(held[1])
                os.read(held[0], 1)
                lock.release()
                end_now(0)
            children.append(child)
        os.close(go[0])
        os.close(go[1])
        said = b"".join(os.read(say[0], 1) for _ in range(count))
        assert sorted(said) == sorted(b"+" + b"-" * (count - 1)), said
        os.close(held[0])
        os.close(held[1])
        for child in children:
            os.waitpid(child, 0)
        for end in say:
            os.close(end)
        assert not folder.files(), folder.files()
    return {"rounds": rounds}


def faults(store: Store, how: str, first: int, stride: int) -> dict[str, int]:
    """Break a commit at its step ``first``, and others ``stride`` further on; return how many were broken.

    After each the current snapshot is whole and the old or the new one, the next commit goes through at once, and all
    that the broken one has left is gone.

    Parameters
    ----------
    how : "kill" ends the process, "error" raises an OSError, "interrupt" a KeyboardInterrupt.
    """
    committed = number = 0
    step, broken, moved = first, 0, 0
    commit(store, number)
    while True:
        number += 1
        child = os.fork()
        if child == 0:
            end_now(_broken(store, number, how, step))
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL if how == "kill" else os.WEXITSTATUS(status) == 3, status
        broken += 1
        now = read(store)
        assert now in (committed, number), (now, committed, number)
        moved += now == number
        assert_sound(store)
        for folder in (Path(store.path) / "snapshots").glob("[!.]*"):
            assert (folder / "WRITING").exists() or (folder / "manifest.json").exists(), folder
        number += 1
        # the lock of a process that is gone is taken over at once
        commit(store, number, keep=2)
        committed = number
        assert read(store) == number
        assert_sound(store)
        assert_clean(store)
        step += stride
    assert_clean(store)
    return {"broken": broken, "moved": moved}


def _broken(store: Store, number: int, how: str, step: int) -> int:
    happened = []

    def fault(name):
        happened.append(name)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyboardInterrupt if how == "interrupt" else OSError(errno.EIO, "the disk is broken")

    faults_at(step, fault)
    with suppress(OSError, KeyboardInterrupt, StoreError):
        commit(store, number, keep=2)
    return 3 if happened else 0


def main(arguments: list[str]) -> None:
    """Run one of the loops and print what it returns: ``writer STORE COUNT SEED``, and so on."""
    kind, path, *rest = arguments
    if kind == "writer":
        told = loop_of_writer(path, int(rest[0]), int(rest[1]))
    elif kind == "reader":
        told = loop_of_reader(path)
    elif kind == "takers":
        told = takers(path, int(rest[0]), int(rest[1]))
    else:
        told = faults(Store(path), kind, int(rest[0]), int(rest[1]))
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])


ROOT = Path(__file__).parents[3]


def script(*arguments):
    """Start a loop of ``small_stores`` in a process of its own."""
    command = [sys.executable, "-m", "tests.dtoss.snapshots.small_stores", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process):
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    return json.loads(out)


def immutable(path, flag):
    return subprocess.run(["chattr", flag, str(path)], capture_output=True, check=False).returncode == 0
