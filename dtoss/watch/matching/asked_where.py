"""Conditions of subscriptions: each distinct text once, on the rows that may match only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.conditions.parse import Condition
from dtoss.watch.built.built import NO_TEXT, Built
from dtoss.watch.rows import Rows


def texts_hold(condition: Condition, rows: Rows, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the chosen rows a condition holds for.

    A row for which it cannot be computed, such as a cast of a text that is no number, does not match, and the others
    are not harmed by it.
    """
    if len(chosen) == 0:
        return np.zeros(0, np.bool_)
    taken = pa.array(chosen)
    columns: dict[str, pa.Array] = {}

    def column(name: str) -> pa.Array:
        if name not in columns:
            whole = rows.ids if name == "id" and name not in rows.attributes else rows.attributes[name]
            assert whole is not None
            columns[name] = whole.take(taken)
        return columns[name]

    try:
        return condition.matches(column, len(chosen))
    except ValueError:
        if len(chosen) == 1:
            return np.zeros(1, np.bool_)
    half = len(chosen) // 2
    return np.concatenate([texts_hold(condition, rows, chosen[:half]), texts_hold(condition, rows, chosen[half:])])


def holding(built: Built, rows: Rows, row: NDArray[np.int64], subscription: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which pairs of a row and a subscription satisfy the subscription's condition, if it has one, bool (m,).

    Cost O(m log m), and each text once for the rows that may match.
    """
    number = built.arrays["where"][subscription]
    asked = np.flatnonzero(number != NO_TEXT)
    kept = np.ones(len(row), np.bool_)
    if len(asked) == 0:
        return kept
    order = asked[np.argsort(number[asked], kind="stable")]
    texts, first = np.unique(number[order], return_index=True)
    for text, pairs in zip(texts.tolist(), np.split(order, first[1:]), strict=True):
        chosen, back = np.unique(row[pairs], return_inverse=True)
        kept[pairs] = texts_hold(built.conditions[text], rows, chosen)[back]
    return kept
