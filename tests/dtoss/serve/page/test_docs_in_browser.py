"""What can be asked, as a page in a browser: its token, and who can read it."""

from __future__ import annotations

import pytest

from tests.dtoss.serve.page.browsing import BROWSER, browser, opened
from tests.dtoss.serve.served import Doors, running, town

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def driver():
    pytest.importorskip("axe_playwright_python", reason="needs the extra dev: pip install 'dtoss[dev]'")
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def server():
    with running(town(objects=20), doors=Doors("s3cret")) as made:
        made.url = "http://{}:{}".format(*made.at)
        yield made


def test_a_tab_that_has_no_token_is_asked_for_one(driver, server):
    """Once: what is tried there sends it, the map of the same tab knows it, and no link leads to a refusal."""
    with opened(driver, server.url, "/docs", checked=False) as seen:
        page = seen.page
        for token, said in (("wrong", "does not know this token"), ("s3cret", "/reverse_nearest")):
            page.locator("#token-dialog[open]").wait_for()
            page.locator("#token").fill(token)
            page.keyboard.press("Enter")
            page.get_by_text(said).first.wait_for()
        assert page.locator("#text-link").is_hidden()
        page.get_by_role("button", name="/snapshot").first.click()
        page.get_by_role("button", name="Try it out").click()
        with page.expect_response("**/snapshot") as answer:
            page.get_by_role("button", name="Execute").click()
        assert answer.value.status == 200
        page.reload()
        page.locator(".opblock-summary-path").first.wait_for()
        assert page.locator("#token-dialog").is_hidden()


@pytest.mark.parametrize("width", [360, 1600])
def test_routes_can_be_read_by_all(driver, server, width):
    """axe-core finds nothing against WCAG's levels A and AA; order of headings and landmarks are the viewer's."""
    from axe_playwright_python.sync_playwright import Axe

    with opened(driver, server.url, "/docs", width=width, checked=False, bypass_csp=True) as seen:
        page = seen.page
        page.locator("#token").fill("s3cret")
        page.keyboard.press("Enter")
        page.locator(".opblock-summary-path").first.wait_for()
        levels = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
        found = Axe().run(page, options={"runOnly": {"type": "tag", "values": levels}})
        assert [one["id"] for one in found.response["violations"]] == [], found.generate_report()
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
