"""Which servers hold which partitions by a plan, and whom of several copies a server asks.

What a server holds of a snapshot: all, or what a plan gives it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.serve.cluster.served_plans import read_plan
from dtoss.serve.core.server_settings import Settings
from dtoss.shards.share import Share


@dataclass(frozen=True)
class Placement:
    """What a plan says."""

    pivots_hash: str  # Of the pivots whose partitions these are
    holders: tuple[tuple[int, ...], ...]  # The numbers of the servers that hold each partition

    def held_by(self, server: int) -> frozenset[int]:
        """Return the partitions of a server."""
        return frozenset(number for number, of in enumerate(self.holders) if server in of)

    @property
    def servers(self) -> frozenset[int]:
        """The numbers of all servers that hold something."""
        return frozenset(server for of in self.holders for server in of)


def read_placement(path: str, pivots_hash: str, partitions: int) -> Placement:
    """Return what a plan says of the partitions of a snapshot."""
    try:
        plan = read_plan(path)
    except (OSError, ValueError) as error:
        raise InputError(f"--plan {error if isinstance(error, ValueError) else f'{path}: {error.strerror}'}") from None
    if plan.pivots_hash != pivots_hash:
        raise InputError(
            f"--plan {path} is for pivots {plan.pivots_hash or 'that it does not name'}, the snapshot has "
            f"{pivots_hash}: partition numbers mean other regions; make a plan for the patterns of these pivots"
        )
    numbers = [int(server["number"]) for server in plan.servers]
    holders = []
    for number in range(partitions):
        held = plan.server_of.get(number)
        if held is None:
            raise InputError(f"--plan {path} gives partition {number} to no server, of {partitions:,}: make another")
        holders.append(tuple(numbers[one] for one in held))
    return Placement(pivots_hash, tuple(holders))


@lru_cache(1 << 20)
def rank(partition: int, server: int) -> int:
    """Return how gladly a server is asked for a partition, the lowest first: by rendezvous of the two numbers.

    All servers know the same order without a word, and where one is away its partitions fall to many.

    Examples
    --------
    >>> sorted(range(4), key=lambda server: rank(7, server))
    [1, 2, 0, 3]
    """
    made = hashlib.blake2b(b"%d %d" % (partition, server), digest_size=8).digest()
    return int.from_bytes(made)


def first_by_rank(held: Mapping[int, Iterable[int]], partitions: int) -> NDArray[np.int64]:
    """Return which of some servers is asked for each partition, int64 (P,), -1 where none holds it."""
    found, best = np.full(partitions, -1, np.int64), np.full(partitions, np.inf)
    for server, numbers in held.items():
        mine = np.array([number for number in numbers if 0 <= number < partitions], np.int64)
        ranks = np.array([rank(number, server) for number in mine.tolist()], np.float64)
        better = ranks < best[mine]
        found[mine[better]], best[mine[better]] = server, ranks[better]
    return found


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
