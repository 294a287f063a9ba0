"""Two ways to the same sums, and cells in order: which way is taken changes no result and no state."""

from __future__ import annotations

import numpy as np
import pytest

from dtoss.windows.aggregation import sweep
from dtoss.windows.aggregation.pane_cells import sorted_cells
from tests.dtoss.windows.aggregation.test_groups_step import SECOND, expected, final_rows, played, spec

pytestmark = pytest.mark.checked


def stream(seed):
    """Batches of rows of four objects, some of them late."""
    rng = np.random.default_rng(seed)
    rows = [
        (int(rng.integers(0, 4)), int(i * SECOND // 3 - rng.integers(0, 3 * SECOND)), float(x), float(i % 2))
        for i, x in enumerate(rng.integers(-3, 32, 120).tolist())
    ]
    return [rows[:60], rows[60:75], rows[75:]]


@pytest.mark.parametrize("slide", ["1s", "3s"])
def test_sums_of_all_panes_are_those_of_what_enters_and_leaves(monkeypatch, slide):
    """The results and states of both are equal in each batch, and the oracle's."""
    one = spec(lengths="2s,4s,10s", slide=slide, late="4s", expire="4s")
    found = {}
    for filled in (0, 1 << 40):
        monkeypatch.setattr(sweep, "_FILLED", filled)
        states = []
        tables, accepted, reached, _ = played(
            one, stream(1), through=lambda state, states=states: states.append(state.to_arrow()) or state
        )
        assert final_rows(tables) == expected(one, accepted, reached)
        found[filled] = tables, states
    assert found[0] == found[1 << 40]


@pytest.mark.parametrize(("labels", "order"), [(1, "runs"), (2, "runs"), (2, "one pane"), (2, "any"), (1, "far")])
def test_cells_are_in_order(labels, order):
    """Of runs that are merged, of many second labels of a pane and key, in any order, of labels that are far apart."""
    rng = np.random.default_rng(labels)
    wide = {"runs": (40, 5, 3), "one pane": (1, 1, 400), "any": (9, 9, 9), "far": (9, 1 << 40, 1)}[order]
    every = np.unique(np.stack([rng.integers(0, one, 300) for one in wide[: 1 + labels]], axis=1), axis=0) - 3
    rows = every[rng.permutation(len(every))]
    if order == "runs":
        rows = np.concatenate([part[np.lexsort(part.T[::-1])] for part in np.array_split(rows, 3)])
    found = sorted_cells(rows[:, 0].copy(), rows[:, 1:].copy(), rows * 2, at_once=7)
    assert np.column_stack([found.pane, found.labels]).tolist() == every.tolist()
    assert found.values.tolist() == (every * 2).tolist()
