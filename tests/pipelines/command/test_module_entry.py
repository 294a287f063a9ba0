"""``python -m dtoss`` is the dtoss command."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import dtoss
import dtoss.__main__ as entry


def ended(*arguments):
    """(exit code, stdout, stderr) of the module as a command, beside the script that is installed."""
    run = [sys.executable, "-m", "dtoss", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def test_it_is_called_dtoss_in_what_it_says():
    """And ends with the same codes."""
    assert ended("--version") == (0, f"dtoss {dtoss.__version__}\n", "")
    code, out, err = ended("knn", "--help")
    assert (code, err) == (0, "")
    assert out.lstrip().startswith("Usage: dtoss knn [OPTIONS]")
    assert ended("info", "--store", "/none/such")[0] == 2
    code, out, err = ended("knnn")
    assert (code, out, err) == (2, "", "error: No such command 'knnn'. Did you mean 'knn'?\n")


@pytest.mark.parametrize("missing", ["package", "script", "module"])
def test_where_the_commands_are_not_installed_one_line_says_so(missing, monkeypatch, capsys):
    """The index alone is no command."""

    class Installed:
        entry_points = importlib.metadata.EntryPoints(
            [importlib.metadata.EntryPoint("dtoss", "no_such_module:main", "console_scripts")]
            if missing == "module"
            else []
        )

    def distribution(name):
        if missing == "package":
            raise importlib.metadata.PackageNotFoundError(name)
        return Installed

    monkeypatch.setattr(entry, "distribution", distribution)
    with pytest.raises(SystemExit) as end:
        entry.main()
    said = capsys.readouterr()
    assert (end.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith("error: the commands of dtoss are not installed (")
