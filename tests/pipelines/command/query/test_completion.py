"""What a shell is told after a tab, and the scripts that ask."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.command.app import COMPLETE
from tests.pipelines.command.query.without_spark import stored

COLUMNS = {"speed": np.zeros(3), "stopped": np.zeros(3, np.int64), "kind": ["a", "b", "c"]}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Objects with attributes."""
    return stored(tmp_path_factory, np.arange(3), np.zeros((3, 2)), columns=COLUMNS)


@pytest.fixture
def ended(command, monkeypatch):
    """(exit code, lines on stdout) of the command, as a shell asks it with variables."""

    def ask(arguments=(), **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        code, out, err = command(*arguments)
        assert err == ""
        return code, out.strip().splitlines()

    return ask


@pytest.fixture
def bash(ended):
    """What bash offers behind a line that has begun."""

    def offered(*words):
        words = ["dtoss", *words]
        code, lines = ended(
            **{COMPLETE: "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        )
        assert code == 0
        return lines

    return offered


def test_commands_and_options(bash):
    """All of a command's, those of all commands among them."""
    begun = ["rebuild", "run", "rollback", "range", "reverse-nearest", "route", "rehearse", "report", "replan"]
    assert bash("r") == begun
    assert {"knn", "range", "within", "export"} <= set(bash(""))
    assert {"--radius", "--at", "--geojson", "--limit", "--quiet"} <= set(bash("range", "--"))
    assert bash("export", "--store", "x", "--wha") == ["--what"]
    assert bash("export", "--what", "") == ["objects", "cells", "regions", "windows"]
    assert bash("--q") == ["--quiet"]


def test_names_of_a_store(bash, store):
    """Columns behind commas, those of conditions, snapshots; nothing of a store that is not there."""
    assert bash("knn", "--store", store, "--columns", "s") == ["speed", "stopped"]
    assert bash("knn", "--store", store, "--columns", "speed,s") == ["speed,stopped"]
    assert bash("within", "--store", store, "--columns", "") == ["kind", "speed", "stopped", "lon", "lat"]
    assert bash("range", "--store", store, "--where", "st") == ["stopped"]
    assert bash("range", "--store", store, "--having", "") == ["id", "kind", "speed", "stopped"]
    assert bash("range", "--store", store, "--where", "speed>st") == ["speed>stopped"]
    (snapshot,) = bash("info", "--store", store, "--snapshot", "2")
    assert bash("knn", "--store", store, "--snapshot", snapshot, "--columns", "k") == ["kind"]
    for missing in (["--store", store + "/none"], ["--url", "http://127.0.0.1:1"], []):
        for option in ("--columns", "--snapshot"):
            assert bash("knn", *missing, option, "s") == []


def test_each_shell_asks_in_its_own_way(ended):
    """zsh and fish are told what an option does, too; fish, whether there is anything, by the exit code."""
    code, lines = ended(**{COMPLETE: "complete_zsh", "_TYPER_COMPLETE_ARGS": "dtoss range --rad"})
    assert (code, lines[0].startswith('_arguments \'*: :(("--radius":"5km, 300m')) == (0, True)
    fish = {COMPLETE: "complete_fish", "_TYPER_COMPLETE_ARGS": "dtoss range --rad"}
    code, lines = ended(**fish, _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert (code, lines[0].startswith("--radius\t5km, 300m")) == (0, True)
    assert ended(**fish, _TYPER_COMPLETE_FISH_ACTION="is-args") == (0, [])
    fish["_TYPER_COMPLETE_ARGS"] = "dtoss range --store "
    assert ended(**fish, _TYPER_COMPLETE_FISH_ACTION="is-args") == (1, [])


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _dtoss_completion dtoss"),
        ("zsh", "compdef _dtoss_completion dtoss"),
        ("fish", "complete --command dtoss"),
    ],
)
def test_a_script_for_each_shell(ended, monkeypatch, shell, line):
    """Named after the option, or in the variable."""
    code, lines = ended(["--show-completion", shell])
    assert code == 0
    assert lines[-1].startswith(line)
    assert COMPLETE in "".join(lines)
    assert ended(**{COMPLETE: f"source_{shell}"}) == (0, lines)
