"""Ways to rent: the best is cheapest at the risk asked for; zones, few types and enough servers hold what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceps
from ceps import InfeasibleError, Patterns, ServerType, Terms
from ceps.model.problem import build_problem
from ceps.offers.market import with_few_types
from ceps.offers.mixed import mixed_bound
from ceps.offers.paying import overload_without, zone_of
from ceps.offers.payment import cheapest_way, priced, schedule_of
from tests.ceps.instances import M3, assert_holds, servers, small_patterns, small_servers, waves
from tests.ceps.oracles import partitions_of
from tests.examples import examples

RESERVED = tuple(replace(kind, reserved_dollars_per_hour=0.7 * kind.dollars_per_hour) for kind in servers(4e10))


@pytest.fixture(scope="module")
def sleepy() -> Patterns:
    """A load that falls to a tenth at night."""
    day = waves(60, 12_000.0)
    return replace(day, loads=day.loads * (1.1 + np.cos(np.arange(24) / 24 * 2 * np.pi)) / 2.1, days=30.0)


@pytest.fixture(scope="module")
def best(sleepy):
    """What auto makes of it."""
    return ceps.rent(sleepy, None, RESERVED)


def test_auto_is_the_cheapest_of_what_can_be_planned(best, sleepy):
    """Each offer costs what its own plan costs, over a bound of its own; the cheapest is the plan that comes back."""
    rows = {(offer.name, offer.pay): offer for offer in best.offers}
    assert len(rows) == len(best.offers)
    placements = ("fixed", "hourly", "mixed", "grid", "autoscaling")
    assert set(rows) == {(name, pay) for name in placements for pay in ("list", "reserved")}
    for name, pay in (("fixed", "reserved"), ("hourly", "list"), ("mixed", "reserved")):
        made = ceps.rent(sleepy, None, RESERVED, offer=name)
        assert rows[name, pay].cost_per_day == made.cost_per_day
        assert rows[name, pay].servers == len(made)
        assert made.lower_bound <= made.cost_per_day * (1 + 1e-9)
        assert rows[name, pay].risk == made.risk.worst
    assert rows["fixed", "list"].cost_per_day == ceps.plan(sleepy, None, RESERVED).cost_per_day
    assert best.cost_per_day == min(offer.cost_per_day for offer in best.offers if offer.name in ceps.OFFERS)
    assert [offer.name for offer in best.offers if offer.recommended] == [best.offers[0].name]
    least = min(0.7 * rows["fixed", "list"].cost_per_day, rows["hourly", "list"].cost_per_day)
    assert rows["mixed", "reserved"].cost_per_day <= least
    assert rows["hourly", "list"].bytes_moved_per_day > 0 == rows["fixed", "list"].bytes_moved_per_day
    assert not rows["autoscaling", "list"].plannable


def test_an_offer_survives_the_file(best, tmp_path):
    """With how each server is paid, and the types of its hours."""
    best.save(tmp_path / "plan.json")
    again = ceps.load_plan(tmp_path / "plan.json")
    assert again.offers == best.offers
    assert again.rented == best.rented
    np.testing.assert_array_equal(again.types_by_hour, best.types_by_hour)


def test_risk_asked_for_is_kept_or_refused(sleepy):
    """Utilisation falls until the worst day is within it; what no utilisation keeps is said with the figure reached."""
    noisy = replace(sleepy, requests_per_event=1.2e7)
    loose = ceps.rent(noisy, None, M3, offer="fixed")
    assert loose.risk.worst > 1e-3
    tight = ceps.rent(noisy, None, M3, offer="fixed", risk=1e-3)
    assert tight.risk.worst <= 1e-3
    assert tight.utilisation < loose.utilisation
    assert tight.cost_per_day > loose.cost_per_day
    auto = ceps.rent(noisy, None, M3, risk=1e-3)
    assert auto.risk.worst <= 1e-3
    with pytest.raises(InfeasibleError, match=r"within risk 1e-12: the least is"):
        ceps.rent(replace(noisy, requests_per_event=4e9), None, M3, offer="fixed", risk=1e-12)
    # Unasked, hourly types are compared at the risk of the fixed fleet: savings are not bought with lateness.
    unasked = ceps.rent(noisy, None, M3)
    assert all(offer.meets for offer in unasked.offers if offer.name in ceps.OFFERS)


@pytest.mark.parametrize(("zones", "offer"), [(2, "fixed"), (3, "fixed"), (2, "hourly")])
def test_any_zone_may_be_lost(zones, offer, tmp_path):
    """Each zone holds everything once; without any one, no other server is above its full capacity."""
    patterns = waves(50, 6_000.0)
    plan = ceps.rent(patterns, None, M3, offer=offer, copies=zones, zones=zones)
    assert_same_loads(plan, patterns)
    assert len(set(plan.server_ids.tolist())) == len(plan)
    for row in plan.replicas:
        assert sorted(plan.zones[row].tolist()) == list(range(zones))
    for lost in range(zones):
        left = [k for k in range(len(plan)) if plan.zones[k] != lost]
        for k in left:
            load = sum(patterns.loads[p] / (zones - 1) for p in plan.members(k))
            assert (load <= plan.capacity_by_slot[k] * (1 + 1e-9)).all()
        assert overload_without(plan, lost) <= 1
    single = ceps.plan(patterns, None, M3, utilisation=1.0, growth=1 / (zones - 1)) if zones > 1 else None
    assert offer == "hourly" or plan.cost_per_day >= zones * single.lower_bound * (1 - 1e-9)
    plan.save(tmp_path / "plan.json")
    np.testing.assert_array_equal(ceps.load_plan(tmp_path / "plan.json").zones, plan.zones)


def assert_same_loads(plan, patterns):
    for k in range(len(plan)):
        load = sum((patterns.loads[p] / plan.copies for p in plan.members(k)), np.zeros(patterns.slots))
        np.testing.assert_allclose(plan.loads[k], load, rtol=1e-9)


def test_zones_keep_their_servers_from_plan_to_plan():
    """Planned again for the same patterns with the plan in force, no byte moves and no number changes."""
    patterns = waves(50, 6_000.0)
    first = ceps.rent(patterns, None, M3, offer="fixed", copies=2, zones=2)
    again = ceps.rent(patterns, None, M3, offer="fixed", copies=2, zones=2, previous=first)
    assert ceps.diff(again, first).bytes_moved == 0
    assert again.server_ids.tolist() == first.server_ids.tolist()
    assert again.zones.tolist() == first.zones.tolist()
    assert zone_of(first, 1).copies == 1
    busier = replace(patterns, loads=1.4 * patterns.loads)
    grown = ceps.rent(busier, None, M3, offer="fixed", copies=2, zones=2, previous=first)
    assert len(set(grown.server_ids.tolist())) == len(grown)


@pytest.mark.parametrize("offer", ["hourly", "mixed"])
def test_resized_servers_keep_their_numbers(offer, sleepy):
    """Planned again with the plan in force, numbers given differently: nothing moves, and each hour's type stays."""
    first = ceps.rent(sleepy, None, RESERVED, offer=offer)
    numbers = np.arange(len(first))[::-1] + 7
    order = np.argsort(numbers)
    rank = np.argsort(order)
    renamed = replace(
        first, server_ids=numbers[order], replicas=rank[first.replicas], type_of=first.type_of[order],
        loads=first.loads[order], types_by_hour=first.types_by_hour[order],
        rented=tuple(first.rented[k] for k in order) if first.rented else (), variation=None,
    )  # fmt: skip
    again = ceps.rent(sleepy, None, RESERVED, offer=offer, previous=renamed)
    assert ceps.diff(again, renamed).bytes_moved == 0
    assert again.server_ids.tolist() == renamed.server_ids.tolist()
    np.testing.assert_array_equal(again.types_by_hour, renamed.types_by_hour)
    assert again.rented == renamed.rented
    assert again.cost_per_day == first.cost_per_day
    assert_same_loads(again, sleepy)


