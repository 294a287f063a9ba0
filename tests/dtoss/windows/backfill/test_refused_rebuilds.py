"""What is refused in a line: rows that are not there, ends that are not due, checkpoints of another time."""

from __future__ import annotations

import pytest

from dtoss.commits.chain import Conflict
from dtoss.commits.offsets import Source
from dtoss.commits.table import remove_orphans
from dtoss.errors import InputError
from dtoss.windows.backfill.backfill_commit import ReadSources, check_there, plan_rebuild
from dtoss.windows.backfill.recount import rebuild_of
from dtoss.windows.processing.windows_tables import table_of, verify_windows
from dtoss.windows.storage.window_document import head_of
from dtoss.windows.storage.window_plan import Options
from tests.dtoss.windows.backfill.replay import SECOND, rebuild
from tests.dtoss.windows.storage.kept import FAR_FUTURE, begin, check, commit, rows_of, spec
from tests.dtoss.windows.window_batch import run_rebuild

FIRST = [(who, t * SECOND, float(who), 0.0) for who in range(4) for t in range(20)]
SECOND_ONES = [(who, t * SECOND, 1.0, float(who)) for who in range(4) for t in range(20, 60, 2)]
THERE = {"a": 1, "b": 1}


def stored(folder, query=""):
    """Windows with two batches, of two files or of a query."""
    home, fixed = begin(folder, spec(measures="rows,objects"))
    for number, rows in enumerate((FIRST, SECOND_ONES)):
        source = Source(query=query, batch=number) if query else Source(files={"ab"[number]: 1})
        commit(home, fixed, rows, source)
    return home, fixed


def refused(kind, call, *arguments, **options):
    """The line of an error."""
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_are_gone_are_named_with_the_time_of_their_rows(tmp_path):
    """An empty file says that its rows are meant to be gone; files of another time may be gone."""
    home, fixed = stored(tmp_path)
    said = refused(InputError, rebuild, home, fixed, FIRST, 0, 9 * SECOND, there={"b": 1})
    assert said.startswith("rows from 1970-01-01T00:00:00Z to 1970-01-01T00:00:19Z are not there: a, read by commit 1")
    assert "put an empty file of that name in its place" in said
    said = refused(InputError, rebuild, home, fixed, FIRST, 0, 50 * SECOND, there={"a": 1})
    assert said.startswith("rows from 1970-01-01T00:00:20Z to 1970-01-01T00:00:58Z are not there: b, read by commit 2")
    assert head_of(home).number == 2
    assert rebuild(home, fixed, FIRST, 0, 9 * SECOND, there={"a": 1})[1].number == 3  # b is later than all ends
    rebuild(home, fixed, SECOND_ONES, -SECOND, 50 * SECOND, there=THERE)
    check(home, SECOND_ONES)


@pytest.mark.parametrize(("files", "said"), [("a", "a"), ("abc", "a and 2 more")])
def test_one_file_that_is_gone_is_named_and_others_counted(files, said):
    said = f"are not there: {said}, read by commit 3, is gone; "
    assert said in refused(InputError, check_there, [ReadSources(3, tuple(files), "", 0, 9)], ["d"], 0, 9)


def test_rows_of_a_stream_have_to_reach_as_far_as_they_did(tmp_path):
    """No file names them: what is missing is named by time."""
    home, fixed = stored(tmp_path, "q")
    said = refused(InputError, rebuild, home, fixed, FIRST[3:], 0, 50 * SECOND)
    assert said.startswith("rows from 1970-01-01T00:00:19Z to 1970-01-01T00:00:58Z are not there: the stream")
    assert "from 1970-01-01T00:00:00Z to 1970-01-01T00:00:20Z" in refused(
        InputError, rebuild, home, fixed, SECOND_ONES, 0, 50 * SECOND
    )
    assert "are not there" in refused(InputError, rebuild, home, fixed, [], 0, 50 * SECOND)
    rebuild(home, fixed, FIRST + SECOND_ONES, 0, 50 * SECOND)
    check(home, FIRST + SECOND_ONES)


def test_a_time_of_which_nothing_is_due_or_that_is_none_is_refused(tmp_path):
    """With the watermark, and what counts its rows."""
    home, fixed = stored(tmp_path)
    assert "is no time: give the beginning first" in refused(InputError, rebuild, home, fixed, FIRST, 9, 9)
    said = refused(InputError, rebuild, home, fixed, FIRST, 58 * SECOND, 60 * SECOND)
    assert "the watermark is 1970-01-01T00:00:58Z" in said
    assert "rows from there on are counted by the next batch" in said
    assert "no row was read yet" in refused(InputError, rebuild_of, fixed.spec, None, 0, 1)


def test_of_a_rebuild_and_a_batch_one_commits(tmp_path):
    """The other has lost; repeated it gives the same; files that count for nothing go."""
    home, fixed = stored(tmp_path)
    wanted = rebuild_of(fixed.spec, head_of(home).watermark, 0, 30 * SECOND)
    given = home, fixed, ("int64", "double"), wanted, {}, Options(), FAR_FUTURE
    plans = [plan_rebuild(*given, 2) for _ in range(2)]
    run_rebuild(plans[0], wanted, rows_of(FIRST[7:] + SECOND_ONES))
    refused(Conflict, run_rebuild, plans[1], wanted, rows_of(FIRST))
    check(home, FIRST[7:] + SECOND_ONES)
    document = head_of(home).commit.document
    again = run_rebuild(plan_rebuild(*given, 2), wanted, rows_of(FIRST[7:] + SECOND_ONES)).document
    assert again["results"] == []
    assert [again[name] for name in ("objects", "panes")] == [document[name] for name in ("objects", "panes")]
    remove_orphans(table_of(home), 0.0)
    assert verify_windows(home).damaged == []
    check(home, FIRST[7:] + SECOND_ONES)


def test_a_checkpoint_that_is_older_or_newer_than_the_store_is_refused(tmp_path):
    """The message says which, and how rows count all the same."""
    home, fixed = begin(tmp_path, spec(measures="rows,objects"))
    for number in range(3):
        commit(home, fixed, FIRST, Source(query="q", batch=number, plan=f"plan {number}"))
    assert commit(home, fixed, FIRST, Source(query="q", batch=2, plan="plan 2")) is None
    assert commit(home, fixed, FIRST, Source(query="q", batch=2)) is None
    for batch, plan in ((1, "plan 1"), (2, "another")):
        said = refused(InputError, commit, home, fixed, FIRST, Source(query="q", batch=batch, plan=plan))
        assert "the checkpoint is older than the store" in said
        assert "dtoss windows run POSITIONS --rebuild FROM TO" in said
    said = refused(InputError, commit, home, fixed, FIRST, Source(query="q", batch=5))
    assert "the checkpoint is newer than the store, and batches between them would be lost" in said
    assert "--rebuild FROM TO" in said
    assert commit(home, fixed, SECOND_ONES, Source(query="q", batch=5), new_source=True).number == 4
