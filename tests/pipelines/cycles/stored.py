"""What a store holds after cycles, in the terms of the slow version, and cycles of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.snapshots.partition_file import decode, decode_tombstones
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from tests.oracles import Update, in_order
from tests.update_worlds import table

FATES = ("updated", "added", "late", "too_late", "unchanged", "outdated", "deleted", "expired", "deletions")


def merged(engine, store, rows, *, string_ids=False, plane=False, **options) -> dict[str, Any]:
    """The manifest after a cycle of rows of the slow version; `deleted=None` where they may not delete."""
    options = {"deleted": "deleted", "keep_for": 0.0} | options
    updates = table(rows, string_ids=string_ids, plane=plane)
    if options["deleted"] is None:
        updates = updates.drop_columns(["deleted"])
    first = {"crs": "none", "partitions": 3} if plane else {"partitions": 3}
    return cycle(engine.createDataFrame(updates), str(store), first=first, **options)


def held(store) -> dict[Any, Update]:
    """All objects of the current snapshot, and the tombstones, by id; each id stands once."""
    home = Store(str(store))
    manifest = home.manifest()
    found: list[Update] = []
    for entry in manifest["partitions"]:
        source = home.source(manifest["snapshot"], entry["file"])
        one = decode(source.data, source.path)
        owned = slice(0, one.owned_objects)
        ids = one.ids.to_pylist() if isinstance(one.ids, pa.Array) else one.ids.tolist()
        attributes = [one.attributes[name].to_pylist()[owned] for name in ("name", "size")]
        columns = (ids[owned], one.times.to_pylist()[owned], one.positions[owned].tolist())
        for id, t, place, *values in zip(*columns, *attributes, strict=True):
            found.append(Update(id, t, *place, tuple(values)))
    if manifest["tombstones"] is not None:
        source = home.source(manifest["snapshot"], manifest["tombstones"]["file"])
        batch = decode_tombstones(source.data, source.path)
        for id, t in zip(batch.column("id").to_pylist(), batch.column("t").to_pylist(), strict=True):
            found.append(Update(id, t, deleted=True))
    assert len({row.id for row in found}) == len(found), "an id stands twice"
    assert manifest["objects"] == sum(not row.deleted for row in found)
    return {row.id: row for row in found}


def compared(state) -> dict[Any, Any]:
    """A state with values that equal themselves: -0.0 is not 0.0, and NaN is NaN; deletions are their times."""
    return {
        id: (row.t, row.deleted) if row.deleted else (row.t, *map(in_order, (row.x, row.y, *row.attributes)))
        for id, row in state.items()
    }


def files(store) -> dict[str, str]:
    """The checksums of the files with objects and their borders."""
    manifest = Store(str(store)).manifest()
    return {str(number): entry["sha256"] for number, entry in enumerate(manifest["partitions"])} | {
        "borders": manifest["borders"]["sha256"]
    }


def moved(rng: np.random.Generator, rows: list[Update], times: int) -> list[list[Update]]:
    """Rows in so many cycles, in another order, one in five of them in another cycle too."""
    batches: list[list[Update]] = [[] for _ in range(times)]
    for i in rng.permutation(len(rows)):
        batches[rng.integers(times)].append(rows[i])
        if rng.random() < 0.2:
            batches[rng.integers(times)].append(rows[i])
    return batches
