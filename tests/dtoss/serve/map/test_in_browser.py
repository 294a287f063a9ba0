"""The page of the map in a browser: what is drawn is what is there, answers are the index's, nobody is shut out."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import ceps
import dtoss
from dtoss.serve.core.problems import Problem
from tests.ceps.instances import servers, waves
from tests.dtoss.serve.map.browsing import BROWSER, around, differ, idle, opened, picture
from tests.dtoss.serve.served import Doors, running, served_of

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium")
HERE = (10.0, 50.0)
LATER, LATEST = "20260102T000000.000000Z", "20260103T000000.000000Z"
OTHER = pytest.mark.deep("the same page in other colours or wide; pages of a watch and of windows are looked at light")
HOSTILE = [
    '<img src=x onerror="document.title=1">',
    "</script><script>document.title=2</script>",
    "a&b;'\"",
    "é/%2e%2e",
]


def streets(seed=0, ids=None, at=(10.05, 50.02)):
    """One object that stands by itself, and a crowd away from it."""
    rng = np.random.default_rng(seed)
    positions = np.concatenate([[HERE], rng.normal(at, 0.004, (800, 2))])
    speed = np.concatenate([[99], rng.integers(0, 50, 800)])
    return dtoss.build(np.arange(801) if ids is None else ids, positions, columns={"speed": speed}, partitions=7)


@pytest.fixture(scope="module")
def server():
    with running(streets()) as made:
        made.url = "http://{}:{}".format(*made.at)
        yield made


def near(zoom=16, more=""):
    return f"/#at={HERE[0]},{HERE[1]}&zoom={zoom}&view=flat{more}"


def test_an_object_is_drawn_where_it_is_and_only_there(driver, server):
    """The middle of the picture has it, with the layer on; nothing else is drawn near it but borders."""
    with opened(driver, server.url, near(more="&regions=none")) as seen:
        idle(seen.page)
        shown = picture(seen.page)
        height, width = shown.shape[:2]
        middle = around(shown, width / 2, height / 2, 2)
        ground = around(shown, width / 2 + 40, height / 2 + 40, 2)
        assert np.abs(middle.mean(axis=(0, 1)) - ground.mean(axis=(0, 1))).max() > 40
        seen.page.get_by_label("Objects", exact=True).uncheck()
        idle(seen.page)
        without = picture(seen.page)
        assert differ(around(without, width / 2, height / 2, 2), np.broadcast_to(ground[0, 0], (5, 5, 3))) < 5


def test_a_click_is_answered_by_the_index(driver, server):
    """The same ids in the same order, a line for each; who does not see is told the same by roles and names."""
    with opened(driver, server.url, near()) as seen:
        idle(seen.page)
        box = seen.page.locator("#map").bounding_box()
        seen.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        rows = seen.page.locator("#answer table tbody tr")
        rows.first.wait_for()
        wanted = server.index.knn(HERE, 8)
        assert rows.count() == 8
        assert [re.findall(r"\d+", row)[0] for row in shown_ids(seen.page)] == [str(one) for one in wanted.id.tolist()]
        tree = seen.page.locator("body").aria_snapshot()
        for wanted in ("heading", "toolbar", "region", "searchbox", "checkbox", "combobox", "table", "link"):
            assert re.search(rf"\b{wanted}\b", tree), wanted
        for name in ("Closer", "Circle", "Polygon", "Globe", "Help", "Partitions by", "Only objects where", "801"):
            assert name in tree, name


def shown_ids(page):
    """The ids in the table of an answer."""
    return page.locator("#answer table tbody tr").evaluate_all(
        "rows => rows.map(row => (row.querySelector('button') ?? row.cells[0]).textContent)"
    )


def test_everything_can_be_done_by_keys(driver, server):
    """Ask at the cross-hair, filter, draw a circle and a polygon, change layers, open and close the help."""
    with opened(driver, server.url, near()) as seen:
        page = seen.page
        idle(page)
        press = page.keyboard.press
        press("m")
        press("Enter")
        page.locator("#answer table tbody tr").first.wait_for()
        assert len(shown_ids(page)) == 8
        press("Escape")
        page.locator("#answer").wait_for(state="hidden")
        press("w")
        page.keyboard.type("speed > 98")
        press("Enter")
        press("Escape")
        press("m")
        press("Enter")
        page.locator("#answer table tbody tr").first.wait_for()
        assert shown_ids(page) == ["0"]
        press("?")
        page.locator("#help").wait_for()
        press("Escape")
        page.locator("#help").wait_for(state="hidden")
        press("g")
        page.locator("#t-globe[aria-pressed=true]").wait_for()
        before = page.locator("#regions").input_value()
        press("r")
        assert page.locator("#regions").input_value() != before


def test_a_circle_counts_what_the_index_counts(driver, server):
    with opened(driver, server.url, "/#at=10.05,50.02&zoom=13&view=flat") as seen:
        page = seen.page
        idle(page)
        page.keyboard.press("c")
        box = page.locator("#map").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 60, y + 10, steps=4)
        page.mouse.up()
        page.locator("#answer").wait_for()
        said = page.locator("#answer").inner_text()
        count = int(re.search(r"([\d,]+) object", said)[1].replace(",", ""))
        radius = float(re.search(r"([\d.,]+) (?:k?m)\b", said)[1].replace(",", ""))
        radius *= 1000 if re.search(r"[\d.,]+ km\b", said) else 1
        wanted = [int(server.index.count((10.05, 50.02), radius * share)[0]) for share in (0.98, 1.02)]
        assert wanted[0] <= count <= wanted[1]
        assert count > 20


def middle_of(url):
    """Where a link looks."""
    return tuple(map(float, re.search(r"#at=([-0-9.]+),([-0-9.]+)", url).groups()))


def test_an_answer_does_not_cover_the_place_that_was_asked_for(driver, server):
    """On a phone the answer lies below: the map moves up."""
    with opened(driver, server.url, near(), width=360, height=740) as seen:
        page = seen.page
        idle(page)
        page.mouse.click(150, 540)
        page.locator("#answer table tbody tr").first.wait_for()
        assert page.locator("#answer").bounding_box()["y"] < 540
        page.wait_for_url(lambda url: "nearest=" in url and middle_of(url)[1] < HERE[1])


def test_the_globe_shows_the_side_where_most_objects_are(driver):
    rng = np.random.default_rng(0)
    far = [(-70.0, -30.0), (-120.0, 40.0), (30.0, 60.0)]
    index = dtoss.build(np.arange(903), np.concatenate([far, rng.normal((120, 30), 3, (900, 2))]), partitions=4)
    url = "http://{}:{}"
    empty = "/#without=cells,regions,objects,land"  # a globe that is drawn takes seconds
    with running(index) as made, opened(driver, url.format(*made.at), empty, width=400, height=300) as seen:
        idle(seen.page)
        seen.page.keyboard.press("a")
        seen.page.wait_for_url(lambda url: "#at=" in url)
        lon, lat = middle_of(seen.page.url)
        assert abs(lon - 120) < 15
        assert abs(lat - 30) < 15


def test_sizes_of_partitions_are_coloured_by_rank_and_loads_from_zero(driver, server):
    """One partition that is far from the others does not make those alike."""
    with opened(driver, server.url, "/docs") as seen:
        reds = seen.page.evaluate(
            """async () => {
              const { partitionColours } = await import('/static/partitions.js')
              const ramp = ['#000000', '#c80000']
              const of = measure => measure.values.map((_, i) => partitionColours(measure, { ramp })(i))
              const values = [10, 1000, 20, 20]
              return [of({ values }), of({ values, from: 0 })].map(all => all.map(one => +one.match(/\\d+/)[0]))
            }"""
        )
        assert reds == [[0, 200, 100, 100], [2, 200, 4, 4]]


def test_a_swap_shows_itself_without_a_blank_frame(driver):
    """An object that stands where it stood is in every picture until the next snapshot is drawn, and after."""
    with running(streets()) as server:
        url = "http://{}:{}".format(*server.at)
        with opened(driver, url, near(more="&regions=none")) as seen:
            page = seen.page
            idle(page)
            shown = picture(page)
            x, y = shown.shape[1] / 2, shown.shape[0] / 2
            ground = around(shown, x + 40, y + 40, 2).mean(axis=(0, 1))

            def look():
                middle = around(picture(page), x, y, 2).mean(axis=(0, 1))
                assert np.abs(middle - ground).max() > 40, "a frame without the object"

            later = served_of(streets(1, at=(10.06, 50.03)), LATER)
            server.loop.call_soon_threadsafe(server.serving.replace, later)
            until = time.monotonic() + 60
            while page.locator("#stage").get_attribute("data-drawn") != LATER:
                look()
                assert time.monotonic() < until
            for _ in range(5):
                look()
            assert LATER in page.locator("#facts").inner_text()


def test_an_object_is_followed_through_swaps(driver):
    """Its place is said anew, the map goes after it, and where it is gone that is said."""
    with running(streets()) as server:
        url = "http://{}:{}".format(*server.at)
        with opened(driver, url, near(zoom=14), checked=False) as seen:
            page = seen.page
            idle(page)
            page.locator("#query").fill("5")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="Following 5").wait_for()
            before = page.locator("#answer").inner_text()
            later = served_of(streets(1, at=(10.3, 50.3)), LATER)
            server.loop.call_soon_threadsafe(server.serving.replace, later)
            page.locator(f"#stage[data-drawn='{LATER}']").wait_for(state="attached")
            at = later.index[5]
            page.get_by_text(re.compile(rf"^{at['lon']:.3f}")).first.wait_for()
            assert page.locator("#answer").inner_text() != before
            place = np.array([at["lon"], at["lat"]])
            page.wait_for_url(lambda url: np.abs(np.subtract(middle_of(url), place)).sum() < 0.05)
            gone = dtoss.build([1, 2], [HERE, (10.01, 50.0)], columns={"speed": [1, 2]})
            server.loop.call_soon_threadsafe(server.serving.replace, served_of(gone, LATEST))
            page.get_by_role("heading", name="5 is not there now").wait_for()


def test_whole_numbers_are_shown_with_all_their_digits(driver):
    """Those of ids and of attributes, beyond what JavaScript's numbers hold."""
    big = 7738359689928967515
    index = dtoss.build([big + 2], [HERE], columns={"big": [big], "refs": [[big, -big]]})
    with running(index) as server, opened(driver, "http://{}:{}".format(*server.at), near(), checked=False) as seen:
        idle(seen.page)
        seen.page.locator("#query").fill(str(big + 2))
        seen.page.keyboard.press("Enter")
        seen.page.get_by_role("heading", name=f"Following {big + 2}").wait_for()
        said = seen.page.locator("#answer").inner_text()
        assert str(big) in said
        assert f"[{big},{-big}]" in said


