"""A browser for each module that looks at pages."""

from __future__ import annotations

import pytest

from tests.dtoss.serve.map.browsing import small_tab


@pytest.fixture(scope="module")
def driver():
    """A tab of a browser, in which a page is opened for each test."""
    pytest.importorskip("axe_playwright_python", reason="needs the extra dev: pip install 'dtoss[dev]'")
    with small_tab() as made:
        yield made
