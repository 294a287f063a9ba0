"""Cycles whose time is that of their rows: what witnesses say, held to a loop, without Spark."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.errors import InputError
from pipelines.options.snapshot_options import Merging
from tests.dtoss.snapshots.small_stores import silent
from tests.dtoss.watch.oracle import Witnessed
from tests.examples import examples
from tests.oracles import Update, apply, standing
from tests.pipelines.cycles.stored import FATES, compared, held
from tests.pipelines.cycles.without_spark import begin, cycled

inf = float("inf")
YEARS = 200_000_000


def row(id, t, x=1.0):
    """A row of an object."""
    return Update(id, t, x, 2.0, ("a", 0.5))


def merged(store, rows, expire=900, witnesses="1%", **options):
    """The manifest after a cycle whose clock is that of the data."""
    return cycled(store, rows, None, clock="data", expire=expire, witnesses=witnesses, **options)


class Told:
    """The slow version: one dictionary, and what witnesses say."""

    def __init__(self, expire, witnesses):
        self.state, self.expire = {}, inf if expire is None else expire
        self.time = Witnessed(witnesses, 3600 if expire is None else expire, border=0)

    def cycle(self, rows):
        """The counts of a cycle."""
        before = {id: one.t for id, one in standing(self.state).items()}
        latest = {}
        for one in rows:
            latest[one.id] = max(latest.get(one.id, one.t), one.t)
        came = {id: [t] for id, t in latest.items()}
        self.time.set_back(before, came, lambda t: self.time.now is not None and t < self.time.now - self.time.span)
        newer = {id: times for id, times in came.items() if id not in before or times[0] > before[id]}
        if rows:
            self.time.after(before, newer)
        self.state, counts = apply(self.state, rows, now=self.time.now, expire=self.expire, deletes=False)
        return counts


TIMES = st.integers(0, 60) | st.integers(500, 560) | st.sampled_from([YEARS, YEARS + 20])
ROWS = st.lists(st.builds(row, st.integers(0, 6), TIMES, st.sampled_from([1.0, 2.0])), max_size=8)


@settings(max_examples=examples(24), deadline=None)
@given(
    cycles=st.lists(ROWS, min_size=1, max_size=6),
    expire=st.sampled_from([None, 20, 20]),
    witnesses=st.sampled_from(["1%", "1", "2", "50%"]),
    partitions=st.sampled_from([1, 3]),
)
def test_cycles_are_the_loop(tmp_path_factory, cycles, expire, witnesses, partitions):
    """Wrong clocks, jumps and silence, of up to seven objects."""
    store, slow = begin(str(tmp_path_factory.mktemp("clock") / "s"), partitions), Told(expire, witnesses)
    for rows in cycles:
        wanted = slow.cycle(rows)
        manifest = merged(store, rows, expire, witnesses, deleted=None, allow_empty=True)
        assert manifest["clock"]["now"] == slow.time.now
        kept = manifest["clock"].get("witnesses")
        assert kept is None or [kept[name] for name in ("sure", "held", "waits")] == [
            slow.time.sure, slow.time.held, slow.time.waits,
        ]  # fmt: skip
        assert compared(standing(held(store.path))) == compared(standing(slow.state))
        assert [manifest["cycle"][name] for name in FATES] == [wanted[name] for name in FATES]


def test_one_row_of_another_year_empties_no_store(tmp_path):
    """However often it comes; who is silent goes all the same."""
    store = begin(str(tmp_path / "s"))
    merged(store, [row(id, 0) for id in range(20)])
    for minute in (1, 2, 15, 16):
        rows = [row(id, 60 * minute) for id in range(10)] + [row(99, YEARS + 60 * minute)]
        manifest = merged(store, rows)
        assert manifest["clock"]["now"] == 60 * minute
        assert manifest["cycle"]["updated"] == 11
        assert manifest["objects"] == (21 if minute <= 15 else 11)


def test_a_lone_object_moves_the_clock(tmp_path):
    store = begin(str(tmp_path / "s"))
    merged(store, [row(1, 0)])
    manifest = merged(store, [row(1, 5000)])
    assert (manifest["clock"]["now"], manifest["objects"]) == (5000, 1)
    assert merged(store, [row(2, 10)])["cycle"]["outdated"] == 1


def test_a_first_wrong_clock_is_overruled(tmp_path):
    """The rows that say so count at once."""
    store = begin(str(tmp_path / "s"))
    merged(store, [row(99, YEARS)])
    manifest = merged(store, [row(id, 60) for id in range(20)])
    assert (manifest["clock"]["now"], manifest["objects"], manifest["cycle"]["outdated"]) == (60, 21, 0)


def test_time_without_updates_stands(tmp_path):
    store = begin(str(tmp_path / "s"))
    first = merged(store, [row(id, 10 * id) for id in range(5)])
    assert merged(store, [])["clock"] == first["clock"]
    # what others say of the time is no witness, and what witnesses have said stays known
    given_ = cycled(store, [], 30, expire=900)["clock"]
    assert (given_["kind"], given_["now"], given_["witnesses"]) == ("given", 30, first["clock"]["witnesses"])


def test_a_clock_of_before_there_were_witnesses_is_not_believed(tmp_path):
    """It was the greatest time ever seen."""
    store = begin(str(tmp_path / "s"))
    said = cycled(store, [*(row(id, 0) for id in range(20)), row(99, YEARS)], YEARS, expire=None)["clock"]
    assert said == {"kind": "given", "now": YEARS, "watermark": YEARS}
    manifest = merged(store, [row(id, 60) for id in range(10)])
    assert (manifest["clock"]["now"], manifest["objects"], manifest["cycle"]["updated"]) == (60, 21, 10)


def test_a_replay_that_loses_all_says_what_it_wants(tmp_path):
    """By the clock of the machine; where the time was given, nothing else is meant."""
    store = begin(str(tmp_path / "s"))
    cycled(store, [row(id, 0) for id in range(20)], 10)
    said = (
        r"there is no object: 3 updates are outdated and 20 objects have expired, as it is \d+.* by this machine's "
        "clock; --clock data takes the time from the rows, as a replay of the past wants it"
    )
    with pytest.raises(InputError, match=said):
        cycled(store, [row(id, 60) for id in (1, 2, 77)], None, expire=900, max_ahead=300)
    with pytest.raises(InputError, match="there is no object: the current snapshot stays; --allow-empty"):
        cycled(store, [], YEARS, expire=900)
    assert cycled(store, [], None, expire=900, allow_empty=True, warn=silent)["objects"] == 0


def test_witnesses_that_are_none_are_refused():
    with pytest.raises(ValueError, match="--witnesses is 'few'"):
        Merging(witnesses="few")
