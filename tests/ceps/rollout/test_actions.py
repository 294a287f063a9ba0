"""The list of actions, carried out step by step by code of its own: storage, copies, and what stands at the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ceps
from ceps import Plan, ServerType
from ceps.rollout.actions import actions
from tests.ceps.instances import servers, waves
from tests.examples import examples

ROOMS = tuple(ServerType(f"t{room}", 1.0, float(room), room / 10) for room in range(1, 41))


def plan_of(held, sizes, rooms, copies=1, pivots=""):
    """A plan of {server: partitions}, {partition: bytes} and {server: bytes of its type}."""
    ids, partitions = sorted(held), sorted({p for members in held.values() for p in members})
    replicas = [[ids.index(k) for k in ids if p in held[k]] for p in partitions]
    kinds = [rooms[k] - 1 for k in ids]
    return Plan(
        method="fleet", utilisation=0.9, partitions=np.array(partitions, np.int64),
        sizes=np.array([sizes[p] for p in partitions], float),
        replicas=np.array(replicas, np.int64).reshape(-1, copies),
        server_ids=np.array(ids, np.int64), type_of=np.array(kinds, np.int64), servers=ROOMS,
        loads=np.zeros((len(ids), 24)), cost_per_day=1.0, lower_bound=1.0, slot_seconds=3600, pivots_hash=pivots,
    )  # fmt: skip


def carried_out(listed, plan, before, rate=None, most=None):
    """Carry out a list on the plan in force; every rule is checked after every action. Returns the bytes copied."""
    size = dict(zip(before.partitions.tolist(), before.sizes.tolist(), strict=True))
    size |= dict(zip(plan.partitions.tolist(), plan.sizes.tolist(), strict=True))
    room = {kind.name: kind.bytes for kind in (*plan.servers, *before.servers)}

    def state(made):
        stands = {int(number): set() for number in made.server_ids}
        for p, row in zip(made.partitions.tolist(), made.server_ids[made.replicas].tolist(), strict=True):
            for number in row:
                stands[number].add(p)
        return stands, dict(zip(made.server_ids.tolist(), [kind.name for kind in made.types], strict=True))

    stands, types = state(before)
    wanted, wanted_types = state(plan)
    common = set(before.partitions.tolist()) & set(plan.partitions.tolist())
    least = min(plan.copies, before.copies)
    serving = {number: set(members) for number, members in stands.items()}
    loading, hour, copied = [], 0.0, 0.0
    for action in listed:
        assert action.start <= action.finish
        if action.do == "rent":
            assert action.server not in types
            types[action.server], stands[action.server], serving[action.server] = action.type, set(), set()
        elif action.do == "resize":
            assert types[action.server] != action.type
            types[action.server] = action.type
        elif action.do == "give back":
            assert not stands[action.server]
            del types[action.server], stands[action.server], serving[action.server]
        elif action.do == "drop":
            assert set(action.partitions) <= stands[action.server]
            stands[action.server] -= set(action.partitions)
            serving[action.server] -= set(action.partitions)
        elif action.do == "move":
            assert action.bytes == pytest.approx(sum(size[p] for p in action.partitions))
            assert not set(action.partitions) & stands[action.server]
            assert action.source < 0 or set(action.partitions) <= serving[action.source]
            stands[action.server] |= set(action.partitions)
            loading.append(action)
        else:
            assert action.do == "wait"
            amount = sum(move.bytes for move in loading)
            assert all(move.start == hour for move in loading)
            assert {move.finish for move in loading} == {action.start} == {action.finish}
            assert action.start - hour == pytest.approx(amount / rate if rate else 0.0)
            assert most is None or len({move.server for move in loading}) <= most
            hour, copied = action.start, copied + amount
            for move in loading:
                serving[move.server] |= set(move.partitions)
            for move in loading:
                if move.leaves and move.source >= 0:
                    stands[move.source] -= set(move.partitions)
                    serving[move.source] -= set(move.partitions)
            loading = []
        if action.do not in ("move", "wait"):
            assert action.start == hour
        for number, members in stands.items():
            assert sum(size[p] for p in members) <= room[types[number]] * (1 + 1e-6), f"{number} is too full"
        for p in common:
            assert sum(p in members for members in serving.values()) >= least
    assert not loading
    assert (stands, types) == (wanted, wanted_types)
    assert serving == wanted
    return copied


@st.composite
def changes(draw):
    """Two plans of the same partitions on servers that are as full as can be, or nearly."""
    count, copies = draw(st.integers(1, 9)), draw(st.integers(1, 2))
    sizes = {p: draw(st.integers(1, 6)) for p in range(count)}
    made = []
    for _ in range(2):
        numbers = sorted(draw(st.sets(st.integers(0, 6), min_size=copies, max_size=5)))
        held = {number: set() for number in numbers}
        for p in range(count):
            for number in draw(st.permutations(numbers))[:copies]:
                held[number].add(p)
        rooms = {k: sum(sizes[p] for p in members) + draw(st.sampled_from([0, 0, 1, 3])) for k, members in held.items()}
        assume(all(room <= 40 for room in rooms.values()))
        made.append(plan_of(held, sizes, {k: max(room, 1) for k, room in rooms.items()}, copies))
    return made


@settings(max_examples=examples(300), deadline=None)
@given(changes(), st.sampled_from([None, 2.0]), st.sampled_from([None, 1, 2]))
def test_every_step_keeps_copies_and_storage(change, rate, most):
    """Whatever the plans: full servers, circles, new and old servers, other types, one copy or two."""
    before, plan = change
    listed = actions(plan, before, bytes_per_hour=rate, at_a_time=most)
    copied = carried_out(listed, plan, before, rate, most)
    least = ceps.diff(plan, before).bytes_moved
    assert copied >= least
    if not any(action.why for action in listed):
        assert copied == pytest.approx(least)
    assert listed == actions(plan, before, bytes_per_hour=rate, at_a_time=most)
    if not least:
        assert not any(action.do == "move" for action in listed)


def test_plans_of_the_planner():
    """Plans that ceps makes when requests grow and shrink, on servers that storage fills, with copies and a spare."""
    patterns, kinds = waves(40, 12_000.0), servers(8e9)
    before = ceps.plan(patterns, None, kinds, copies=2)
    for growth, more in ((1.4, {"spare": True}), (0.5, {}), (1.0, {"move_budget": 0.0})):
        plan = ceps.plan(patterns, None, kinds, copies=2, growth=growth, previous=before, **more)
        listed = actions(plan, before, bytes_per_hour=5e9, at_a_time=2)
        copied = carried_out(listed, plan, before, 5e9, 2)
        assert copied >= ceps.diff(plan, before).bytes_moved
        before = plan if not plan.spare else before


def test_full_servers_that_wait_for_one_another_use_what_is_free():
    """Two full servers swap: by way of a third that has room, else of one that is rented for it; both are said why."""
    sizes = {0: 5, 1: 5, 2: 1}
    before = plan_of({0: {0}, 1: {1}, 2: {2}}, sizes, {0: 5, 1: 5, 2: 6})
    plan = plan_of({0: {1}, 1: {0}, 2: {2}}, sizes, {0: 5, 1: 5, 2: 6})
    listed = actions(plan, before)
    assert carried_out(listed, plan, before) == 15
    assert not any(action.do == "rent" for action in listed)
    of_first = next(str(action) for action in listed if action.source == 0)
    assert of_first.startswith("move 1 partition (0; 5 bytes) from server 0 to ")
    assert "servers wait for one another (0, 1): 0 lacks 5 bytes for partition 1" in listed[0].why
    tight = {0: 5, 1: 5, 2: 1}
    before = plan_of({0: {0}, 1: {1}, 2: {2}}, sizes, tight)
    plan = plan_of({0: {1}, 1: {0}, 2: {2}}, sizes, tight)
    listed = actions(plan, before)
    assert carried_out(listed, plan, before) == 15
    assert [(a.do, a.server, a.type) for a in listed if a.do in ("rent", "give back")] == [
        ("rent", 3, "t5"), ("give back", 3, ""),
    ]  # fmt: skip
    assert "for the change only" in listed[0].why


def test_partitions_that_only_one_plan_has():
    """New ones come from the store, and what is gone leaves at the end, or when its room is needed."""
    before = plan_of({0: {0, 9}}, {0: 2, 9: 3}, {0: 5})
    plan = plan_of({0: {0, 1}}, {0: 2, 1: 3}, {0: 5})
    listed = actions(plan, before)
    carried_out(listed, plan, before)
    assert [action.do for action in listed] == ["drop", "move", "wait"]
    assert listed[1].to_dict() == {
        "do": "move", "start_hour": 0.0, "finish_hour": 0.0, "from": None, "to": 0, "leaves": False,
        "partitions": [1], "bytes": 3.0,
    }  # fmt: skip
    assert str(listed[1]) == "copy 1 partition (1; 3 bytes) from the store to 0"


def test_what_cannot_be_is_refused_with_numbers():
    """Budgets out of bounds, other pivots, and servers that hold more than their type before anything moves."""
    one = plan_of({0: {0}}, {0: 2}, {0: 5}, pivots="a")
    with pytest.raises(ValueError, match="bytes_per_hour = 0; it must be above 0"):
        actions(one, one, bytes_per_hour=0)
    with pytest.raises(ValueError, match="at_a_time = 0; it must be a whole number from 1"):
        actions(one, one, at_a_time=0)
    with pytest.raises(ValueError, match="partition numbers mean other regions"):
        actions(one, plan_of({0: {0}}, {0: 2}, {0: 5}, pivots="b"))
    with pytest.raises(ceps.InfeasibleError, match=r"server 0 \(t5\) holds 9 bytes now, more than its 5 bytes"):
        actions(plan_of({0: {0}}, {0: 9}, {0: 9}), plan_of({0: {0}}, {0: 2}, {0: 5}))
    assert actions(one, one) == ()
