"""Damage to a snapshot's files, and what an open index makes of it: `python -m tests.long.damages`; part of check-data.

A store is damaged in every way of a list, one at a time: each array of a partition's file and of the border table (one
value, all values, zeros, +-2^30, not a number, bits), the files' frames, files cut short before they are opened and
before they are first read, and each field of the manifest. A child process then opens it and asks every kind of
question. With ``verify="touch"`` each must end in a StoreError that names the file or in the right answer; without, in
a StoreError or an answer: never in a signal, a hang or another exception. ``--few`` takes one store instead of four.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

import dtoss
from dtoss.errors import StoreError
from dtoss.opening import open_index
from dtoss.snapshots.manifest_fields import hash_of
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.snapshots.small_stores import as_before_commits
from tests.ends import end_now

OBJECTS = 4000
PARTITIONS = 3
SECONDS = 60.0
"""After so long a case counts as a hang: questions take some hundredths of a second, unless the machine is busy."""
DAMAGED = 1
"""The partition whose file is damaged."""


@dataclass(frozen=True)
class World:
    """A store, the questions it is asked, and the right answers."""

    name: str
    home: Path
    space: str
    ids: list[Any]
    answers: list[Any]

    @property
    def snapshot(self) -> Path:
        """The folder of its only snapshot."""
        return self.home / "snapshots" / Store(str(self.home)).current()


@dataclass(frozen=True)
class Damage:
    """One damage: to which file, how its bytes change, whether that is after the store was opened.

    ``told`` is whether a checksum can tell: not where the manifest has none of its own, or one that was made anew.
    """

    name: str
    file: str
    change: Callable[[bytes], bytes | None]
    late: bool = False
    told: bool = True


# -- the stores -------------------------------------------------------------------------------------------------------


def made_world(folder: Path, crs: str | None, strings: bool, seed: int) -> World:
    """Write a store with shared places, replicas, levels and attributes, and ask it all questions."""
    rng = np.random.default_rng(seed)
    positions = rng.normal([10.0, 50.0], 0.2, (OBJECTS, 2))
    positions[1::9] = positions[::9][: len(positions[1::9])]
    ids: Any = rng.permutation(10 * OBJECTS)[:OBJECTS]
    if strings:
        ids = [f"objét {i}" for i in ids.tolist()]
    kinds = pa.array([None if i % 7 == 0 else "täxi" if i % 3 else "bus" for i in range(OBJECTS)])
    index = dtoss.build(
        ids,
        positions,
        crs=crs,
        partitions=PARTITIONS,
        columns={"speed": rng.integers(0, 90, OBJECTS), "kind": kinds},
    )
    name = f"{crs or 'sphere'} {'strings' if strings else 'integers'}"
    home = folder / name.replace(" ", "-").replace(":", "")
    stored(index, home, kinds={"speed": "bigint"}, times=lambda some: pa.array(np.arange(len(some)) / 7))
    # a commit has the manifest's hash, and would find each damage of it before it is looked at
    as_before_commits(Store(str(home)))
    some = [
        part.ids[i].as_py() if strings else int(part.ids[i])
        for part in index.parts.all()
        for i in (0, part.owned_objects // 2, part.owned_objects - 1)
    ]
    world = World(name, home, "plane" if index.space.metric == "plane" else "sphere", some, [])
    return World(world.name, home, world.space, some, [ask() for ask in questions(world, open_index(str(home)))])


def questions(world: World, index: dtoss.Index) -> list[Callable[[], Any]]:
    """Return all questions: for one place and for batches, near, far and outside, and about single objects."""
    rng = np.random.default_rng(7)
    near = rng.normal([10.0, 50.0], 0.2, (40, 2))
    far = np.concatenate([near[:4] + 20.0, near[:4] - [15.0, 30.0]])
    wide, narrow = (3.0, 0.02) if world.space == "plane" else (300_000.0, 2_000.0)
    box = [9.9, 49.9, 10.1, 50.05]
    ring = [[9.8, 49.9], [10.2, 49.9], [10.1, 50.2], [9.8, 49.9]]

    def rows(hits: dtoss.Hits) -> Any:
        return [list(hits), {name: column.to_pylist() for name, column in hits.columns.items()}]

    def single(ask: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: [ask(one) for one in world.ids]

    return [
        lambda: rows(index.knn(near[0], 1)),
        lambda: rows(index.knn(near, 1)),
        lambda: rows(index.knn(near, 12, columns=["speed", "kind"])),
        lambda: rows(index.knn(near[:3], 3 * OBJECTS)),
        lambda: rows(index.knn(far, 5)),
        lambda: rows(index.knn(near[1], 3, max_distance=narrow)),
        lambda: rows(index.range(near, narrow)),
        lambda: rows(index.range(near[2], wide)),
        lambda: rows(index.range(far, 0.2 * wide)),
        lambda: index.count(near, narrow).tolist(),
        lambda: index.count(near[:3], wide).tolist(),
        lambda: rows(index.box(box, columns=["kind"])),
        lambda: rows(index.within(np.array(ring))),
        lambda: rows(index.knn(near, 4, where="kind = 'bus' and speed < 60")),
        lambda: rows(index.knn(near, 4, where="speed = 7")),
        lambda: rows(index.knn(near[:5], 4, having="kind = 'täxi'")),
        lambda: [index.sites, len(index), index.column_names],
        single(lambda one: index[one]),
        single(lambda one: one in index),
        single(lambda one: index.cell(one).round(9).tolist()),
        single(lambda one: np.asarray(index.neighbours(one)).tolist()),
        single(lambda one: index.area(one)),
        lambda: rows(index.reverse_nearest(near[:10])),
    ]


# -- the damages ------------------------------------------------------------------------------------------------------


def damages(world: World) -> Iterator[Damage]:
    """Yield all damages of the list."""
    manifest = json.loads((world.snapshot / "manifest.json").read_text())
    entry, borders = manifest["partitions"][DAMAGED], manifest["borders"]
    for what, file in (("partition", entry["file"]), ("borders", borders["file"])):
        data = (world.snapshot / file).read_bytes()
        for name, offset, kind, size in arrays_of(data):
            for how, change in array_changes(kind, size):
                yield Damage(f"{what}: {name}: {how}", file, _patched(offset, kind, size, change))
        for how, change in frame_changes(data):
            yield Damage(f"{what}: {how}", file, change)
        for how, cut in (("one byte", len(data) - 1), ("half", len(data) // 2), ("a page", 4096), ("all", 0)):
            for late in (False, True):
                when = "after open" if late else "before open"
                yield Damage(f"{what}: cut to {how} {when}", file, lambda b, c=cut: b[:c], late)
        yield Damage(f"{what}: longer", file, lambda b: b + bytes(8))
        yield Damage(f"{what}: another file", file, lambda b, w=world, m=manifest: _other(w, m))
        yield Damage(f"{what}: missing", file, lambda b: None)
    for how, change in manifest_changes(manifest):
        for hashed in ("as it was", "none", "made again"):
            told = hashed == "as it was"
            yield Damage(f"manifest: {how}, hash {hashed}", "manifest.json", _rewritten(change, hashed), told=told)
    for how, change in (
        ("cut to half", lambda b: b[: len(b) // 2]),
        ("empty", lambda b: b""),
        ("no text", lambda b: b"\xff" + b[1:]),
        ("a list", lambda b: b"[" + b + b"]"),
        ("nested deep", lambda b: b"[" * 100_000),
        ("missing", lambda b: None),
    ):
        yield Damage(f"manifest: {how}", "manifest.json", change)


def arrays_of(data: bytes) -> Iterator[tuple[str, int, np.dtype, int]]:
    """Yield each buffer of a file: its name, offset, kind of values, and how many."""
    whole = pa.py_buffer(data)
    batch = pa.ipc.open_file(whole).get_batch(0)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.values
        yield f"list of {name}", column.buffers()[1].address - whole.address, np.dtype(np.int64), 2
        text = pa.types.is_large_string(values.type) or pa.types.is_string(values.type)
        wide = pa.types.is_large_string(values.type)
        kinds = ["u1", "i8" if wide else "i4", "u1"] if text else ["u1", values.type.to_pandas_dtype()]
        for part, (buffer, kind) in enumerate(zip(values.buffers(), kinds, strict=True)):
            if buffer is not None and buffer.size:
                size = len(values) + (part == 1 and text) if kind != "u1" else buffer.size
                yield f"{name} {part}", buffer.address - whole.address, np.dtype(kind), size


def array_changes(kind: np.dtype, size: int) -> Iterator[tuple[str, Callable[[np.ndarray], Any]]]:
    """Yield changes to the values of an array, which are made in place."""
    rng = np.random.default_rng(size)
    middle, last = size // 2, size - 1

    def put(at: Any, value: Any) -> Callable[[np.ndarray], Any]:
        return lambda a: a.__setitem__(at, value)

    def add(at: Any, value: Any) -> Callable[[np.ndarray], Any]:
        return lambda a: a.__setitem__(at, a[at] + np.array(value).astype(a.dtype))

    def flip(bit: int, at: int) -> Callable[[np.ndarray], Any]:
        def change(a: np.ndarray) -> None:
            a.view(np.uint8)[at] ^= 1 << bit

        return change

    everything = slice(None)
    yield "zeros", put(everything, 0)
    yield "reversed", lambda a: a.__setitem__(everything, a[::-1].copy())
    for where, at in (("first", 0), ("one", middle), ("last", last), ("all", everything)):
        yield f"{where} + 1", add(at, 1)
        if kind.itemsize > 1:
            yield f"{where} + 2^30", add(at, 2**30)
            yield f"{where} - 2^30", add(at, -(2**30))
        if kind.kind == "f":
            for value in (np.nan, np.inf, -np.inf, 1e300, -0.0):
                yield f"{where} {value}", put(at, value)
        else:
            yield f"{where} least", put(at, np.iinfo(kind).min)
            yield f"{where} greatest", put(at, np.iinfo(kind).max)
    for bit, at in zip(rng.integers(0, 8, 4).tolist(), rng.integers(0, size * kind.itemsize, 4).tolist(), strict=True):
        yield f"bit {bit} of byte {at}", flip(bit, at)


def frame_changes(data: bytes) -> Iterator[tuple[str, Callable[[bytes], bytes]]]:
    """Yield changes to what stands round the arrays: the magic, the schema, the batch's message and the footer."""
    footer = int.from_bytes(data[-10:-6], "little")
    begin = len(data) - 10 - footer
    first = min(offset for _, offset, _, _ in arrays_of(data))

    def zeros(low: int, high: int) -> Callable[[bytes], bytes]:
        return lambda b: b[:low] + bytes(high - low) + b[high:]

    def flip(at: int, bits: int) -> Callable[[bytes], bytes]:
        return lambda b: b[:at] + bytes([b[at] ^ bits]) + b[at + 1 :]

    yield "no magic at the end", zeros(len(data) - 6, len(data))
    yield "size of the footer 0", zeros(len(data) - 10, len(data) - 6)
    yield "size of the footer wrong", flip(len(data) - 9, 0x10)
    yield "size of the footer huge", flip(len(data) - 7, 0x7F)
    yield "no footer", zeros(begin, len(data) - 10)
    yield "no schema", zeros(8, first)
    rng = np.random.default_rng(len(data))
    spots = [*rng.integers(8, first, 30).tolist(), *rng.integers(begin, len(data) - 10, 60).tolist()]
    for at in spots:
        bits = int(rng.integers(1, 256))
        yield f"byte {at} of the frame ^ {bits}", flip(at, bits)