def test_a_token_is_asked_for_once_and_kept_in_the_tab(driver):
    """Another one where it is known no more: the tiles that were refused meanwhile are asked for again."""
    doors = Doors("s3cret")
    with running(streets(), doors=doors) as server:
        url = "http://{}:{}".format(*server.at)
        with opened(driver, url, near(zoom=13), checked=False) as seen:
            page, links = seen.page, []
            page.on("request", lambda request: links.append(request.url))
            page.locator("#token").fill("wrong")
            page.keyboard.press("Enter")
            page.get_by_text("does not know this token").wait_for()
            page.locator("#token").fill("s3cret")
            page.keyboard.press("Enter")
            idle(page)
            assert page.locator("#token-dialog").is_hidden()
            assert page.evaluate("() => [Object.keys(localStorage), document.cookie]") == [[], ""]
            page.reload()
            idle(page)
            assert page.locator("#token-dialog").is_hidden()
            links += page.evaluate("() => [location.href, ...[...document.links].map((one) => one.href)]")
            assert len(links) > 10
            assert not [link for link in links if "s3cret" in link]
            doors.token = "second"
            page.keyboard.press("m")
            page.keyboard.press("+")
            page.locator("#token-dialog[open]").wait_for()
            page.locator("#token").fill("second")
            page.keyboard.press("Enter")
            page.locator("#token-dialog").wait_for(state="hidden")
            wait_for_object(page)
            assert page.locator("#token-dialog").is_hidden()


