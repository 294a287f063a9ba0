"""The folder of generations of servers of a plan: found by the log alone, and there while one of them uses it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dtoss.errors import InputError, StoreError
from dtoss.fresh.shared_folder import FOLDER_PREFIX, join_folder, shared_path


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_last_one_that_leaves_removes_it(tmp_path, in_memory):
    """Those who come find what those have made who are there."""
    one = join_folder(str(tmp_path), 1, in_memory=in_memory)
    (Path(one.path) / "made").touch()
    other = join_folder(f"{tmp_path}/", 1, in_memory=in_memory)
    assert one.path == other.path == shared_path(str(tmp_path))
    place = Path(one.path).resolve()
    assert (place != Path(one.path)) == in_memory
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / "made").exists()
    one.leave()
    assert (Path(other.path) / "made").exists()
    other.leave()
    assert not place.exists()
    assert not os.path.lexists(other.path)


def test_it_is_on_the_disk_where_memory_has_no_room(tmp_path):
    shared = join_folder(str(tmp_path), 1 << 62, in_memory=True)
    assert not Path(shared.path).is_symlink()
    shared.leave()


@pytest.mark.parametrize("restarted", [True, False])
def test_what_killed_servers_have_left_is_made_anew(tmp_path, restarted):
    """Also where memory has gone with the machine's start."""
    left = join_folder(str(tmp_path), 1, in_memory=True)
    place = Path(left.path).resolve()
    (place / "old").touch()
    os.close(left.lock)
    if restarted:
        shutil.rmtree(place)
    shared = join_folder(str(tmp_path), 1, in_memory=True)
    assert [*Path(shared.path).iterdir()] == []
    assert not place.exists()
    assert Path(shared.path).resolve().name.startswith(FOLDER_PREFIX)
    shared.leave()


def test_the_memory_of_another_machine_is_told_from_none(tmp_path):
    """Servers there use it: nothing is made in its place."""
    one = join_folder(str(tmp_path), 1, in_memory=True)
    place = Path(one.path).resolve()
    shutil.rmtree(place)
    with pytest.raises(StoreError, match="leads into the memory of another machine"):
        join_folder(str(tmp_path), 1, in_memory=True)
    assert Path(one.path).is_symlink()
    one.leave()


def test_without_a_folder_of_updates_it_is_said(tmp_path):
    with pytest.raises(InputError, match="make the folder in which updates arrive"):
        join_folder(str(tmp_path / "nowhere"), 1, in_memory=False)
