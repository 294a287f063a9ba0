"""A polygon that is drawn on the page of the map: its corners are seen at once, and it ends in more ways than one."""

from __future__ import annotations

import re

import pytest

from tests.dtoss.serve.map.browsing import BROWSER, around, differ, idle, opened, picture
from tests.dtoss.serve.map.test_in_browser import streets
from tests.dtoss.serve.served import running

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def server():
    with running(streets()) as made:
        made.url = "http://{}:{}".format(*made.at)
        yield made


def test_a_polygon_ends_by_a_double_click_that_does_not_zoom(driver, server):
    with opened(driver, server.url, "/#at=10.05,50.02&zoom=13&view=flat") as seen:
        page = seen.page
        idle(page)
        page.keyboard.press("p")
        box = page.locator("#map").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for right, down in ((-60, -60), (60, -60)):
            page.mouse.click(x + right, y + down)
            page.wait_for_timeout(350)
        page.mouse.dblclick(x, y + 60)
        page.locator("#answer").wait_for()
        page.wait_for_timeout(700)
        assert "zoom=13.00" in page.url


def test_a_polygon_ends_by_a_click_on_its_first_corner(driver, server):
    """Which is drawn at once; a click near it ends the polygon of the corners before, and adds none."""
    with opened(driver, server.url, "/#at=10.05,50.02&zoom=13&view=flat&without=objects") as seen:
        page = seen.page
        idle(page)
        page.keyboard.press("p")
        box = page.locator("#map").bounding_box()
        x, y = box["width"] / 2, box["height"] / 2
        corners = [(-60, -60), (60, -60), (0, 60)]
        empty = picture(page)
        for number, (right, down) in enumerate(corners):
            page.mouse.click(box["x"] + x + right, box["y"] + y + down)
            page.wait_for_timeout(350)
            if number == 0:
                first = around(picture(page), x - 60, y - 60, 3)
                assert differ(first, around(empty, x - 60, y - 60, 3)) > 20
        assert "3 corners" in page.locator("#hint").inner_text()
        page.mouse.click(box["x"] + x - 57, box["y"] + y - 62)
        page.locator("#answer").wait_for()
        page.wait_for_url(lambda url: "polygon=" in url)
        assert len(re.search("polygon=([^&]+)", page.url)[1].split(",")) == 2 * len(corners)
