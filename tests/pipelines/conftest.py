"""Watches whose events are not folded."""

import pytest

import pipelines.watching.watch_batches


@pytest.fixture
def unfolded(monkeypatch):
    """Where an hour of the wall clock ends meanwhile, its events are folded, and that is a commit too."""
    monkeypatch.setattr(pipelines.watching.watch_batches, "fold_watch", lambda home, now_us, warn: None)
