"""Which words rows say in which routing cell: what strategies have to know that split cells by words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.errors import StoreError
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import JudgedRows, WordCounts
from dtoss.watch.sharding.layout_files import open_routing, read_batch, write_batch
from dtoss.watch.sharding.routing_grid import cells_of
from dtoss.watch.watch_folder import LAYOUTS, Home
from dtoss.watch.words.messages import Vocabulary, messages_of, vocabulary_of

_OPEN = 4


def write_words(home: Home, words: pa.Array) -> dict[str, Any]:
    """Write the words that are counted as a file of layouts, and return what a commit says of it.

    ``words``: large_string (v,). Folded, each once.
    """
    return write_batch(home, pa.record_batch({"word": words.cast(pa.large_string())}), "words-")


@lru_cache(maxsize=_OPEN)
def open_words(home: Home, name: str) -> tuple[pa.Array, Vocabulary]:
    """Return the words of :func:`write_words`, as texts and to be found in texts; the last few are kept."""
    batch = read_batch(home, name)
    if batch.schema.names != ["word"]:
        raise StoreError(f"{home.asked.path(LAYOUTS, name)} is damaged: it has no words")
    return batch.column("word"), vocabulary_of(batch.column("word"))


def said_by(plan: Plan, judged: JudgedRows) -> WordCounts | None:
    """Return how many rows of a task say each word in each cell; None where that is not asked for.

    ``judged``: the rows of the task; those before do not count.
    """
    assert plan.routed is not None
    rows = judged.rows
    words: Mapping[str, Any] | None = plan.routed.words
    if words is None or rows.text is None or len(rows) == 0:
        return None
    texts, vocabulary = open_words(plan.home, words["name"])
    arrives = np.arange(len(rows)) if judged.tracks is None else np.flatnonzero(~judged.tracks.before)
    grid = open_routing(plan.home, plan.routed.layout["name"]).grid
    cell = cells_of(grid, plan.settings.space, rows.positions[arrives])
    held = messages_of(vocabulary, rows.text.take(pa.array(arrives)))
    count = max(len(texts), 1)
    key = np.repeat(cell, np.diff(held.first)) * count + held.words
    key, told = np.unique(key, return_counts=True)
    return WordCounts(key // count, key % count, told.astype(np.int64))
