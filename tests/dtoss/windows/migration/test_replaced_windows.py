"""Another spec or other pivots take over without a gap: ends before are those of the old set, later ones of the new."""

from __future__ import annotations

import pytest

from dtoss.windows.processing.windows_tables import verify_windows
from dtoss.windows.storage.sets import current_home, sets_of
from dtoss.windows.storage.window_document import Home, head_of
from tests.dtoss.windows.migration.following import (
    OTHER_SITES,
    always,
    begin_beside,
    fixed_in,
    long_batches,
    opened,
    play,
    same_ends,
)
from tests.dtoss.windows.storage.kept import SECOND, SITES, spec

CHANGES = {
    "pivots": (spec(), spec(sites=OTHER_SITES), OTHER_SITES),
    "more measures": (spec(measures="rows,here"), spec(), SITES),
    "moves and stays": (spec(measures="rows"), spec(expire="16s"), SITES),
    "expire": (spec(), spec(expire="3s"), SITES),
    "a shorter length, another slide": (spec(), spec("2s,6s,10s", "2s"), SITES),
    "a longer length": (spec(), spec("4s,16s"), SITES),
    "finer panes": (spec(), spec("3s,9s", "3s"), SITES),
    "later": (spec(), spec(late="3s"), SITES),
    "moves further apart": (spec(measures="rows"), spec(measures="rows,speed,arrivals", max_gap="14s"), SITES),
}


TASKS = [(change, 1 + number % 3) for number, change in enumerate(CHANGES)] + [("pivots", 7), ("more measures", 7)]
LONGER = pytest.mark.deep("more batches, rows and tasks of the same kind")
CASES = [(*case, (4, 9, 15)) for case in TASKS[: len(CHANGES)]]
CASES += [pytest.param(*case, (3 + case[1], 9 if case[1] > 2 else 12, 25), marks=LONGER) for case in TASKS]


@pytest.fixture(scope="module")
def stood(tmp_path_factory):
    """Windows of a spec that have always run over some batches: those of equal ones are counted once."""
    made = {}

    def find(wanted, sites, drawn):
        key = (wanted, sites.tobytes(), drawn)
        if key not in made:
            made[key] = always(tmp_path_factory.mktemp("stood"), wanted, sites, long_batches(*drawn))
        return opened(made[key])

    return find


@pytest.mark.parametrize(("change", "tasks", "drawn"), CASES)
def test_others_take_over_and_no_result_changes(tmp_path, stood, change, tasks, drawn):
    """Each end before is that of the old set, each later one that of a set which had always run."""
    old, new, sites = CHANGES[change]
    batches = long_batches(*drawn)
    home = Home(str(tmp_path / "s"), "w")
    fixed_in(home, old, SITES)
    play(home, batches[:3], tasks)
    sets = begin_beside(home, new, sites)
    play(home, batches, tasks)
    assert sets_of(home).answering[-1].number == 2, (sets, head_of(home).watermark)
    found = opened(home)
    assert (found.home.number, found.spec, found.since) == (2, new, sets.coming.since)
    before = stood(old, SITES, drawn)
    after = stood(new, sites, drawn)
    assert found.watermark == after.watermark
    assert same_ends(found, before, 0, found.since - 1) > 10
    assert same_ends(found, after, found.since, found.watermark) > 10
    if "flow" in new.measures:
        assert found.flow(window=new.names[-1]).equals(after.flow(window=new.names[-1]))
    assert verify_windows(home).damaged == []
    assert current_home(home.store, "w").number == 2
    assert found.since < found.watermark
    assert found.since > batches[2][0][1] // SECOND
