"""What a plan came to in a time that has passed, what hindsight would cost, and a section of a report that says so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from ceps.model.number_text import how_many, per_cent
from ceps.model.patterns import DAY, WEEK, Patterns
from ceps.model.problem import Floats, InfeasibleError, Ints
from ceps.model.servers import ServerType
from ceps.offers.payment import HOUR, Terms, own_price
from ceps.plan.planning import plan as make_plan
from ceps.plan.plans import Plan
from ceps.reporting.kit.html_page import section, table

HINDSIGHT_SECONDS = 60.0
"""In which a plan with hindsight is looked for."""


@dataclass(frozen=True, eq=False)
class Bill:
    """A plan in a time of n slots, beside what it said."""

    plan: Plan  # The plan, taken to have been in force all the time
    slot: Ints  # int64 (n,), which slot of the plan's day or week each is
    seconds: Floats  # float64 (n,), how long each was
    asked: Floats  # float64 (P, n), requests to each of the plan's partitions
    requests: float  # How many requests there were; one that reads several partitions is one
    since: int = 0  # When the time begins, seconds since 1970
    # The plan that would have been made of what was asked; None where none fits, or nobody looked
    hindsight: Plan | None = None
    no_hindsight: str = ""  # Why there is none

    @property
    def until(self) -> int:
        """When the time ends, seconds since 1970."""
        return self.since + int(self.seconds.sum())

    @property
    def hours(self) -> float:
        """How long the time is."""
        return float(self.seconds.sum()) / HOUR

    @cached_property
    def loads(self) -> Floats:
        """float64 (N, n), requests/s on each server; copies of a partition answer equal shares."""
        found = np.zeros((len(self.plan), len(self.slot)))
        for copy in range(self.plan.copies):
            np.add.at(found, self.plan.replicas[:, copy], self.asked / self.plan.copies)
        return found / self.seconds

    @cached_property
    def planned(self) -> Floats:
        """float64 (N, n), requests/s that the plan expected, growth included."""
        return self.plan.loads[:, self.slot]

    @cached_property
    def capacity(self) -> Floats:
        """float64 (N, n), requests/s of each server when fully busy."""
        return self.plan.capacity_by_slot[:, self.slot]

    @cached_property
    def dollars(self) -> Floats:
        """float64 (N,), what each server cost, as it is paid."""
        share = self.seconds / self.plan.slot_seconds
        found: Floats = dollars_by_slot(self.plan)[:, self.slot] @ share
        return found

    @cached_property
    def busy(self) -> Floats:
        """float64 (N, n), share of its capacity that each server was asked for."""
        return self.loads / self.capacity

    @cached_property
    def planned_busy(self) -> Floats:
        """float64 (N, n), share of its capacity that the plan expected."""
        return self.planned / self.capacity

    def mean(self, values: Floats) -> float:
        """Mean of values (n,) over the time."""
        return float(values @ self.seconds / self.seconds.sum())

    @property
    def reads(self) -> float:
        """Requests to partitions: one request that reads two counts twice."""
        return float(self.asked.sum())

    @property
    def planned_requests(self) -> float:
        """Requests that the plan expected, of as many partitions each as were seen."""
        expected = float((self.planned * self.seconds).sum())
        return expected * self.requests / self.reads if self.reads else expected

    @property
    def late_share(self) -> float:
        """Share of the requests that were above capacity."""
        return float(self.late(self.loads).sum()) / self.reads if self.reads else 0.0

    @property
    def planned_late_share(self) -> float:
        """Share of the requests that the plan expected above capacity: its risk over all days."""
        return self.plan.overload if self.plan.risk is None else self.plan.risk.overload

    def late(self, loads: Floats) -> Floats:
        """float64 (N,), requests to each server above its full capacity, of loads (N, n)."""
        found: Floats = np.maximum(loads - self.capacity, 0.0) @ self.seconds
        return found

    @property
    def hindsight_way(self) -> str:
        """How hindsight is paid: as the plan where that is paid in one way, else by the list."""
        ways = set(self.plan.rented)
        return ways.pop() if len(ways) == 1 else "list"

    @property
    def beside_hindsight(self) -> float:
        """Dollars of the plan at the prices of hindsight."""
        at_list = len(set(self.plan.rented)) > 1
        share = self.seconds / self.plan.slot_seconds
        return float((dollars_by_slot(self.plan, at_list=at_list)[:, self.slot] @ share).sum())

    @property
    def hindsight_dollars(self) -> float | None:
        """Dollars of the servers of hindsight, rented all the time."""
        return None if self.hindsight is None else self.hindsight.cost_per_day * self.hours / 24


@dataclass(frozen=True)
class Rental:
    """Hours of servers of a type that are paid in one way."""

    type: str  # type, way: name of the type, and how it is paid: "list", "reserved", "reserved-3y" or "spot"
    way: str
    hours: float  # Of all servers together
    price: float  # Dollars an hour

    @property
    def dollars(self) -> float:
        """Hours times price."""
        return self.hours * self.price


def rentals(bill: Bill) -> tuple[Rental, ...]:
    """Return what was rented, by type and way to pay; servers that wait for their successors are not in it."""
    made = bill.plan
    seconds: dict[tuple[int, str], float] = {}
    types = types_by_hour(made)
    hour = bill.slot * made.slot_seconds // HOUR
    for k, way in enumerate(made.rented or ("list",) * len(made)):
        spans = np.bincount(types[k, hour], bill.seconds, minlength=len(made.servers))
        for kind, span in enumerate(spans.tolist()):
            if span:
                seconds[kind, way] = seconds.get((kind, way), 0.0) + span
    return tuple(
        Rental(made.servers[kind].name, way, span / HOUR, paid(made.servers[kind], way))
        for (kind, way), span in sorted(seconds.items())
    )


def change_dollars(bill: Bill) -> float:
    """Return what changes of type cost: dollars beside those of `rentals`."""
    rest = float(bill.dollars.sum()) - sum(one.dollars for one in rentals(bill))
    return rest if bill.plan.types_by_hour is not None and rest > 1e-9 else 0.0


def types_by_hour(plan: Plan) -> Ints:
    """int64 (N, hours), the type of each server in each hour of the plan's period."""
    hours = max(plan.loads.shape[1] * plan.slot_seconds // HOUR, 1)
    return np.tile(plan.type_of[:, None], hours) if plan.types_by_hour is None else plan.types_by_hour


def paid(kind: ServerType, way: str) -> float:
    """Return the dollars an hour of a type in a way to pay of `ceps.offers.payment`; the list's where it has none.

    Examples
    --------
    >>> box = ServerType("box", 1.0, 1.0, 0.1, reserved_dollars_per_hour=0.06)
    >>> paid(box, "list"), paid(box, "reserved"), paid(box, "spot")
    (0.1, 0.06, 0.1)
    """
    price = own_price(kind, way)
    return kind.dollars_per_hour if price is None else price


def dollars_by_slot(plan: Plan, *, at_list: bool = False) -> Floats:
    """float64 (N, T), what each server costs in each slot of the plan's period, changes of type in theirs.

    Over a whole period they sum to the days of the period times `cost_per_day`.
    """
    slots = plan.loads.shape[1]
    types = types_by_hour(plan)
    own = _prices(plan, types, plan.rented or ("list",) * len(plan))
    price = _prices(plan, types, ("list",) * len(plan)) if at_list else own
    # the plan says what all changes of a period cost; each has its share by the usual terms
    changed = np.where(types != np.roll(types, 1, axis=1), Terms().overlap_hours(plan.bytes)[:, None], 0.0)
    usual = float((changed * own).sum())
    scale = max(plan.cost_per_day * types.shape[1] / 24 - float(own.sum()), 0.0) / usual if usual else 0.0
    step = math.gcd(plan.slot_seconds, HOUR)
    fine = np.repeat(price * (step / HOUR), HOUR // step, axis=1)
    fine[:, :: HOUR // step] += changed * price * scale
    found: Floats = fine.reshape(len(plan), slots, -1).sum(axis=2)
    return found


def _prices(plan: Plan, types: Ints, ways: Sequence[str]) -> Floats:
    """float64 (N, hours), dollars an hour of servers of these types, each paid in its way."""
    found = np.zeros(types.shape)
    for k, way in enumerate(ways):
        found[k] = np.array([paid(kind, way) for kind in plan.servers])[types[k]]
    return found


def with_hindsight(bill: Bill, seconds: float = HINDSIGHT_SECONDS) -> Bill:
    """Return a bill with the plan that would have been made of what was asked.

    It is a fixed fleet that answers all of it in each slot, filled to 100 %: who knows all needs no headroom.

    ``bill``: of a time of at most a week's seconds in slots.
    """
    made = bill.plan
    loads = np.zeros((len(made.partitions), slots_that_divide(len(bill.slot))))
    loads[:, : len(bill.slot)] = bill.asked / bill.seconds
    # a fixed fleet is priced by the day, whatever its slots stand for
    patterns = Patterns(loads, made.sizes, made.partitions, WEEK // loads.shape[1], pivots_hash=made.pivots_hash)
    way = bill.hindsight_way
    types = [
        replace(kind, dollars_per_hour=paid(kind, way)) for kind in made.servers if own_price(kind, way) is not None
    ]
    try:
        found = make_plan(patterns, None, types, utilisation=1.0, copies=made.copies, time_limit=seconds)
    except InfeasibleError as error:
        return replace(bill, no_hindsight=str(error))
    return replace(bill, hindsight=found)


def slots_that_divide(least: int) -> int:
    """Return the smallest number of slots, of `least` or more, into which a week's days divide in whole seconds.

    Examples
    --------
    >>> slots_that_divide(288), slots_that_divide(315), slots_that_divide(8640)
    (315, 315, 9450)
    """
    for slots in range(max(-(-least // 7), 1), DAY + 1):
        if DAY % slots == 0:
            return 7 * slots
    raise ValueError(
        f"{how_many(least, 'slot')}, more than the {how_many(WEEK, 'second')} of a week: ask for a shorter time"
    )


def slot_of(local_seconds: Ints, plan: Plan) -> Ints:
    """int64 (n,), the slot of a plan's day or week at times of its zone, seconds since 1970 as clocks there show."""
    day, inside = np.divmod(local_seconds, DAY)
    found = inside // plan.slot_seconds
    if plan.loads.shape[1] * plan.slot_seconds == WEEK:
        found = found + (day + 3) % 7 * (DAY // plan.slot_seconds)
    return found.astype(np.int64)


def to_cents(dollars: Floats) -> Floats:
    """Dollars in whole cents that sum to their sum in whole cents: the largest remainders are rounded up.

    Examples
    --------
    >>> to_cents(np.array([0.333, 0.333, 0.334])).tolist(), to_cents(np.array([1.005, 1.005])).tolist()
    ([0.33, 0.33, 0.34], [1.01, 1.0])
    """
    cents = dollars * 100
    down = np.floor(cents)
    more = round(float(cents.sum())) - int(down.sum())
    down[np.argsort(-(cents - down), kind="stable")[:more]] += 1
    return down / 100


SHOWN = 40
"""Servers that the table shows at the most."""


def bill_numbers(bill: Bill) -> dict[str, Any]:
    """Return the figures of a bill by the names that ``dtoss bill --json`` and report.json have for them."""
    zone = ZoneInfo(bill.plan.time_zone)
    dollars, best = float(bill.dollars.sum()), bill.hindsight_dollars
    return {
        "from": datetime.fromtimestamp(bill.since, zone).isoformat(),
        "to": datetime.fromtimestamp(bill.until, zone).isoformat(),
        "hours": bill.hours,
        "rate": dollars,
        "rented": [
            {"type": one.type, "prices": one.way, "hours": one.hours, "hourlyRate": one.price, "rate": one.dollars}
            for one in rentals(bill)
        ],
        "changesRate": change_dollars(bill),
        "requests": bill.requests,
        "plannedRequests": bill.planned_requests,
        "overloadShare": bill.late_share,
        "plannedOverloadShare": bill.planned_late_share,
        "ratePerMillion": dollars / bill.requests * 1e6 if bill.requests else None,
        "plannedRatePerMillion": dollars / bill.planned_requests * 1e6 if bill.planned_requests else None,
        "hindsightRate": best,
        "hindsightPrices": None if best is None else bill.hindsight_way,
        "planRateAtHindsightPrices": None if best is None else bill.beside_hindsight,
    }


def realised_numbers(bill: Bill) -> dict[str, Any]:
    """Return what report.json says of a bill: its figures, and the rows of the page's table."""
    columns, rows = server_rows(bill)
    return {**bill_numbers(bill), "columns": [*columns], "servers": [[*row] for row in rows]}


def realised_section(numbers: Mapping[str, Any] | None) -> str:
    """Return the part of the page about a time that has passed; empty where no log was given."""
    if numbers is None:
        return ""
    n = numbers
    begin, end = (datetime.fromisoformat(n[name]).strftime("%Y-%m-%d %H:%M") for name in ("from", "to"))
    about = (
        f"{begin} to {end}, by the servers' log: ${n['rate']:,.2f} for {n['requests']:,.0f} requests, "
        f"{_a_million(n['ratePerMillion'])}, where the plan expected {n['plannedRequests']:,.0f} and "
        f"{_a_million(n['plannedRatePerMillion'])}. {per_cent(n['overloadShare'])} of the requests came above a "
        f"server's capacity, {per_cent(n['plannedOverloadShare'])} were planned."
    )
    if n["hindsightRate"] is not None:
        about += (
            f" Fixed servers chosen with hindsight, filled to 100 %, would have cost ${n['hindsightRate']:,.2f} at "
            f"{n['hindsightPrices']} prices, at which the plan's cost ${n['planRateAtHindsightPrices']:,.2f}."
        )
    return section("What it came to", about, table("Servers in that time", n["columns"], n["servers"], text=(1,)))


def _a_million(rate: float | None) -> str:
    return "no request" if rate is None else f"${rate:,.2f} a million"


def server_rows(found: Bill) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the names of the columns of a table of servers, and its rows; dollars sum to those of the last row."""
    made, late = found.plan, found.late(found.loads)
    busy, planned = found.busy, found.planned_busy
    cents = to_cents(found.dollars)
    names = ("server", "type", "busy at most", "planned", "on average", "planned", "above capacity", "$")
    rows: list[tuple[str, ...]] = [
        (
            str(number), _type(made, k), per_cent(busy[k].max(initial=0.0)), per_cent(planned[k].max(initial=0.0)),
            per_cent(found.mean(busy[k])), per_cent(found.mean(planned[k])), f"{late[k]:,.0f}", f"{cents[k]:,.2f}",
        )
        for k, number in enumerate(made.server_ids.tolist())
    ]  # fmt: skip
    if len(rows) > SHOWN:
        rest = (f"{late[SHOWN:].sum():,.0f}", f"{cents[SHOWN:].sum():,.2f}")
        rows = [*rows[:SHOWN], ("...", f"and {len(made) - SHOWN:,} more", *[""] * 4, *rest)]
    whole = found.capacity.sum(axis=0)
    total, expected = found.loads.sum(axis=0) / whole, found.planned.sum(axis=0) / whole
    rows.append(
        (
            "all", how_many(len(made), "server"), per_cent(total.max(initial=0.0)), per_cent(expected.max(initial=0.0)),
            per_cent(found.mean(total)), per_cent(found.mean(expected)), f"{late.sum():,.0f}", f"{cents.sum():,.2f}",
        )
    )  # fmt: skip
    return names, rows


def _type(made: Plan, k: int) -> str:
    """Return the type of a server: the largest of its hours, and that it is, where they differ."""
    resized = made.types_by_hour is not None and len(set(made.types_by_hour[k].tolist())) > 1
    return made.types[k].name + (" at most" if resized else "")
