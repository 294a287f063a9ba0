"""What rows of a round say, for strategies that split cells by words: counted by tasks, and summed for the decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ceps.balance.round_costs import Terms
from ceps.balance.subscription_load import SubscriptionLoad
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import TaskResult
from dtoss.watch.sharding.words_by_cell import open_words


class SaidInTexts(NamedTuple):
    """How many rows of a task say a word in a cell, with the words as texts: batches number them otherwise."""

    cell: NDArray[np.int64]
    word: pa.Array
    rows: NDArray[np.int64]


def splits_by_words(strategy: str) -> bool:
    """Whether a strategy of that name wants to know what rows say."""
    from ceps.strategies import BY_WORDS

    return strategy in BY_WORDS


def in_texts(plan: Plan, done: Sequence[TaskResult]) -> list[SaidInTexts]:
    """Return what rows of tasks say."""
    if plan.routed is None or plan.routed.words is None:
        return []
    words, _ = open_words(plan.home, plan.routed.words["name"])
    said = [one.said for one in done if one.said is not None]
    return [SaidInTexts(one.cell, words.take(pa.array(one.word)), one.rows) for one in said]


def terms_of(said: Sequence[SaidInTexts], words: pa.Array, asked: SubscriptionLoad) -> Terms | None:
    """Return what rows say of the words that are asked for now, None where nothing is known."""
    if not said or not len(words):
        return None
    number = [pc.index_in(one.word, words).fill_null(-1).to_numpy(zero_copy_only=False) for one in said]
    word, cell = np.concatenate(number).astype(np.int64), np.concatenate([one.cell for one in said])
    rows, there = np.concatenate([one.rows for one in said]), word >= 0
    key, of = np.unique(cell[there] * len(words) + word[there], return_inverse=True)
    cell, word = key // len(words), key % len(words)
    under = asked.under_words.over(cell, word).astype(np.float64)
    return Terms(cell, word, np.bincount(of, rows[there], len(key)).astype(np.float64), under)
