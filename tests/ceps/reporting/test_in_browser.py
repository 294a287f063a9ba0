"""The page in a browser: nothing shuts people out, the decision is on the first screen, nothing is cut off."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import ceps
from tests.ceps.instances import servers, waves

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SENTENCES = ("saving", "risk", "next")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def browser():
    """A browser without a network of its own: pages are files."""
    pytest.importorskip("axe_playwright_python", reason="needs the extra dev: pip install 'dtoss[dev]'")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu-compositing"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def tab(browser):
    """A tab, in which the page is opened again for each test."""
    with browser.new_context() as context:
        yield context.new_page()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A report with every part: weekdays, regions, shores, methods, and a plan in force."""
    given = replace(waves(40, 9_300.0, slots=96, noise=0.2), pivots_hash="abc")
    types = servers(3e10)
    now = ceps.plan(given, None, types, method="gp")
    corners = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
    regions = {int(p): [corners + place] for p, place in zip(given.partitions, given.positions, strict=True)}
    return ceps.write_report(
        tmp_path_factory.mktemp("page"),
        [ceps.plan(given, None, types, previous=now)],
        patterns=given,
        current=now,
        regions=regions,
        shores=[10 * corners],
        methods=True,
        weekdays=[replace(given.scaled(1.2 if day == 0 else 1.0), weekday=day) for day in range(7)],
    )


def opened(tab, file, width, height=900, scheme="light"):
    """The page in a window."""
    tab.set_viewport_size({"width": width, "height": height})
    tab.emulate_media(media="screen", color_scheme=scheme)
    tab.goto(file.as_uri())
    return tab


SIZES = [(360, "light"), (1600, "dark")]
OTHERS = [(360, "dark"), (800, "light"), (800, "dark"), (1600, "light")]
OTHER_SIZES = pytest.mark.deep("the same page in other pairs of a size and colours")


@pytest.mark.parametrize(("width", "scheme"), SIZES + [pytest.param(*size, marks=OTHER_SIZES) for size in OTHERS])
def test_axe_finds_nothing(tab, page_file, width, scheme):
    """With all folds open; and the same tool finds a picture without words and a faint text where they are put in."""
    from axe_playwright_python.sync_playwright import Axe

    page = opened(tab, page_file, width, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    found = Axe().run(page).response["violations"]
    assert [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in found] == []
    page.evaluate("document.querySelector('svg[role=img]').removeAttribute('aria-label')")
    faint = {"light": "#8a8a8a", "dark": "#666666"}[scheme]
    page.evaluate(f"document.querySelector('p.quiet').style.color = '{faint}'")
    assert {"svg-img-alt", "color-contrast"} <= {rule["id"] for rule in Axe().run(page).response["violations"]}


@pytest.mark.parametrize(("width", "height", "screens"), [(1400, 900, 1), (390, 844, 2)])
def test_saving_risk_and_next_action_are_found_without_scrolling(tab, page_file, width, height, screens):
    """The three sentences lie within the first 900 pixels of a wide window, and the first two screens of a phone."""
    page = opened(tab, page_file, width, height)
    for name in SENTENCES:
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= height * screens, name


@pytest.mark.parametrize("width", [360, 390, 800, 1400, 1600])
def test_nothing_sticks_out_or_is_tiny(tab, page_file, width):
    """The page scrolls down only; words of charts keep their size, lie within the window, and not on each other."""
    page = opened(tab, page_file, width)
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    words = page.evaluate(
        """() => [...document.querySelectorAll('svg text')].map(text => {
            const box = text.getBoundingClientRect(), chart = text.closest('svg[role=img]');
            return [text.textContent, box.left, box.right, box.top, box.bottom,
                    [...document.querySelectorAll('svg[role=img]')].indexOf(chart)];
        }).filter(row => row[2] > row[1])"""
    )
    assert len(words) > 40
    for text, left, right, top, bottom, _ in words:
        assert left >= 0, text
        assert right <= width + 0.5, text
        assert bottom - top >= 11, text
    for number, (text, left, right, top, bottom, chart) in enumerate(words):
        for other, left2, right2, top2, bottom2, chart2 in words[number + 1 :]:
            apart = right <= left2 or right2 <= left or bottom - 2 <= top2 or bottom2 - 2 <= top
            assert chart != chart2 or apart, (text, other)


def test_the_page_asks_nothing_of_anyone(browser, page_file):
    """No request but for the file itself, no script, no error in the console."""
    asked, said = [], []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(page_file.as_uri())
    assert asked == [page_file.as_uri()]
    assert said == []
    assert page.evaluate("document.scripts.length") == 0
    page.close()


def test_paper_is_a4_and_holds_all(tab, page_file):
    """A few sheets of A4, with the tables of the fold, printed light."""
    page = opened(tab, page_file, 1000, scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    ground = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')")
    assert ground.strip() == "#ffffff"
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    sheets = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed)
    assert {(round(float(wide) / 72 * 25.4), round(float(high) / 72 * 25.4)) for wide, high in sheets} == {(210, 297)}
    assert 2 <= len(sheets) <= 5
