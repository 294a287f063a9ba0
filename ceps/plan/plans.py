"""Plans: which server holds which partitions, what that costs, and the versioned JSON that carries it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceps.model.number_text import figure, how_many
from ceps.model.patterns import Patterns, hour_slices
from ceps.model.servers import ServerType
from ceps.model.variation import Risk, Variation, risk_from_dict, variation_from_lists
from ceps.plan.offer import Offer

FORMAT = 1
"""Version of the JSON; a reader refuses a later one."""

DAYS_A_MONTH = 730 / 24
"""Days of the month that monthly figures assume: 730 hours, as cloud price lists do."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Plan:
    """A placement of partitions on rented servers; immutable.

    Parameters
    ----------
    method
        Name of the planner.
    utilisation
        Target utilisation u that it was made for.
    partitions
        int64 (P,), numbers of the partitions, in the order of the patterns.
    sizes
        float64 (P,), bytes of each.
    replicas
        int64 (P, copies), index of the server of each copy; never twice the same in a row.
    server_ids
        int64 (N,), numbers of the servers, ascending; a server keeps its number from plan to plan.
    type_of
        int64 (N,), type of each server, as an index into `servers`.
    servers
        The catalogue that was planned with.
    loads
        float64 (N, T), requests/s on each server by slot, growth included.
    cost_per_day, lower_bound
        Dollars a day, and what no plan undercuts.
    slot_seconds, time_zone, weekday, days, requests_per_event, pivots_hash
        As in the patterns.
    growth, seed
        Factor on the loads, and of the random choices.
    spare
        Number of the last servers that hold nothing, kept for the loss of another.
    types_by_hour
        int64 (N, hours) or None: types rented in each clock hour, where the plan has an hourly schedule.
    rented
        How each server is paid: "list", "reserved", "reserved-3y" or "spot"; empty where all are paid by the list.
    paid
        float64 (N,), dollars a day of each server, changes of type included; None where each costs the list price of
        its type. See `dollars_by_server`.
    zones
        int64 (N,) or None: the zone that each server stands in. No two copies of a partition share one, and the rest
        can answer everything where any one is lost.
    variation
        As in the patterns, `own` by server; None where it is not known.
    risk
        Expected overload (`ceps.overload_risk`), on the week where the patterns have one; None in older files.
    offers
        What the ways to rent cost on these patterns, this plan's among them; empty where nobody asked.
    options
        What else the planner was told.
    extras
        Figures of the planner, by name.
    """

    method: str
    utilisation: float
    partitions: Ints
    sizes: Floats
    replicas: Ints
    server_ids: Ints
    type_of: Ints
    servers: tuple[ServerType, ...]
    loads: Floats
    cost_per_day: float
    lower_bound: float
    slot_seconds: int
    time_zone: str = "UTC"
    weekday: int | None = None
    days: float = 1.0
    requests_per_event: float = 1.0
    pivots_hash: str = ""
    growth: float = 1.0
    seed: int | None = None
    spare: int = 0
    types_by_hour: Ints | None = None
    rented: tuple[str, ...] = ()
    paid: Floats | None = None
    zones: Ints | None = None
    variation: Variation | None = None
    risk: Risk | None = None
    offers: tuple[Offer, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __len__(self) -> int:
        return len(self.server_ids)

    @property
    def copies(self) -> int:
        """Copies of each partition."""
        return self.replicas.shape[1]

    @property
    def server_of(self) -> Ints:
        """int64 (P,), index of the server that holds each partition (its first copy)."""
        return self.replicas[:, 0]

    @property
    def types(self) -> tuple[ServerType, ...]:
        """Type of each server."""
        return tuple(self.servers[kind] for kind in self.type_of)

    @cached_property
    def capacity(self) -> Floats:
        """float64 (N,), requests/s of each server when fully busy."""
        return np.array([self.servers[kind].requests_per_second for kind in self.type_of], dtype=np.float64)

    @cached_property
    def capacity_by_slot(self) -> Floats:
        """float64 (N, T), requests/s of each server when fully busy; of the hour's type where types change."""
        slots = self.loads.shape[1]
        if self.types_by_hour is None or not self.types_by_hour.shape[1]:
            return np.broadcast_to(self.capacity[:, None], (len(self), slots))
        rates = np.array([kind.requests_per_second for kind in self.servers])
        hour = np.arange(slots) * self.slot_seconds // 3600 % self.types_by_hour.shape[1]
        return rates[self.types_by_hour[:, hour]]

    @cached_property
    def peaks(self) -> Floats:
        """float64 (N,), largest load of each server, requests/s."""
        return self.loads.max(axis=1, initial=0.0)

    @cached_property
    def utilisation_by_slot(self) -> Floats:
        """float64 (N, T), load of each server over its full capacity in the slot."""
        return self.loads / self.capacity_by_slot

    @property
    def overload(self) -> float:
        """Share of the requests above the servers' full capacity when days are as their patterns."""
        total = float(self.loads.sum())
        return float(np.maximum(self.loads - self.capacity_by_slot, 0.0).sum()) / total if total else 0.0

    @cached_property
    def bytes(self) -> Floats:
        """float64 (N,), bytes that each server holds."""
        held = np.zeros(len(self))
        np.add.at(held, self.replicas, np.broadcast_to(self.sizes[:, None], self.replicas.shape))
        return held

    @property
    def dollars_by_server(self) -> Floats:
        """float64 (N,), dollars a day that each server costs; they add up to `cost_per_day`."""
        if self.paid is not None:
            return self.paid
        return 24 * np.array([self.servers[kind].dollars_per_hour for kind in self.type_of], dtype=np.float64)

    @property
    def cost_per_month(self) -> float:
        """Dollars for 730 hours."""
        return self.cost_per_day * DAYS_A_MONTH

    @property
    def gap(self) -> float:
        """Cost over lower bound; 1 is proven optimal, and 1 where nothing is paid; infinite over a bound of 0."""
        if not self.cost_per_day:
            return 1.0
        return self.cost_per_day / self.lower_bound if self.lower_bound else float("inf")

    @property
    def servers_a_request(self) -> float | None:
        """Mean number of servers that a request touches (`ceps.servers_a_request`); None where that is not known."""
        return self.extras.get("servers_a_request")

    def under(self, patterns: Patterns) -> Plan:
        """Return the same servers, asked as other patterns of the same partitions say; its risk is not known yet.

        Raises
        ------
        ValueError
            The patterns have other partitions.
        """
        row = {number: place for place, number in enumerate(patterns.partitions.tolist())}
        if row.keys() != set(self.partitions.tolist()):
            raise ValueError("the patterns have other partitions than the plan; use the patterns it was made from")
        asked = patterns.loads[[row[number] for number in self.partitions.tolist()]] * (self.growth / self.copies)
        loads = np.zeros((len(self), patterns.slots))
        for copy in range(self.copies):
            np.add.at(loads, self.replicas[:, copy], asked)
        return replace(
            self,
            loads=loads,
            slot_seconds=patterns.slot_seconds,
            weekday=patterns.weekday,
            days=patterns.days,
            risk=None,
        )

    def members(self, server: int) -> Ints:
        """int64, rows of the partitions of which the server with this index holds a copy."""
        return np.flatnonzero((self.replicas == server).any(axis=1))

    def busy(self) -> Floats:
        """float64 (N, hours), largest share of its capacity that each server uses in each hour of the day or week."""
        share = self.loads / np.maximum(self.capacity_by_slot, 1e-300)
        slices = hour_slices(share.shape[1], self.slot_seconds)
        return np.column_stack([share[:, part].max(axis=1, initial=0.0) for part in slices])

    def plot(self, what: str = "servers", *, ax: Any = None) -> Any:
        """Draw how the servers' loads rise and fall, and return matplotlib's Axes.

        Parameters
        ----------
        what
            "servers": a row of shades for each (the fullest 32), by the hour, as its share of capacity. "requests":
            requests/s of all, on top of one another, below what is rented.
        ax
            Matplotlib's Axes to draw on; a new figure's when None.

        Raises
        ------
        ValueError
            If ``what`` is neither.
        ImportError
            If matplotlib is not installed.
        """
        from ceps.plan.plan_html import draw_requests, draw_servers

        names = [f"server {number} ({kind.name})" for number, kind in zip(self.server_ids, self.types, strict=True)]
        if what == "servers":
            return draw_servers(ax, names, self.busy())
        if what == "requests":
            return draw_requests(ax, names, self.loads, self.capacity_by_slot, self.slot_seconds)
        raise ValueError(f"what is {what!r}: servers or requests are wanted")

    def _repr_html_(self) -> str:
        from ceps.plan.plan_html import plan_html

        facts = [
            ("cost", f"${self.cost_per_month:,.2f} a month, ${self.cost_per_day:,.2f} a day"),
            ("lower bound", f"${self.lower_bound:,.2f} a day: the plan costs {figure(self.gap)} times that"),
            ("method", f"{self.method}, servers filled to {100 * self.utilisation:g} %"),
            (
                "partitions",
                f"{len(self.partitions):,}" + (f" x {how_many(self.copies, 'copy')}" if self.copies > 1 else ""),
            ),
        ]
        if self.risk is not None:
            day = f" on {self.risk.worst_name}s" if self.risk.worst_name else ""
            facts.append(("risk", f"{self.risk.name}: {100 * self.risk.worst:.2g} % of the requests late{day}"))
        most = self.utilisation_by_slot.max(axis=1, initial=0.0)
        servers = [
            (str(number), kind.name, f"{len(self.members(k)):,}", f"{self.peaks[k]:,.1f}", f"{100 * most[k]:.0f} %")
            for k, (number, kind) in enumerate(zip(self.server_ids.tolist(), self.types, strict=True))
        ]
        return plan_html(facts, servers)

    def to_dict(self, previous: Plan | None = None) -> dict[str, Any]:
        """Build the content of plan.json; with `previous`, what changed since then stands under `diff`."""
        servers = []
        for k, number in enumerate(self.server_ids.tolist()):
            kind = self.servers[self.type_of[k]]
            entry: dict[str, Any] = {
                "server": number,
                "type": kind.name,
                "spare": k >= len(self) - self.spare,
                "dollars_per_hour": kind.dollars_per_hour,
                "partitions": self.partitions[self.members(k)].tolist(),
                "bytes": float(self.bytes[k]),
                "peak_requests_per_second": float(self.peaks[k]),
                "mean_requests_per_second": float(self.loads[k].mean()),
                "requests_per_second": self.loads[k].tolist(),
                "utilisation": np.round(self.utilisation_by_slot[k], 4).tolist(),
            }
            if self.rented:
                entry["rented"] = self.rented[k]
            if self.paid is not None:
                entry["dollars_per_day"] = float(self.paid[k])
            if self.zones is not None:
                entry["zone"] = int(self.zones[k])
            if self.types_by_hour is not None:
                entry["types_by_hour"] = [self.servers[kind].name for kind in self.types_by_hour[k]]
            servers.append(entry)
        content: dict[str, Any] = {
            "format": FORMAT,
            "kind": "ceps plan",
            "method": self.method,
            "cost_per_day": self.cost_per_day,
            "lower_bound": self.lower_bound,
            "utilisation": self.utilisation,
            "growth": self.growth,
            "seed": self.seed,
            "options": dict(self.options),
            "extras": dict(self.extras),
            "pivots_hash": self.pivots_hash,
            "slot_seconds": self.slot_seconds,
            "time_zone": self.time_zone,
            "weekday": self.weekday,
            "days_observed": self.days,
            "requests_per_event": self.requests_per_event,
            "copies": self.copies,
            "variation": None
            if self.variation is None
            else {
                "levels": self.variation.levels.tolist(),
                "own": self.variation.own.tolist(),
            },
            "risk": None if self.risk is None else self.risk.to_dict(),
            "offers": [asdict(offer) for offer in self.offers],
            "server_types": [asdict(kind) | {"bytes": _number(kind.bytes)} for kind in self.servers],
            "partitions": self.partitions.tolist(),
            "partition_bytes": self.sizes.tolist(),
            "replicas": [self.server_ids[row].tolist() for row in self.replicas],
            "servers": servers,
        }
        if previous is not None:
            content["diff"] = asdict(diff(self, previous))
        return content

    def save(self, path: str | Path, previous: Plan | None = None, more: Mapping[str, Any] | None = None) -> None:
        """Write plan.json; see `to_dict`. Entries of `more`, such as "actions", stand beside those of the plan."""
        text = json.dumps({**self.to_dict(previous), **(more or {})}, indent=1, allow_nan=False)
        Path(path).write_text(text + "\n", encoding="utf-8")


def load_plan(path: str | Path) -> Plan:
    """Plan of a file that `Plan.save` wrote; every field comes back bit by bit.

    Raises
    ------
    ValueError
        Not a plan, of a later format, or a key is missing.
    FileNotFoundError
        There is no such file.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    try:
        return plan_from_dict(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def plan_from_dict(content: Mapping[str, Any]) -> Plan:
    """Plan of what `Plan.to_dict` made."""
    if not isinstance(content, Mapping) or content.get("kind") != "ceps plan":
        raise ValueError("not a plan: 'kind' is not 'ceps plan'")
    if content["format"] > FORMAT:
        raise ValueError(f"format {content['format']} is later than {FORMAT}, the last this version reads")
    try:
        return _read(content)
    except KeyError as error:
        raise ValueError(f"not a plan: key {error.args[0]!r} is missing") from error


def _read(content: Mapping[str, Any]) -> Plan:
    types = tuple(
        ServerType(**{**kind, "bytes": np.inf if kind["bytes"] is None else kind["bytes"]})
        for kind in content["server_types"]
    )
    names = {kind.name: number for number, kind in enumerate(types)}
    entries = content["servers"]
    ids = np.array([entry["server"] for entry in entries], dtype=np.int64)
    copies = content["copies"]
    replicas = np.array(content["replicas"], dtype=np.int64).reshape(-1, copies)
    paid = [entry["dollars_per_day"] for entry in entries if "dollars_per_day" in entry]
    zones = [entry["zone"] for entry in entries if "zone" in entry]
    hourly = [[names[name] for name in entry["types_by_hour"]] for entry in entries if "types_by_hour" in entry]
    slots = 86_400 // content["slot_seconds"]
    noise = content.get("variation")
    return Plan(
        method=content["method"],
        utilisation=content["utilisation"],
        partitions=np.array(content["partitions"], dtype=np.int64),
        sizes=np.array(content["partition_bytes"], dtype=np.float64),
        replicas=np.searchsorted(ids, replicas).astype(np.int64),
        server_ids=ids,
        type_of=np.array([names[entry["type"]] for entry in entries], dtype=np.int64),
        servers=types,
        loads=np.array([entry["requests_per_second"] for entry in entries], dtype=np.float64).reshape(
            len(entries), -1 if entries else slots
        ),
        cost_per_day=content["cost_per_day"],
        lower_bound=content["lower_bound"],
        slot_seconds=content["slot_seconds"],
        time_zone=content["time_zone"],
        weekday=content["weekday"],
        days=content["days_observed"],
        requests_per_event=content["requests_per_event"],
        pivots_hash=content["pivots_hash"],
        growth=content["growth"],
        seed=content["seed"],
        spare=sum(bool(entry["spare"]) for entry in entries),
        types_by_hour=np.array(hourly, dtype=np.int64) if hourly else None,
        rented=tuple(entry["rented"] for entry in entries if "rented" in entry),
        paid=np.array(paid, dtype=np.float64) if paid else None,
        zones=np.array(zones, dtype=np.int64) if zones else None,
        variation=None if noise is None else variation_from_lists(noise["levels"], noise["own"]),
        risk=None if content.get("risk") is None else risk_from_dict(content["risk"]),
        offers=tuple(Offer(**offer) for offer in content.get("offers", ())),
        options=content["options"],
        extras=content["extras"],
    )


@dataclass(frozen=True)
class PlanDiff:
    """What changes when one plan replaces another.

    Parameters
    ----------
    bytes_moved
        Bytes to copy to a server that did not hold them; new partitions are not counted.
    bytes_stored
        Bytes of all copies of all partitions in the new plan.
    partitions_moved
        Numbers of the partitions of which some copy moves.
    partitions_new, partitions_gone
        Numbers of partitions that only one of the plans has.
    servers_added, servers_removed
        Numbers of servers that only one of the plans has.
    servers_resized
        Numbers of servers that change their type.
    dollars_per_day
        Change of cost.
    """

    bytes_moved: float
    bytes_stored: float
    partitions_moved: tuple[int, ...]
    partitions_new: tuple[int, ...]
    partitions_gone: tuple[int, ...]
    servers_added: tuple[int, ...]
    servers_removed: tuple[int, ...]
    servers_resized: tuple[int, ...]
    dollars_per_day: float

    @property
    def share_moved(self) -> float:
        """Bytes moved over bytes stored; 0 when nothing is stored."""
        return self.bytes_moved / self.bytes_stored if self.bytes_stored else 0.0


def diff(plan: Plan, previous: Plan) -> PlanDiff:
    """Difference between two plans; partitions and servers are the same when their numbers are.

    Raises
    ------
    ValueError
        The plans are for different pivots, so that equal numbers do not mean equal partitions.
    """
    require_same_pivots(plan.pivots_hash, previous.pivots_hash)
    before = {int(number): set(previous.server_ids[row].tolist()) for number, row in _rows(previous)}
    moved: list[int] = []
    total = 0.0
    for place, (number, row) in enumerate(_rows(plan)):
        if number not in before:
            continue
        coming = set(plan.server_ids[row].tolist()) - before[number]
        if coming:
            moved.append(int(number))
            total += len(coming) * float(plan.sizes[place])
    numbers = set(plan.partitions.tolist())
    ids, old_ids = set(plan.server_ids.tolist()), set(previous.server_ids.tolist())
    names = dict(zip(plan.server_ids.tolist(), (kind.name for kind in plan.types), strict=True))
    old_names = dict(zip(previous.server_ids.tolist(), (kind.name for kind in previous.types), strict=True))
    return PlanDiff(
        bytes_moved=total,
        bytes_stored=float(plan.sizes.sum() * plan.copies),
        partitions_moved=tuple(sorted(moved)),
        partitions_new=tuple(sorted(numbers - before.keys())),
        partitions_gone=tuple(sorted(before.keys() - numbers)),
        servers_added=tuple(sorted(ids - old_ids)),
        servers_removed=tuple(sorted(old_ids - ids)),
        servers_resized=tuple(sorted(k for k in ids & old_ids if names[k] != old_names[k])),
        dollars_per_day=plan.cost_per_day - previous.cost_per_day,
    )


def require_same_pivots(wanted: str, found: str) -> None:
    """Do nothing when two pivot hashes agree, or one of them is empty (unknown)."""
    if wanted and found and wanted != found:
        raise ValueError(
            f"pivots {found[:12]} but {wanted[:12]} are wanted: partition numbers mean other regions; make the plan "
            "from patterns of the current snapshot (or rebuild with --pivots keep)"
        )


def _rows(plan: Plan) -> Sequence[tuple[int, Ints]]:
    return list(zip(plan.partitions.tolist(), plan.replicas, strict=True))


def _number(value: float) -> float | None:
    return None if np.isinf(value) else value
