"""The ground under the map in a browser: it is drawn, switched off, and whose it is stands there as text."""

from __future__ import annotations

import numpy as np
import pytest

import dtoss
from tests.dtoss.serve.map.browsing import BROWSER, around, idle, opened, picture
from tests.dtoss.serve.map.made_ground import CREDIT, MVT, PNG, archive, vector_tile
from tests.dtoss.serve.map.made_ground import picture as painted
from tests.dtoss.serve.served import Doors, running

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium")
HERE = (10.0, 50.0)
SEA = "POLYGON ((0 0, 4096 0, 4096 4096, 0 4096, 0 0))"
TILES = {
    PNG: painted((220, 40, 40), side=256),
    MVT: vector_tile([("ocean", [(SEA, {"kind": "ocean"})]), ("place", [("POINT (2160 2600)", {"name": "Here"})])]),
}


@pytest.mark.parametrize("kind", TILES, ids=["pictures", "vectors"])
def test_a_ground_is_seen_below_all_else_until_it_is_switched_off(driver, tmp_path, kind):
    """With a token that its tiles need too; nothing of what the file says of itself runs."""
    path = tmp_path / "ground.pmtiles"
    path.write_bytes(archive({(0, 0, 0): TILES[kind]}, kind, metadata={"attribution": CREDIT}))
    index = dtoss.build(np.arange(30), np.random.default_rng(0).normal((10.5, 50.5), 0.01, (30, 2)))
    with running(index, basemap=str(path), doors=Doors("t0ken")) as server:
        url = "http://{}:{}".format(*server.at)
        with opened(driver, url, f"/#at={HERE[0]},{HERE[1]}&zoom=12&view=flat&without=grid", checked=False) as seen:
            page = seen.page
            page.locator("#token").fill("t0ken")
            page.keyboard.press("Enter")
            idle(page)
            with_ground = middle(page)
            page.get_by_label("Ground", exact=True).uncheck()
            idle(page)
            without = middle(page)
            assert np.abs(with_ground - without).max() > 12, (with_ground, without)
            assert page.locator("#credit").is_hidden()
            page.get_by_label("Ground", exact=True).check()
            idle(page)
            assert np.abs(middle(page) - with_ground).max() < 3
            assert page.locator("#credit").inner_text() == "Made up. © nobody"
            link = page.locator("#credit a")
            assert link.get_attribute("href") == "https://example.org/data"
            assert link.get_attribute("rel") == "noopener noreferrer"
            assert page.locator("#credit script").count() == 0
            assert "dtoss" in page.title()
        assert [one for one in seen.asked if "/basemap/" in one]


def middle(page):
    """The mean colour in the middle of the map."""
    shown = picture(page)
    return around(shown, shown.shape[1] / 2, shown.shape[0] / 2, 2).mean(axis=(0, 1))


def test_the_outline_of_continents_is_gone_at_the_scale_of_a_city(driver):
    """San Francisco lies inland by it: there the sea has the colour of the land."""
    index = dtoss.build(np.arange(30), np.random.default_rng(0).normal((-120.0, 36.0), 0.01, (30, 2)))
    with running(index) as server:
        url, seen_at = "http://{}:{}".format(*server.at), {}
        for zoom in (5, 10):
            for name, at in {"land": "-120.5,39.5", "sea": "-125.5,36.5"}.items():
                with opened(driver, url, f"/#at={at}&zoom={zoom}&view=flat&without=grid,cells,regions,objects") as seen:
                    idle(seen.page)
                    seen_at[zoom, name] = middle(seen.page)
    assert np.abs(seen_at[5, "land"] - seen_at[5, "sea"]).max() > 8
    assert np.abs(seen_at[10, "land"] - seen_at[10, "sea"]).max() == 0
