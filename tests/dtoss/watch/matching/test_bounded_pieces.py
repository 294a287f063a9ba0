"""Pieces of matches are bounded whichever index has them: the large one, the small one, that of words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dtoss.watch.index.build_index import build
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.matching.matcher import StandingMatcher
from dtoss.watch.subscription import EVERYWHERE
from dtoss.watch.watch_settings import Rows
from tests.dtoss.watch.streams import SPHERE, asked, circle, table_of

HERE = [circle(f"c{number:02}", 0.0, 0.0, 10.0) for number in range(20)]
ALL = [asked(f"e{number:02}", EVERYWHERE) for number in range(30)]
SAID = [asked(f"w{number:02}", EVERYWHERE, words="fire", events=1) for number in range(40)]
ROWS = Rows(np.array([[0.0, 0.0], [9.0, 9.0]] * 50), text=pa.array(["fire", None, "no fire", "ice"] * 25))


def standing(large, small):
    """What stands in two indexes."""
    return Standing(*(build(table_of(some), SPHERE, {}, True) if some else None for some in (large, small)))


@pytest.mark.parametrize(
    ("large", "small", "each"),
    [
        (HERE, ALL, [50, 30]),
        (ALL, HERE, [50, 30]),
        ([], SAID, [40, 0, 40, 0]),
        (SAID, HERE, [60, 0, 60, 0]),
        (HERE + SAID, ALL, [90, 30, 90, 30]),
    ],
)
@pytest.mark.parametrize("most", [0, 1, 100, 250, 10**6])
def test_pieces_have_about_as_many_matches_as_are_wanted(large, small, each, most):
    matcher = StandingMatcher(stands := standing(large, small), np.ones(len(stands), np.bool_))
    whole = matcher.match(ROWS)
    assert np.bincount(whole.row, minlength=100).tolist() == each * (100 // len(each))
    pieces = list(matcher.pieces(ROWS, most=most))
    assert all(len(piece) <= 4 * most or piece.last_row - piece.first_row == 1 for piece in pieces)
    assert [piece.first_row for piece in pieces] == [0, *(piece.last_row for piece in pieces[:-1])]
    assert pieces[-1].last_row == 100
    for name in ("row", "subscription", "distance"):
        together = np.concatenate([getattr(piece, name) for piece in pieces])
        assert np.array_equal(together, getattr(whole, name), equal_nan=name == "distance")
