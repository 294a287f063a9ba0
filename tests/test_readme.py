"""What the README shows works, and what there is stands in the README."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pipelines.command.app import app
from pipelines.command.main import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_as_it_stands(capsys):
    """The fifteen lines, and the answers they print."""
    example = next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "dtoss.build" in block)
    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    names: dict[str, object] = {}
    exec(example, names)
    said = capsys.readouterr().out
    index, here = names["index"], names["here"]
    positions, occupied = names["positions"], names["occupied"]
    free = np.flatnonzero(occupied == 0)
    nearest = free[np.argsort(np.linalg.norm((positions[free] - here) * [np.cos(np.radians(37.78)), 1], axis=1))[:3]]
    assert str(nearest) in said
    assert str(index.area(42)) in said
    assert "[]" not in said  # an empty answer shows nothing


def test_every_command_is_named():
    """Each command has its row in the table, and each row its command."""
    named = set(re.findall(r"^\| `dtoss (\w+)", README, re.MULTILINE))
    assert named == {command.name or command.callback.__name__ for command in app.registered_commands}


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^\| `dtoss (\w+)", README, re.MULTILINE))))
def test_options_in_the_readme_exist(command, capsys):
    """An option that the README names for a command is one that its --help names."""
    row = next(line for line in README.splitlines() if line.startswith(f"| `dtoss {command}"))
    with pytest.raises(SystemExit) as done:
        main([command, "--help"])
    assert done.value.code == 0
    help_text = capsys.readouterr().out
    for option in re.findall(r"(?<!\w)--[a-z-]+", row):
        assert option in help_text, option


def test_files_and_documents_exist():
    """Links and folders of the README lead somewhere."""
    for target in re.findall(r"\]\(([\w/.-]+)\)", README):
        assert (ROOT / target).exists(), target
    for folder in re.findall(r"^\| `(\w+)/`", README, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder
