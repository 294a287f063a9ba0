"""The clock of a watch: what objects say, by witnesses; what it ends, and when that is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.commits.offsets import Source
from dtoss.errors import StoreError
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.watch_folder import STATE, Home
from tests.dtoss.watch.processing.held import held_equal, rows_before
from tests.dtoss.watch.streams import BEGIN, NOW, SECOND, change, circle, rows_of, run, settings_of, told
from tests.dtoss.watch.watch_batch import run_batch
from tests.examples import examples

FENCE = circle("home", 0.0, 0.0, 600.0, events=6)
DAY = 86_400
TICK = SECOND * 1.05
"""The clock is known to a second, about."""


def at(id, second, lon=0.0):
    """A row on the equator, at home if nothing else is said."""
    return {"id": id, "t": BEGIN + second * SECOND, "x": lon, "y": 0.0, "attributes": {}}


def watched(folder, ids="int64", expire=900, tasks=1, witnesses="1%"):
    """A watch with a fence, and what runs a batch of it and returns what it tells, but who."""
    home = Home(str(folder), "w")
    change(home, [FENCE])

    def batch(*rows):
        commit = run(
            home, settings_of(ids=ids), list(rows), tasks, ids=ids, expire=expire * SECOND, witnesses=witnesses
        )
        return sorted((kind, str(id), reason) for kind, _, _, id, _, reason in told(home, commit.number))

    return home, batch


def clock_of(home):
    """The seconds of the clock."""
    return (home.batches.head().document["clock"] - BEGIN) / SECOND


@pytest.mark.parametrize(("ids", "tasks"), [("int64", 1), ("string", 3)])
def test_a_wrong_clock_tells_no_leave(tmp_path, ids, tasks):
    """Two rows of one device, five days ahead, in a batch of their own; and it sends them on in each batch."""
    home, batch = watched(tmp_path, ids, tasks=tasks)
    assert len(batch(*(at(id, 0) for id in range(20)))) == 20
    assert batch(at(7, 5 * DAY), at(7, 5 * DAY + 60)) == []
    assert batch(at(99, 6 * DAY, lon=9.0)) == []
    for minute in range(1, 13):
        wrong = [at(7, 5 * DAY + 60 + 60 * minute), at(99, 6 * DAY + 60 * minute, lon=9.0)]
        assert batch(*(at(id, 60 * minute) for id in range(20) if id != 7), *wrong) == []
        assert 60 * minute - 2 < clock_of(home) <= 60 * minute
    assert home.batches.head().document["totals"]["outdated"] == 0
    # who is silent leaves all the same, the wrong ones do not
    for minute in (20, 27, 28):
        found = batch(*(at(id, 60 * minute) for id in range(10) if id != 7))
        gone = [("leave", str(id), "expired") for id in range(10, 20)]
        assert found == (gone if minute == 28 else [])


def test_an_object_expires_in_the_batch_whose_rows_say_so(tmp_path):
    """Behind their events, at its own time; a row that has come before it in the batch counts."""
    home, batch = watched(tmp_path, expire=60)
    batch(*(at(id, 0) for id in range(5)))
    found = batch(*(at(id, 100, lon=9.0) for id in range(1, 4)), at(4, 50))
    assert found == [("leave", "0", "expired"), *(("leave", str(id), None) for id in range(1, 4))]
    events = told(home, 2)
    assert events[-1] == ("leave", "home", 1, 0, BEGIN + 60 * SECOND, "expired")
    assert sorted(rows_before(home, home.batches.head())) == [1, 2, 3, 4]
    assert batch(at(0, 101), at(4, 39)) == [("enter", "0", None)]


def test_a_lone_tracker_moves_the_clock(tmp_path):
    home, batch = watched(tmp_path)
    assert batch(at(1, 0)) == [("enter", "1", None)]
    batch(at(1, DAY))
    assert DAY - 2 < clock_of(home) <= DAY
    # a jump of its own clock is followed, and so it is over by its own row of before
    assert batch(at(1, 5)) == []


@pytest.mark.parametrize("others", [1, 2])
def test_a_silent_one_of_a_few_expires_once_others_have_gone_on(tmp_path, others):
    """For twice as long as it may be silent; a jump counts for nothing, nor does a night without rows."""
    _, batch = watched(tmp_path, expire=900)
    batch(*(at(id, 0) for id in range(others + 1)))
    assert batch(*(at(id, DAY) for id in range(1, others + 1))) == []
    for minute in range(1, 30):
        assert batch(*(at(id, DAY + 60 * minute) for id in range(1, others + 1))) == []
    assert batch(*(at(id, DAY + 1800) for id in range(1, others + 1))) == [("leave", "0", "expired")]


def test_one_witness_is_enough_where_it_is_asked_for(tmp_path):
    _, batch = watched(tmp_path, witnesses="1")
    batch(at(1, 0), at(2, 0), at(3, 0), at(4, 0))
    assert batch(at(4, 5000)) == [("leave", str(id), "expired") for id in (1, 2, 3)]


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_first_row_of_a_wrong_clock_makes_nothing_outdated(tmp_path, tasks):
    """Three others are right: their rows count in the batch that says so."""
    home, batch = watched(tmp_path, tasks=tasks)
    batch(at(99, 2000 * DAY))
    assert batch(at(1, 0)) == []  # one against one
    assert len(batch(*(at(id, 60) for id in range(20)))) == 20
    assert home.batches.head().document["counts"]["outdated"] == 0
    assert 58 < clock_of(home) <= 60
    assert len(batch(*(at(id, 5000) for id in range(10)))) == 10  # the others have expired


def of_before(home, **said):
    """Commit what an older version would have: a clock, and nothing of witnesses."""
    head = home.batches.head()
    document = {name: value for name, value in head.document.items() if name != "witnesses"}
    home.batches.append(document | {"events": [], "ledger": {"files": {}, "batches": {}}} | said, head)


def test_a_clock_of_before_there_were_witnesses_is_not_believed(tmp_path):
    """It is read, what stands says what time it is, and rows that its one row made outdated count."""
    home, batch = watched(tmp_path)
    batch(*(at(id, 0) for id in range(20)))
    wrong = BEGIN + 5 * DAY * SECOND
    of_before(home, clock=wrong, clock_before=BEGIN)
    assert batch(*(at(id, 60, lon=9.0) for id in range(10))) == [("leave", str(id), None) for id in range(10)]
    assert 58 < clock_of(home) <= 60
    # where it had told by it, too: who was lost is heard of again
    of_before(home, clock=wrong, clock_before=wrong)
    assert batch(*(at(id, 120) for id in range(10))) == [("enter", str(id), None) for id in range(10)]
    # a batch without rows finds the time, too
    of_before(home, clock=wrong, clock_before=wrong)
    batch()
    assert 118 < clock_of(home) <= 120


def test_a_first_wrong_clock_is_overruled_where_nothing_expires(tmp_path):
    """Subscriptions end by it, too."""
    home, made = Home(str(tmp_path), "w"), settings_of()
    change(home, [FENCE | {"expires": BEGIN + DAY * SECOND}])
    run(home, made, [at(99, 2000 * DAY)])
    run(home, made, [at(id, 60) for id in range(3)])
    assert 58 < clock_of(home) <= 60
    assert [event[0] for event in told(home, 2)] == ["enter"] * 3


def test_what_a_clock_of_before_had_ended_is_told_by_the_next_commit(tmp_path):
    home, batch = watched(tmp_path, expire=60)
    change(home, [circle("short", 0.0, 0.0, 600.0, events=6, expires=BEGIN + 50 * SECOND)])
    batch(*(at(id, 0) for id in range(5)))
    batch(*(at(id, 40) for id in range(4)))
    of_before(home, clock=BEGIN + 100 * SECOND, clock_before=BEGIN + 40 * SECOND)
    found = batch(*(at(id, 101) for id in range(4)))
    assert found == [("leave", "4", "expired"), ("reset", "None", "expired")]


def test_a_damaged_clock_is_named(tmp_path):
    home, batch = watched(tmp_path)
    batch(at(1, 0))
    head = home.batches.head()
    home.batches.append(head.document | {"witnesses": {"held": "x"}}, head)
    with pytest.raises(StoreError, match=r"the clock of a commit is damaged: .*restore the commit from a copy"):
        batch(at(1, 1))


def beat(home, wall, expire=900):
    """A beat by a clock of the machine; what it tells, or None."""
    plan = plan_batch(home, settings_of(), Source(), Options(expire=expire * SECOND), NOW)
    commit = run_batch(replace(plan, clock_us=BEGIN + round(wall * SECOND)), rows_of([]))
    return None if commit is None else [(event[0], event[3], event[5]) for event in told(home, commit.number)]


def test_a_lone_tracker_that_falls_silent_expires_by_the_clock_of_the_machine(tmp_path):
    """At a beat, once, also where that clock goes back and the watch is started again; then it enters anew."""
    home, batch = watched(tmp_path)
    batch(at(1, 0))
    assert beat(home, 899) is None
    assert home.batches.head().number == 1
    assert beat(home, 900) == [("leave", 1, "expired")]
    for wall in (901, -DAY, 0, 900, DAY):
        assert beat(home, wall) is None
    assert clock_of(home) == 900
    assert batch(at(1, 0)) == []  # over when it comes
    assert home.batches.head().document["counts"]["outdated"] == 1
    assert batch(at(1, 890)) == [("enter", "1", None)]
    assert beat(home, 100) is None
    change(home, [circle("other", 9.0, 0.0, 600.0, events=6)])
    assert beat(home, 100) == []  # what was asked is adopted
    assert clock_of(home) == 900


def test_a_subscription_expires_by_the_clock_of_the_machine(tmp_path):
    home, batch = watched(tmp_path)
    change(home, [circle("short", 0.0, 0.0, 600.0, events=6, expires=BEGIN + 50 * SECOND)])
    batch(at(1, 0))
    assert beat(home, 49) is None
    assert beat(home, 50) == [("reset", None, "expired")]
    assert beat(home, 10) is None
    assert batch(at(1, 51, lon=9.0)) == [("leave", "1", None)]


def test_a_beat_without_any_row_before_has_no_time(tmp_path):
    home, _ = watched(tmp_path)
    assert beat(home, 10**6) == []  # what stands is adopted
    assert home.batches.head().document["clock"] is None


def odd_rows(rng, count, objects, span):
    """Rows of a few objects, by arrival: some fall silent, some have clocks that jump, now and then or for good."""
    rows, ahead, now = [], np.zeros(objects, int), 0
    silent = rng.integers(0, count, objects)
    for number in range(count):
        now += int(rng.choice([0, 1, span // 3, span // 2]))
        if rng.random() < 0.03:
            now += 20 * span
        id = int(rng.integers(objects))
        if rng.random() < 0.1:
            ahead[id] = rng.choice([0, 3 * span, DAY, -DAY])
        if number > silent[id] and rng.random() < 0.9:
            continue
        once = DAY if rng.random() < 0.05 else 0
        rows.append(at(id, now + int(ahead[id]) + once, lon=float(rng.choice([0.0, 0.01]))))
    return rows


@settings(max_examples=examples(24, 3), deadline=None)
@given(
    seed=st.integers(0, 10**9),
    objects=st.sampled_from([1, 2, 3, 4, 9]),
    tasks=st.sampled_from([1, 3]),
    expire=st.sampled_from([None, 20]),
    witnesses=st.sampled_from(["1%", "1%", "2", "50%"]),
)
def test_any_clocks_are_the_loop(tmp_path_factory, seed, objects, tasks, expire, witnesses):
    """Fleets of one object and of some, in many batches."""
    rows = odd_rows(np.random.default_rng(seed), 60, objects, 20)
    folder = tmp_path_factory.mktemp("clocks")
    held_equal(folder, seed, tasks, 16, expire=expire, witnesses=witnesses, rows=rows)


def test_messages_have_witnesses_too(tmp_path):
    """An id says what time it is once a batch, a message without one each time."""
    home, made = Home(str(tmp_path), "w"), settings_of(messages=True)
    change(home, [circle("home", 0.0, 0.0, 600.0, events=1, expires=BEGIN + DAY * SECOND)])
    run(home, made, [at(id, 0) for id in range(3)])
    run(home, made, [at(1, 2 * DAY), at(1, 2 * DAY + 1)])
    assert clock_of(home) <= 0
    assert "expired" not in [event[5] for event in told(home, 2)]
    run(home, made, [at(None, 2 * DAY), at(None, 2 * DAY)])
    assert told(home, 3)[-1] == ("reset", "home", 1, None, None, "expired")


def test_a_batch_writes_its_state_once(tmp_path):
    """Also where objects go with it: each file that it writes is in its commit."""
    home, batch = watched(tmp_path, expire=60)
    for minute in range(6):
        # more go than have come
        batch(*(at(100 * minute + id, 70 * minute) for id in range(40 if minute % 2 == 0 else 3)))
    commits = [home.batches.read(number).document for number in range(1, 7)]
    assert sum(document["counts"]["expired"] for document in commits) > 20
    assert {*home.folder.files(STATE)} == {run["name"] for document in commits for run in document["state"]}
