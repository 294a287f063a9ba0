"""What the tests of commits share."""

from __future__ import annotations

import pytest

from tests.object_store import object_store


@pytest.fixture(scope="session")
def bucket():
    """An object store with a bucket, for as long as tests need it."""
    with object_store() as place:
        yield place