def test_offers_for_a_mean_day_are_judged_by_the_week():
    """The plan and every offer beside it name the day that the mean hides."""
    mean = waves(40, 8_000.0)
    loads = np.tile(mean.loads, 7)
    loads[:, 72:96] *= 1.6
    week = replace(mean, loads=loads, slot_seconds=3_600)
    plan = ceps.rent(mean, None, M3, week=week)
    assert plan.loads.shape[1] == 24
    assert plan.risk.worst_name == "Thursday"
    for offer in plan.offers:
        if offer.name == "safer":
            assert offer.risk <= 1e-3
        elif offer.plannable:
            assert offer.worst_day == "Thursday"
            assert offer.risk > 0.01
    best = next(offer for offer in plan.offers if offer.recommended)
    assert best.risk == plan.risk.worst
    alone = ceps.rent(mean, None, M3)
    assert alone.risk.worst < 1e-3


def test_zones_that_cannot_be_are_refused():
    """One copy a zone; the plan in force must have the same."""
    patterns = waves(20, 2_000.0)
    with pytest.raises(ValueError, match="zones = 3 but copies = 2"):
        ceps.rent(patterns, None, M3, offer="fixed", copies=2, zones=3)
    plain = ceps.plan(patterns, None, M3, copies=2)
    with pytest.raises(ValueError, match="has other zones"):
        ceps.rent(patterns, None, M3, offer="fixed", copies=2, zones=2, previous=plain)


