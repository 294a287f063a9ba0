"""What a newer version has written is refused in one line that says both formats; nothing is touched."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.left_behind import unpack
from tests.raised_formats import RAISED

REFUSED = (
    r"has format \d, this dtoss reads .*\d: install a newer one$",
    r"format 2 is later than 1, the last .*reads$",
)


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """A store, a history, patterns and a plan."""
    return unpack(tmp_path_factory.mktemp("left"))


def bytes_of(folder):
    """All files of a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", RAISED)
def test_a_newer_format_is_refused_in_a_line(left, tmp_path, monkeypatch, command, name):
    """By whatever command reads it first."""
    change, words = RAISED[name]
    copy = tmp_path / "copy"
    shutil.copytree(left, copy)
    change(copy)
    before = bytes_of(copy)
    monkeypatch.chdir(copy)
    said = command.fails(*words)
    assert any(re.search(one, said) for one in REFUSED), said
    assert bytes_of(copy) == before
