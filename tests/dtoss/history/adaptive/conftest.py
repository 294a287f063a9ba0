"""A history that tests adapt, each its own copy of it."""

import shutil

import pytest

from tests.dtoss.history.adaptive.towns import made_home
from tests.dtoss.history.worlds import new_home


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The path of a history of 120,000 rows, one leaf by place; nobody changes it."""
    return made_home(tmp_path_factory.mktemp("made") / "history").path


@pytest.fixture
def home(made, tmp_path):
    """A copy of it."""
    return new_home(shutil.copytree(made, tmp_path / "history"))
