"""What is refused, given up, begun anew and removed where windows of one name replace others; what is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dtoss.commits.offsets import Source
from dtoss.commits.table import remove_orphans
from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import space_of
from dtoss.windows.migration.migration_text import change_of, under_way
from dtoss.windows.migration.take_over import count_batch, first_of, follow, give_up, read_by_all, settle_sets
from dtoss.windows.processing.hour_compaction import merge_hours
from dtoss.windows.processing.window_task import commit_batch
from dtoss.windows.processing.windows_tables import clear_sets, table_of, verify_windows
from dtoss.windows.state.hour_files import Steps
from dtoss.windows.storage.sets import current_home, sets_of
from dtoss.windows.storage.spec_file import read_spec
from dtoss.windows.storage.window_document import Home, begun_windows, head_of
from dtoss.windows.storage.window_plan import Options, plan_batch
from tests.dtoss.windows.migration.following import (
    OTHER_SITES,
    always,
    begin_beside,
    counted,
    fixed_in,
    long_batches,
    opened,
    play,
    same_ends,
)
from tests.dtoss.windows.storage.kept import FAR_FUTURE, SECOND, SITES, commit, rows_of, spec
from tests.dtoss.windows.window_batch import run_batch

OTHER = spec(sites=OTHER_SITES)
BATCHES = long_batches(8, batches=9, rows=12)


@pytest.fixture
def home(tmp_path):
    """Windows that have read two batches, with another set that has begun beside them."""
    home = Home(str(tmp_path / "s"), "w")
    fixed_in(home, spec(), SITES)
    play(home, BATCHES[:2])
    begin_beside(home, OTHER, OTHER_SITES)
    return home


def test_a_change_that_is_under_way_is_told(home):
    """From which end on, and at which watermark; what is asked is answered by the set of before."""
    coming = sets_of(home).coming
    assert coming.since > begun_windows(home).watermark
    assert coming.full_at >= coming.since
    assert change_of(sets_of(home))["set"] == 2
    assert under_way(sets_of(home)).startswith("another set runs beside this one: it answers ends from 1970-01-01T00:0")
    found = opened(home)
    assert (found.home.number, found.since, found.sets.coming) == (1, None, coming)
    kept = found.newest()
    assert kept is found
    play(home, BATCHES)
    newer = found.newest()
    assert (newer.home.number, newer.since, newer.sets.coming) == (2, coming.since, None)
    assert verify_windows(home).commits == 1 + len(BATCHES[2:]) + begun_windows(home).number


def test_one_that_is_given_up_goes_and_another_may_begin(home):
    """A second one gives up the first: no result of it is seen, and its files go once they are old."""
    play(home, BATCHES[:3])
    third = begin_beside(home, spec(measures="rows"), SITES)
    assert (third.coming.number, third.numbers, third.last) == (3, (1, 3), 3)
    assert clear_sets(home).files == 0
    assert clear_sets(home, 0.0).files > 0
    assert home.folder.folders("sets") == ["3", "commits"]
    give_up(home, third)
    play(home, BATCHES)
    assert (current_home(home.store, "w").number, change_of(sets_of(home))) == (1, None)
    assert clear_sets(home, 0.0).files > 0
    assert home.folder.folders("sets") == ["commits"]
    assert verify_windows(home).damaged == []


def test_sets_follow_one_another_and_each_answers_its_ends(home, tmp_path):
    """A third set, while the first two answer what they did; what has ends of two is refused with the first end."""
    batches = long_batches(8, batches=14, rows=12)
    play(home, batches[:9])
    found = opened(home)
    assert found.home.number == 2
    last = begin_beside(home, spec(measures="rows,here"), SITES).coming
    play(home, batches)
    found = opened(home)
    assert [(one.number, one.since) for one in found.sets.answering] == [
        (1, None), (2, found.sets.answering[1].since), (3, last.since),
    ]  # fmt: skip
    second = found.sets.answering[1].since
    for since, until, wanted, sites in (
        (0, second - 1, spec(), SITES), (second, last.since - 1, OTHER, OTHER_SITES),
    ):  # fmt: skip
        assert same_ends(found, opened(always(tmp_path / str(since), wanted, sites, batches)), since, until) > 0
    early, at = (second - 2 * SECOND) / SECOND, last.since / SECOND
    assert found.of_end(early).home.number == 1
    assert found.at(early, "4s").equals(found.of_end(early).at(early, "4s"))
    assert found.wide(early)["end"].to_pylist()[0] == early * SECOND
    assert len(found.series(0, "4s", early, early)) == 1
    assert found.of_end(at - 2).home.number == 2
    for refused in (
        lambda: found.series(0, "4s", early),
        lambda: found.wide_between(early, at),
        lambda: found.series(0, "4s", early, at - 2),
    ):
        with pytest.raises(InputError, match="were replaced by others from the end 1970-01-01T00:"):
            refused()
    with pytest.raises(InputError, match="is an end of the windows that these have replaced"):
        found.changed(at)
    assert found.changed(at + 2) is not None


def test_what_cannot_be_given_any_more_begins_the_set_anew(home, tmp_path):
    """A batch that only one set has, whose file is gone; or ends that were counted anew."""
    coming = sets_of(home).coming
    commit(home, read_spec(home), BATCHES[2], Source(files={"part2": len(BATCHES[2])}))
    files = {f"part{number}": len(BATCHES[number]) for number in (2, 3)}
    assert first_of(home, files) == {"part2": len(BATCHES[2])}
    assert first_of(home, {"part3": files["part3"]}) is None
    counted(home, 3, BATCHES[3], 1)
    anew = sets_of(home).coming
    assert (anew.number, anew.after) == (3, 3)
    assert anew.since > coming.since
    assert read_by_all(home).files.keys() == {"part0", "part1", "part2", "part3"}
    play(home, BATCHES)
    found = opened(home)
    assert found.since == anew.since
    assert same_ends(found, opened(always(tmp_path / "n", OTHER, OTHER_SITES, BATCHES)), found.since, found.watermark)


def test_batches_of_a_stream_are_counted_in_both(home):
    """One that only the first set has is given again, and counted in the other one alone."""

    def batch(number, only=None):
        source = Source(query="q", batch=number)
        rows = BATCHES[2 + number]

        def count(one):
            if only is not None and one.number != only:
                raise StoreError("killed")
            plan = plan_batch(
                one, read_spec(one), ("int64", "double"), source, Options(max_bad=1.0, new_source=True), FAR_FUTURE, 1
            )
            return None if plan is None else run_batch(plan, rows_of(rows))

        return count_batch(home, source, count)

    batch(0)
    with pytest.raises(StoreError, match="killed"):
        batch(1, only=1)
    batch(1)
    second = Home(home.store, "w", 2)
    assert [head_of(one).ledger.batches for one in (home, second)] == [{"q": 1}, {"q": 1}]
    assert batch(1) is None
    assert [head_of(one).number for one in (home, second)] == [4, 3]


def test_a_clock_moves_both_watermarks(home):
    """The set to come goes where the clock has moved the current one, before any other batch."""
    plan = plan_batch(home, read_spec(home), ("int64", "double"), Source(), Options(), FAR_FUTURE, 1)
    mark = begun_windows(home).watermark
    commit_batch(replace(plan, clock_us=mark + 60 * SECOND), [])
    second = Home(home.store, "w", 2)
    assert begun_windows(second).watermark == mark
    follow(home, sets_of(home))
    assert begun_windows(second).watermark == begun_windows(home).watermark == mark + 60 * SECOND
    assert settle_sets(home).current.number == 2
    assert settle_sets(home).coming is None


def test_a_set_that_was_replaced_goes_with_its_results(home):
    """Once the current one keeps nothing of its own first hour; ends of before are refused then."""
    hours = Steps(hour_us=4 * SECOND)
    batches = long_batches(8, batches=14, rows=12)
    play(home, batches)
    now = current_home(home.store, "w")
    since = sets_of(home).current.since
    assert clear_sets(home, 0.0).files >= 0
    assert read_spec(home).spec == spec()
    while merge_hours(now, read_spec(now).spec, begun_windows(now), 8 * SECOND, hours) is not None:
        remove_orphans(table_of(now), 0.0)
    assert clear_sets(home, 3600.0).files == 0
    assert [one.number for one in sets_of(home).answering] == [2]
    assert clear_sets(home, 0.0).files > 0
    assert home.folder.files() == []
    assert home.folder.folders() == ["sets"]
    assert verify_windows(home).damaged == []
    found = opened(home)
    with pytest.raises(InputError, match="is the end of a window no longer kept"):
        found.at((since - 2 * SECOND) / SECOND, "4s")
    play(home, [*batches, batches[-1]])
    third = begin_beside(home, spec(), SITES)
    assert third.coming.number == 3


def test_what_cannot_begin_is_refused_in_a_line(home):
    """Objects that were forgotten, and positions of another CRS."""
    short = Home(home.store, "short")
    fixed_in(short, spec(measures="rows"), SITES)
    play(short, BATCHES[:2])
    with pytest.raises(InputError, match="have forgotten objects that were silent for 10s: give --expire"):
        begin_beside(short, spec(measures="rows,here"), SITES)
    with pytest.raises(InputError, match="rows that were read mean other places"):
        begin_beside(short, spec(space=space_of("EPSG:4326", None)), SITES)
    assert sets_of(short).commit is None


def test_windows_without_any_row_are_replaced_at_once(tmp_path):
    """Nothing is due, and nothing has to be waited for."""
    home = Home(str(tmp_path), "w")
    fixed = fixed_in(home, spec(), SITES)
    commit(home, fixed, [], Source(files={"part9": 1}))
    begin_beside(home, OTHER, OTHER_SITES)
    assert settle_sets(home).current.number == 2
    play(home, BATCHES[:3])
    assert same_ends(opened(home), opened(always(tmp_path / "n", OTHER, OTHER_SITES, BATCHES[:3])), 0, 8 * SECOND) > 0
