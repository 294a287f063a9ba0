"""The plan in force as files: which servers hold which partitions, whom of several to ask, what patterns it is of.

What a server holds of a snapshot: all, or what a plan gives it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.locks import once
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


DAY = 86_400
"""Seconds."""
_FORMAT = 1  # of both files; a later one is refused
_PATTERNS = b"ceps.patterns"
_COLUMNS = ("partition", "weekday", "slot", "requests_per_second")


@dataclass(frozen=True, eq=False)
class Plan:
    """Which server holds which partitions."""

    file: str
    pivots_hash: str  # Of the pivots whose partitions these are; "" where it does not say
    # What is told of each server: number, type, capacity (requests/s), cost_per_hour, spare
    servers: tuple[Mapping[str, Any], ...]
    cost: float  # Dollars a day
    # The servers, by their place among :attr:`servers`, that hold the copies of a partition, by its number
    server_of: Mapping[int, tuple[int, ...]]

    def told(self, pivots_hash: str, partitions: int) -> dict[str, Any]:
        """Return what the page is told of it, beside a snapshot with these pivots and so many partitions."""
        numbers = [server["number"] for server in self.servers]
        held = [self.server_of.get(partition) for partition in range(partitions)]
        return {
            "file": self.file,
            "servers": [*self.servers],
            "server_of": [None if servers is None else numbers[servers[0]] for servers in held],
            "copies": max(map(len, self.server_of.values()), default=0),
            "cost": self.cost,
            "stale": self.stale(pivots_hash),
        }

    def stale(self, pivots_hash: str) -> str | None:
        """Return what is wrong where a snapshot has other pivots than the plan; None where nothing is."""
        return _stale("plan is", self.pivots_hash, pivots_hash)

    def load(self, rates: NDArray[np.float64]) -> list[float]:
        """Return the requests/s of each server where partitions have these, float64 (P,): copies share them alike."""
        partition, server, share = self._shares
        known = partition < len(rates)
        found = np.bincount(server[known], rates[partition[known]] * share[known], len(self.servers))
        loads: list[float] = found.tolist()
        return loads

    @once
    def _shares(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Partition, server and share of its requests of each copy."""
        held = [(partition, one, 1 / len(of)) for partition, of in self.server_of.items() for one in of]
        columns = np.array(held, np.float64).reshape(-1, 3)
        return columns[:, 0].astype(np.int64), columns[:, 1].astype(np.int64), columns[:, 2]


@dataclass(frozen=True, eq=False)
class Patterns:
    """The requests/s of each partition over a day."""

    file: str
    pivots_hash: str  # Of the pivots whose partitions these are; "" where it does not say
    slot_seconds: int  # How long a slot is
    time_zone: str
    partitions: NDArray[np.int64]  # int64 (P,). Their numbers
    # float64 (T, P), requests/s: the mean of all days where the file has it, else of the weekdays that it has
    loads: NDArray[np.float64]

    def told(self, pivots_hash: str) -> dict[str, Any]:
        """Return what the page is told of them, beside a snapshot with these pivots."""
        minutes = self.slot_seconds / 60
        return {
            "file": self.file,
            "slots": len(self.loads),
            "slot_minutes": int(minutes) if minutes == int(minutes) else minutes,
            "time_zone": self.time_zone,
            "peak": float(self.loads.max(initial=0.0)),
            "peak_of_all": float(self.loads.sum(axis=1).max(initial=0.0)),
            "stale": _stale("patterns are", self.pivots_hash, pivots_hash),
        }

    def load(self, slot: int, partitions: int) -> NDArray[np.float64]:
        """Return the requests/s of a slot by the number of the partition, float64 (partitions,)."""
        found = np.zeros(partitions)
        known = self.partitions < partitions
        found[self.partitions[known]] = self.loads[slot, known]
        return found


def _stale(what: str, its: str, pivots: str) -> str | None:
    """Return what is wrong where a file is of other pivots than a snapshot; None where it is not, or says nothing."""
    if not its or its == pivots:
        return None
    return f"the {what} for pivots {its}, the snapshot has {pivots}: partition numbers mean other regions"