def test_the_report_opens_for_who_has_a_token(driver, tmp_path):
    """As the optimiser writes it, with its colours, under its own policy; nothing in it runs."""
    given = waves(10, 900.0, slots=24)
    file = ceps.write_report(tmp_path, [ceps.plan(given, None, servers(3e10), method="gp")], patterns=given)
    strange = re.sub("<meta[^>]*Content-Security-Policy[^>]*>", "", file.read_text())
    file.write_text(strange.replace("</body>", "<script>document.title = 'run'</script></body>"))
    with running(streets(), doors=Doors("s3cret"), report=str(tmp_path)) as server:
        url = "http://{}:{}".format(*server.at)
        with opened(driver, url, near(), checked=False) as seen:
            page = seen.page
            page.locator("#token").fill("s3cret")
            page.keyboard.press("Enter")
            idle(page)
            seen.wrong.clear()
            page.locator("#report-link").click()
            page.locator("#saving").wait_for()
            assert page.url == f"{url}/report/"
            assert page.title() != "run"
            assert len(np.unique(picture(page, "body") @ [1, 256, 65536])) > 20
            assert [one for one in seen.wrong if "script" not in one] == []
            assert len(seen.wrong) == 1
            assert page.request.get(f"{url}/snapshot").status == 401


def wait_for_object(page):
    """Wait until the middle of the map is not what lies beside it."""
    until = time.monotonic() + 60
    while True:
        image = picture(page)
        y, x = image.shape[0] / 2, image.shape[1] / 2
        middle, ground = (around(image, x + off, y + off, 2).mean(axis=(0, 1)) for off in (0, 40))
        if np.abs(middle - ground).max() > 40:
            return
        assert time.monotonic() < until
        page.wait_for_timeout(100)


