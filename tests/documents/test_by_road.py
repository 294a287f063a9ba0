"""docs/by_road.md as it stands: candidates of an index, ranked by a stub of OSRM's table service."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import dtoss
from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of

PAGE = (Path(__file__).parents[2] / "docs" / "by_road.md").read_text(encoding="utf-8")
TO = (-122.41, 37.78)


def by_road(places):
    """Seconds to the place on roads that wind by up to four times; every 17th place has no road."""
    straight = distance(space_of().vectors(places), space_of().vectors(np.array([TO])))
    winding = 1 + 3 * (np.floor(np.abs(places[:, 0]) * 1e6) % 101) / 101
    seconds = straight * winding / 30.0
    seconds[np.floor(np.abs(places[:, 1]) * 1e6) % 17 == 0] = np.inf
    return seconds


class Table(BaseHTTPRequestHandler):
    """`/table/v1/driving/{coordinates}?destinations=i`, no more than a hundred coordinates."""

    def do_GET(self):
        path, at = re.fullmatch(r"/table/v1/driving/([^?]+)\?destinations=(\d+)", self.path).groups()
        places = np.array([one.split(",") for one in path.split(";")], dtype=float)
        assert len(places) <= 100
        assert tuple(places[int(at)]) == TO
        rows = [[None if np.isinf(one) else one] for one in by_road(places).tolist()]
        body = json.dumps({"code": "Ok", "durations": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture(scope="module")
def osrm():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Table)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("objects", "spread"), [(3000, 0.05), (40, 0.05), (3000, 0.0005)])
def test_what_the_page_says_is_first_is_first(osrm, objects, spread):
    """Where it says that this is proved; and with few or crowded objects, too."""
    names = {}
    exec(PAGE.split("```python\n")[1].split("```")[0], names)
    at = np.round(np.random.default_rng(1).normal(TO, spread, (objects, 2)), 6)
    index = dtoss.build({"id": np.arange(objects), "lon": at[:, 0], "lat": at[:, 1]})
    seconds = by_road(at)
    wanted = sorted(zip(seconds.tolist(), range(objects), strict=True))[:3]
    found, proved = names["first_by_road"](index, TO, 3, osrm)
    assert proved
    assert [one for _, one in found] == [one for _, one in wanted]
    np.testing.assert_allclose([one for one, _ in found], [one for one, _ in wanted])
    _, few = names["first_by_road"](index, TO, 3, osrm, k=3, most=3)
    assert not few
