"""Windows on the map in a browser: regions coloured by a measure, times gone back to, flows, one region over time."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.geometry.space import space_of
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.storage.keys_file import of_sites, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import Home
from tests.dtoss.serve.map.browsing import BROWSER, around, idle, opened, picture
from tests.dtoss.serve.served import running
from tests.dtoss.windows.storage.kept import SECOND, commit, spec

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium")
SPHERE = space_of(None, "sphere")
SHOPS = np.array([[10.0, 50.0], [10.04, 50.0], [10.02, 50.03]])
VIEW = "/#at=10.02,50.01&zoom=12&view=flat&without=objects,grid"
WIDE = pytest.mark.deep("the same page in a wide window; the map's own is looked at in one")
FRAME = "() => Number(document.querySelector('#stage').dataset.windowsBatch) >= {}"


@pytest.fixture
def server(tmp_path):
    """A worker of an index near three shops; its store has no windows yet."""
    index = dtoss.build(np.arange(30), np.random.default_rng(0).normal((10.02, 50.01), 0.01, (30, 2)))
    with running(index, store=str(tmp_path)) as made:
        made.url, made.store = "http://{}:{}".format(*made.at), str(tmp_path)
        yield made


def begin(server, names=None):
    """Windows by the nearest of three shops, which may be called something."""
    wanted = spec("10s,60s", "10s", space=SPHERE, sites=SHOPS, max_gap="60s")
    home = Home(server.store, "fleet")
    fixed = FixedSpec(wanted, write_keys(home, of_sites(SHOPS, names)))
    fix(home, fixed)
    return home, fixed


def count(windows, first, moved=3, late=()):
    """A batch of 10 s: nine objects at the first shop, of which so many come to the second one."""
    rows = [(i, (first + 1) * SECOND, 10.0, 50.0) for i in range(9)]
    rows += [(i, (first + 6) * SECOND, 10.04, 50.0) for i in range(moved)]
    rows += [(i, (first + 10) * SECOND, 10.0, 50.0) for i in range(9)]
    return commit(*windows, [*rows, *late])


def colour(page, lon, lat):
    """The colour of the map at a place, mean of a few pixels."""
    shown, box = picture(page), page.locator("#map").bounding_box()
    zoom, pixels = 12, 512 * 2**12
    y = [np.arctanh(np.sin(np.radians(one))) / (2 * np.pi) for one in (lat, 50.01)]
    right, down = (lon - 10.02) / 360 * pixels, (y[1] - y[0]) * pixels
    assert zoom == 12
    return around(shown, box["width"] / 2 + right, box["height"] / 2 + down, 2).mean(axis=(0, 1))


def test_windows_are_shown_followed_and_gone_back_to(driver, server):
    """They appear without a reload; what is drawn, told and listed is what the store says, now and before."""
    with opened(driver, server.url, VIEW) as seen:
        page = seen.page
        idle(page)
        assert "dtoss windows run" in page.locator("#windows-none").inner_text()
        windows = begin(server)
        count(windows, 0)
        page.locator("#w-measure").wait_for()
        ground = colour(page, 10.04, 49.985)
        page.locator("#w-measure").select_option("objects")
        page.locator("#w-flows").select_option("10")
        page.wait_for_function(FRAME.format(1))
        idle(page)
        assert np.abs(colour(page, 10.04, 49.985) - ground).max() > 8
        assert page.locator("#flows").get_attribute("data-count") == "1"
        assert "1 of 1: 3 to 3 moves" in page.locator("#legend").inner_text()
        said = page.locator("#w-facts").inner_text()
        assert re.search(r"batch\s+1\s+rows read\s+21\s+counted\s+21", said), said
        page.locator("#w-regions summary").click()
        rows = page.locator("#w-regions-table tbody tr")
        rows.nth(1).wait_for()
        found = open_windows(server.store, "fleet")
        want = {str(row["key"]): str(row["objects"]) for row in found.at(window="10s").to_pylist()}
        assert dict(re.split(r"\s*\t\s*", line) for line in rows.all_inner_texts()) == want == {"0": "9", "1": "3"}
        # a batch is drawn as it comes
        count(windows, 10, moved=7, late=[(1, 2 * SECOND, 10.0, 50.0)])
        page.wait_for_function(FRAME.format(2))
        idle(page)
        assert [re.split(r"\s*\t\s*", line)[1] for line in rows.all_inner_texts()] == ["9", "7"]
        assert re.search(r"set aside\s+1\s+· later than --late\s+1", page.locator("#w-facts").inner_text())
        # back by a key, on by another; the link says when
        page.keyboard.press("[")
        page.locator("#w-now[aria-pressed=false]").wait_for()
        page.wait_for_url(lambda url: "end=1970-01-01T00%3A00%3A10" in url)
        page.wait_for_function("() => document.querySelector('#stage').dataset.windowsEnd === '1970-01-01T00:00:10Z'")
        assert [re.split(r"\s*\t\s*", line)[1] for line in rows.all_inner_texts()] == ["9", "3"]
        # one region over time, by a button; arrow keys go through time
        page.locator("#w-regions-table button", has_text="1").press("Enter")
        page.get_by_role("heading", name="fleet: region 1").wait_for()
        assert "3 objects" in page.locator("#answer").inner_text()
        page.locator(".chart-range").focus()
        page.keyboard.press("ArrowRight")
        page.locator("#w-now[aria-pressed=true]").wait_for()
        assert "7 objects" in page.locator("#answer").inner_text()
        # an undeclared length is known where it ends now
        page.locator("#w-length").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("#w-length-text").inner_text() == "30s"
        page.wait_for_url(lambda url: "length=30s" in url)
        page.get_by_text("30s, now. Over time 10s, 60s are kept").wait_for()
        page.locator("#answer dd", has_text="7 objects").first.wait_for()
        # one heat map at a time: the requests of partitions take its place
        page.locator("#w-requests").click()
        assert page.locator("#w-measure").input_value() == "none"
        assert page.locator("#regions").input_value() == "load"


def test_places_that_are_called_something_have_their_names_on_the_map(driver, server):
    """While they are shown: all three are in view; that of a place is where its name is read."""
    count(begin(server, pa.array(["Depot", "<b>Hub</b>", "Yard"])), 0)
    with opened(driver, server.url, f"{VIEW}&measure=objects&length=10s") as seen:
        page = seen.page
        page.wait_for_function(FRAME.format(1))
        page.locator("#map[data-windows-name='3']").wait_for(state="attached")
        idle(page)
        page.locator("#w-regions summary").click()
        page.locator("#w-regions-table", has_text="<b>Hub</b>").wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), pytest.param(1600, "light", marks=WIDE)])
def test_nobody_is_shut_out_of_windows(driver, server, width, scheme):
    """A link shows a region over time; axe-core finds no violation; nothing is wider than the window."""
    from axe_playwright_python.sync_playwright import Axe

    count(begin(server), 0)
    target = f"{VIEW}&measure=objects&length=10s&flows=10&region=0"
    with opened(driver, server.url, target, width=width, height=740, scheme=scheme) as seen:
        page = seen.page
        page.get_by_role("heading", name="fleet: region 0").wait_for()
        page.wait_for_function(FRAME.format(1))
        if width < 700:
            page.locator("#menu").click()
        for name in ("w-regions", "w-largest"):
            page.locator(f"#{name} summary").click()
        page.locator("#w-largest-table tbody tr", has_text="0 → 1").wait_for()
        page.wait_for_timeout(300)
        found = Axe().run(page)
        assert [one["id"] for one in found.response["violations"]] == [], found.generate_report()
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
