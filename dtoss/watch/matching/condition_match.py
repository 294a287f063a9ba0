"""Conditions of subscriptions: each distinct text once, on the rows that may match only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.conditions.parse import Condition
from dtoss.watch.arriving_rows import Rows
from dtoss.watch.index.subscription_index import NO_TEXT, SubscriptionIndex


def texts_hold(condition: Condition, rows: Rows, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the chosen rows a condition holds for.

    A row for which it cannot be computed, such as a cast of a text that is no number, does not match, and the others
    are not harmed by it.

    Costs one evaluation where all rows can be computed; else, of d rows that differ in what it reads, k of which
    cannot, O(k log d) evaluations.
    """
    if len(chosen) == 0:
        return np.zeros(0, np.bool_)
    columns = {name: _column(rows, name).take(pa.array(chosen)) for name in condition.columns}
    try:
        return condition.matches(columns.__getitem__, len(chosen))
    except ValueError:
        first, back = _differing(columns, len(chosen))
        some = {name: column.take(pa.array(first)) for name, column in columns.items()}
        return _held_in_halves(condition, some, len(first))[back]


def _column(rows: Rows, name: str) -> pa.Array:
    whole = rows.ids if name == "id" and name not in rows.attributes else rows.attributes[name]
    assert whole is not None
    return whole


def _differing(columns: dict[str, pa.Array], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each combination of values, and the number of the combination of each row."""
    number, first = np.zeros(count, np.int64), np.zeros(1, np.int64)
    for column in columns.values():
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        code = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy() + 1
        number = number * (len(coded.dictionary) + 1) + code
        _, first, number = np.unique(number, return_index=True, return_inverse=True)
    return first, number


def _held_in_halves(condition: Condition, columns: dict[str, pa.Array], count: int) -> NDArray[np.bool_]:
    try:
        return condition.matches(columns.__getitem__, count)
    except ValueError:
        if count == 1:
            return np.zeros(1, np.bool_)
    half = count // 2
    parts = ((0, half), (half, count - half))
    return np.concatenate(
        [
            _held_in_halves(condition, {name: column.slice(begin, size) for name, column in columns.items()}, size)
            for begin, size in parts
        ]
    )


def holding(
    built: SubscriptionIndex, rows: Rows, row: NDArray[np.int64], subscription: NDArray[np.int32]
) -> NDArray[np.bool_]:
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