def test_a_lost_connection_is_said_and_comes_back(driver):
    """The page goes on with what a server of the same place serves then; tiles that a busy one refused come too."""
    with running(streets()) as server:
        port, url = server.at[1], "http://{}:{}".format(*server.at)
        run, refused = server.state.pool.run, []

        async def busy(request, work, **given):
            if request is not None and "/objects/" in request.scope["path"] and len(refused) < 12:
                refused.append(request.scope["path"])
                raise Problem(503, "the pool is full", retry_after=1)
            return await run(request, work, **given)

        server.state.pool.run = busy
        context = opened(driver, url, near(more="&regions=none"), checked=False)
        seen = context.__enter__()
        idle(seen.page)
        wait_for_object(seen.page)
        assert refused
        assert seen.page.locator("#error").is_hidden()
        seen.page.locator("#live[data-state=live]").wait_for()
    try:
        seen.page.locator("#live[data-state=lost]").wait_for()
        seen.page.keyboard.press("m")
        for key in ("Enter", "a"):  # a question, and tiles that are not there yet
            seen.page.locator("#error").evaluate("line => line.hidden = true")
            seen.page.keyboard.press(key)
            seen.page.locator("#error").wait_for()
            assert f"127.0.0.1:{port} does not answer: ask again once" in seen.page.locator("#error").inner_text()
        with running(streets(1), port=port) as server:
            server.loop.call_soon_threadsafe(server.serving.replace, served_of(server.index, LATER))
            seen.page.locator("#live[data-state=live]").wait_for()
            seen.page.locator(f"#stage[data-drawn='{LATER}']").wait_for(state="attached")
    finally:
        context.__exit__(None, None, None)


