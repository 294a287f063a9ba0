"""A page of another site whose name leads to this machine (DNS rebinding), in a browser that believes it."""

from __future__ import annotations

import pytest

from dtoss.serve.auth.admission import Doors
from dtoss.serve.auth.tokens import COOKIE
from tests.dtoss.serve.map.browsing import BROWSER, browser
from tests.dtoss.serve.map.test_in_browser import streets
from tests.dtoss.serve.served import Asker, running

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium")
EVIL = "evil.example"
PATHS = ("/knn?lon=10&lat=50", "/map", "/snapshot", "/objects/1", "/live", "/events?limit=1", "/metrics", "/report/")
READ = """async ([paths, shape]) => {
  const status = async (path, options) => (await fetch(path, options)).status
  const got = await Promise.all(paths.map(path => status(path)))
  const headers = { 'content-type': 'application/json' }
  return [...got, await status('/within', { method: 'POST', body: shape, headers })]
}"""
BELIEVING = ("--disable-gpu", "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests")
"""As browsers were before they asked whether a page may speak to this machine, and some still are."""
SHAPE = '{"type": "Polygon", "coordinates": [[[9, 49], [11, 49], [10, 51]]]}'


@pytest.fixture(scope="module")
def chromium():
    """A browser whose name servers lead evil.example to this machine."""
    with browser(*BELIEVING, f"--host-resolver-rules=MAP {EVIL} 127.0.0.1") as made:
        yield made


@pytest.fixture
def visit(chromium):
    """Returns a function that opens a page which the site of a host has sent, and makes it read a server."""
    context = chromium.new_context()

    def read(server, host):
        url = f"http://{host}:{server.at[1]}"
        page = context.new_page()
        page.route(f"{url}/attack", lambda route: route.fulfill(body="<title>a</title>", content_type="text/html"))
        page.goto(f"{url}/attack")
        return page.evaluate(READ, [PATHS, SHAPE])

    read.context = context
    yield read
    context.close()


@pytest.fixture
def report(tmp_path):
    """A folder of a report."""
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.html").write_text("<p>report</p>")
    return str(tmp_path / "report")


def test_a_name_that_leads_here_reads_nothing(visit, report):
    """Without tokens by none of the routes; a page of the server itself reads them."""
    with running(streets(), doors=Doors(), report=report) as server:
        assert visit(server, EVIL) == [403] * (len(PATHS) + 1)
        assert visit(server, "127.0.0.1") == [200] * (len(PATHS) + 1)


def test_with_tokens_a_name_that_leads_here_has_no_pass(visit, report, tmp_path):
    """Any name is answered to whoever has a token; the cookie of another host is not sent, and does not help."""
    (tmp_path / "tokens").write_text("me t0ken\n")
    with running(streets(), doors=Doors(str(tmp_path / "tokens")), report=report) as server, Asker(server) as asker:
        refused = [401] * (len(PATHS) + 1)
        assert visit(server, EVIL) == refused
        cookie = asker.raw("/report/pass", "POST", authorization="Bearer t0ken")[1]["set-cookie"]
        value = cookie.removeprefix(f"{COOKIE}=").partition(";")[0]
        for host in ("127.0.0.1", EVIL):
            visit.context.add_cookies([{"name": COOKIE, "value": value, "domain": host, "path": "/report"}])
            assert visit(server, EVIL) == refused
        assert visit(server, "127.0.0.1") == [*refused[:7], 200, 401]
