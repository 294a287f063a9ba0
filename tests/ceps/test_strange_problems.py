"""Weird but valid problems: each plan ends, holds and is no dearer than a server a partition; the rest is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ceps
from ceps import InfeasibleError, Patterns, ServerType
from ceps.model.problem import build_problem
from tests.ceps.instances import assert_holds

LOADS = np.abs(np.sin(0.3 * np.arange(24)[None] + np.arange(6)[:, None])) * 10
BYTES = np.full(6, 100.0)
strange = partial(ServerType, "a")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("method", ["fleet", "gain"])
@pytest.mark.parametrize(
    "servers",
    [
        [strange(20, 200, 0.0)],
        [strange(20, 200, 0.0), ServerType("b", 40, 400, 1.0)],
        [strange(5, 200, 0.0), ServerType("b", 40, 400, 1.0)],
        [strange(20, 200e-6, 0.1), ServerType("b", 40, 400, 1.0)],
        [strange(20e-6, 200, 0.0), ServerType("b", 40, 400, 1.0)],
        [strange(20e-9, 200, 0.1), ServerType("b", 40, 400, 1.0)],
        [strange(20, 200, 1e9), ServerType("b", 40, 400, 1e-9)],
        [strange(1e18, 1e30, 1e9), ServerType("b", 20, 200, 1e9)],
    ],
    ids=["free", "free and paid", "free and too small", "bytes too few", "free and useless", "useless", "dear", "huge"],
)
def test_plans_end(servers, method):
    """Free servers, types that hold nothing, and the ends of what prices and capacities may be."""
    patterns = Patterns(loads=LOADS, sizes=BYTES)
    made = ceps.plan(patterns, None, servers, method=method)
    assert_holds(made, patterns)
    alone = build_problem(patterns, servers)
    assert made.cost_per_day <= 24 * alone.prices[alone.cheapest_types(alone.columns)].sum() * (1 + 1e-9)


def test_free_servers_cost_nothing_and_hold_everything():
    """Also where a paid type would do with fewer."""
    made = ceps.plan(LOADS, BYTES, [strange(20, 200, 0.0), ServerType("b", 400, 4000, 1.0)])
    assert made.cost_per_day == made.lower_bound == 0
    assert {kind.name for kind in made.types} == {"a"}


size = st.sampled_from([0.0, 1e-9, 1e-3, 1.0, 7.0, 1e3, 1e6, 1e12])
price = st.sampled_from([0.0, 1e-9, 0.1, 1.0, 1e9])


@pytest.mark.timeout(240)
@settings(max_examples=40, deadline=None)
# A free type for any bytes: fleets of ever more servers, 517 s of them.
@example([(1e-9, 1e-9)], [(1e-9, np.inf, 0.0), (7.0, 1e6, 0.0), (1.0, 7.0, 1e-9)], 2, -1)
@given(
    st.lists(st.tuples(size, size), min_size=0, max_size=7),
    st.lists(st.tuples(size, st.one_of(size, st.just(np.inf)), price), min_size=1, max_size=3),
    st.integers(1, 2),
    st.integers(-1, 1),
)
def test_any_valid_problem_is_planned_or_refused(items, types, copies, pin):
    """Loads and bytes over 21 powers of ten, some 0, some too large for any type."""
    patterns = Patterns(
        loads=np.array([[load, load / 2] for load, _ in items]).reshape(-1, 2), sizes=np.array([b for _, b in items])
    )
    servers = [ServerType(str(k), max(r, 1e-9), max(b, 1e-9), p) for k, (r, b, p) in enumerate(types)]
    pinned = np.full(len(items), -1)
    pinned[:1] = pin
    try:
        made = ceps.plan(patterns, None, servers, copies=copies, pinned=pinned)
    except InfeasibleError as error:
        assert len(error.partitions) > 0  # noqa: PT017
        return
    assert_holds(made, patterns)


@pytest.mark.parametrize("field", ["requests_per_second", "bytes", "dollars_per_hour"])
@pytest.mark.parametrize("value", [-1.0, np.nan, 1e308, 5e-324, True, "8", None, 1 + 0j])
def test_server_types_out_of_bounds_are_refused(field, value):
    """The message names the server, the field and the bound."""
    numbers = {"requests_per_second": 20.0, "bytes": 200.0, "dollars_per_hour": 1.0, field: value}
    with pytest.raises(ValueError, match=f"server 'a': {field} = .*1e-09 to "):
        strange(**numbers)


@pytest.mark.parametrize("value", [2.5, 0, -1, True, "2", np.nan, np.inf, None, 10**9])
def test_copies_are_a_whole_number(value):
    """Not a TypeError from deep inside, nor an array of a billion rows."""
    with pytest.raises(ValueError, match=r"copies = .*; it must be a whole number from 1 to 1000: each stands"):
        ceps.plan(LOADS, BYTES, [strange(20, 200, 1.0)], copies=value)


@pytest.mark.parametrize("value", [-7, 0.5, np.nan, np.inf, 1e300])
def test_pins_are_numbers_of_servers(value):
    """-7 was taken for -1, which means not pinned."""
    pinned = np.array([-1, value, -1, -1, -1, -1])
    with pytest.raises(ValueError, match=r"pinned\[1\] = .*whole number of 0 or more, or -1"):
        ceps.plan(LOADS, BYTES, [strange(20, 200, 1.0)], pinned=pinned)


@pytest.mark.parametrize("pinned", [[True] * 6, ["0"] * 6, [None] * 6])
def test_pins_of_other_kinds_are_refused(pinned):
    """A mask is not a list of servers."""
    with pytest.raises(ValueError, match=r"pinned\[0\] = "):
        ceps.plan(LOADS, BYTES, [strange(20, 200, 1.0)], pinned=pinned)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("utilisation", "0.9"),
        ("utilisation", True),
        ("utilisation", np.nan),
        ("growth", np.inf),
        ("growth", None),
        ("seed", -1),
        ("seed", 1.5),
        ("seed", "0"),
        ("time_limit", "1"),
        ("time_limit", np.nan),
        ("prove", -1.0),
        ("prove", np.inf),
        ("move_budget", -1.0),
        ("move_budget", "5%"),
        ("move_budget", 5.0),
    ],
)
def test_other_arguments_are_checked(name, value):
    """One ValueError that names the argument."""
    with pytest.raises(ValueError, match=f"{name} = "):
        ceps.plan(LOADS, BYTES, [strange(20, 200, 1.0)], **{name: value})


@pytest.mark.parametrize(("name", "value"), [("loads", 1e300), ("loads", -1.0), ("sizes", 1e300), ("sizes", np.inf)])
def test_patterns_out_of_bounds_are_refused(name, value):
    """Sums of them would be infinite."""
    with pytest.raises(ValueError, match=f"{name}.* = .* at the most"):
        Patterns(**{"loads": LOADS, "sizes": BYTES, name: np.full_like({"loads": LOADS, "sizes": BYTES}[name], value)})
