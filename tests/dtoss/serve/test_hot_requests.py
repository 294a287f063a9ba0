"""What is read of a target at once, and what is left to the framework, which says what is wrong with it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from dtoss.geometry.space import space_of
from dtoss.serve.requests import hot_requests
from dtoss.serve.requests.hot_requests import HOT_KNN, Gathering, Target, read_target, reading_of

READING = reading_of(space_of(), 1_000, 1_000, 8_192)


@pytest.mark.parametrize(
    ("target", "radius"),
    [
        (b"/range?lon=1&lat=2&radius=5.5", 5.5),
        (b"/range?lon=1&lat=2&radius=0", 0.0),
        (b"/knn?lon=1&lat=2&k=3&max_distance=7", 7.0),
        (b"/range?lon=1&lat=2&radius=-1", None),
        (b"/range?lon=1&lat=2&radius=inf", None),
        (b"/knn?lon=1&lat=2&max_distance=nan", None),
        (b"/range?lon=1&lat=2&radius=5&radius=6", None),
    ],
)
def test_radii_that_are_none_are_left_to_the_framework(target, radius):
    found = read_target(target, READING)
    assert (None if found is None else found.radius) == radius


def test_questions_left_to_the_long_way_are_not_in_the_access_log_nor_is_their_k(monkeypatch):
    """As those of a turn are whose hits other servers of a plan may have."""
    found = SimpleNamespace(reads=np.ones(3))
    monkeypatch.setattr(hot_requests, "hot_bodies", lambda *_: ([b"a", None, b"c"], found))
    served = SimpleNamespace(share=None)
    state = Mock(serving=SimpleNamespace(now=served))

    async def asked():
        gathering = Gathering(state, asyncio.get_running_loop())
        targets = [Target(HOT_KNN, float(k), -float(k), k, 9.0, None) for k in (5, 6, 7)]
        return await asyncio.gather(*(gathering.ask(target, "ada") for target in targets))

    assert asyncio.run(asked()) == [(served, b"a"), None, (served, b"c")]
    (x, y, k, limit), _ = state.accesses.many.call_args
    assert [x.tolist(), y.tolist(), k.tolist(), limit.tolist()] == [[5, 7], [-5, -7], [5, 7], [9, 9]]
