"""Operators that run together: the exact model against all witnesses, and what keeps operators apart."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ceps.streams.fusion import components_of, fuse, fusion_of, job_of, merge_by_rates

NAMES = "abcdef"


@st.composite
def jobs(draw):
    """A few operators of a few attributes, some of none, some of any; rates both ways, of themselves too."""
    names = NAMES[: draw(st.integers(0, len(NAMES)))]
    some = st.one_of(st.none(), st.sets(st.sampled_from("xyz")))
    attributes = {name: draw(some) for name in names}
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names)) if names else st.nothing()
    rates = draw(st.dictionaries(pairs, st.sampled_from([0.0, 0.3, 1.0, 2.0, 7.5, 1e9]), max_size=9)) if names else {}
    return attributes, rates


def least_of_all(attributes, rates):
    """What the best of all witnesses leaves, from the definitions: operators without attributes stand in one place."""
    every = set().union(*(one for one in attributes.values() if one)) or {"anything"}
    names = list(attributes)
    choices = [every if attributes[name] is None else attributes[name] or {"one place"} for name in names]
    found = []
    for witnesses in product(*choices):
        witness = dict(zip(names, witnesses, strict=True))
        found.append(sum(rate for (i, j), rate in rates.items() if witness[i] != witness[j]))
    return min(found)


@settings(deadline=None)
@given(jobs())
def test_nothing_sends_less(job):
    """The exact model leaves what the best of all witnesses leaves, and says that it is proved."""
    attributes, rates = job
    found = fuse(attributes, rates)
    scale = max(1.0, found.total)
    assert found.proven
    assert found.sent == pytest.approx(least_of_all(attributes, rates), abs=1e-6 * scale)
    assert sorted(name for part in found.components for name in part) == sorted(attributes)
    for part, shared in zip(found.components, found.attributes, strict=True):
        keyed = [set(attributes[name]) for name in part if attributes[name] is not None]
        assert not keyed or shared == set.intersection(*keyed)
        assert all(keyed) or not any(keyed), "an operator that can not be split is with one that can"


@settings(deadline=None)
@given(jobs())
def test_the_order_of_the_arguments_is_of_no_effect(job):
    """Operators and rates the other way round are fused alike."""
    attributes, rates = job
    turned = dict(reversed(attributes.items())), dict(reversed(rates.items()))
    assert fuse(*turned) == fuse(attributes, rates)


@settings(deadline=None)
@given(jobs())
def test_merging_by_rates_keeps_what_must_be_apart_apart(job):
    """Its components share an attribute, and send no less than the best."""
    made = job_of(*job)
    merged = fusion_of(made, merge_by_rates(made))
    assert merged.sent >= least_of_all(*job) - 1e-6 * max(1.0, merged.total)


def test_operators_that_can_not_be_split_share_a_place():
    """They bar nothing: neither each other, nor those of other attributes."""
    found = fuse(
        {"count": [], "alarm": [], "left": ["x"], "right": ["x"]},
        {("left", "right"): 5.0, ("right", "count"): 2.0, ("count", "alarm"): 3.0},
    )
    assert found.components == (("alarm", "count"), ("left", "right"))
    assert found.attributes == (frozenset(), frozenset("x"))
    assert (found.sent, found.bound, found.total) == (2.0, 2.0, 10.0)
    assert found.together("alarm", "count")
    assert not found.together("count", "left")


def test_operators_that_any_split_suits_join_the_busier_side():
    """And one another, where the job names no attribute."""
    sides = {"moves": ["object"], "panes": None, "windows": ["place"]}
    assert fuse(sides, {("moves", "panes"): 9.0, ("panes", "windows"): 1.0}).together("moves", "panes")
    assert fuse(sides, {("moves", "panes"): 1.0, ("panes", "windows"): 9.0}).together("panes", "windows")
    found = fuse({"read": None, "write": None}, {("read", "write"): 1.0})
    assert (found.components, found.attributes, found.sent) == ((("read", "write"),), (frozenset(),), 0.0)


def test_rates_of_halves_add_up():
    """Greedily, too: b and c send d more together than a does, which is the busiest single pair."""
    attributes = {"a": ["x"], "b": ["y"], "c": ["y"], "d": ["x", "y"]}
    rates = {("b", "c"): 9.0, ("a", "d"): 3.0, ("b", "d"): 2.0, ("c", "d"): 2.0}
    made = job_of(attributes, rates)
    assert fusion_of(made, merge_by_rates(made)).components == (("a",), ("b", "c", "d"))
    assert fuse(attributes, rates).sent == 3.0


def test_equal_witnesses_without_rows_between_are_no_component():
    """Operators are together because of what they tell each other."""
    made = job_of({"a": ["x"], "b": ["x"], "c": ["x"]}, {("a", "c"): 1.0})
    assert components_of(made, ["x", "x", "x"]) == [0, 1, 0]


def test_components_that_share_nothing_are_refused():
    """By the names of their operators."""
    made = job_of({"a": ["x"], "b": ["y"]}, {})
    with pytest.raises(ValueError, match="operators a, b share no attribute"):
        fusion_of(made, [0, 0])


def test_nothing_to_fuse():
    """No operators, no rates."""
    assert fuse({}, {}).components == ()
    assert fuse({"a": ["x"]}, {}).components == (("a",),)


@pytest.mark.parametrize(
    ("attributes", "rates", "message"),
    [
        ({"a": ["x"]}, {("a", "b"): 1.0}, "rates name the operator 'b'; there is no such one, only a"),
        ({"a": None, "b": None}, {("a", "b"): -1.0}, r"rates\['a', 'b'\] = -1.0; it must be rows a second, from 0"),
        ({"a": None, "b": None}, {("a", "b"): float("nan")}, "it must be rows a second"),
        ({"a": None, "b": None}, {("a", "b"): float("inf")}, "it must be rows a second"),
        ({"a": "xy"}, {}, r"attributes\['a'\] = 'xy'; it must be a list of names: \['xy'\]"),
        ({"a": [""]}, {}, r"attributes\['a'\] holds ''; an attribute must be a name"),
        ({"a": [3]}, {}, r"attributes\['a'\] holds 3"),
    ],
)
def test_bad_input_is_named(attributes, rates, message):
    """The value, what it must be, and where it stands."""
    with pytest.raises(ValueError, match=message):
        fuse(attributes, rates)


def test_no_time_is_refused():
    """A tenth of a second is the least."""
    with pytest.raises(ValueError, match=r"seconds = 0; it must be 0.1 or more"):
        fuse({}, {}, seconds=0)
