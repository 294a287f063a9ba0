"""What holds for every command: an option that is not known, and what quiet means."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from dtoss.compiled.notice import quiet
from pipelines.command.app import command_line
from pipelines.command.terminal.notes import hush, note
from tests.pipelines.command.query.without_spark import stored

COMMANDS = sorted(command_line().commands)


@pytest.fixture
def run(command, monkeypatch):
    """How a command ends that no command before has told to be quiet."""

    def ended(*words):
        monkeypatch.setenv("DTOSS_QUIET", "compiling")
        return command(*words)

    return ended


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("range --stroe x", "No such option: --stroe; did you mean --store?"),
        ("range --store x --at 1 2 --raduis 5", "No such option: --raduis; did you mean --radius?"),
        ("knn --STORE x", "No such option: --STORE; did you mean --store?"),
        ("knn --max_distance 5", "No such option: --max_distance; did you mean --max-distance?"),
        ("knn --colour red", "No such option: --colour"),
        ("knn --zzz", "No such option: --zzz"),
        ("--versoin", "No such option: --versoin; did you mean --version?"),
        ("export --what cell --store x --out y.parquet", "Invalid value for '--what': 'cell' is not one of 'objects'"),
        ("expotr", "No such command 'expotr'. Did you mean 'export'"),
        ("zzz", "No such command 'zzz'"),
        ("knn --store", "Option '--store' requires an argument"),
    ],
)
def test_an_option_that_is_not_known_leads_to_the_one_that_is(command, arguments, said):
    """In one line; nothing near is no suggestion."""
    told = command.fails(*arguments.split())
    assert told.startswith(said)
    assert ("did you mean" in told.lower()) == ("did you mean" in said.lower())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_quiet(command, name):
    """Its help says so."""
    code, out, err = command(name, "--help")
    assert (code, err) == (0, "")
    assert "-q, --quiet" in out
    assert out.lstrip().startswith(f"Usage: dtoss {name} ")


def test_quiet_silences_notes_and_nothing_else(capsys, monkeypatch):
    """The same by the variable and by the option; that compiling was said is not quiet."""
    for value, silent in (("", False), ("compiling", False), ("1", True), ("yes", True)):
        monkeypatch.setenv("DTOSS_QUIET", value)
        assert quiet() == silent
        note("a note")
        assert capsys.readouterr().err == ("" if silent else "a note\n")
    monkeypatch.setenv("DTOSS_QUIET", "")
    hush()
    assert quiet()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A small one."""
    return stored(tmp_path_factory, np.arange(9), np.random.default_rng(3).uniform(-1, 1, (9, 2)))


def test_quiet_before_and_behind_a_command(run, store, tmp_path):
    """Notes go; answers, warnings and errors stay."""
    out = tmp_path / "cells.parquet"
    export = ["export", "--store", store, "--what", "cells", "--out", out]
    assert run(*export) == (0, "", f"9 cells in {out}\n")
    for words in ([*export, "--quiet"], ["--quiet", *export], ["-q", *export], [*export[:3], "-q", *export[3:]]):
        assert run(*words) == (0, "", "")
    info = run("info", "--store", store)
    assert info[0] == 0
    assert run("info", "--store", store, "--quiet") == run("--quiet", "info", "--store", store) == info
    for words in (["info", "-q", "--store", store + "/none"], ["--quiet", "info", "--store", store + "/none"]):
        code, _, err = run(*words)
        assert (code, err.count("\n")) == (2, 1)
        assert err.startswith("error: ")
    places = tmp_path / "places.csv"
    places.write_text("id,lon,lat\n1,0,0\n2,900,0\n")
    joined = ["knn", "--queries", places, "--out", tmp_path / "hits.csv", "--store", store]
    warning = "warning: of 2 queries, 1 out of range have no hits\n"
    assert run(*joined) == (0, "", f"1 rows in {tmp_path / 'hits.csv'}\n{warning}")
    assert run(*joined, "--quiet") == (0, "", warning)


def test_quiet_reaches_what_a_command_starts(store):
    """Compiling is not told of either: nothing is on stderr where no code is kept."""
    code = "import os, sys; from pipelines.command.main import main\ntry: main(sys.argv[1:])\n"
    code += "finally: print(os.environ['DTOSS_QUIET'])"
    asked = [sys.executable, "-c", code, "range", "--store", store, "--at", "0", "0", "--radius", "1km", "--quiet"]
    env = {name: value for name, value in os.environ.items() if name != "DTOSS_QUIET"}
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "1"
