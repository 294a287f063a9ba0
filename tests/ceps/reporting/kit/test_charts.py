"""Charts say what they are given: curves, bars, dots and shades are read back from their drawings."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ceps.reporting.kit.html_page import HEAT_STEPS
from ceps.reporting.kit.svg_charts import Bar, Curve, Tick, bars, curves, dots, nice, path, shades
from tests.ceps.reporting.reading import Reading


def points_of(data):
    """Corners of path data M.. l.. with whole numbers."""
    numbers = [int(text) for text in re.findall(r"-?\d+", data.replace("h0", ""))]
    return np.cumsum(np.array(numbers).reshape(-1, 2), axis=0)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-500, 500), st.integers(-500, 500)), min_size=1, max_size=40))
def test_a_path_goes_through_its_points(points):
    """All corners are there in order; what is left out lies on a straight way, within it."""
    wanted = np.array(points, dtype=np.float64)
    drawn = points_of(path(wanted)).tolist()
    place = 0
    for point in wanted.astype(int).tolist():
        while place + 1 < len(drawn) and not between(drawn[place], point, drawn[place + 1]):
            place += 1
        assert point == drawn[place] or (place + 1 < len(drawn) and between(drawn[place], point, drawn[place + 1]))
    assert drawn[0] == wanted[0].astype(int).tolist()
    assert drawn[-1] == wanted[-1].astype(int).tolist()


def between(a, p, b):
    """Whether p lies on the way from a to b."""
    cross = (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
    return cross == 0 and min(a[0], b[0]) <= p[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= p[1] <= max(a[1], b[1])


def test_curves_lie_at_their_values():
    """A curve's heights are its values over the most; a limit's lie level until the next value."""
    values = np.array([0.0, 10.0, 5.0, 20.0])
    html = curves("A sentence.", [Curve("a", values, 3)], 20.0, [Tick(0.5, "noon")], [Tick(0.25, "5")])
    data = re.search(r'stroke="var\(--s3\)" d="([^"]+)"', html)[1]
    assert points_of(data).tolist() == [[0, 1000], [125, 1000], [375, 500], [625, 750], [875, 0], [1000, 0]]
    html = curves("A sentence.", [Curve("a", np.array([10.0, 20.0]), style="limit")], 20.0, [], [])
    data = re.search(r' d="([^"]+)"', html)[1]
    assert points_of(data).tolist() == [[0, 500], [500, 500], [500, 0], [1000, 0]]
    assert Reading.of(html).labels == ["A sentence."]


def test_labels_of_bars_never_cross_bounds():
    """Words end above the bar's row of pixels, lines of bounds begin below them; widths are values over the most."""
    rows = [Bar("one", 50.0, "$50", 40.0, True), Bar("two", 200.0, "$200", None), Bar("three", 100.0, "$100", 100.0)]
    html = bars("A sentence.", rows)
    assert re.findall(r'<rect [^>]*width="([\d.]+)%"', html) == ["25.00", "100.00", "50.00"]
    words = [float(y) for y in re.findall(r'<text [^>]*y="([\d.]+)"', html)]
    lines = [(float(a), float(b)) for a, b in re.findall(r'<line class="full"[^>]*y1="([\d.]+)" y2="([\d.]+)"', html)]
    assert len(lines) == 2
    assert re.findall(r'<line class="full" x1="([\d.]+)%"', html) == ["20.00", "50.00"]
    for top, bottom in lines:
        assert all(baseline + 2 < top or baseline - 12 > bottom for baseline in words)
    assert bars("A sentence.", []) == ""


def test_small_and_large_are_seen_on_one_axis():
    """Dots lie by their powers of ten; what is below the axis stands at its begin."""
    rows = [("a", 0.01, "1 %"), ("b", 1.0, "all"), ("c", 0.0, "none")]
    html = dots("A sentence.", rows, [(0.001, "0.1 %"), (0.1, "10 %"), (10.0, "10 times")])
    assert re.findall(r'<circle cx="([\d.]+)%"', html) == ["25.00", "75.00", "0.00"]
    assert dots("A sentence.", [], [(1.0, "1"), (10.0, "10")]) == ""


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(0, 1.5), min_size=6, max_size=6), min_size=1, max_size=5))
def test_shades_are_those_of_their_shares(rows):
    """Every cell is painted once, in the shade whose step its share has passed."""
    values = np.array(rows)
    html = shades("A sentence.", [f"row {n}" for n in range(len(rows))], values, [])
    painted = np.full(values.shape, -1)
    for shade, data in re.findall(r'stroke="var\(--h(\d)\)" d="([^"]+)"', html):
        for x, y, wide in re.findall(r"M(\d+) (\d+)\.5h(\d+)", data):
            assert (painted[int(y), int(x) : int(x) + int(wide)] == -1).all()
            painted[int(y), int(x) : int(x) + int(wide)] = int(shade)
    wanted = sum((values - 1e-9 > step).astype(int) for step in HEAT_STEPS)
    np.testing.assert_array_equal(painted, wanted)


@pytest.mark.parametrize("most", [1e-6, 0.9, 1.0, 7.3, 870.0, 99_999.0, 3e12])
def test_axes_have_few_round_numbers(most):
    """From 0 to at least the most, and not twice as far."""
    ticks = nice(most)
    assert ticks[0] == 0
    assert most <= ticks[-1] * (1 + 1e-9)
    assert ticks[-1] < 1.7 * most
    assert 3 <= len(ticks) <= 8
