"""What a plan came to: dollars by slot, requests above capacity, and what hindsight would have cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceps
from ceps import Patterns, ServerType
from ceps.model.patterns import DAY, WEEK
from ceps.reporting.realised import Bill, dollars_by_slot, paid, slot_of, slots_that_divide, to_cents, with_hindsight
from tests.ceps.instances import waves

TYPES = (
    ServerType("s", 1000.0, np.inf, 0.10, reserved_dollars_per_hour=0.08),
    ServerType("m", 2000.0, np.inf, 0.19, reserved_dollars_per_hour=0.15),
    ServerType("l", 4000.0, np.inf, 0.37, reserved_dollars_per_hour=0.29),
)


def plan_of(offer, slots=48, terms=None):
    """A plan of an offer for waves of a day."""
    patterns = waves(16, 9_000.0, slots=slots)
    return ceps.rent(patterns, None, TYPES, offer=offer, terms=terms or ceps.Terms())


def bill_of(plan, asked, days=1):
    """A bill of so many whole days."""
    slots = plan.loads.shape[1]
    return Bill(plan, np.tile(np.arange(slots), days), np.full(slots * days, float(plan.slot_seconds)), asked, 1.0)


@pytest.mark.parametrize("offer", ["fixed", "hourly", "mixed"])
@pytest.mark.parametrize("terms", [None, ceps.Terms(restart_seconds=900.0)])
def test_dollars_of_slots_sum_to_what_the_plan_costs_a_day(offer, terms):
    """Whatever changes of type cost, and however servers are paid."""
    plan = plan_of(offer, terms=terms)
    assert dollars_by_slot(plan).sum() == pytest.approx(plan.cost_per_day, rel=1e-12)
    fixed = replace(plan, types_by_hour=None, rented=())
    by_hour = 24 * sum(kind.dollars_per_hour for kind in plan.types)
    assert dollars_by_slot(fixed).sum() == pytest.approx(by_hour, rel=1e-12)
    if offer != "fixed":
        assert len({*plan.types_by_hour.ravel().tolist()}) > (offer == "hourly")


@pytest.mark.parametrize("seconds", [300, 1800, 2400, 3600, 7200])
def test_dollars_do_not_depend_on_the_length_of_slots(seconds):
    """Also where slots are longer than the hours in which types change, or do not divide them."""
    plan = plan_of("hourly")
    slots = DAY // seconds
    other = replace(plan, slot_seconds=seconds, loads=np.ones((len(plan), slots)))
    assert dollars_by_slot(other).sum() == pytest.approx(plan.cost_per_day, rel=1e-12)
    half = dollars_by_slot(other)[:, : slots // 2].sum()
    assert half == pytest.approx(dollars_by_slot(plan)[:, : plan.loads.shape[1] // 2].sum(), rel=1e-12)


def test_as_planned_nothing_is_late_and_the_plan_said_it():
    """A day like the pattern: loads, busy and late are those of the plan, with copies as well."""
    patterns = waves(12, 5_000.0)
    plan = ceps.plan(patterns, None, TYPES, copies=2, growth=1.25)
    order = {number: row for row, number in enumerate(patterns.partitions.tolist())}
    asked = patterns.loads[[order[number] for number in plan.partitions.tolist()]] * 3600
    same = bill_of(plan, asked * 1.25)
    np.testing.assert_allclose(same.loads, plan.loads, rtol=1e-9)
    np.testing.assert_allclose(same.planned, plan.loads)
    assert same.late(same.loads).sum() == 0
    twice = bill_of(plan, asked * 2.5)
    by_hand = sum(
        max(2 * plan.loads[k, t] - kind.requests_per_second, 0) * 3600
        for k, kind in enumerate(plan.types)
        for t in range(24)
    )
    assert twice.late(twice.loads).sum() == pytest.approx(by_hand)
    assert by_hand > 0


@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=4))
def test_hindsight_is_the_cheapest_fleet_by_enumeration(rows):
    """Every way to put partitions on servers, each the cheapest type that answers all in every slot."""
    asked = np.array(rows, float) * 300.0
    plan = ceps.plan(Patterns(np.full((len(rows), 24), 1.0)), None, TYPES)
    bill = Bill(plan, np.arange(3), np.full(3, 3600.0), asked * 3600, 1.0)
    found = with_hindsight(bill)
    best = np.inf
    for labels in product(range(len(rows)), repeat=len(rows)):
        peaks = [asked[np.array(labels) == one].sum(axis=0).max() for one in set(labels)]
        cost = [
            min(t.dollars_per_hour for t in TYPES if t.requests_per_second >= peak) for peak in peaks if peak <= 4e3
        ]
        best = min(best, sum(cost) if len(cost) == len(peaks) else np.inf)
    assert found.hindsight_dollars == pytest.approx(3 * best)
    assert found.hindsight.overload == 0


def test_hindsight_is_paid_as_the_plan_and_says_why_there_is_none():
    """In one way like that one, in several by the list; a partition that fits no server has no hindsight."""
    plan = ceps.plan(waves(6, 900.0), None, TYPES)
    asked = waves(6, 900.0).loads * 3600
    reserved = replace(plan, rented=("reserved",) * len(plan))
    listed, paid_ahead = (with_hindsight(bill_of(one, asked)) for one in (plan, reserved))
    assert (listed.hindsight_way, paid_ahead.hindsight_way) == ("list", "reserved")
    assert listed.hindsight_dollars == pytest.approx(2.4)
    assert paid_ahead.hindsight_dollars == pytest.approx(24 * 0.08)
    assert paid_ahead.beside_hindsight == pytest.approx(24 * sum(paid(kind, "reserved") for kind in plan.types))
    two = ceps.plan(waves(16, 9_000.0), None, TYPES)
    both = replace(two, rented=("reserved", *["list"] * (len(two) - 1)))
    mixed = bill_of(both, waves(16, 9_000.0).loads * 3600)
    assert mixed.hindsight_way == "list"
    assert mixed.beside_hindsight == pytest.approx(two.cost_per_day)
    assert mixed.beside_hindsight > mixed.dollars.sum()
    none = with_hindsight(bill_of(plan, asked * 100))
    assert none.hindsight is None
    assert "fit" in none.no_hindsight


def test_slots_of_a_week_begin_on_monday():
    """1970 began on a Thursday; a plan of one day knows no weekdays."""
    day = ceps.plan(waves(3, 100.0), None, TYPES)
    week = ceps.plan(Patterns(np.ones((3, 168))), None, TYPES)
    local = np.array([0, 4 * DAY, 4 * DAY + 7200, 10 * DAY + DAY - 1])
    assert slot_of(local, day).tolist() == [0, 0, 2, 23]
    assert slot_of(local, week).tolist() == [72, 0, 2, 167]
    assert slots_that_divide(WEEK) == WEEK
    with pytest.raises(ValueError, match="ask for a shorter time"):
        slots_that_divide(WEEK + 1)


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_cents_sum_to_the_sum(dollars):
    """And none is further than a cent from what it stands for."""
    found = to_cents(np.array(dollars, float))
    assert round(100 * float(found.sum())) == round(100 * float(np.sum(dollars)))
    assert (np.abs(found - dollars) < 0.01 + 1e-6).all()
