"""No power fails in these tests: files are not brought to the disk, which is most of a small batch."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    """Bring nothing to the disk."""
    monkeypatch.setattr(os, "fsync", lambda _number: None)
