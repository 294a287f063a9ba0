"""A watch on the map in a browser: what is drawn, told and flown to; nothing where there is none; ids are text."""

from __future__ import annotations

import json
import re
import time

import numpy as np
import pytest

import dtoss
from dtoss.watch.subscription import BOX, ENTER, EVERYWHERE
from dtoss.watch.watch_folder import Home
from tests.dtoss.serve.map.browsing import BROWSER, around, idle, opened, picture
from tests.dtoss.serve.served import running
from tests.dtoss.watch.streams import Source, asked, change, circle, run, settings_of

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium")
HERE = (10.0, 50.0)
HOSTILE = '<img src=x onerror="document.title=1">'
MOST_MARKS = """() => {
  const marks = document.querySelector('#marks')
  const note = () => { marks.dataset.most = Math.max(marks.dataset.most ?? 0, marks.dataset.count ?? 0) }
  new MutationObserver(note).observe(marks, { attributeFilter: ['data-count'] })
}"""
"""Notes how many marks there were at most: they fade, whether anybody looks or not."""
WIDE = pytest.mark.deep("the same page in a wide window; the map's own is looked at in one")
META = '{"<b>bold</b>": "</script><script>document.title=2</script>"}'


@pytest.fixture
def server(tmp_path):
    """A worker of an index far from where subscriptions are; its store has no watch yet."""
    index = dtoss.build(np.arange(30), np.random.default_rng(0).normal((10.5, 50.5), 0.01, (30, 2)))
    with running(index, store=str(tmp_path)) as made:
        made.url, made.home = "http://{}:{}".format(*made.at), Home(str(tmp_path))
        yield made


def begin(server):
    """Subscriptions round a place, and some over the antimeridian."""
    change(server.home, [
        circle(HOSTILE, *HERE, 600.0, meta=META, where="occupied = 0", events=6),
        asked("zone", BOX, west=9.96, south=49.99, east=10.04, north=50.03),
        circle("far", 179.99, -17.0, 9_000.0),
    ])  # fmt: skip


def moves(server, number, at, occupied=0):
    """A batch of rows of ten objects at a place, now."""
    now = int(time.time()) * 1_000_000 + number
    rows = [{"id": i, "t": now, "x": at[0], "y": at[1], "attributes": {"occupied": occupied}} for i in range(10)]
    run(server.home, settings_of(), rows, source=Source(files={f"f{number}": 10}))


def near(zoom=14, more=""):
    return f"/#at={HERE[0]},{HERE[1]}&zoom={zoom}&view=flat{more}"


def middle(page):
    """The colours in the middle of the map."""
    shown = picture(page)
    return around(shown, shown.shape[1] / 2, shown.shape[0] / 2, 2)


def test_a_watch_shows_itself_when_it_begins(driver, server):
    """No reload; its layer can be switched off; a click tells all of it, as text, and the table flies to it."""
    with opened(driver, server.url, near(more="&without=objects,grid"), moving=True) as seen:
        page = seen.page
        idle(page)
        page.locator("#live[data-state=live]").wait_for()
        assert page.locator("#watch").is_hidden()
        assert page.get_by_label("Subscriptions", exact=True).count() == 0
        ground = middle(page)
        begin(server)
        page.locator("#watch").wait_for()
        page.locator("#stage[data-fences='2 of 2'] #map[data-fence-name='2']").wait_for(state="attached")
        idle(page)
        assert np.abs(middle(page).mean(axis=(0, 1)) - ground.mean(axis=(0, 1))).max() > 4
        page.get_by_label("Subscriptions", exact=True).uncheck()
        idle(page)
        assert np.abs(middle(page).mean(axis=(0, 1)) - ground.mean(axis=(0, 1))).max() < 2
        page.get_by_label("Subscriptions", exact=True).check()
        page.evaluate(MOST_MARKS)
        moves(server, 1, HERE)
        moves(server, 2, (10.02, 50.02))
        # the page may be told of the first batch before there is the second
        page.locator("#busiest-table tbody tr", has_text=re.compile(r"30\s*30")).wait_for()
        rows = page.locator("#busiest-table tbody tr").all_inner_texts()
        assert [re.split(r"\s*\t\s*", row) for row in rows] == [["zone", "30", "30"], [HOSTILE, "20", "20"]]
        page.locator("#marks[data-most]:not([data-most='0'])").wait_for(state="attached")
        assert "subscriptions" in page.locator("#watch-note").inner_text()
        assert "leave" in page.locator("#legend").inner_text()
        idle(page)
        box = page.locator("#map").bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.get_by_role("heading", name=f"Subscription {HOSTILE}").wait_for()
        said = page.locator("#answer").inner_text()
        for wanted in ("600 m", "occupied = 0", "enter, leave", "10 enter, 10 leave", META, "zone"):
            assert wanted in said, wanted
        assert page.locator("#answer img, #answer script, #answer b, #watch img").count() == 0
        page.wait_for_url(lambda url: "subscription=" in url)
        page.get_by_text("Nearest objects here").click()
        page.get_by_role("heading", name="8 nearest").wait_for()
        change(server.home, [circle("far", 179.99, -17.0, 9_000.0, meta='"new"')])
        moves(server, 3, (179.99, -17.0))
        line = page.locator("#busiest-table button", has_text="far")
        line.wait_for()
        line.click()
        page.get_by_role("heading", name="Subscription far").wait_for()
        page.wait_for_url(lambda url: abs(float(re.search(r"at=([-\d.]+)", url)[1]) % 360 - 179.99) < 0.01)
        assert "dtoss" in page.title()