def read_plan(path: str) -> Plan:
    """Return the plan of a file that ``dtoss plan`` wrote."""
    data = Path(path).read_bytes()
    try:
        said = json.loads(data)
        if not isinstance(said, dict) or said.get("kind") != "ceps plan":
            raise ValueError("it is no plan: 'kind' is not 'ceps plan'")
        _check_format(said)
        return _plan_of(Path(path).name, said)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = "it is not JSON" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else str(error)
        raise ValueError(f"{path}: {why}") from None
    except KeyError as error:
        raise ValueError(f"{path}: key {error.args[0]!r} is missing") from None


def _plan_of(name: str, said: dict[str, Any]) -> Plan:
    rates = {kind["name"]: float(kind["requests_per_second"]) for kind in said["server_types"]}
    servers = tuple(
        {
            "number": int(one["server"]),
            "type": str(one["type"]),
            "capacity": rates[one["type"]],
            "cost_per_hour": float(one["dollars_per_hour"]),
            "spare": bool(one["spare"]),
        }
        for one in said["servers"]
    )
    at = {server["number"]: place for place, server in enumerate(servers)}
    held = {}
    for partition, numbers in zip(said["partitions"], said["replicas"], strict=True):
        if not numbers or not isinstance(partition, int) or partition < 0:
            raise ValueError(f"partition {partition!r} is none, or has no server")
        held[partition] = tuple(at[number] for number in numbers)
    return Plan(name, str(said["pivots_hash"]), servers, float(said["cost_per_day"]), held)


def read_patterns(path: str) -> Patterns:
    """Return the patterns of a file that ``dtoss patterns`` wrote."""
    try:
        with Path(path).open("rb") as file:
            table = pq.read_table(file)
        said = json.loads((table.schema.metadata or {})[_PATTERNS])
        _check_format(said)
        columns = {name: table[name] for name in _COLUMNS}
        return _patterns_of(Path(path).name, said, columns)
    except KeyError as error:
        raise ValueError(f"{path}: it holds no patterns: {error.args[0]!r} is missing") from None
    except (
        ValueError,
        TypeError,
        AttributeError,
        IndexError,
        OverflowError,
        RecursionError,
        pa.ArrowException,
    ) as error:
        raise ValueError(f"{path}: it holds no patterns that can be read: {_line(error)}") from None


def _patterns_of(name: str, said: dict[str, Any], columns: dict[str, pa.ChunkedArray]) -> Patterns:
    seconds = int(said["slot_seconds"])
    if seconds <= 0 or DAY % seconds:
        raise ValueError(f"slots of {seconds} s do not divide a day")
    numbers = np.array(said["partitions"], np.int64)
    held = said["weekdays"]
    weekday = columns["weekday"].fill_null(-1).to_numpy()
    rows = weekday == -1 if None in held else np.ones(len(weekday), np.bool_)
    days = 1 if None in held else len(held)
    if not days:
        raise ValueError("it is of no weekday")
    partition, slot = columns["partition"].to_numpy()[rows], columns["slot"].to_numpy()[rows]
    order = np.argsort(numbers)
    at = order[np.searchsorted(numbers, partition, sorter=order)]
    if (numbers[at] != partition).any():
        raise ValueError("a partition has rows and is not in the metadata")
    loads = np.zeros((DAY // seconds, len(numbers)))
    np.add.at(loads, (slot, at), columns["requests_per_second"].to_numpy()[rows] / days)
    if not np.isfinite(loads).all() or (slot < 0).any() or (numbers < 0).any():
        raise ValueError("a slot, a partition or a load is negative or no number")
    return Patterns(name, str(said["pivots_hash"]), seconds, str(said["time_zone"]), numbers, loads)


def _check_format(said: Mapping[str, Any]) -> None:
    if said["format"] > _FORMAT:
        raise ValueError(f"format {said['format']} is later than {_FORMAT}, the last that this version reads")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
