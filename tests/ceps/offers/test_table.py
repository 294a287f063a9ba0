"""The table of offers: every placement in every way to pay, and nothing in it that beats what is recommended."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import ceps
from ceps import InfeasibleError, Patterns, ServerType, Terms
from ceps.offers.payment import ways_of
from ceps.plan.offer import NAMES, Offer, cheapest, safer_than
from tests.ceps.instances import M3, servers, waves
from tests.ceps.offers.made_markets import check_table, checked, market
from tests.data import real_set

RESERVED = tuple(
    replace(kind, reserved_dollars_per_hour=0.63 * kind.dollars_per_hour) for kind in servers(4e10)
)  # fmt: skip


def run(seeds):
    """How many plans there were, and what was recommended; markets in which something fits nowhere do not count."""
    told = []
    for seed in seeds:
        try:
            plan = checked(seed)
        except InfeasibleError:
            continue
        told.append((plan.offers[0].name, plan.offers[0].pay))
    return told


def test_nothing_in_the_table_beats_what_is_recommended():
    """Made catalogues and loads, in which each way to pay and most placements are recommended somewhere."""
    told = run(range(25))
    assert len(told) > 22
    assert {pay for _, pay in told} == {"list", "reserved", "reserved-3y", "spot"}
    assert {"fixed", "hourly", "mixed"} <= {name for name, _ in told}


@pytest.mark.deep("25 of them are in make test")
@pytest.mark.parametrize("first", range(0, 5_000, 250))
def test_nothing_in_5_000_tables_beats_what_is_recommended(first):
    """The same of 5,000, 250 at a time."""
    assert len(run(range(first, first + 250))) > 225


def days_of_checkins(name, count):
    """Patterns of the busiest days of check-ins, in 60 partitions, an hour a slot, each as it was on that day."""
    import pyarrow.parquet as pq

    from datasets.workloads import kd_leaves

    table = pq.read_table(real_set(name), columns=["t", "lon", "lat"])
    lonlat = np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()])
    second = table["t"].to_numpy().astype("datetime64[s]").astype(np.int64)
    day, many = np.unique(second // 86_400, return_counts=True)
    leaf = kd_leaves(lonlat, 60)
    leaves = int(leaf.max()) + 1
    middle = np.array([lonlat[leaf == number].mean(axis=0) for number in range(leaves)])
    for busiest in day[np.argsort(-many, kind="stable")[:count]]:
        rows = second // 86_400 == busiest
        loads = np.zeros((leaves, 24))
        np.add.at(loads, (leaf[rows], second[rows] % 86_400 // 3600), 1.0)
        scale = min(12_400 / loads.sum(axis=0).max(), 5_000 / loads.max())
        yield Patterns(
            loads=loads * scale, sizes=np.bincount(leaf, minlength=leaves) * 8.0, positions=middle,
            requests_per_event=scale * 3600,
        )  # fmt: skip


@pytest.mark.parametrize("name", ["gowalla_checkins", "brightkite_checkins"])
@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.deep("a day of each is in make test"))])
def test_days_of_checkins(name, count):
    """Each day by itself: no recommendation is beaten by its own table."""
    types = tuple(
        replace(kind, reserved_3_years_dollars_per_hour=factor * kind.dollars_per_hour,
                spot_dollars_per_hour=0.35 * kind.dollars_per_hour)
        for kind, factor in zip(RESERVED, (0.42, 0.44, 0.4, 0.43), strict=True)
    )  # fmt: skip
    seen = 0
    for patterns in days_of_checkins(name, count):
        plan = ceps.rent(patterns, None, types)
        check_table(plan, Terms())
        seen += 1
    assert seen == count


def test_the_fixed_plans_own_servers_reserved_are_in_the_table():
    """A mixed plan that a tenth of a point of risk keeps out does not hide the fixed fleet at the reserved price."""
    m = ServerType("m", 2_500.0, np.inf, 0.0408, reserved_dollars_per_hour=0.0257)
    types = (m, ServerType("l", 5_000.0, np.inf, 0.0816, reserved_dollars_per_hour=0.0514))
    noisy = replace(waves(60, 22_000.0, noise=0.2), days=4.0, requests_per_event=2e6)
    plan = ceps.rent(noisy, None, types)
    rows = {(row.name, row.pay): row for row in plan.offers}
    listed = ceps.plan(noisy, None, types)
    assert rows["fixed", "list"].cost_per_day == listed.cost_per_day
    same = 24 * sum(kind.reserved_dollars_per_hour for kind in listed.types)
    assert rows["fixed", "reserved"].cost_per_day == pytest.approx(same)
    assert rows["fixed", "reserved"].risk == rows["fixed", "list"].risk
    assert plan.cost_per_day <= same
    assert ceps.rent(noisy, None, types, offer="fixed").cost_per_day == pytest.approx(same)


@pytest.mark.parametrize("alike", [True, False])
def test_a_bound_is_of_the_same_way_to_pay(alike):
    """Three partitions, no two of which share a server: two servers by the bound, at the price that is paid."""
    small = ServerType("small", 1_000.0, np.inf, 1.0, reserved_dollars_per_hour=0.5)
    large = ServerType("large", 1_100.0, np.inf, 1.2, reserved_dollars_per_hour=0.6 if alike else 0.9)
    plan = ceps.rent(Patterns(loads=np.full((3, 24), 600.0)), None, [small, large], 0, 1.0, offer="fixed")
    rows = {row.pay: (row.cost_per_day, row.lower_bound) for row in plan.offers}
    assert rows == {"list": (72.0, 48.0), "reserved": (36.0, pytest.approx(24.0))}


def test_what_is_not_allowed_is_shown_and_not_taken():
    """Spot prices and three years stand in the table; with them ruled out, the next cheapest is recommended."""
    types = tuple(
        replace(kind, reserved_3_years_dollars_per_hour=0.4 * kind.dollars_per_hour, spot_dollars_per_hour=0.3 * 0.067)
        for kind in RESERVED
    )  # fmt: skip
    patterns = waves(40, 9_000.0)
    assert ways_of(types) == ("list", "reserved", "reserved-3y", "spot")
    taken = {}
    for years, spot in ((0, False), (1, False), (3, False), (3, True)):
        plan = ceps.rent(patterns, None, types, terms=Terms(years=years, spot=spot))
        check_table(plan, Terms(years=years, spot=spot))
        taken[plan.offers[0].pay] = plan.cost_per_day
    assert list(taken) == ["list", "reserved", "reserved-3y", "spot"]
    assert list(taken.values()) == sorted(taken.values(), reverse=True)
    with pytest.raises(ValueError, match="years = 2; servers are reserved for 1 or 3 years"):
        Terms(years=2)


def test_what_is_due_at_the_start():
    """Half of a year's price, and all of three years', for each server; it is part of the price and not on top."""
    kind = ServerType(
        "one", 1_000.0, np.inf, 1.0, reserved_dollars_per_hour=0.6, reserved_upfront_share=0.5,
        reserved_3_years_dollars_per_hour=0.4, reserved_3_years_upfront_share=1.0,
    )  # fmt: skip
    plan = ceps.rent(Patterns(loads=np.full((2, 24), 800.0)), None, [kind], offer="fixed")
    due = {row.pay: row.upfront for row in plan.offers}
    assert due == {"list": 0, "reserved": pytest.approx(2 * 0.3 * 8760), "reserved-3y": pytest.approx(2 * 1.2 * 8760)}
    assert plan.cost_per_day == pytest.approx(2 * 24 * 0.4)


def test_something_safer_stands_beside_what_is_risky():
    """A fixed fleet with more room, at 0.1 % late or the least that can be had; nothing where it is safe already."""
    risky = replace(waves(60, 9_300.0), days=3.0, requests_per_event=1e6)
    for offer in ("auto", "fixed"):
        plan = ceps.rent(risky, None, RESERVED, offer=offer, safer=True)
        assert plan.risk.worst > 1e-3
        safer = safer_than(plan.offers, plan.offers[0])
        assert safer.risk <= 1e-3
        assert safer.cost_per_day > plan.cost_per_day
    calm = ceps.rent(replace(risky, requests_per_event=1.0), None, RESERVED)
    assert safer_than(calm.offers, calm.offers[0]) is None
    assert "safer" not in {row.name for row in calm.offers}


def test_risk_that_cannot_be_met_names_the_nearest_and_its_price():
    """The line says how little can be had, on which day, and for how many dollars a month."""
    loads = np.tile(waves(20, 4_000.0).loads, 7)
    wild = Patterns(loads=loads, slot_seconds=3_600, days=2.0, requests_per_event=4e7)
    with pytest.raises(InfeasibleError, match=r"is [\d.]+ % late on \w+s, for \$[\d,.]+ a month, \d+% full") as caught:
        ceps.rent(wild, None, M3, offer="fixed", risk=1e-6)
    kept = float(str(caught.value).split("--risk ")[1].split("%")[0]) / 100
    assert ceps.rent(wild, None, M3, offer="fixed", risk=kept).risk.worst <= kept


@pytest.mark.parametrize("rows", [
    [(5.0, True, True, True), (4.0, True, True, False), (4.5, False, True, True), (4.6, True, False, True)],
    [(5.0, True, True, True), (5.0, True, True, True)],
])  # fmt: skip
def test_the_cheapest_is_the_first_of_those_that_may_be_taken(rows):
    """What cannot be planned, is not allowed or is late too often is passed over."""
    offers = [
        Offer("fixed", cost, cost, cost, None, 1, plannable=plannable, allowed=allowed, meets=meets)
        for cost, plannable, allowed, meets in rows
    ]  # fmt: skip
    assert cheapest(offers) == 0
    assert cheapest([replace(offer, meets=False) for offer in offers]) == -1


def test_where_all_servers_are_reserved_none_is_called_resized():
    """A base and what changes by the hour keep their name, and so does the same placement at list prices."""
    ways = {"reserved": "reserved servers", "list": NAMES["mixed"]}
    for way, label in ways.items():
        assert Offer("mixed", 1.0, 1.0, 1.0, None, 1, pools=(("l", way, 1, 1.0),)).label == label
    assert (
        Offer("mixed", 1.0, 1.0, 1.0, None, 1, pools=tuple(("l", way, 1, 1.0) for way in ways)).label == NAMES["mixed"]
    )


def test_a_table_survives_the_file(tmp_path):
    """Pools, ways to pay and what each server costs come back; the rows say what the plan says."""
    patterns, types, asked = market(3)
    plan = ceps.rent(patterns, None, types, **asked)
    plan.save(tmp_path / "plan.json")
    again = ceps.load_plan(tmp_path / "plan.json")
    assert again.offers == plan.offers
    np.testing.assert_array_equal(again.dollars_by_server, plan.dollars_by_server)
    content = json.loads((tmp_path / "plan.json").read_text())
    assert sum(server.get("dollars_per_day", 0.0) for server in content["servers"]) in (
        0.0, pytest.approx(plan.cost_per_day),
    )  # fmt: skip
