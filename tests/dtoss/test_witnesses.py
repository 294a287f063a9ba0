"""What time it is by the rows of objects: one witness is not the time, and a few objects have one, too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoss.witnesses import Lasts, Moment, checked_witnesses, move_clock, overrule, witnesses_of
from tests.dtoss.watch.oracle import Witnessed

SPAN = 10
BATCHES = st.lists(
    st.dictionaries(
        st.integers(0, 5),
        st.lists(st.integers(0, 60) | st.integers(900, 960), min_size=1, max_size=4, unique=True).map(sorted),
        max_size=5,
    ),
    max_size=12,
)


def lasts(times):
    """Last times as the clock gets them."""
    return Lasts(np.sort(np.array(times, np.int64)), np.ones(len(times), np.int64))


def clock_of(batches, witnesses):
    """Yield what time it is after each batch, by the fast way, and by the slow one; old rows of an object are late."""
    moment, edge, slow, known = None, None, Witnessed(witnesses, SPAN), {}

    def over(t):
        return slow.now is not None and t <= slow.now - SPAN

    for rows in batches:
        before = {id: t for id, t in known.items() if not over(t)}
        ends = {id: times[-1] for id, times in rows.items() if id not in before or times[-1] > before[id]}
        slow.set_back(before, rows, over)
        after = before | {id: t for id, t in ends.items() if moment is None or t > moment.now - SPAN}
        behind = [t for id, t in ends.items() if id not in after]
        counted = lasts([t for t in after.values() if edge is None or t >= edge])
        right = overrule(moment, counted, lasts(behind), witnesses)
        if right is not None:
            moment, edge = right, right.now - SPAN + 1
        came = {
            id: [t for t in times if (moment is None or t > moment.now - SPAN) and t > before.get(id, -1)]
            for id, times in rows.items()
        }
        after = before | {id: times[-1] for id, times in came.items() if times}
        held = 0 if moment is None else moment.held
        gone_on = 0
        for id, times in came.items():
            path = np.maximum([before.get(id, held), *times], held)
            gone_on = max(gone_on, sum(step for step in np.diff(path).tolist() if step <= SPAN))
        counted = lasts([t for t in after.values() if edge is None or t >= edge])
        moment = move_clock(moment, counted, gone_on if moment else 0, witnesses, SPAN)
        slow.after(before, came)
        if moment is not None:
            edge = max(moment.now - SPAN + 1, moment.now if edge is None else edge) if edge is not None else (
                moment.now - SPAN + 1
            )  # fmt: skip
        known = after
        yield moment, slow


@given(BATCHES, st.sampled_from(["1%", "1", "2", "40%", "100%"]))
def test_what_time_it_is_is_what_the_loop_says(batches, witnesses):
    for fast, slow in clock_of(batches, witnesses):
        found = (None, None, None, 0) if fast is None else (fast.now, fast.sure, fast.held, fast.waits)
        assert found == (slow.now, slow.sure, slow.held, slow.waits)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.lists(st.integers(900, 10**9), min_size=1, max_size=9))
def test_one_wrong_clock_of_many_never_moves_it(times, wrong):
    """However often it is sent, and however far it goes on by itself."""
    good, moment = [t for t in times for _ in range(4)], None
    for t in wrong:
        moment = move_clock(moment, lasts([*good, t]), t, "1%", SPAN)
        assert moment is not None
        assert moment.now <= max(times)


def test_a_lone_object_says_what_time_it_is():
    moment = move_clock(None, lasts([7]), 0, "1%", SPAN)
    assert moment == Moment(7, None, 7, 0)
    assert move_clock(moment, lasts([500]), 0, "1%", SPAN).now == 500
    assert move_clock(moment, lasts([]), 0, "1%", SPAN) == moment


def test_of_two_the_silent_one_holds_the_time_up_until_the_other_has_gone_on():
    """A jump is no way; a step of the span is one, and twice the span is enough."""
    moment = move_clock(None, lasts([0, 0]), 0, "1%", SPAN)
    for way, t, now in ((0, 900, 0), (10, 910, 0), (9, 919, 0), (1, 920, 920)):
        moment = move_clock(moment, lasts([0, t]), way, "1%", SPAN)
        assert (moment.now, moment.held) == (now, 0)
    # once it is heard of again all is as before, and the time does not go back
    assert move_clock(moment, lasts([5, 921]), 1, "1%", SPAN) == Moment(920, None, 5, 0)
    # one of four is not half of them
    moment = move_clock(None, lasts([0, 0, 0, 0]), 0, "1%", SPAN)
    assert move_clock(moment, lasts([0, 0, 0, 9]), 99, "1%", SPAN).now == 0
    assert move_clock(moment, lasts([0, 0, 8, 9]), 99, "1%", SPAN).now == 8


def test_a_first_wrong_clock_is_overruled_by_three():
    first = move_clock(None, lasts([900]), 0, "1%", SPAN)
    assert overrule(first, lasts([900]), lasts([1, 2]), "1%") == Moment(1, 1, 1, 0)
    assert overrule(first, lasts([900]), lasts([1]), "1%") is None
    assert overrule(first, lasts([900]), lasts([]), "1%") is None
    # three have said so, or as many as were asked for
    sure = move_clock(None, lasts([900, 900, 900]), 0, "1%", SPAN)
    assert overrule(sure, lasts([900]), lasts([1, 2, 3, 4]), "1%") is None
    assert overrule(move_clock(None, lasts([900]), 0, "1", SPAN), lasts([900]), lasts([1, 2]), "1") is None
    # back to what three have said, and no further
    later = move_clock(Moment(50, 50, 50, 0), lasts([900]), 0, "1%", SPAN)
    assert overrule(later, lasts([900]), lasts([1, 2, 3]), "1%") == Moment(50, 50, 50, 0)


@pytest.mark.parametrize(
    ("text", "said"), [("1%", "1%"), (" 3 ", "3"), ("0.5%", "0.5%"), ("007", "7"), ("100%", "100%")]
)
def test_witnesses_are_a_share_or_a_count(text, said):
    assert checked_witnesses(text) == said


@pytest.mark.parametrize("text", ["", "0", "0%", "101%", "2.5", "-1", "1e3", "many", "1 %"])
def test_what_is_neither_is_refused(text):
    with pytest.raises(ValueError, match="a share such as 1%, or a count from 1 on, is wanted"):
        checked_witnesses(text)


def test_a_share_is_exact():
    """100 of 10,000 are 1 %, and 101 of 10,001; 0.1 % of 3,000 are three."""
    assert [witnesses_of("1%", n) for n in (10_000, 10_001)] == [100, 101]
    assert [witnesses_of("0.1%", n) for n in (3_000, 3_001)] == [3, 4]