INKED = """() => {
  const marks = document.querySelector('#marks'), pen = new OffscreenCanvas(9, 9).getContext('2d')
  pen.drawImage(marks, marks.width / 2 - 4, marks.height / 2 - 4, 9, 9, 0, 0, 9, 9)
  const { data } = pen.getImageData(0, 0, 9, 9)
  return data.some((value, i) => i % 4 === 3 && value > 50)
}"""
"""Whether something is drawn in the middle of the marks."""


def test_a_pair_is_joined_by_a_line(driver, server):
    """From the one object to the other: half way between them is nothing else."""
    change(server.home, [asked("pair", EVERYWHERE, events=ENTER, stay=json.dumps({"near": {"metres": 3_000.0}}))])
    with opened(driver, server.url, near(more="&without=objects,grid"), moving=True) as seen:
        idle(seen.page)
        assert not seen.page.evaluate(INKED)
        now = int(time.time()) * 1_000_000
        places = enumerate(HERE[0] + far for far in (-0.004, 0.004))
        rows = [{"id": id, "t": now, "x": x, "y": HERE[1], "attributes": {"occupied": 0}} for id, x in places]
        run(server.home, settings_of(), rows)
        seen.page.wait_for_function(INKED)


def test_a_link_to_a_subscription_shows_it_and_what_is_gone_is_said(driver, server):
    """It is asked for again when the subscriptions change."""
    begin(server)
    with opened(driver, server.url, near(more="&subscription=zone"), checked=False) as seen:
        seen.page.get_by_role("heading", name="Subscription zone").wait_for()
        assert "no event yet" in seen.page.locator("#answer").inner_text()
        change(server.home, (), ["zone"])
        seen.page.get_by_role("heading", name="zone is not there now").wait_for()
        seen.page.locator("#stage[data-fences='1 of 1']").wait_for(state="attached")


SQUARE, HOLE = [[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]], [[1, 2], [6, 2], [6, 8], [1, 8], [1, 2]]
HORSESHOE = [[0, 0], [9, 0], [9, 9], [6, 9], [6, 1], [3, 1], [3, 9], [0, 9], [0, 0]]


def test_a_name_stands_inside_of_its_place(driver, server):
    """Of the largest polygon; neither in a bay nor in a hole."""
    inside = "async polygons => (await import('/static/names.js').then(of => of.insideOf(of.largest(polygons))))"
    shapes = {"square": [[SQUARE]], "hole": [[[[50, 50], [51, 50], [50, 51], [50, 50]]], [SQUARE, HOLE]],
              "bay": [[HORSESHOE]]}  # fmt: skip
    with opened(driver, server.url, "/docs") as seen:
        at = {name: seen.page.evaluate(inside, shape) for name, shape in shapes.items()}
    assert at["square"] == [4.5, 4.5]
    assert at["hole"] == [7.5, 4.5]
    assert at["bay"][0] in (1.5, 7.5)


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), pytest.param(1600, "dark", marks=WIDE)])
def test_nobody_is_shut_out_of_a_watch(driver, server, width, scheme):
    """axe-core finds no violation, with an answer open and with the panel; nothing is wider than the window."""
    from axe_playwright_python.sync_playwright import Axe

    begin(server)
    moves(server, 1, HERE)
    with opened(driver, server.url, near(), width=width, scheme=scheme) as seen:
        page = seen.page
        page.locator("#stage[data-fences='2 of 2']").wait_for(state="attached")
        idle(page)
        if width < 700:
            page.locator("#menu").click()
        page.locator("#busiest-table button", has_text="zone").press("Enter")
        page.get_by_role("heading", name="Subscription zone").wait_for()
        if width < 700:
            assert page.locator("#menu").get_attribute("aria-expanded") == "false"
        page.wait_for_timeout(300)
        found = Axe().run(page)
        assert [one["id"] for one in found.response["violations"]] == [], found.generate_report()
        tree = page.locator("body").aria_snapshot()
        if width > 700:
            for name in ("Watch default", "Busiest subscriptions", "Events a second", "Subscriptions", "zone"):
                assert name in tree, name
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
