"""A browser that looks at the page of a map, and notices what should not happen: other origins, errors, refusals."""

from __future__ import annotations

import io
import shutil
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
"""WebGL without a graphics card, and a browser that calls nobody."""
WAIT_MS = 30_000


@contextmanager
def browser():
    """A Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        try:
            yield made
        finally:
            made.close()


@contextmanager
def opened(driver, url, target="/", *, width=1000, height=700, scheme="light", checked=True, **given):
    """A page in a window of its own; at the end it is held that nothing went wrong and nothing left its origin."""
    context = driver.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **given)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    try:
        page.goto(url + target)
        seen = SimpleNamespace(page=page, context=context, asked=asked, wrong=wrong, url=url)
        yield seen
        strangers = [one for one in asked if not one.startswith((url + "/", f"blob:{url}/", "data:"))]
        assert strangers == []
        if checked:
            # software WebGL says that it is slow
            said = [text for text in wrong if "GPU stall" not in text and "WebGL" not in text]
            assert not said, said
    finally:
        context.close()


def idle(page, after=-1):
    """Wait until the map has drawn all that it wants to, after so many times that it had; return how many times."""
    page.locator("#stage[data-idle]").wait_for(state="attached")
    for _ in range(WAIT_MS // 50):
        times = int(page.locator("#stage").get_attribute("data-idle"))
        if times > after and page.locator("#stage").get_attribute("data-busy") is None:
            return times
        page.wait_for_timeout(50)
    raise AssertionError(f"the map was not idle again within {WAIT_MS / 1e3:.0f} s")


def picture(page, selector="#map"):
    """What an element looks like, uint8 (height, width, 3)."""
    import matplotlib.image

    shot = page.locator(selector).screenshot()
    return (matplotlib.image.imread(io.BytesIO(shot))[:, :, :3] * 255).round().astype(np.uint8)


def around(image, x, y, reach=3):
    """The pixels of a picture round a place."""
    return image[max(int(y) - reach, 0) : int(y) + reach + 1, max(int(x) - reach, 0) : int(x) + reach + 1].astype(int)


def differ(one, other, by=24):
    """How many pixels of two pictures of one size differ by more than noise."""
    return int((np.abs(one.astype(int) - other.astype(int)).max(axis=-1) > by).sum())
