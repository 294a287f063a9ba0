"""What to do, in which order, to get from the plan in force to a new one without losing a copy or filling a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ceps.model.argument_checks import number, whole
from ceps.model.number_text import bytes_text, figure, how_many
from ceps.model.problem import TOLERANCE, InfeasibleError
from ceps.model.servers import ServerType
from ceps.plan.plans import Plan, require_same_pivots

_SHOWN = 12  # partitions that a line names


@dataclass(frozen=True)
class Action:
    """One thing to do."""

    do: str  # "rent", "move", "wait", "drop", "resize" or "give back"
    start: float  # start, finish: hours from the beginning. Moves of one step share them; all else takes no time here
    finish: float
    server: int = -1  # Its number; of a move, the server that loads. -1 where a wait is for all moves before it
    type: str = ""  # Type to rent or to resize to, or ""
    # Of a move, the server that has the partitions now, -1 for the store. It keeps them until the next wait
    source: int = -1
    leaves: bool = True  # Whether the source drops them once they are loaded; False where a copy is added
    partitions: tuple[int, ...] = ()  # Numbers, ascending
    bytes: float = 0.0
    why: str = ""  # What a reader would ask: temporary servers and detours say what they are for

    def to_dict(self) -> dict[str, Any]:
        """Build the entry of plan.json: only what the kind of action has."""
        content: dict[str, Any] = {"do": self.do, "start_hour": self.start, "finish_hour": self.finish}
        if self.do == "move":
            content |= {"from": None if self.source < 0 else self.source, "to": self.server, "leaves": self.leaves}
        elif self.do != "wait":
            content["server"] = self.server
        if self.type:
            content["type"] = self.type
        if self.partitions:
            content |= {"partitions": list(self.partitions), "bytes": self.bytes}
        return content | ({"why": self.why} if self.why else {})

    def __str__(self) -> str:
        named = ", ".join(map(str, self.partitions[:_SHOWN])) + (", ..." if len(self.partitions) > _SHOWN else "")
        some = f"{how_many(len(self.partitions), 'partition')} ({named}; {bytes_text(self.bytes)})"
        source = "the store" if self.source < 0 else f"server {self.source}"
        text = {
            "rent": f"rent server {self.server}, {self.type}",
            "move": f"{'move' if self.leaves and self.source >= 0 else 'copy'} {some} from {source} to {self.server}",
            "wait": "wait until loaded; then the old copies go",
            "drop": f"drop {some} from server {self.server}",
            "resize": f"resize server {self.server} to {self.type}: it restarts",
            "give back": f"give back server {self.server}",
        }[self.do]
        return text + (f" ({self.why})" if self.why else "")


@dataclass(eq=False)
class _Change:
    """What stands where while the list is made; changed in place."""

    sizes: dict[int, float]
    types: dict[int, ServerType]  # of each server that is rented now
    held: dict[int, set[int]]
    final: dict[int, set[int]]
    kinds: dict[int, ServerType]  # of each server of the new plan
    parked: dict[int, int] = field(default_factory=dict)  # partition -> server where it waits for its place
    hour: float = 0.0
    done: list[Action] = field(default_factory=list)

    def bytes_of(self, partitions: Sequence[int] | set[int]) -> float:
        return float(sum(self.sizes[p] for p in sorted(partitions)))

    def free(self, server: int) -> float:
        return self.types[server].bytes * (1 + TOLERANCE) - self.bytes_of(self.held[server])

    def waiting(self, server: int) -> set[int]:
        """Partitions that a server of the new plan does not hold yet."""
        return self.final.get(server, set()) - self.held.get(server, set())

    def leavers(self, server: int) -> set[int]:
        """Partitions that a server holds and is to lose, of those that the new plan has."""
        return {p for p in self.held[server] - self.final.get(server, set()) if not self.gone(p)}

    def gone(self, partition: int) -> bool:
        return partition not in self.homes

    @cached_property
    def homes(self) -> dict[int, list[int]]:
        """Servers of each partition of the new plan."""
        found: dict[int, list[int]] = {}
        for server in sorted(self.final):
            for partition in self.final[server]:
                found.setdefault(partition, []).append(server)
        return found

    def add(self, do: str, **what: Any) -> None:
        self.done.append(Action(do, what.pop("start", self.hour), self.hour, **what))


def actions(
    plan: Plan, previous: Plan, *, bytes_per_hour: float | None = None, at_a_time: int | None = None
) -> tuple[Action, ...]:
    """Return what to do, in order, to get from the plan in force to a new one.

    Servers are the same when their numbers are. A step rents what it needs, lets servers load, waits, and only then do
    old copies go. So each partition always has as many copies as the plan that has fewer, and no server ever holds
    more bytes than its type. A server grows before it loads, and shrinks when it has lost what it is to lose. What is
    resized restarts: its partitions answer from their other copies for so long.

    Where full servers wait for one another, a partition is parked on a server that has room for it besides what it is
    still to load. Where there is none, one more server is rented for as long as it takes.

    ``bytes_per_hour``: bytes that may be copied in an hour, in all; None: copying takes no time; ``at_a_time``: servers
    that may load in one step; None: all.
    """
    if bytes_per_hour is not None:
        bytes_per_hour = number("bytes_per_hour", bytes_per_hour, "above 0 and finite", above=0)
    most = len(plan) + len(previous) if at_a_time is None else whole("at_a_time", at_a_time, 1, 2**31)
    require_same_pivots(plan.pivots_hash, previous.pivots_hash)
    change = _change(plan, previous)
    for server in sorted(set(change.kinds) - set(change.types)):
        if not change.final[server]:  # a spare
            _rent(change, server, change.kinds[server])
    _settle(change)
    while True:
        loads, why = _loads(change, most), ""
        sources: dict[int, int] = {}
        if not loads:
            if not any(change.waiting(server) for server in change.final):
                break
            loads, sources, why = _detour(change, plan.servers)
        _step(change, loads, sources, why, bytes_per_hour)
        _settle(change)
    for server in sorted(change.types):
        _drop(change, server, {p for p in change.held[server] if change.gone(p)}, "the new plan has no such partition")
    _settle(change)
    return tuple(change.done)


def _change(plan: Plan, previous: Plan) -> _Change:
    sizes = dict(zip(previous.partitions.tolist(), previous.sizes.tolist(), strict=True))
    sizes |= dict(zip(plan.partitions.tolist(), plan.sizes.tolist(), strict=True))

    def holdings(made: Plan) -> dict[int, set[int]]:
        numbers = made.server_ids.tolist()
        return {numbers[k]: set(made.partitions[made.members(k)].tolist()) for k in range(len(made))}

    def kinds(made: Plan) -> dict[int, ServerType]:
        return dict(zip(made.server_ids.tolist(), made.types, strict=True))

    change = _Change(sizes, kinds(previous), holdings(previous), holdings(plan), kinds(plan))
    full = [server for server in sorted(change.held) if change.free(server) < 0]
    if full:
        server, kind = full[0], change.types[full[0]]
        raise InfeasibleError(
            f"server {server} ({kind.name}) holds {bytes_text(change.bytes_of(change.held[server]))} now, more than "
            f"its {bytes_text(kind.bytes)}: partitions have grown; resize it before the change",
            sorted(change.held[server]),
        )
    return change


def _loads(change: _Change, most: int) -> dict[int, list[int]]:
    """Partitions that each of at most `most` servers loads in the next step; those that can load all come first."""
    found: list[tuple[bool, float, int, list[int]]] = []
    for server in sorted(change.final):
        waiting = change.waiting(server)
        if not waiting:
            continue
        room, taken = _room_to_be(change, server), []
        for partition in sorted(waiting, key=lambda p: (-change.sizes[p], p)):
            if change.sizes[partition] <= room:
                room -= change.sizes[partition]
                taken.append(partition)
        if taken:
            found.append((len(taken) < len(waiting), -change.bytes_of(taken), server, taken))
    return {server: taken for _, _, server, taken in sorted(found)[:most]}


def _room_to_be(change: _Change, server: int) -> float:
    """Bytes that a server can load now: rented, grown, and rid of what the new plan does not have, if it is not yet."""
    if server not in change.types:
        return change.kinds[server].bytes * (1 + TOLERANCE)
    grown = max(change.types[server].bytes, change.kinds[server].bytes)
    kept = {p for p in change.held[server] if not change.gone(p)}
    return grown * (1 + TOLERANCE) - change.bytes_of(kept)


def _step(
    change: _Change, loads: dict[int, list[int]], sources: dict[int, int], why: str, bytes_per_hour: float | None
) -> None:
    """Rent and grow what loads, load it, wait, and let the old copies go."""
    for server in sorted(loads):
        size = change.bytes_of(loads[server])
        if server not in change.types:
            _rent(change, server, change.kinds[server])
        if size > change.free(server):
            gone = {p for p in change.held[server] if change.gone(p)}
            _drop(change, server, gone, "the new plan has no such partition")
        if size > change.free(server):
            _resize(change, server)
    moves: dict[tuple[int, int, bool], list[int]] = {}
    leaving: dict[int, set[int]] = {}  # servers that each partition leaves
    for server in sorted(loads):
        for partition in sorted(loads[server]):
            source, leaves = _source(change, partition, leaving.setdefault(partition, set()), sources)
            moves.setdefault((server, source, leaves), []).append(partition)
            if leaves:
                leaving[partition].add(source)
    begun = change.hour
    if bytes_per_hour is not None:
        change.hour += sum(change.bytes_of(some) for some in moves.values()) / bytes_per_hour
    for (server, source, leaves), some in sorted(moves.items()):
        change.add("move", start=begun, server=server, source=source, leaves=leaves, partitions=tuple(some),
                   bytes=change.bytes_of(some), why=why)  # fmt: skip
        change.held[server] |= set(some)
    change.add("wait")
    for (_, source, leaves), some in moves.items():
        if leaves:
            change.held[source] -= set(some)


def _source(change: _Change, partition: int, left: set[int], sources: dict[int, int]) -> tuple[int, bool]:
    """Return the server that a partition comes from, -1 where none has it, and whether the partition leaves it."""
    if partition in sources:
        return sources[partition], True
    holders = [server for server in sorted(change.held) if partition in change.held[server]]
    leaving = [s for s in holders if partition not in change.final.get(s, set()) and s not in left]
    if leaving:
        return min(
            leaving, key=lambda s: (change.parked.get(partition) != s, s)
        ), True  # what is parked goes home first
    return (holders[0] if holders else -1), False


def _detour(change: _Change, types: Sequence[ServerType]) -> tuple[dict[int, list[int]], dict[int, int], str]:
    """Return what is parked where, from where, and why, so that some server can load what it waits for.

    A server is rented for it where none has room.
    """
    blocked = [server for server in sorted(change.final) if change.waiting(server)]
    server = next((s for s in blocked if change.leavers(s)), blocked[0])
    wanted = min(change.waiting(server), key=lambda p: (change.sizes[p], p))
    lacking = change.sizes[wanted] - _room_to_be(change, server)
    leavers = sorted(change.leavers(server), key=lambda p: (change.sizes[p], p))
    why = (
        f"servers wait for one another ({', '.join(map(str, blocked[:_SHOWN]))}): {server} lacks {bytes_text(lacking)} "
        f"for partition {wanted}"
    )
    if not leavers:
        raise InfeasibleError(f"{why}, and has nothing to lose", [wanted])
    moved = next((p for p in leavers if change.sizes[p] >= lacking), leavers[-1])
    size = change.sizes[moved]
    room = {
        other: change.free(other) - change.bytes_of(change.waiting(other))
        for other in sorted(change.types)
        if moved not in change.held[other] and moved not in change.waiting(other)
    }
    fitting = [other for other in room if room[other] >= size]
    if fitting:
        target = min(fitting, key=lambda other: (room[other], other))
    else:
        holding = [kind for kind in types if kind.bytes >= size]
        if not holding:
            raise InfeasibleError(
                f"{why}; no type holds the {bytes_text(size)} of partition {moved} meanwhile", [moved]
            )
        target = max([*change.types, *change.kinds]) + 1
        cheapest = min(holding, key=lambda kind: kind.dollars_per_hour)
        _rent(change, target, cheapest, "for the change only: no other server has room")
    change.parked[moved] = target
    return {target: [moved]}, {moved: server}, why


def _rent(change: _Change, server: int, kind: ServerType, why: str = "") -> None:
    change.types[server], change.held[server] = kind, set()
    change.add("rent", server=server, type=kind.name, why=why)


def _resize(change: _Change, server: int) -> None:
    change.types[server] = change.kinds[server]
    change.add("resize", server=server, type=change.kinds[server].name)


def _drop(change: _Change, server: int, some: set[int], why: str) -> None:
    if some:
        change.add("drop", server=server, partitions=tuple(sorted(some)), bytes=change.bytes_of(some), why=why)
        change.held[server] -= some


def _settle(change: _Change) -> None:
    """Drop copies too many, give back what is empty and not in the new plan, and shrink what holds what it shall."""
    placed = {p for p, homes in change.homes.items() if all(p in change.held.get(server, set()) for server in homes)}
    for server in sorted(change.types):
        _drop(change, server, change.leavers(server) & placed, "a copy too many")
        if server not in change.kinds and not change.held[server]:
            change.add("give back", server=server)
            del change.types[server], change.held[server]
            continue
        done = change.held[server] == change.final.get(server)
        if done and change.types[server].name != change.kinds[server].name:
            _resize(change, server)


def action_rows(listed: Sequence[Action], most: int = 40) -> list[tuple[str, str]]:
    """Return the rows of a table of actions, the header first; at most `most` of them.

    Examples
    --------
    >>> action_rows([Action("rent", 0, 0, server=3, type="large"), Action("wait", 1.25, 1.25)])
    [('hours', 'action'), ('0', 'rent server 3, large'), ('1.25', 'wait until loaded; then the old copies go')]
    """
    rows = [("hours", "action")]
    for action in listed[:most]:
        hours = figure(action.start) + (f" to {figure(action.finish)}" if action.finish > action.start else "")
        rows.append((hours, str(action)))
    if len(listed) > most:
        rows.append(("...", f"and {how_many(len(listed) - most, 'action')} more, in the plan's file"))
    return rows
