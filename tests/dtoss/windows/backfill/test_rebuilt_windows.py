"""Windows counted anew: rows that were too late, mended or removed count as if they had always been right."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtoss.errors import InputError
from dtoss.windows.processing.hour_compaction import merge_hours
from dtoss.windows.storage.window_document import Home, head_of
from tests.dtoss.windows.backfill.replay import SECOND, Played, late_ones
from tests.dtoss.windows.storage.kept import ALL, begin, counts_add_up, made, spec
from tests.examples import examples

MEASURES = ("rows,objects", ALL, "rows,speed,max_speed", "here,objects")


def played(folder, seed, measures, expire, spans, tasks, batches=10, ids=5):
    """Play batches with late rows, rebuild a time after some of them, and hold every answer to the oracle."""
    home, fixed = begin(folder, spec(measures=measures, expire=expire))
    play, raw, replaced = Played(home, fixed), [], set()
    for number, batch in enumerate(made(seed, batches, 12, ids)):
        if play.reached is not None:
            batch = batch + late_ones(seed + number, raw, play.reached)
        play.batch(batch, tasks[number % len(tasks)])
        raw = raw + batch
        if number in spans:
            first, last = spans[number]
            raw = [row for row in raw if hash(row) % 11]  # some were removed
            commit = play.rebuilt(raw, first * SECOND, last * SECOND, tasks[(number + 1) % len(tasks)])
            counts_add_up(commit.document)
            said = commit.document["rebuilds"][-1]
            assert (said["reason"], said["from"], said["to"]) == ("rebuild", first * SECOND, last * SECOND)
            replaced.add(said["replaced"])
    return play.check(), replaced


ALIKE = pytest.mark.deep("other tasks and measures; one, many and few are in make test")


@pytest.mark.parametrize(
    ("measures", "tasks"),
    [
        (ALL, (1,)),
        (ALL, (7, 1, 2)),
        ("rows,speed,max_speed", (2, 1)),
        *(pytest.param(*one, marks=ALIKE) for one in ((ALL, (2,)), ("rows,objects", (7,)))),
    ],
)
def test_late_and_removed_rows_count_as_if_they_had_always_been_right(tmp_path, measures, tasks):
    """Far behind the watermark, near it, and twice; batches go on exactly."""
    expire = None if measures == ALL and tasks == (1,) else "3s"
    count, replaced = played(tmp_path, len(tasks), measures, expire, {6: (2, 5), 7: (1, 3), 8: (9, 60)}, tasks)
    assert count > 50
    assert replaced == ({True} if expire is None else {True, False})


def test_objects_that_come_seldom_go_on_from_patches(tmp_path):
    """State is written as what has changed of it, before a rebuild and after."""
    count, replaced = played(tmp_path, 5, ALL, "7s", {5: (1, 3), 6: (11, 16)}, (2,), batches=11, ids=90)
    assert count > 100
    assert replaced == {True}
    parts = head_of(Home(str(tmp_path), "w")).files["objects"]
    assert any(part.patch for part in parts)


def test_hours_that_are_past_take_in_what_was_counted_anew(tmp_path):
    """Before they are merged and after; what is kept no longer is refused, and says from when on it is."""
    hour = 3600 * SECOND
    wanted = spec("20min,1h", "20min", "rows,objects", late="10min")
    home, fixed = begin(tmp_path, wanted)
    play, raw = Played(home, fixed), []

    def more(first, last):
        rows = [(who, t * hour // 12 + who, float(who), 1.0) for who in range(4) for t in range(first, last)]
        play.batch(rows)
        raw.extend(rows)

    more(0, 60)
    raw += [(9, t * hour // 4, 9.0, 0.0) for t in range(12)]
    play.rebuilt(raw, hour, 2 * hour)
    assert merge_hours(home, wanted, head_of(home)) is not None
    play.check()
    more(60, 70)
    raw += [(8, t * hour // 4, 9.0, 0.0) for t in range(20)]
    play.rebuilt(raw, hour, 2 * hour)
    play.check()
    assert merge_hours(home, wanted, head_of(home)) is not None
    play.check()
    assert merge_hours(home, wanted, head_of(home), 2 * hour) is not None
    with pytest.raises(InputError, match="are kept no longer"):
        play.rebuilt(raw, hour, 2 * hour)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    measures=st.sampled_from(MEASURES),
    expire=st.sampled_from(["3s", "7s", None]),
    at=st.integers(0, 6),
    first=st.integers(-3, 24),
    wide=st.integers(1, 12),
)
def test_small_worlds(tmp_path_factory, seed, measures, expire, at, first, wide):
    """Any time, after any batch, as long as something of it is due."""
    folder = tmp_path_factory.mktemp("world")
    first = min(first, 4 * at - 6)
    played(folder, seed, measures, expire, {at: (first, first + wide)}, (1, 2), at + 2)
