"""Colours stand out: text from what it lies on by 4.5, marks by 3, on light pages and on dark ones."""

from __future__ import annotations

import itertools
import re

import pytest

from ceps.reporting.kit import html_page
from ceps.reporting.kit.html_page import document

PAGES = [
    (html_page.LIGHT, html_page.SERIES_LIGHT, html_page.HEAT_LIGHT),
    (html_page.DARK, html_page.SERIES_DARK, html_page.HEAT_DARK),
]


def contrast(one, other):
    """Return the contrast of two colours "#rrggbb", 1 to 21, as WCAG 2.2 defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_is_that_of_the_standard():
    """Values that WCAG's own examples give."""
    assert contrast("#000000", "#ffffff") == 21.0
    assert contrast("#ffffff", "#ffffff") == 1.0
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=1e-3)
    assert contrast("#ffffff", "#767676") == pytest.approx(4.542, abs=1e-3)


@pytest.mark.parametrize(("roles", "series", "heat"), PAGES, ids=["light", "dark"])
def test_contrast_of_texts_and_marks(roles, series, heat):
    """Every text on every ground, every mark on the grounds that charts and maps lie on."""
    for text, ground in itertools.product(html_page.TEXTS, html_page.GROUNDS):
        assert contrast(roles[text], roles[ground]) >= 4.5, (text, ground)
    for ground in ("paper", "sea"):
        for colour in (*series, roles["accent"], roles["limit"], roles["frame"]):
            assert contrast(colour, roles[ground]) >= 3, (colour, ground)
    # More than full is told from every shade but its neighbours' depth by hue, and from the emptier ones by contrast.
    assert all(contrast(heat[-1], shade) >= 3 for shade in heat[:2])
    assert contrast(heat[0], heat[-2]) >= 7


@pytest.mark.parametrize(("roles", "series", "heat"), PAGES, ids=["light", "dark"])
def test_shades_go_one_way(roles, series, heat):
    """Fuller is further from the page, shade by shade; colours of series are all different."""
    steps = [contrast(shade, roles["paper"]) for shade in heat[:-1]]
    assert steps == sorted(steps)
    assert len(set(series)) == len(series)
    assert len(heat) == len(html_page.HEAT_STEPS) + 1


def test_the_page_names_no_colour_of_its_own():
    """Colours stand in the palette alone, so that these tests hold for all of the page; each that is used is there."""
    html = document("A page", "<p>text</p>")
    sheet = html.split("<style>")[1].split("</style>")[0]
    rules = sheet.replace(html_page.css(), "")
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb|hsl", rules)
    known = set(re.findall(r"--([\w-]+):", html_page.css()))
    assert set(re.findall(r"var\(--([\w-]+)\)", rules)) <= known
