"""What can be asked, as a page in a browser: its token, and who can read it."""

from __future__ import annotations

import json

import pytest

from tests.dtoss.serve.map.browsing import BROWSER, opened
from tests.dtoss.serve.served import Asker, Doors, running, town

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium")


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
        form = route(page, "get", "/snapshot")
        with page.expect_response("**/snapshot") as answer:
            form.get_by_role("button", name="Ask").click()
        assert answer.value.status == 200
        page.reload()
        page.locator(".path").first.wait_for()
        assert page.locator("#token-dialog").is_hidden()


@pytest.mark.parametrize("width", [360, pytest.param(1600, marks=pytest.mark.deep("the same page in a wide window"))])
def test_routes_can_be_read_by_all(driver, server, width):
    """axe-core finds nothing, whether routes are open or not."""
    from axe_playwright_python.sync_playwright import Axe

    with opened(driver, server.url, "/docs", width=width, checked=False) as seen:
        page = seen.page
        page.locator("#token").fill("s3cret")
        page.keyboard.press("Enter")
        page.locator(".path").first.wait_for()
        for opened_ones in (0, 3):
            for summary in page.locator("summary").all()[:opened_ones]:
                summary.click()
            found = Axe().run(page)
            assert [one["id"] for one in found.response["violations"]] == [], found.generate_report()
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def open_server():
    with running(town(objects=20)) as made:
        made.url = "http://{}:{}".format(*made.at)
        yield made


def test_each_route_of_the_text_is_drawn_with_its_parameters(driver, open_server):
    with Asker(open_server) as asker:
        paths = asker.get("/openapi.json")["paths"]
    with opened(driver, open_server.url, "/docs") as seen:
        seen.page.locator(".path").first.wait_for()
        drawn = seen.page.locator("summary").evaluate_all(
            "all => all.map(one => [one.children[0].textContent.toLowerCase(), one.children[1].textContent])"
        )
        assert sorted(map(tuple, drawn)) == sorted((method, path) for path in paths for method in paths[path])
        for method, path in (("get", "/knn"), ("post", "/within"), ("get", "/metrics")):
            names = route(seen.page, method, path).locator("label").all_inner_texts()
            wanted = [one["name"] for one in paths[path][method].get("parameters", [])]
            assert names == wanted + ["request body"] * ("requestBody" in paths[path][method])


def test_what_is_tried_is_asked_and_shown(driver, open_server):
    """A place, many places, an object of a path, what is refused with its reason, and what is no text."""
    with Asker(open_server) as asker, opened(driver, open_server.url, "/docs", checked=False) as seen:
        page = seen.page
        page.locator(".path").first.wait_for()
        form = route(page, "get", "/knn")
        form.get_by_role("button", name="Ask").click()
        assert form.locator("pre").count() == 0, "what is wanted is missing"
        form.get_by_label("lon", exact=True).fill("10")
        form.get_by_label("lat", exact=True).fill("50")
        form.get_by_label("where", exact=True).fill("speed > 1 and name <> 'a&b'")
        shown = asked(form)
        assert shown == asker.get("/knn", lon=10, lat=50, where="speed > 1 and name <> 'a&b'")
        form.get_by_label("where", exact=True).fill("spede > 1")
        assert "spede" in asked(form, 400)["detail"]

        form = route(page, "post", "/knn")
        form.get_by_label("request body").fill('{"positions": [[10, 50], [11, 51]]}')
        form.get_by_label("k", exact=True).fill("2")
        assert [hit["query"] for hit in asked(form)["hits"]] == [0, 0, 1, 1]

        form = route(page, "get", "/objects/{object_id}")
        form.get_by_label("object_id").fill("1")
        form.get_by_label("cell").select_option("true")
        assert asked(form)["cell"]["type"] == "Polygon"
        form.get_by_label("object_id").fill("a/b?x#y%")
        with page.expect_response("**/objects/**") as answer:
            form.get_by_role("button", name="Ask").click()
        assert answer.value.url.endswith("/objects/a%2Fb%3Fx%23y%25?cell=true")


def test_a_server_that_has_ended_does_not_answer(driver):
    """In words of ours, and not of the browser's."""
    with running(town(objects=20)) as server:
        port, url = server.at[1], "http://{}:{}".format(*server.at)
        context = opened(driver, url, "/docs", checked=False)
        seen = context.__enter__()
        seen.page.locator(".path").first.wait_for()
        form = route(seen.page, "get", "/snapshot")
    try:
        form.get_by_role("button", name="Ask").click()
        seen.page.get_by_text(f"127.0.0.1:{port} does not answer: ask again once").wait_for()
    finally:
        context.__exit__(None, None, None)


def test_no_digit_of_an_answer_is_lost(driver, open_server):
    """Ids have 64 bits, numbers of a browser 53."""
    with opened(driver, open_server.url, "/docs") as seen:
        seen.page.locator(".path").first.wait_for()
        text = '{"id":9007199254740993,"distance":0.10,"name":"a\\"1e5"}'
        seen.page.route("**/snapshot", lambda one: one.fulfill(body=text, content_type="application/json"))
        form = route(seen.page, "get", "/snapshot")
        assert asked(form)["id"] == 9007199254740993
        assert form.locator("pre").inner_text() == json.dumps(json.loads(text), indent=1).replace("0.1,", "0.10,")


def test_a_stream_is_shown_as_far_as_it_came(driver, open_server):
    with opened(driver, open_server.url, "/docs") as seen:
        seen.page.locator(".path").first.wait_for()
        form = route(seen.page, "get", "/live")
        form.get_by_role("button", name="Ask").click()
        answer = form.locator("pre")
        answer.wait_for()
        assert answer.inner_text().startswith("data:")


def route(page, method, path):
    """A route that is open."""
    found = page.locator("details").filter(has=page.get_by_text(path, exact=True))
    (one,) = (each for each in found.all() if each.locator(".method").inner_text().lower() == method)
    if one.get_attribute("open") is None:
        one.locator("summary").click()
    one.locator("form").wait_for()
    return one


def asked(form, status=200):
    """The JSON that is shown when the form has been sent."""
    form.get_by_role("button", name="Ask").click()
    form.get_by_text(f"{status} in ").wait_for()
    return json.loads(form.locator("pre").inner_text())
