"""A bar a stage on a terminal, where there is a session that says how far its tasks are; seconds in any case."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from types import SimpleNamespace

import pytest

from pipelines.spark.stage_progress import Stages


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Tasks:
    """What a session says of its tasks: there are none."""

    def __init__(self):
        self.groups = []
        self.sparkContext = SimpleNamespace(
            setJobGroup=lambda group, name: self.groups.append(name),
            statusTracker=lambda: SimpleNamespace(getJobIdsForGroup=lambda group: ()),
        )


@pytest.mark.parametrize(
    ("stderr", "with_session", "shown", "bar"),
    [
        (Terminal, True, True, True),
        (Terminal, False, True, False),
        (Terminal, True, False, False),
        (io.StringIO, True, True, False),
    ],
)
def test_a_stage_has_a_bar_on_a_terminal_and_seconds(stderr, with_session, shown, bar):
    session, said = Tasks(), stderr()
    stages = Stages(session if with_session else None, shown)
    with redirect_stderr(said), stages.stage("sort"), stages.stage("sort"):
        pass
    assert list(stages.seconds) == ["sort"]
    assert (session.groups, "sort" in said.getvalue()) == (["sort", "sort"] if bar else [], bar)
