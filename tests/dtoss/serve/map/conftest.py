"""A browser for all tests that look at pages."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import pytest

from tests.dtoss.serve.map.browsing import small_tab

OPEN = ExitStack()


@cache
def tab():
    """The tab of a browser, which is started by the first test that wants it."""
    return OPEN.enter_context(small_tab())


@pytest.fixture
def driver():
    """A tab of a browser, in which a page is opened for each test."""
    pytest.importorskip("axe_playwright_python", reason="needs the extra dev: pip install 'dtoss[dev]'")
    return tab()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """End the browser where the next test wants none: while it is there, a loop of asyncio runs in this thread."""
    if not (nextitem and "driver" in nextitem.fixturenames):
        OPEN.close()
        tab.cache_clear()
