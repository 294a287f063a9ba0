"""Some hundred requests that nobody should send; `make check-data` sends ten thousand."""

import subprocess
import sys
from pathlib import Path

import pytest

MORE = pytest.mark.deep("more requests of the same kinds")


@pytest.mark.parametrize(("count", "rounds"), [("100", "2"), pytest.param("500", "5", marks=MORE)])
def test_strange_requests_are_refused_or_answered_and_the_worker_goes_on(count, rounds):
    """In a process of its own, which has to end well: it forks a worker."""
    made = subprocess.run(
        [sys.executable, "-m", "tests.dtoss.serve.hostile.fuzz", count, "3", rounds],
        cwd=Path(__file__).parents[4], capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    assert "memory after each round" in made.stdout