def test_ids_are_text_and_nothing_else(driver):
    """Whatever they hold, they stand in the answer letter by letter, and nothing of them is run."""
    ids = HOSTILE + [f"x{i}" for i in range(797)]
    with running(streets(ids=ids, at=HERE)) as server:
        url = "http://{}:{}".format(*server.at)
        with opened(driver, url, f"/#at={HERE[0]},{HERE[1]}&zoom=12&view=flat") as seen:
            page = seen.page
            idle(page)
            for name in HOSTILE:
                page.locator("#query").fill(name)
                page.keyboard.press("Enter")
                page.locator("#answer").wait_for()
                assert name in page.locator("#answer").text_content()
                assert page.locator("#answer img, #answer script").count() == 0
                assert "dtoss" in page.title()
                page.keyboard.press("Escape")
                page.locator("#answer").wait_for(state="hidden")


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(360, "dark"), *(pytest.param(*one, marks=OTHER) for one in ((360, "light"), (1600, "dark"), (1600, "light")))],
)
def test_nobody_is_shut_out(driver, server, width, scheme):
    """axe-core finds no violation: on the map, with an answer, with the help open."""
    from axe_playwright_python.sync_playwright import Axe

    with opened(driver, server.url, near(), width=width, scheme=scheme) as seen:
        page = seen.page
        idle(page)
        page.keyboard.press("m")
        page.keyboard.press("Enter")
        page.locator("#answer table tbody tr").first.wait_for()
        for step in ("answer", "help"):
            if step == "help":
                page.keyboard.press("?")
                page.locator("#help").wait_for()
            found = Axe().run(page)
            assert [one["id"] for one in found.response["violations"]] == [], found.generate_report()
        page.keyboard.press("Escape")
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_a_plane_without_a_crs_has_the_same_page(driver):
    """Distances in its unit, places in its coordinates, no land."""
    rng = np.random.default_rng(0)
    positions = rng.normal([500.0, -300.0], 40.0, (600, 2))
    index = dtoss.build(np.arange(600), positions, crs="none", partitions=3)
    with running(index) as server:
        url = "http://{}:{}".format(*server.at)
        with opened(driver, url) as seen:
            page = seen.page
            idle(page)
            page.keyboard.press("m")
            page.keyboard.press("Enter")
            page.locator("#answer table tbody tr").first.wait_for()
            assert re.search(r"x [\d.,]+, y -[\d.,]+", page.locator("#answer").inner_text())
            assert page.get_by_label("Land").count() == 0
            assert not [one for one in seen.asked if "land" in one]
            page.keyboard.press("Escape")
            x, y = re.fullmatch(
                r"42 or ([\d.]+), (-[\d.]+)", page.locator("#query").get_attribute("placeholder")
            ).groups()
            page.locator("#query").fill(f"{x}, {y}")
            page.keyboard.press("Enter")
            page.locator("#answer table tbody tr").first.wait_for()
            assert shown_ids(page) == list(map(str, index.knn((float(x), float(y)), 8).id.tolist()))


def test_a_link_shows_what_was_seen(driver, server):
    with opened(driver, server.url, near(zoom=15, more="&by=speed&k=3")) as seen:
        idle(seen.page)
        seen.page.keyboard.press("m")
        seen.page.keyboard.press("Enter")
        seen.page.locator("#answer table tbody tr").first.wait_for()
        seen.page.wait_for_url(lambda url: "nearest=" in url)
        link = seen.page.url.removeprefix(server.url)
        said = shown_ids(seen.page)
    assert len(said) == 3
    with opened(driver, server.url, link) as seen:
        idle(seen.page)
        seen.page.locator("#answer table tbody tr").first.wait_for()
        assert shown_ids(seen.page) == said
        assert seen.page.locator("#by").input_value() == "speed"


def test_what_goes_wrong_is_one_line(driver, server):
    """Until something else is asked; a name where ids are numbers is no object that has gone.

    A condition that cannot be asked is said beside it as long as it stands there, and no object is drawn.
    """
    with opened(driver, server.url, near(), checked=False) as seen:
        page = seen.page
        idle(page)
        page.locator("#query").fill("San Francisco")
        page.keyboard.press("Enter")
        line = page.locator("#error")
        line.wait_for()
        assert re.search(r"San Francisco is no id .* two numbers: 10\.\d+, 50\.\d+", line.inner_text())
        assert line.bounding_box()["height"] < 120
        assert page.locator("#answer").is_hidden()
        page.locator("#query").fill("5")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Following 5").wait_for()
        assert line.is_hidden()
        page.keyboard.press("Escape")
        page.locator("#where").fill("spede > 1")
        page.keyboard.press("Enter")
        problem = page.locator("#where-problem")
        problem.wait_for()
        assert "spede" in problem.inner_text()
        assert page.locator("#where").get_attribute("aria-invalid") == "true"
        assert "No object is drawn" in page.locator("#legend").inner_text()
        page.keyboard.press("Escape")
        page.keyboard.press("m")
        page.keyboard.press("Enter")
        page.wait_for_timeout(300)
        assert page.locator("#error").is_hidden()
        page.locator("#where").fill("")
        page.keyboard.press("Enter")
        problem.wait_for(state="hidden")
        page.locator("#legend", has_text="Every object is drawn.").wait_for()