def manifest_changes(manifest: dict[str, Any]) -> Iterator[tuple[str, Callable[[dict[str, Any]], Any]]]:
    """Yield changes to the fields of a manifest: missing, of another type, another value."""
    paths: list[tuple[Any, ...]] = [(name,) for name in manifest]
    paths += [("partitions", DAMAGED, name) for name in manifest["partitions"][DAMAGED]]
    paths += [("borders", name) for name in manifest["borders"]] + [("counts", name) for name in manifest["counts"]]
    paths += [("columns", "speed"), ("pivots", 1), ("pivots", 1, 0), ("weights", 0), ("reach", 1), ("partitions", 0)]
    paths += [("bounds", 0), ("bounds", 3)] if manifest["bounds"] else []

    def at(path: tuple[Any, ...], change: Callable[[Any, Any], Any]) -> Callable[[dict[str, Any]], Any]:
        def run(whole: dict[str, Any]) -> None:
            within: Any = whole
            for step in path[:-1]:
                within = within[step]
            change(within, path[-1])

        return run

    for path in paths:
        label = ".".join(map(str, path))
        value: Any = manifest
        for step in path:
            value = value[step]
        yield f"{label} missing", at(path, lambda d, k: d.__delitem__(k))
        others: list[Any] = [None, "text", [], {}, True, -1, 2**40, 1e300, float("nan")]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            others += [value + 1, value - 1, -value, 0, float(value), value / 2]
        if isinstance(value, str):
            others += ["", value[::-1], "0" + value[1:], "../../CURRENT", f"/{value}", "é" * 300]
        if isinstance(value, list):
            others += [value[:-1], value[::-1], value + value[:1]]
        for other in others:
            short = repr(other)[:20]
            yield f"{label} = {short}", at(path, lambda d, k, o=other: d.__setitem__(k, copy.deepcopy(o)))
    yield "files exchanged", lambda m: m["partitions"][0].update(file=m["partitions"][1]["file"])
    yield "entries exchanged", lambda m: m["partitions"].__setitem__(slice(0, 2), m["partitions"][1::-1])


