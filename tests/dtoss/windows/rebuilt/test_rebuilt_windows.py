"""Windows counted anew: rows that were too late, mended or removed count as if they had always been right."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dtoss.watch.stream.scripted import no_sync
from tests.dtoss.windows.rebuilt.replay import SECOND, Played, late_ones
from tests.dtoss.windows.stored.kept import ALL, begin, counts_add_up, made, spec

MEASURES = ("rows,objects", ALL, "rows,speed,max_speed", "here,objects")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing is written through to the disk."""
    monkeypatch.setattr("os.fsync", no_sync)


def played(folder, seed, measures, expire, spans, tasks, batches=10):
    """Play batches with late rows, rebuild a time after some of them, and hold every answer to the oracle."""
    home, fixed = begin(folder, spec(measures=measures, expire=expire))
    play, raw, replaced = Played(home, fixed), [], set()
    for number, batch in enumerate(made(seed, batches, 12)):
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


@pytest.mark.parametrize(
    ("measures", "tasks"),
    [(ALL, (1,)), (ALL, (2,)), (ALL, (7, 1, 2)), ("rows,objects", (7,)), ("rows,speed,max_speed", (2, 1))],
)
def test_late_and_removed_rows_count_as_if_they_had_always_been_right(tmp_path, measures, tasks):
    """Far behind the watermark, near it, and twice; batches go on exactly."""
    expire = None if measures == ALL and tasks == (1,) else "3s"
    count, replaced = played(tmp_path, len(tasks), measures, expire, {6: (2, 5), 7: (1, 3), 8: (9, 60)}, tasks)
    assert count > 50
    assert replaced == ({True} if expire is None else {True, False})


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
