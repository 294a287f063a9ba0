"""The page of a history: read without eyes, and in a browser."""

from __future__ import annotations

import json
import shutil

import pytest

from ceps.model.number_text import per_cent
from ceps.reporting.kit.html_page import step_through
from pipelines.history_report import history_report
from tests.ceps.reporting.reading import Reading
from tests.dtoss.history.worlds import SPHERE
from tests.pipelines.reports.histories import asked_history

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """The page of a history with three frames."""
    folder = tmp_path_factory.mktemp("page")
    home, questions = asked_history(folder, SPHERE)
    return history_report(home.path, str(folder / "report"), questions=questions)


def test_the_first_screen_compares_with_the_others(page_file):
    """Requests, bytes and dollars of all four, prices with their date, the others labelled modelled; no script."""
    html = page_file.read_text()
    read = Reading.of(html)
    told = json.loads(page_file.with_suffix(".json").read_text())
    assert "<script" not in html
    for one in told["contestants"]:
        assert one["label"] in read.headings
    assert html.count(">modelled</span>") == 3
    assert html.count(">counted</span>") == 1
    assert told["prices"]["date"] in html
    assert "a day for 1,000 questions" in html
    captions = [table.caption for table in read.tables]
    assert len(captions) == 3
    kinds = read.tables[0].rows
    assert [row[:2] for row in kinds] == [[kind["kind"], str(kind["questions"])] for kind in told["kinds"]]
    assert all(sum("*" in cell for cell in row) >= 1 for row in kinds)
    (sizes,) = [table.rows for table in read.tables if table.caption.startswith("Files by size")]
    dead = [1 - one["liveBytes"] / one["bytes"] if one["bytes"] else None for one in told["files"]]
    assert [row[-1] for row in sizes] == ["" if one is None else per_cent(one) for one in dead]


def test_each_frame_is_on_the_page(page_file):
    """With its leaves, and as one step of the line."""
    html = page_file.read_text()
    assert "2 leaves; of what was asked before nothing is remembered" in html
    for number, leaves, questions in ((2, 2, 0), (3, 8, 90), (4, 32, 6)):
        assert not questions or f"{leaves} leaves after {questions} questions" in html
        assert f"Map of version {number}" in html
    assert html.count('type="radio"') == 3
    assert html.count(" checked>") == 1


def test_one_step_needs_no_line():
    """And none shows nothing."""
    assert step_through("a", "A", []) == ""
    assert step_through("a", "A", [("1", "", "<p>x</p>")]) == "<p>x</p>"


@pytest.fixture(scope="module")
def browser():
    """A browser without a network of its own: pages are files."""
    if BROWSER is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    pytest.importorskip("axe_playwright_python", reason="needs the extra dev: pip install 'dtoss[dev]'")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield made
        made.close()


def opened(browser, file, width, scheme="light"):
    """The page in a window, all folds open."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    return page


WIDE = pytest.mark.deep("tests/ceps/reporting/test_in_browser.py looks at wide pages of the same style")


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "dark"),
        *(pytest.param(1400, scheme, marks=WIDE) for scheme in ("light", "dark")),
    ],
)
def test_axe_finds_nothing_and_nothing_sticks_out(browser, page_file, width, scheme):
    """Wide and narrow, light and dark."""
    from axe_playwright_python.sync_playwright import Axe

    page = opened(browser, page_file, width, scheme)
    found = Axe().run(page).response["violations"]
    assert [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in found] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_keys_and_clicks_go_through_versions(browser, page_file):
    """One frame is seen at a time, the last one first; on paper all are."""
    page = opened(browser, page_file, 1400)

    def seen():
        frames = page.locator(".shown > div")
        return [number for number in range(frames.count()) if frames.nth(number).is_visible()]

    assert seen() == [2]
    page.locator(".track label").nth(0).click()
    assert seen() == [0]
    page.keyboard.press("ArrowRight")
    assert seen() == [1]
    page.emulate_media(media="print")
    assert seen() == [0, 1, 2]
    page.close()


def test_the_page_asks_nothing_of_anyone(browser, page_file):
    """No request but for the file itself, and no error in the console."""
    asked, said = [], []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(page_file.as_uri())
    assert asked == [page_file.as_uri()]
    assert said == []
    page.close()
