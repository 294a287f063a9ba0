"""Seconds of each stage in any case; how far a job of Spark is, where it is shown."""

from __future__ import annotations

from contextlib import redirect_stderr
from types import SimpleNamespace

import pytest

from pipelines.engines.progress import Stages
from tests.pipelines.engines.heard import Heard


class Tasks:
    """A session of which a job of two stages has finished 3 of its 8 tasks."""

    def __init__(self):
        self.groups = []
        stages = [SimpleNamespace(numCompletedTasks=done, numTasks=4) for done in (3, 0)]
        tracker = SimpleNamespace(
            getJobIdsForGroup=lambda group: (7,),
            getJobInfo=lambda job: SimpleNamespace(stageIds=(0, 1)),
            getStageInfo=stages.__getitem__,
        )
        self.sparkContext = SimpleNamespace(
            setJobGroup=lambda group, name: self.groups.append(name), statusTracker=lambda: tracker
        )


@pytest.mark.parametrize("shown", [True, False])
def test_a_stage_asks_spark_where_it_is_shown(shown):
    """And adds up what it took."""
    session, said = Tasks(), Heard("3 of 8 tasks")
    stages = Stages(session, shown, after=0.01)
    with redirect_stderr(said):
        for _ in range(2):
            with stages.stage("sort"):
                assert not shown or said.there.wait(60)
                said.there.clear()
    assert list(stages.seconds) == ["sort"]
    assert (session.groups, said.getvalue() != "") == ((["sort"] * 2, True) if shown else ([], False))
