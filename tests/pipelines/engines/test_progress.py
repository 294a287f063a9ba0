"""How far work is, on stderr: lines, or a bar on a terminal; quick work shows nothing."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, suppress

from pipelines.engines.local_rows import tasks_here
from pipelines.engines.progress import count_tasks, end_beginning, show_step, work_shown
from tests.pipelines.engines.heard import Heard


def test_lines_say_what_is_done_how_far_it_is_and_what_it_took():
    """The first after a moment, where nobody is asked for a bar."""
    said = Heard("1 of 4 tasks")
    with redirect_stderr(said), work_shown("build", after=0.01):
        finish = count_tasks(4)
        finish()
        assert said.there.wait(60)
    first, *_, last = said.getvalue().splitlines()
    assert re.match(r"build: \d+\.\d s so far", first)
    assert re.search(r"^build: \d+\.\d s so far, 1 of 4 tasks, about \d+ s left$", said.getvalue(), re.MULTILINE)
    assert re.fullmatch(r"build: \d+\.\d s", last)


def test_quick_work_shows_nothing(monkeypatch):
    """Nor does any for as long as a variable says."""
    said = io.StringIO()
    with redirect_stderr(said), work_shown("build", after=60.0):
        count_tasks(2)
    monkeypatch.setenv("DTOSS_PROGRESS_AFTER", "60")
    with redirect_stderr(said), work_shown("build"):
        count_tasks(2)
    assert said.getvalue() == ""


def test_a_terminal_has_a_bar():
    """Of the tasks that are counted by whoever is asked."""
    said = Heard("3/8 tasks", terminal=True)
    with redirect_stderr(said), work_shown("sort", lambda: (3, 8), after=0.01):
        assert said.there.wait(60)
    assert "sort" in said.getvalue()


def test_results_go_to_stdout_while_a_bar_is_shown(capsys):
    """Whoever has sent them to a file finds them there."""
    said = Heard("sort", terminal=True)
    with redirect_stderr(said), work_shown("sort", after=0.01):
        assert said.there.wait(60)
        print("result")
    assert capsys.readouterr().out == "result\n"


def test_a_step_is_shown_in_the_place_of_its_command():
    """With the tasks of this process that begin in it; then the command is again."""
    said = Heard("part: .* so far, 3 of 3 tasks")
    with redirect_stderr(said), work_shown("whole", after=0.01):
        with work_shown("part", after=0.01):
            assert tasks_here(3).values() == [0, 1, 2]
            assert said.there.wait(60)
        said.text, _ = "whole: ", said.there.clear()
        assert said.there.wait(60)
    assert re.search(r"^part: \d+\.\d s\n(whole: .*\n)+\Z", said.getvalue(), re.MULTILINE)


def test_what_fails_is_shown_no_longer():
    """And what comes next is."""
    with redirect_stderr(io.StringIO()), suppress(ValueError), work_shown("read", after=0.01):
        raise ValueError
    said = Heard("next")
    with redirect_stderr(said), work_shown("next", after=0.01):
        assert said.there.wait(60)


def test_a_step_is_shown_with_the_work_that_it_is_of():
    """Until the next one; whoever shows one is told which was shown before."""
    said = Heard("so far, pack")
    with redirect_stderr(said), work_shown("plan", after=0.01):
        assert show_step("bound") == ""
        assert show_step("pack") == "bound"
        assert said.there.wait(60)
    assert show_step("none") == ""


def test_work_that_goes_on_is_shown_until_it_has_begun():
    """What it took to begin is said once, and nothing at its end."""
    said = Heard("so far")
    with redirect_stderr(said), work_shown("run", after=0.01):
        assert said.there.wait(60)
        end_beginning()
        begun = said.getvalue()
        end_beginning()
    assert re.search(r"^run: \d+\.\d s$", begun, re.MULTILINE)
    assert said.getvalue() == begun