def _patched(
    offset: int, kind: np.dtype, size: int, change: Callable[[np.ndarray], Any]
) -> Callable[[bytes], bytes | None]:
    def run(data: bytes) -> bytes:
        fresh = bytearray(data)
        values = np.frombuffer(fresh, kind, size, offset)
        with np.errstate(all="ignore"):
            change(values)
        return bytes(fresh)

    return run


def _rewritten(change: Callable[[dict[str, Any]], Any], hashed: str) -> Callable[[bytes], bytes | None]:
    def run(data: bytes) -> bytes:
        manifest = json.loads(data)
        change(manifest)
        if hashed == "none":
            manifest.pop("sha256", None)
        elif hashed == "made again":
            # a field that it is made of may not be there
            with contextlib.suppress(KeyError, TypeError):
                manifest["sha256"] = hash_of(manifest)
        return json.dumps(manifest, indent=1, sort_keys=True).encode()

    return run


def _other(world: World, manifest: dict[str, Any]) -> bytes:
    return (world.snapshot / manifest["partitions"][0]["file"]).read_bytes()


@contextlib.contextmanager
def another_id(world: World) -> Iterator[Path]:
    """Change an id in the file of one partition, which only a checksum can see; give its path, and put it right."""
    damage = next(one for one in damages(world) if one.name == "partition: ids 1: one + 1")
    path = world.snapshot / damage.file
    data = path.read_bytes()
    _put(path, damage.change(data))
    try:
        yield path
    finally:
        path.write_bytes(data)


