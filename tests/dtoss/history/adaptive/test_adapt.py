"""Histories that adapt: rows and answers stay, hot leaves are cut, each question pays once, no reader is stopped."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import dtoss
from dtoss.column_rows import join_rows
from dtoss.errors import InputError
from dtoss.history.adaptive.adapt import adapt, cost_by, place_leaves, prices_of
from dtoss.history.adaptive.cost import reads_of
from dtoss.history.layouts.compaction import make_order
from dtoss.history.query.history import History
from dtoss.history.query.open_history import NOTED_AT_ONCE, question_of
from dtoss.history.questions import ASKED, REMEMBERED, gather, note
from dtoss.history.row_blocks import BY_OBJECT, BY_PLACE, BY_TIME
from tests.dtoss.history.adaptive.towns import SIDE, SMALL, SPAN


def places(home):
    version = home.version()
    return int((version.leaves.order == BY_PLACE).sum())


def ask(home, times, where=(100.0, 100.0), radius=30.0, between=None):
    history = dtoss.history.open(home.path)
    answers = [history.range([where], radius, between=between) for _ in range(times)]
    history.listen.flush()
    return answers[0], history


def everything(home):
    history = dtoss.history.open(home.path, learn=False)
    return history.box([[0, 0, SIDE, SIDE]])


def test_a_corner_that_is_asked_is_cut_and_answers_stay(home):
    """Its cost falls, all rows are there, sums were compared by the commit, and the log says what was done."""
    before, before_all = ask(home, 40)[0], everything(home)
    done = adapt(home)
    assert done.cut == 1
    assert done.made > 2
    assert places(home) == done.made
    assert done.waste >= done.bytes > 0
    assert done.regret >= SMALL + 3 * done.bytes
    assert home.version().what == "adapt"
    assert home.version().detail["bytes"] == done.bytes
    after, history = ask(home, 1)
    assert after.id.tolist() == before.id.tolist()
    assert after.distance.tolist() == before.distance.tolist()
    assert everything(home).id.tolist() == before_all.id.tolist()
    told = []
    dtoss.history.History(history.home, history.version, told.append).range([(100.0, 100.0)], 30.0)
    assert told[0].scan.reads.bytes < done.bytes / 5


def test_the_model_reads_what_the_reader_reads(home):
    """Ranges and bytes of each question by the boxes of blocks, before and after cuts, are what the reader counts."""
    ask(home, 40)
    for _ in range(2):
        version, told = home.version(), []
        history = History(home, version, told.append)
        rng = np.random.default_rng(5)
        for _ in range(30):
            between = sorted(rng.uniform(0, SPAN, 2).astype(int).tolist())
            history.range([rng.uniform(0, SIDE, 2)], rng.uniform(1, 300), between=between)
        questions = join_rows([question_of(one) for one in told])
        prices = prices_of(version)
        held = place_leaves(home, version, int(version.periods.number[0]))
        place = sum(reads_of(leaf.run, questions, prices) for leaf in held.leaves)
        by_time = cost_by(version, int(version.periods.number[0]), BY_TIME, questions, prices)
        for one, (ranges, size), otherwise in zip(told, place, by_time, strict=True):
            reads = one.scan.reads
            if one.facts["orders"]["place"]["used"]:
                # ranges of neighbouring leaves are read as one, with what lies between them
                assert reads.ranges <= ranges
                assert reads.bytes >= size
                assert len(held.leaves) > 1 or (reads.ranges, reads.bytes) == (ranges, size)
            else:
                assert reads.ranges * prices.request + reads.bytes == otherwise
        adapt(home)
    assert len(held.leaves) > 2


def test_adapting_again_writes_nothing(home):
    """Neither versions nor questions, until something new is asked."""
    ask(home, 40)
    adapt(home)
    version, files = home.version().number, home.folder.files(ASKED)
    for _ in range(2):
        assert adapt(home).cut == 0
    assert home.version().number == version
    assert home.folder.files(ASKED) == files
    assert len(files) == 1


def test_questions_pay_for_the_leaves_that_they_have_read(home):
    """A reader of an old version, which goes on asking, pays for no leaf that it does not see."""
    old = dtoss.history.open(home.path)
    ask(home, 40)
    adapt(home)
    leaves = places(home)
    for _ in range(80):  # twice as often as what was cut for
        old.range([(100.0, 100.0)], 30.0)
    old.listen.flush()
    assert adapt(home).cut == 0
    assert places(home) == leaves


def test_a_dry_run_says_it_and_does_nothing(home):
    """The same numbers as the run after it."""
    ask(home, 40)
    version, files = home.version().number, home.folder.files(ASKED)
    said = adapt(home, dry_run=True).as_json()
    assert (home.version().number, home.folder.files(ASKED)) == (version, files)
    done = adapt(home).as_json()
    assert {**said, "version": 0, "looked": 0} == {**done, "version": 0, "looked": 0}


def test_questions_that_the_time_order_answers_cut_nothing(home):
    """A short interval is read from the order by time."""
    ask(home, 100, between=(500, 501))
    assert adapt(home).cut == 0


def test_trajectories_pay_for_the_order_by_object(home):
    """After some of them the period has it, and answers are as before."""
    history = dtoss.history.open(home.path)
    before = history.trajectory([7])
    history.listen.flush()
    assert adapt(home).objects == ()
    for _ in range(20):
        history.trajectory([7])
    history.listen.flush()
    done = adapt(home)
    assert done.objects == (int(home.version().periods.number[0]),)
    assert home.version().periods.orders[0] >> BY_OBJECT & 1
    after = dtoss.history.open(home.path).trajectory([7])
    assert after.columns["t"].to_pylist() == before.columns["t"].to_pylist()
    assert adapt(home).objects == ()


def test_bounded_and_unharmed_by_readers_that_die(home):
    """The last 4,096 stay; a file that is damaged, or was counted but not removed, changes nothing."""
    ask(home, 1)
    one = gather(home, 2).questions
    for _ in range(0, REMEMBERED + 127, 128):
        note(home, join_rows([one] * 128))
    last = 1 + 128 * -(-(REMEMBERED + 127) // 128)
    kept = home.folder.files(ASKED)
    first = home.folder.read(ASKED, kept[-1])
    home.folder.write(b"half a file", ASKED, f"{'9' * 20}-dead.parquet")
    found = gather(home, 2)
    assert len(found.questions) == REMEMBERED
    assert found.questions.number[-1] == last
    assert found.unreadable == 1
    adapt(home)
    home.folder.write(first, ASKED, kept[-1])  # as if nobody had removed it
    assert gather(home, 2).questions.number[-1] == last
    assert gather(home, 2).files == ()


def test_nothing_is_noted_by_who_does_not_want_it_or_cannot(home, monkeypatch):
    """``learn=False`` keeps none; a folder that cannot be written is no error; a removed history stays away."""
    dtoss.history.open(home.path, learn=False).range([(1.0, 1.0)], 5.0)
    assert dtoss.history.open(home.path, learn=False).listen is None
    before = home.folder.files(ASKED)

    def refused(*_):
        raise PermissionError("read-only")

    monkeypatch.setattr("dtoss.history.query.open_history.note", refused)
    ask(home, NOTED_AT_ONCE + 1)
    assert home.folder.files(ASKED) == before
    gone = dtoss.history.open(home.path)
    gone.range([(1.0, 1.0)], 5.0)
    shutil.rmtree(home.path)
    gone.listen.flush()
    assert not home.folder.there()


def test_a_period_that_others_have_rewritten_is_looked_at_again(home, monkeypatch):
    """The place order was made anew between decision and commit."""
    ask(home, 40)
    from dtoss.history.adaptive import adapt as module

    rewrite, once = module._rewrite, []

    def slow(*args):
        if not once:
            once.append(1)
            make_order(home, int(home.version().periods.number[0]), "place", leaf_bytes=1e6)
        return rewrite(*args)

    before = everything(home)
    monkeypatch.setattr(module, "_rewrite", slow)
    done = adapt(home)
    assert once
    assert done.cut == 0  # nobody has asked the new leaf yet
    assert everything(home).id.tolist() == before.id.tolist()


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
def test_a_request_costs_something(home, wrong):
    """One line, with the value."""
    with pytest.raises(InputError, match=f"request bytes are {wrong:g}"):
        adapt(home, request_bytes=wrong)


def test_the_paper_s_method_cuts_the_same_corner_and_no_row_is_lost(home):
    """Whatever the interval; a second call writes nothing; another method is named."""
    before, before_all = ask(home, 40, between=(0, 5))[0], everything(home)
    number = home.version().number
    planned = adapt(home, method="aqwa", dry_run=True)
    assert planned.cut == 1
    assert home.version().number == number
    done = adapt(home, method="aqwa")
    assert (done.merged, done.objects) == (0, ())
    assert done.cut == 1
    assert places(home) == 2  # the strip at the bottom has too few rows for another cut
    assert ask(home, 1, between=(0, 5))[0].id.tolist() == before.id.tolist()
    assert everything(home).id.tolist() == before_all.id.tolist()
    number = adapt(home, method="aqwa").version.number
    assert adapt(home, method="aqwa").version.number == number
    with pytest.raises(InputError, match="the method is 'paper': give 'regret' or 'aqwa'"):
        adapt(home, method="paper")
