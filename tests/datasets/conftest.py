"""What tests of the data sets share."""

import pytest

from tests.datasets.commands import Command


@pytest.fixture
def dataset(monkeypatch, capfd):
    """Run a module as a command in this process; see :mod:`tests.datasets.commands`."""
    return Command(monkeypatch, capfd)
