"""Whether time alone changes a store: an object was not heard of for too long."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from dtoss.snapshots.partition_file import decode
from dtoss.snapshots.store import Store
from pipelines.cycles.store_clock import Scale


def something_expires(home: Store, manifest: dict[str, Any] | None, options: Mapping[str, Any]) -> bool:
    """Return whether a cycle without updates would drop an object.

    ``manifest``: of its current snapshot; None where there is none; ``options``: of the cycle: ``expire``, ``now`` and
    ``clock`` are looked at. Where the data tell the time, it stands still without updates.

    All times are read once a snapshot, O(objects); after that it is O(1).
    """
    expire, now = options.get("expire"), options.get("now")
    if expire is None or manifest is None or manifest.get("time") is None or manifest["objects"] == 0:
        return False
    if now is None and options.get("clock", "wall") == "data":
        return False
    scale = Scale.of(manifest)
    moment = scale.now() if now is None else scale.read(now)
    return _oldest(home, manifest["snapshot"]) < scale.before(moment, expire)


@lru_cache(maxsize=1)
def _oldest(home: Store, snapshot: str) -> float:
    """Return the least time of a snapshot's objects, on its scale; infinity where there are none."""
    manifest = home.manifest(snapshot)
    scale, least = Scale.of(manifest), np.inf
    for entry in manifest["partitions"]:
        source = home.source(snapshot, entry["file"], entry["bytes"])
        partition = decode(source.data, source.path)
        if partition.times is not None and partition.owned_objects:
            least = min(least, float(scale.numbers(partition.times.slice(0, partition.owned_objects)).min()))
    return least
