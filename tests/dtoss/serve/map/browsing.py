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
WAIT_MS = 60_000
FORGET = "() => { try { sessionStorage.clear(); localStorage.clear() } catch {} }"
"""What a tab keeps of a token and of a theme; a page under the policy of a report may not look."""


class Tab:
    """A tab of a Chromium; where it is kept, pages are opened in it one after the other, and find their files in it."""

    def __init__(self, chromium, width=1000, height=700, *, moving=True, kept=False):
        self.chromium, self.width, self.height, self.moving, self.kept = chromium, width, height, moving, kept
        self.context = None

    def page(self):
        """Its page, which is empty."""
        if self.context is None:
            self.context = self.chromium.new_context(device_scale_factor=0.5 if self.kept else 1)
            self.context.set_default_timeout(WAIT_MS)
            self.context.new_page()
        return self.context.pages[0]

    def close(self):
        """Forget all that pages have kept."""
        if self.context is not None:
            self.context.close()
        self.context = None


@contextmanager
def browser(*flags):
    """A Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=BROWSER, args=[*FLAGS, *flags])
        try:
            yield made
        finally:
            made.close()


@contextmanager
def small_tab():
    """A tab of a few coarse pixels, of whoever asks for no animations: all that is drawn takes processor time."""
    with browser("--disable-gpu-compositing") as made:
        yield Tab(made, 760, 460, moving=False, kept=True)


@contextmanager
def opened(driver, url, target="/", *, width=None, height=None, scheme="light", moving=None, checked=True):
    """A page in a tab, or in one of its own; at the end it is held that nothing went wrong and nothing left its origin.

    Unless it is ``moving``, the map is at once where it goes to.
    """
    tab = driver if isinstance(driver, Tab) else Tab(driver)
    page = tab.page()
    page.set_viewport_size({"width": width or tab.width, "height": height or tab.height})
    calm = not (tab.moving if moving is None else moving)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce" if calm else "no-preference")
    asked, wrong = [], []
    listeners = {
        "request": lambda request: asked.append(request.url),
        "console": lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None,
        "pageerror": lambda error: wrong.append(str(error)),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    whole = False
    try:
        page.goto(url + target)
        yield SimpleNamespace(page=page, context=tab.context, asked=asked, wrong=wrong, url=url)
        strangers = [one for one in asked if not one.startswith((url + "/", f"blob:{url}/", "data:"))]
        assert strangers == []
        if checked:
            # software WebGL says that it is slow
            said = [text for text in wrong if "GPU stall" not in text and "WebGL" not in text]
            assert not said, said
        whole = True
    finally:
        if whole and tab.kept:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
            page.unroute_all()
            page.evaluate(FORGET)
            page.goto("about:blank")
        else:
            tab.close()


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

    shot = page.locator(selector).screenshot(scale="css")
    return (matplotlib.image.imread(io.BytesIO(shot))[:, :, :3] * 255).round().astype(np.uint8)


def around(image, x, y, reach=3):
    """The pixels of a picture round a place."""
    return image[max(int(y) - reach, 0) : int(y) + reach + 1, max(int(x) - reach, 0) : int(x) + reach + 1].astype(int)


def differ(one, other, by=24):
    """How many pixels of two pictures of one size differ by more than noise."""
    return int((np.abs(one.astype(int) - other.astype(int)).max(axis=-1) > by).sum())
