"""Bits of a store's files turned over, one at a time, and whether it is told.

Every byte of the manifest and of each commit, and a thousand seeded ones of each other kind of file. `dtoss verify`
must name the file each time, and so must opening with ``verify=True`` where the file is one of the current snapshot.
As a script (``python -m tests.dtoss.snapshots.flips``, a part of check-data) all of them; ``--few`` takes some.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import dtoss
from dtoss.errors import StoreError
from dtoss.opening import open_index
from dtoss.snapshots.snapshots_table import verify_store
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.damaged_stores import stored

OBJECTS = 240
PARTITIONS = 3


def made_store(path: Path, strings: bool) -> Store:
    """Write a store with all kinds of files and two commits, of which each names a snapshot, and return it."""
    rng = np.random.default_rng(strings)
    positions = rng.normal([10.0, 50.0], 0.2, (OBJECTS, 2)).round(2)
    numbers = rng.permutation(10 * OBJECTS)[:OBJECTS]
    ids = [f"objét {i}" for i in numbers.tolist()] if strings else numbers
    gone = pa.array(["gone", "away"], pa.large_string()) if strings else np.array([-5, -9])
    for _ in range(2):
        stored(
            dtoss.build(ids, positions, partitions=PARTITIONS, columns={"speed": rng.integers(0, 90, OBJECTS)}),
            path,
            kinds={"speed": "bigint"},
            times=lambda some: pa.array(np.arange(len(some)) * 0 + 7),
            tombstones=(gone, pa.array([1, 2])),
            rejected=pa.table({"reason": ["no id"], "row": ["{}"]}),
        )
    return Store(str(path))


def flips(store: Store, few: bool, seed: int) -> Iterator[tuple[Path, int, int]]:
    """Yield (file, byte, bit) for each bit to turn over."""
    rng = np.random.default_rng(seed)
    home = Path(store.path)
    for path in sorted(home.rglob("*")):
        if not path.is_file() or ("snapshots" in path.parts and store.current() not in path.parts):
            continue
        size = path.stat().st_size
        step = (120 if path.name == "manifest.json" else 24) if few else 1
        places: np.ndarray = np.arange(int(rng.integers(step)), size, step)
        if path.suffix in (".arrow", ".parquet"):
            places = rng.choice(size, min(9 if few else 1000, size), replace=False)
        for place in places.tolist():
            yield path, place, int(rng.integers(8))


def silent_flips(store: Store, few: bool = False, seed: int = 0) -> tuple[int, list[str]]:
    """Return how many bits were turned over, and those that nobody told of, in words; all are put right again."""
    count, silent = 0, []
    head = store.head()
    assert head is not None
    older = {f"{number:020}.json" for number in range(1, head.number)}
    for path, place, bit in flips(store, few, seed):
        data = path.read_bytes()
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
        try:
            for who, told in (("verify", _verified(store)), ("open", _opened(store))):
                # an older commit is nothing to who opens the current snapshot, and a hint is not needed
                needed = who == "verify" or (path.name not in older and path.name != "CURRENT")
                if needed and not any(path.name in line for line in told):
                    silent.append(f"{path.name}, byte {place}, bit {bit}: {who} says {told}")
        finally:
            path.write_bytes(data)
        count += 1
    return count, silent


def _verified(store: Store) -> list[str]:
    return verify_store(Store(store.path)).damaged


def _opened(store: Store) -> list[str]:
    try:
        open_index(store.path, verify=True)
    except StoreError as error:
        return [str(error)]
    return []


def main() -> int:
    """Turn over all bits and return the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--few", action="store_true", help="some of the bytes")
    few = parser.parse_args().few
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for strings in (False, True):
            store = made_store(Path(folder) / str(strings), strings)
            if verify_store(store).damaged:
                print(f"the store is damaged from the start: {verify_store(store).damaged}")
                return 1
            count, silent = silent_flips(store, few)
            print(f"{'strings' if strings else 'integers'}: {count} bits turned over, {len(silent)} not told of")
            print("".join(f"  {line}\n" for line in silent[:20]), end="")
            failed += len(silent)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