# -- one case after another in children -------------------------------------------------------------------------------


def outcomes(world: World, damage: Damage, verify: Any) -> list[str]:
    """Return what each question to a damaged store ended in: "right", "wrong", "StoreError: ..." or what was raised."""
    path = world.snapshot / damage.file
    data = path.read_bytes()
    fresh = damage.change(data)
    if not damage.late:
        _put(path, fresh)
    try:
        index = open_index(str(world.home), verify=verify)
    except StoreError as error:
        return [f"StoreError: {error}"]
    except Exception as error:
        return [f"open: {type(error).__name__}: {error}"]
    if damage.late:
        _put(path, fresh)
    found = []
    for number, (ask, wanted) in enumerate(zip(questions(world, index), world.answers, strict=True)):
        if verify is not False and sum(text.startswith("StoreError") for text in found) == 3:
            break
        try:
            found.append("right" if ask() == wanted else "wrong")
        except StoreError as error:
            found.append(f"StoreError: {error}")
        except KeyError as error:
            # an answer too: there is no object of this id
            found.append("wrong" if "no object has the id" in str(error) else f"question {number}: {error!r}")
        except Exception as error:
            found.append(f"question {number}: {type(error).__name__}: {error}")
    return found


def _put(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink()
    else:
        # in place: a mapping sees it
        with path.open("r+b") as stream:
            stream.write(data)
            stream.truncate()


def ended(world: World, cases: list[tuple[Damage, Any]]) -> Iterator[list[str]]:
    """Yield the outcomes of each case, or the signal or the time that ended it.

    A child goes on from case to case, and where it dies the next one begins after that case.
    """
    at = 0
    while at < len(cases):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            _work(world, cases[at:], write)
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            text, end = b"", time.monotonic() + SECONDS
            while at < len(cases):
                ready, _, _ = select.select([stream], [], [], max(end - time.monotonic(), 0.0))
                part = os.read(stream.fileno(), 1 << 16) if ready else b""
                if not part:
                    break
                *lines, text = (text + part).split(b"\n")
                for line in lines:
                    at, end = at + 1, time.monotonic() + SECONDS
                    yield list(json.loads(line))
        if not ready:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if at < len(cases):
            at += 1
            yield [f"signal {os.WTERMSIG(status)}" if ready else f"hang of {SECONDS:.0f} s"]


def _work(world: World, cases: list[tuple[Damage, Any]], write: int) -> NoReturn:
    """Run cases in this child, a line of JSON for each, and put the files back."""
    with os.fdopen(write, "wb", buffering=0) as stream:
        for damage, verify in cases:
            path = world.snapshot / damage.file
            data = path.read_bytes()
            try:
                found = outcomes(world, damage, verify)
            except BaseException as error:
                found = [f"the case: {type(error).__name__}: {error}"]
            path.write_bytes(data)
            stream.write(json.dumps(found).encode() + b"\n")
    end_now(0)


def verdict(damage: Damage, verify: Any, found: list[str]) -> str:
    """Return what a case ended in, beginning with "bad" where that breaks the promise."""
    errors = [text for text in found if text.startswith("StoreError")]
    other = [text for text in found if text not in ("right", "wrong") and text not in errors]
    if other:
        return f"bad: {other[0]}"
    if verify is not False and damage.told:
        if "wrong" in found:
            return "bad: wrong answer"
        # a damage of the manifest may look like one of the file that it describes
        if errors and damage.file != "manifest.json" and not any(Path(damage.file).name in text for text in errors):
            return f"bad: the file is not named: {errors[0]}"
    return "wrong" if "wrong" in found else "error" if errors else "right"


def run(world: World, modes: list[Any], every: int = 1) -> tuple[Counter[str], list[str]]:
    """Return how many cases of a world ended in what, and the bad ones in words."""
    count: Counter[str] = Counter()
    bad = []
    cases = [(damage, verify) for damage in list(damages(world))[::every] for verify in modes]
    kept = {path: path.read_bytes() for path in world.snapshot.rglob("*") if path.is_file()}
    for (damage, verify), found in zip(cases, ended(world, cases), strict=True):
        came_to = verdict(damage, verify, found)
        count[f"verify={verify}: {came_to.partition(':')[0]}"] += 1
        if came_to.startswith("bad"):
            bad.append(f"{world.name}, {damage.name}, verify={verify}: {came_to}")
        if found[0].startswith(("signal", "hang")):
            # the child did not put it back
            path = world.snapshot / damage.file
            path.write_bytes(kept[path])
    return count, bad


def main() -> int:
    """Run the list and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--few", action="store_true", help="one store, and a part of the manifest's fields")
    few = parser.parse_args().few
    kinds = [(None, False, 1)] if few else [(None, False, 1), (None, True, 2), ("none", False, 3), ("none", True, 4)]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for crs, strings, seed in kinds:
            began = time.monotonic()
            world = made_world(Path(folder), crs, strings, seed)
            count, bad = run(world, ["touch", False] if few else ["touch", False, True], 29 if few else 1)
            print(f"{world.name}: {sum(count.values())} cases in {time.monotonic() - began:.0f} s")
            for what, times in sorted(count.items()):
                print(f"  {what}: {times}")
            for text in bad:
                print(f"  {text}")
            failed += len(bad)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
