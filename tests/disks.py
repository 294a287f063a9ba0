"""Disks that lack something, and what is read of them."""

from __future__ import annotations

import os

import pytest

from dtoss.commits import file_entry
from dtoss.commits.folder import LocalFolder


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    """No power fails in these tests: files are not brought to the disk, which is most of a small change."""
    monkeypatch.setattr(os, "fsync", lambda _number: None)


def without_links(monkeypatch, number=1, text="Operation not permitted"):
    """Let files of this process be on a disk that has no links."""

    def refuse(*_):
        raise OSError(number, text)

    monkeypatch.setattr(os, "link", refuse)


def files_read(monkeypatch):
    """Return a list that grows by the name of each file that is read in a folder from now on."""
    read, real = [], LocalFolder.read
    monkeypatch.setattr(LocalFolder, "read", lambda self, *parts: read.append(parts[-1]) or real(self, *parts))
    return read


def elsewhere(monkeypatch, folder):
    """Let each store that is named from now on be in a folder that no path leads to."""
    monkeypatch.setattr("dtoss.snapshots.store.folder_of", lambda path: folder)


def hashed_up_to(monkeypatch, size):
    """Let files of more bytes than these be looked at in part: no hash of all of them is compared."""
    monkeypatch.setattr(file_entry, "HASHED_BYTES", size)
