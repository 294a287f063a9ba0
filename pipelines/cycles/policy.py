"""Whether pivots are kept: while partitions are about even, few cells open and few objects copied."""

from __future__ import annotations

from typing import Any

from dtoss.partitioning.pivots import OBJECTS_PER_PARTITION
from dtoss.snapshots.partition_choice import Shape

MOST_UNEVEN = 1.25
"""The largest partition, in means, up to which pivots are kept."""
MOST_OPEN = 0.02
"""The share of cells that their partition cannot certify, up to which pivots are kept."""
MOST_COPIED = 0.05
"""Replicas, as a share of the objects, up to which pivots are kept."""
WORSE = 1.25
"""Where new pivots were beyond a bound already: so many times what they were then is the bound."""
GROWN = 2.0
"""So many times more or fewer objects a partition than when pivots were chosen, and others are."""


def why_anew(manifest: dict[str, Any]) -> str | None:
    """Return why pivots should be chosen anew; None while those of a snapshot are good.

    Small stores, or many objects on one site, are beyond a bound whatever the pivots are. So the bound is never below
    what the pivots had when they were chosen, and some.
    """
    now = Shape.of(manifest["partitions"])
    then = manifest.get("policy") or {}
    if now.objects == 0:
        return None
    bounds = (
        ("the largest partition, in means,", now.largest, MOST_UNEVEN, then.get("largest", 0.0), ".3g"),
        ("the share of open cells", now.open, MOST_OPEN, then.get("open", 0.0), ".2%"),
        ("the share of replicas", now.copied, MOST_COPIED, then.get("copied", 0.0), ".2%"),
    )
    for what, share, most, before, form in bounds:
        most = max(most, WORSE * before)
        if share > most:
            return f"{what} is {share:{form}}, {most:{form}} at most"
    chosen = then.get("objects")
    if chosen and manifest["parameters"].get("partitions") is None:
        per = manifest["parameters"].get("objects_per_partition") or OBJECTS_PER_PARTITION
        many = now.objects / (len(manifest["partitions"]) * per)
        if now.objects > GROWN * chosen and many > 1.0:
            return f"there are {now.objects:,} objects, {chosen:,} when pivots were chosen"
        if now.objects * GROWN < chosen:
            return f"there are {now.objects:,} objects, {chosen:,} when pivots were chosen"
    return None
