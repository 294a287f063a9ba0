"""Folders in memory: where there is room, for this user alone, and not for longer than their process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dtoss.commits.process import passing_name
from dtoss.fresh.shared_folder import FOLDER_PREFIX, clear_left, make_memory_folder


def test_a_folder_is_made_where_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folder = Path(make_memory_folder(1, (str(tmp_path / "nowhere"), str(tmp_path))))
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_dead_processes_have_left_goes(tmp_path):
    """Not what living ones have, and nothing else."""
    mine, other = tmp_path / f"{FOLDER_PREFIX}{passing_name()}", tmp_path / "else"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    made, _, start, machine, token = passing_name().split("-")
    left = tmp_path / f"{FOLDER_PREFIX}{made}-{ended.pid:x}-{start}-{machine}-{token}"
    for folder in (mine, other, left):
        folder.mkdir()
        (folder / "file").touch()
    assert clear_left(str(tmp_path)) == [left.name]
    assert sorted(tmp_path.iterdir()) == sorted([mine, other])
