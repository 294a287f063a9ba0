"""``python -m dtoss`` is the dtoss command."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import dtoss
import dtoss.__main__ as entry
from dtoss import extras

ROOT = Path(__file__).parents[3]


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

    monkeypatch.setattr(extras, "distribution", distribution)
    with pytest.raises(SystemExit) as end:
        entry.main()
    said = capsys.readouterr()
    assert (end.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith("error: the commands of dtoss are not installed (")


@pytest.mark.parametrize("safe", [False, True])
def test_a_folder_of_the_user_is_not_taken_for_ours(safe, tmp_path):
    """Nor is a package of another project beside a checkout: both are called ``pipelines``, one stands first."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("raise ImportError('this is the pipelines of the user')")
    run = [sys.executable, *(["-P"] if safe else []), "-m", "dtoss", "--version"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dtoss {dtoss.__version__}\n", "")


def test_packages_of_others_are_not_taken_for_those_of_a_checkout(tmp_path):
    """``datasets`` is also a library: in a checkout ours is found, wherever the other is installed."""
    for name in ("datasets", "bench"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); import datasets.fleet, bench.compare; print('ours')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ours\n"), done.stderr
