"""What a server holds of a snapshot: all, or what a plan gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dtoss.serve.cluster.plan_placement import read_placement
from dtoss.serve.core.server_settings import Settings
from dtoss.shards.share import Share


def all_of_it(manifest: dict[str, Any]) -> None:
    """Return that a server holds all partitions."""


def held_by_plan(settings: Settings) -> Callable[[dict[str, Any]], Iterable[int] | None]:
    """Return what says which partitions of a snapshot a server holds: all, or those of a plan.

    It raises InputError where the plan does not fit the snapshot.
    """
    server, plan = settings.server, settings.plan
    if server is None or plan is None:
        return all_of_it

    def held(manifest: dict[str, Any]) -> Iterable[int]:
        return read_placement(plan, manifest["pivots_hash"], len(manifest["partitions"])).held_by(server)

    return held


def facts_of_share(share: Share) -> dict[str, Any]:
    """Return what is told of a snapshot of which a server holds some partitions only."""
    facts = share.index.parts.facts
    return {
        "objects": sum(one.objects for one in facts),
        "sites": sum(one.sites for one in facts),
        "held": list(share.held),
        "pivots_hash": share.index.partitioning.digest,
        "objects_held": len(share.here),
    }
