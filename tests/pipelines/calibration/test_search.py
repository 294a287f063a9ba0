"""Which rate is found, and when none is stated: against servers that are a formula."""

from __future__ import annotations

from collections import Counter

import pytest

from dtoss.errors import InputError
from pipelines.calibration.over_http import highest, rounded_down
from pipelines.calibration.sender import Window

LIMIT = 0.05


def server(capacity, *, slow_after=None, lag=0.0, spare=0.8, statuses=None):
    """What measures a server that keeps the limit up to its capacity, and less once it has been asked for long."""

    def measure(rate, seconds):
        most = capacity if slow_after is None or seconds < 10 else slow_after
        return Window(rate, seconds, 0.001, 0.01 if rate <= most else 1.0, lag, spare, Counter(statuses or {200: 1000}))

    return measure


@pytest.mark.parametrize("capacity", [1.5, 7.0, 240.0, 251.0, 12_345.0, 3e6])
def test_the_highest_rate_is_found_within_a_few_percent_and_held(capacity):
    """Slow servers and fast ones; the last window is that of the whole time, and its rate is what is stated."""
    told = []
    held = highest(server(capacity), LIMIT, 60.0, 2.0, told.append)
    assert 0.95 * capacity < held.window.rate <= capacity
    assert held.window.seconds == 60.0
    assert held.window.rate == rounded_down(held.window.rate)
    assert list(held.tried) == told
    assert held.tried[-1] is held.window
    assert {window.seconds for window in held.tried[:-1]} == {2.0}


def test_a_rate_that_cannot_be_held_gives_way_to_a_lower_one():
    """And where none can be, nothing is stated."""
    held = highest(server(1000.0, slow_after=800.0), LIMIT, 60.0, 2.0)
    assert 600.0 < held.window.rate <= 800.0
    with pytest.raises(InputError, match=r"were not kept for 60 s, though more were for 2 s"):
        highest(server(1000.0, slow_after=1.0), LIMIT, 60.0, 2.0)


def test_a_limit_that_is_never_kept_is_said():
    """With the best that was seen."""
    with pytest.raises(InputError, match=r"p99 was 1,000 ms at best, the limit is 50 ms: raise it \(--p99\)"):
        highest(server(0.0), LIMIT, 60.0, 2.0)


@pytest.mark.parametrize("how", [{"lag": 0.006}, {"spare": 0.05}])
def test_a_figure_of_the_senders_is_refused(how):
    """They were late, or had no time to spare, whenever the limit was not kept; it is the server's while they had."""
    with pytest.raises(InputError, match=r"the senders were the slow ones: at .* ask from another machine, or by more"):
        highest(server(1000.0, **how), LIMIT, 60.0, 2.0)
    slow, free = server(1000.0, **how), server(1000.0)
    held = highest(lambda rate, seconds: (slow if rate > 1900 else free)(rate, seconds), LIMIT, 60.0, 2.0)
    assert 950 < held.window.rate <= 1000


def test_a_window_that_was_missed_because_the_senders_were_late_is_measured_again():
    """Twice; what is held in the end is the server's figure."""
    calls = []

    def measure(rate, seconds):
        calls.append(rate)
        held_up = calls.count(rate) < 3
        return server(0.0 if held_up else 1000.0, lag=0.02 if held_up else 0.0)(rate, seconds)

    assert 950 < highest(measure, LIMIT, 60.0, 2.0).window.rate <= 1000
    assert calls[:4] == [250.0, 250.0, 250.0, 500.0]


@pytest.mark.parametrize(("status", "why"), [(429, r"429, not with 200; without a rate limit"), (401, "401, not with")])
def test_refused_requests_are_no_rate(status, why):
    """However quickly they are refused; one in a thousand is no reason."""
    with pytest.raises(InputError, match=why):
        highest(server(1000.0, statuses={200: 900, status: 100}), LIMIT, 60.0, 2.0)
    assert highest(server(1000.0, statuses={200: 999, status: 1}), LIMIT, 60.0, 2.0).window.rate > 900