def test_few_types_and_enough_servers():
    """At most one type, at least nine servers: both hold, at no less than without, and the bound holds."""
    patterns = waves(60, 9_300.0)
    free = ceps.rent(patterns, None, M3, offer="fixed")
    one = ceps.rent(patterns, None, M3, offer="fixed", at_most_types=1)
    many = ceps.rent(patterns, None, M3, offer="fixed", at_least=9)
    assert len({kind.name for kind in one.types}) == 1
    assert len(many) >= 9
    for made in (one, many):
        assert_holds(made, patterns)
        assert free.cost_per_day <= made.cost_per_day * (1 + 1e-9)
        assert made.lower_bound <= made.cost_per_day * (1 + 1e-9)
    assert one.servers == M3
    with pytest.raises(ValueError, match="at_least = 61"):
        ceps.rent(patterns, None, M3, offer="fixed", at_least=61)


@settings(max_examples=25, deadline=None)
@given(small_patterns(4), small_servers(), st.integers(1, 2))
def test_few_types_take_the_best_subset(patterns, types, most):
    """On tiny problems: the cheapest of the plans of all subsets, and none that brute force over all cannot reach."""
    problem = build_problem(patterns, types, 1.0)
    plans = []

    def made(chosen):
        found = ceps.plan(patterns, None, chosen, utilisation=1.0)
        plans.append(found)
        return found

    found = with_few_types(problem, most, made, lambda smaller: 0.0)
    assert len({kind.name for kind in found.types}) <= most
    best = np.inf
    for labels in partitions_of(len(patterns)):
        for chosen in subsets(len(types), most):
            best = min(best, placed(patterns, labels, [types[j] for j in chosen]))
    assert found.cost_per_day >= best * (1 - 1e-9)
    assert found.cost_per_day <= min(plan.cost_per_day for plan in plans) * (1 + 1e-9)


def subsets(count, most):
    from itertools import combinations

    return combinations(range(count), min(most, count))


def placed(patterns, labels, types):
    """Dollars a day of clusters, each on the cheapest of some types; infinite where one fits none."""
    total = 0.0
    for k in set(labels):
        members = [i for i, label in enumerate(labels) if label == k]
        peak, size = patterns.loads[members].sum(axis=0).max(), patterns.sizes[members].sum()
        fitting = [t.dollars_per_hour for t in types if peak <= t.requests_per_second and size <= t.bytes]
        total += 24 * min(fitting, default=np.inf)
    return total


