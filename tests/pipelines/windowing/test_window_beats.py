"""A watermark that follows the clock where no rows come, with a clock that is given: nothing counts otherwise."""

from __future__ import annotations

from dtoss.geometry.space import space_of
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.spec import spec_of
from dtoss.windows.storage.keys_file import keys_from, of_sites, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import Home
from dtoss.windows.storage.window_plan import Options
from pipelines.windowing.window_batches import Windowing
from tests.dtoss.windows.storage.kept import SECOND, SITES, check, commit

PLANE = space_of(None, "plane")
ROWS = [(1, 1 * SECOND, 0.0, 0.0), (2, 3 * SECOND, 0.0, 1.0), (2, 5 * SECOND, 10.0, 0.0), (1, 7 * SECOND, 1.0, 0.0)]


def begun(folder, **more):
    """The home of windows of 4 and 10 seconds that slide by 2, their spec, and a function that beats at a second."""
    digest = keys_from(PLANE, of_sites(SITES)).digest
    given = {"late": "5s", "max_gap": "6s", "delay": "0s"} | more
    wanted = spec_of("4s,10s", "2s", "rows,objects,here", "sites:shops", PLANE, digest, **given)
    home = Home(str(folder), "w")
    fixed = FixedSpec(wanted, write_keys(home, of_sites(SITES)))
    fix(home, fixed)
    moment, told = [0], []
    windowing = Windowing(home, fixed, Options(), say=told.append, clock=lambda: moment[0])

    def beat(seconds):
        moment[0] = round(seconds * SECOND)
        return windowing.beat()

    return home, fixed, beat, told


def test_ends_become_due_by_the_clock_and_are_those_of_all_rows(tmp_path):
    """The oracle's answers at each end up to the clock; a commit only where an end becomes due."""
    home, fixed, beat, told = begun(tmp_path)
    assert beat(50) is None  # before the first row there is nothing to tell
    assert home.batches.head() is None
    commit(home, fixed, ROWS)
    mark = open_windows(home.store, "w").watermark
    assert mark == 4 * SECOND
    assert beat(5.9) is None
    ran = beat(11.7)
    assert told == [ran]
    document = ran.commit.document
    assert (document["watermark_before"], document["watermark"]) == (mark, 10 * SECOND)
    assert {name: ran.counts[name] for name in ("rows", "counted", "losers", "quarantined")} == dict.fromkeys(
        ("rows", "counted", "losers", "quarantined"), 0
    )
    assert check(home, ROWS) > 10
    assert beat(11.9) is None
    assert beat(9) is None  # a clock that goes back moves nothing
    # long after the last row windows are empty; who stays is still here
    assert beat(60) is not None
    assert check(home, ROWS) > 20
    answer = open_windows(home.store, "w").at(60, "4s").to_pylist()
    assert {row["key"]: (row["rows"], row["here"]) for row in answer} == {0: (0, 1), 1: (0, 1)}


def test_rows_that_come_after_the_clock_has_gone_by_are_late(tmp_path):
    """Less than --late behind they make a revision, further behind they are set aside; --delay holds."""
    home, fixed, beat, _ = begun(tmp_path, delay="3s")
    commit(home, fixed, ROWS)
    before = open_windows(home.store, "w").watermark
    assert beat(15.5).commit.document["watermark"] == 12 * SECOND > before
    made = commit(home, fixed, [(3, 8 * SECOND, 0.0, 0.0), (3, 6 * SECOND, 0.0, 0.0)])
    assert dict(made.document["reasons"]) == {"later than --late": 1}
    assert made.document["watermark"] == 12 * SECOND
    assert check(home, [*ROWS, (3, 8 * SECOND, 0.0, 0.0)]) > 10


def test_without_a_clock_the_watermark_stands(tmp_path):
    """Which is what happens unless --clock wall is given."""
    home, fixed, _, _ = begun(tmp_path)
    commit(home, fixed, ROWS)
    assert Windowing(home, fixed, Options()).beat() is None
    assert open_windows(home.store, "w").head.number == 1
