"""One row of long ago among those of today: no result for each end since then."""

from __future__ import annotations

import pytest

from dtoss.errors import InputError
from dtoss.windows.query.window_query import open_windows
from tests.dtoss.windows.storage.kept import SECOND, begin, commit, spec

NOW = 1_780_000_000 * SECOND
ROWS = [(7, 0, 0.0, 0.0), *((i, NOW + i * SECOND, 1.0, 1.0) for i in range(9))]


def test_objects_that_stay_for_ever_are_not_told_of_for_fifty_years(tmp_path):
    """The error names both times and the way out; nothing is committed."""
    home, fixed = begin(tmp_path, spec(measures="rows,here"))
    with pytest.raises(InputError, match=r"from 1970-01-01T00:00:00Z to 2026-\S+Z, .* longer --slide, or leave here"):
        commit(home, fixed, ROWS)
    assert home.batches.head() is None
    commit(home, fixed, ROWS[:1])
    with pytest.raises(InputError, match="would be due at once"):
        commit(home, fixed, ROWS[1:])
    assert home.batches.head().number == 1


def test_without_them_the_empty_years_cost_nothing(tmp_path):
    """Both times have results."""
    home, fixed = begin(tmp_path, spec(measures="rows,objects"))
    commit(home, fixed, ROWS)
    found = open_windows(str(tmp_path), "w")
    assert found.at(2.0, "4s")["rows"].to_pylist() == [1]
    assert found.at(window="10s")["rows"].to_pylist() == [6]