@settings(max_examples=examples(40), deadline=None)
@given(small_patterns(4), small_servers(), st.floats(0.2, 1.0))
def test_no_mixed_fleet_undercuts_its_bound(patterns, types, factor):
    """Over every way to cluster a tiny problem and to pay for each cluster; ours is one of them."""
    types = tuple(replace(kind, reserved_dollars_per_hour=factor * kind.dollars_per_hour) for kind in types)
    problem = build_problem(patterns, types, 1.0)
    base = np.array([priced(kind, cheapest_way((kind,), Terms()), Terms().years)[0] for kind in types])
    best = np.inf
    for labels in partitions_of(len(patterns)):
        found = schedule_of(problem, np.array(labels))
        columns = problem.cluster_columns(found.labels)
        always = 24 * np.where(problem.types_that_hold(columns), base, np.inf).min(axis=1)
        best = min(best, float(np.minimum(always, found.costs_per_day).sum()))
    assert mixed_bound(problem, base) <= best * (1 + 1e-9) + 1e-9
    made = ceps.mixed(patterns, None, types, utilisation=1.0, terms=Terms(0.0))
    assert best <= made.cost_per_day * (1 + 1e-9)
    assert made.lower_bound <= made.cost_per_day * (1 + 1e-9)


def test_spot_servers_are_rented_only_where_that_is_allowed(sleepy):
    """Half the price, and the word for it stands at each server."""
    types = tuple(replace(kind, spot_dollars_per_hour=0.3 * kind.dollars_per_hour) for kind in M3)
    without = ceps.rent(sleepy, None, types)
    allowed = ceps.rent(sleepy, None, types, terms=Terms(spot=True))
    assert "spot" not in without.rented
    assert set(allowed.rented) == {"spot"}
    assert allowed.cost_per_day == pytest.approx(0.3 * without.cost_per_day, rel=0.01)
    fixed = ceps.rent(sleepy, None, types, offer="fixed", terms=Terms(spot=True))
    assert fixed.cost_per_day == pytest.approx(0.3 * ceps.plan(sleepy, None, M3).cost_per_day)
    assert "may take them away" in allowed.offers[0].note


@pytest.mark.parametrize("offer", ["auto", *ceps.OFFERS])
def test_nothing_to_place_and_nothing_asked(offer):
    """No partitions cost nothing by any offer; partitions that nobody asks, without bytes, are held by one server."""
    types = tuple(replace(kind, reserved_dollars_per_hour=0.01) for kind in M3)
    nothing = ceps.rent(Patterns(loads=np.empty((0, 48))), None, types, offer=offer)
    assert (len(nothing), nothing.cost_per_day, nothing.lower_bound) == (0, 0.0, 0.0)
    idle = ceps.rent(Patterns(loads=np.zeros((3, 168))), None, types, offer=offer)
    assert len(idle) == 1
    assert 0 < idle.lower_bound <= idle.cost_per_day * (1 + 1e-9)


def test_own_machines_count_among_enough_servers():
    """Two of three servers may be free ones: no bound asks for three that are paid."""
    types = (
        ServerType("own", 50.0, np.inf, 0.0), ServerType("small", 200.0, np.inf, 0.2),
        ServerType("large", 400.0, np.inf, 0.4),
    )  # fmt: skip
    loads = np.full((6, 24), 10.0)
    loads[0, 12] = 300.0
    for offer in ceps.OFFERS:
        plan = ceps.rent(Patterns(loads=loads), None, types, utilisation=1.0, offer=offer, at_least=3)
        assert len(plan) >= 3
        assert plan.lower_bound <= plan.cost_per_day * (1 + 1e-9)
        assert plan.cost_per_day <= 24 * 0.4 * (1 + 1e-9)


def test_wrong_offers_are_refused(sleepy):
    """Each by its name, its bounds and the way out."""
    with pytest.raises(ValueError, match="offer = 'best'; known: auto, fixed, hourly, mixed"):
        ceps.rent(sleepy, None, M3, offer="best")
    with pytest.raises(ValueError, match="risk = 2"):
        ceps.rent(sleepy, None, M3, risk=2)
    with pytest.raises(ValueError, match="makes fixed fleets only"):
        ceps.rent(sleepy, None, M3, method="gp")
    with pytest.raises(ValueError, match="knows no spare"):
        ceps.rent(sleepy, None, M3, offer="hourly", spare=True)
    with pytest.raises(ValueError, match="restart_seconds = -1"):
        Terms(restart_seconds=-1)
    with pytest.raises(ValueError, match=r"reserved_dollars_per_hour = -0\.1"):
        replace(M3[0], reserved_dollars_per_hour=-0.1)
