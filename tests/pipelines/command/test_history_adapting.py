"""``dtoss history adapt`` and ``calibrate`` on the command line, and what commands that ask note for them."""

from __future__ import annotations

import gc

import pytest

import dtoss
from dtoss.history.history_commit import Change, commit
from dtoss.history.layouts.compaction import settle
from dtoss.history.questions import ASKED, gather
from pipelines.ticks.tick import settle_history
from tests.dtoss.history.adaptive.towns import PLANE, batch
from tests.dtoss.history.worlds import new_home, put_batch, schema_of


@pytest.fixture
def home(tmp_path):
    """A history in a plane, one leaf by place."""
    schema = schema_of(PLANE, t_type="int64")
    home = new_home(tmp_path / "H")
    put_batch(home, batch(schema, 60_000, 0), schema, "one")
    settle(home, leaf_bytes=1e9, period_bytes=1.0)
    return home


@pytest.fixture
def run(command):
    """What a command under history has printed, which has ended well."""

    def ended(*words):
        ran = command("history", *words)
        assert ran.code == 0, ran.err
        return ran

    return ended


def ask(home, run, *more):
    run("count", "--history", home.path, "--at", 100, 100, "--radius", 30, *more)


def test_what_commands_ask_is_noted_unless_it_is_not_wanted(home, run):
    """A question a command, written when its process lets the history go; none with --no-learn."""
    ask(home, run, "--no-learn")
    gc.collect()
    assert home.folder.files(ASKED) == []
    ask(home, run)
    gc.collect()
    questions = gather(home, 2).questions
    assert len(questions) == 1
    assert questions.low.tolist() == [[100.0, 100.0]]


def test_a_dry_run_a_run_and_another(home, run):
    """Says what is cut and what that costs; the second finds nothing that has paid."""
    history = dtoss.history.open(home.path)
    for _ in range(40):
        history.range([(100.0, 100.0)], 30.0)
    history.listen.flush()
    words = ("adapt", "--history", home.path, "--request-bytes", "20000")
    assert "would be cut" in run(*words, "--dry-run").out
    done = run(*words, "--json").json
    assert done["cut"] == 1
    assert done["made"] > 1
    assert done["waste"] >= done["bytes"]
    assert home.version().options["request_bytes"] == 20_000
    assert "nothing has paid" in run(*words).out


def test_calibrate_says_and_keeps_the_price(home, run):
    """In milliseconds, MB/s and bytes."""
    assert "it costs" in run("calibrate", "--history", home.path, "--dry-run").out
    assert "request_bytes" not in home.version().options
    found = run("calibrate", "--history", home.path, "--json").json
    assert home.version().options["request_bytes"] == found["request_bytes"] >= 1


def test_bad_input_is_one_line(home, command, tmp_path):
    """A price that is none, a folder that is no history: exit code 2."""
    adapt = ("history", "adapt", "--history")
    assert "a positive number is wanted" in command.fails(*adapt, home.path, "--request-bytes", 0)
    assert "is no history" in command.fails(*adapt, tmp_path / "none")


def test_it_adapts_between_beats(home):
    """After settling; a history that cannot be read is a warning, and the loop goes on."""
    history = dtoss.history.open(home.path)
    for _ in range(40):
        history.range([(100.0, 100.0)], 30.0)
    history.listen.flush()
    told = []
    commit(home, Change("options", options={"request_bytes": 20_000}), home.version())
    settle_history(home.path, told.append)
    assert home.version().what == "adapt"
    assert told == []
    settle_history(home.path + "-none", told.append)
    assert len(told) == 1
