"""Every file at the top of ``pipelines/`` as a script, as spark-submit runs it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from pipelines.command.terminal.output import Engine

JOBS = sorted((Path(__file__).parents[3] / "pipelines").glob("[a-z]*.py"))
"""Without ``__init__.py``."""
FUNCTIONS = {
    "history_frame": "pipelines/history.py",
    "history_joins": "dtoss history",
    "plan_files": "pipelines/plan.py",
    "stream": "dtoss run",
    "zones_join": "dtoss within --polygons",
}
"""Files that no command stands for, and what their error names in stead."""


def ended(job, arguments, capsys):
    """(exit code, stdout, stderr) of a file as a script."""
    before, sys.argv[:] = sys.argv[:], [str(job), *arguments]
    try:
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(job), run_name="__main__")
    finally:
        sys.argv[:] = before
    return end.value.code or 0, *capsys.readouterr()


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_no_job_is_silent_as_a_script(job, capsys):
    """An option that nobody knows is one line and exit code 2, of its command or of a file that has none."""
    several = ["knn"] if job.stem == "join" else []
    code, out, err = ended(job, [*several, "--none-such"], capsys)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("error: ")
    assert FUNCTIONS.get(job.stem, "--none-such") in err


def test_a_job_of_several_commands_is_told_which(capsys):
    """By its first argument; any other command is refused."""
    join = next(job for job in JOBS if job.stem == "join")
    for arguments in ([], ["info"], ["--store", "S"]):
        assert ended(join, arguments, capsys) == (
            2, "", f"error: {join}: its first argument is knn or range\n"
        )  # fmt: skip
    code, out, _ = ended(join, ["range", "--help"], capsys)
    assert code == 0
    assert "range [OPTIONS]" in out


def test_spark_submit_names_the_master_of_a_join(monkeypatch):
    """Nothing else does."""
    assert not Engine().has_master
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert Engine().has_master
