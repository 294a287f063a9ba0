"""What tests of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture
def no_spark(monkeypatch):
    """A command that starts Spark fails."""
    monkeypatch.setattr("pipelines.spark.session.spark_session", pytest.fail)


@pytest.fixture
def works(command):
    """How a command has ended, which has ended well."""
    return command.works
