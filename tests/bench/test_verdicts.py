"""A benchmark that misses a goal says which, and fails."""

from __future__ import annotations

import numpy as np
import pytest

from bench.ceps import goals
from bench.measuring.verdicts import Goals


def test_met_goals_end_quietly(capsys):
    """Equal to a limit is within it, up to rounding; the program goes on."""
    asked = Goals()
    assert asked.ask("cost", 1 + 1e-12, most=1) == "(goal: at most 1)"
    assert asked.ask("plans", 47, least=47) == "(goal: at least 47)"
    asked.end()
    assert capsys.readouterr() == ("goals met: 2 of 2\n", "")


@pytest.mark.parametrize("figure", [1.01, np.nan, np.inf])
def test_a_missed_goal_is_named_and_ends_with_1(capsys, figure):
    """On standard error, with figure and goal; not a number meets no goal."""
    asked = Goals()
    assert asked.ask("G1, cost", figure, most=1) == "(goal: at most 1, MISSED)"
    assert asked.ask("G2", 0.5, most=1) == "(goal: at most 1)"
    with pytest.raises(SystemExit) as end:
        asked.end()
    assert end.value.code == 1
    said = capsys.readouterr()
    assert said.out == "goals met: 1 of 2\n"
    assert said.err == f"missed: G1, cost: {figure:.6g}, wanted at most 1\n"


def test_too_few_is_missed_as_too_much_is():
    """`least` is a goal from below."""
    asked = Goals()
    assert asked.ask("plans", 46, least=47) == "(goal: at least 47, MISSED)"
    assert asked.missed == ["plans: 46, wanted at least 47"]


def test_a_benchmark_ends_with_0_or_1_by_its_goals(monkeypatch, capsys):
    """The whole way through `main`, with a run of one goal in stead of the long ones."""
    from bench.ceps import proofs

    monkeypatch.setattr(proofs, "warm", lambda: None)
    for figure, code in ((1.0, None), (1.2, 1)):
        run = {"dust": lambda goals, seconds, seeds, figure=figure: print(goals.ask("dust", figure, most=1))}
        monkeypatch.setattr(proofs, "RUNS", run)
        if code is None:
            proofs.main(["dust"])
        else:
            with pytest.raises(SystemExit) as end:
                proofs.main(["dust"])
            assert end.value.code == code
            assert "missed: dust: 1.2, wanted at most 1" in capsys.readouterr().err


@pytest.mark.parametrize("whole", [True, False])
def test_the_older_benchmarks_end_by_their_goals_too(monkeypatch, whole):
    """Goals of G1 to G9, with one quick run."""
    monkeypatch.setattr(goals, "g9", lambda asked: asked.ask("G9", 1.0 if whole else 2.0, most=1))
    if whole:
        goals.main(["g9"])
    else:
        with pytest.raises(SystemExit) as end:
            goals.main(["g9"])
        assert end.value.code == 1
