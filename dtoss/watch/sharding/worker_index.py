"""What a worker holds rows against: its own subscriptions of the large index, as a file, and of the small one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.watch.index.build_index import build
from dtoss.watch.index.index_files import open_built, write_built
from dtoss.watch.index.large_and_small import GONE, Standing, open_index_of
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.sharding.layout_files import Stored, open_stored
from dtoss.watch.watch_folder import Home
from dtoss.watch.words.vocabulary import Vocabulary, vocabulary_of

_OPEN = 128


@dataclass(frozen=True, eq=False)
class Covers:
    """The words that decide who tells of a subscription where cells are split."""

    # int64 (n + 1,). Of each subscription, where its words begin in ``number``; none where they decide nothing
    begin: NDArray[np.int64]
    number: NDArray[np.int32]  # int32. Words by their numbers, rising for each
    words: pa.Array  # large_string. By number, in the order of texts

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words, to be found in texts."""
        return vocabulary_of(self.words)

    @cached_property
    def decide(self) -> NDArray[np.bool_]:
        """Of which subscriptions words decide, bool (n,)."""
        return np.diff(self.begin) > 0


@dataclass(frozen=True)
class WorkerIndex:
    """A worker's subscriptions."""

    standing: Standing  # They, as if nothing else stood
    covers: Covers
    key: str | None  # Of the large part; None where there is none
    entry: Mapping[str, Any] | None  # What a commit says of its file


def worker_index(plan: Plan, worker: int) -> WorkerIndex:
    """Return what a worker of a batch holds rows against; the file of its large part is written if it is not there.

    Cost O(its subscriptions) the first time in a process, and again where they have changed.
    """
    assert plan.routed is not None
    assert plan.files is not None
    base = None if plan.routed.base is None else open_stored(plan.home, plan.routed.base["name"], worker)
    delta = None if plan.routed.delta is None else open_stored(plan.home, plan.routed.delta["name"], worker)
    entry = None
    large = None
    if base is not None and plan.files.base is not None and len(base.rows):
        entry = plan.routed.indexes.get(base.key)
        if entry is None:
            entry = _written(plan.home, plan.files.base["name"], base)
        large = _opened(plan.home, entry["name"])
    small = None
    if delta is not None and plan.files.delta is not None:
        gone = None if large is None or base is None else base
        small = _small(plan.home, plan.files.delta["name"], delta.key, delta, None if gone is None else gone.key, gone)
    parts = [some for some, built in ((base, large), (delta, small)) if some is not None and built is not None]
    covers = _covers(plan.routed.base, plan.routed.delta, worker, parts)
    return WorkerIndex(Standing(large, small), covers, None if large is None or base is None else base.key, entry)


def _written(home: Home, name: str, stored: Stored) -> dict[str, Any]:
    """Write a worker's part of the large index, and return what a commit says of it."""
    whole = open_index_of(home, name)
    return write_built(home.asked, _part(whole, stored.rows), "worker")


def _part(whole: SubscriptionIndex, rows: NDArray[np.int64]) -> SubscriptionIndex:
    # which conditions may be asked was found out for all: what could not be is in no part
    text = any(name.startswith("words/") for name in whole.arrays)
    return build(whole.table.take(pa.array(rows)).combine_chunks(), whole.space, whole.schema, text)


@lru_cache(maxsize=_OPEN)
def _opened(home: Home, name: str) -> SubscriptionIndex:
    return open_built(home.asked, name)


_smalls: dict[tuple[Home, str, str, str | None], SubscriptionIndex] = {}


def _small(
    home: Home, name: str, key: str, stored: Stored, base_key: str | None, base: Stored | None
) -> SubscriptionIndex | None:
    """Return a worker's part of the small index, with the rows of its large part that are gone."""
    known = (home, name, key, base_key)
    found = _smalls.get(known)
    if found is None:
        whole = open_index_of(home, name)
        found = _part(whole, stored.rows)
        if base is not None:
            at = np.searchsorted(base.rows, whole.arrays.get(GONE, np.zeros(0, np.int32)))
            there = np.append(base.rows, -1)[at] == whole.arrays.get(GONE, np.zeros(0, np.int32))
            found = replace(found, arrays={**found.arrays, GONE: at[there].astype(np.int32)})
        while len(_smalls) >= _OPEN:
            _smalls.pop(next(iter(_smalls)), None)
        _smalls[known] = found
    return found if len(found) or GONE in found.arrays else None


_read: dict[tuple[str | None, str | None, int], Covers] = {}


def _covers(
    base: Mapping[str, Any] | None, delta: Mapping[str, Any] | None, worker: int, parts: list[Stored]
) -> Covers:
    known = (None if base is None else base["name"], None if delta is None else delta["name"], worker)
    found = _read.get(known)
    if found is None:
        lists = pa.concat_arrays([pa.array([], pa.large_list(pa.large_string())), *(one.covers for one in parts)])
        sizes = np.diff(lists.offsets.to_numpy())
        coded = lists.flatten().dictionary_encode()
        order = np.asarray(pc.sort_indices(coded.dictionary)).astype(np.int64)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        number = place[coded.indices.to_numpy()]
        begin = np.concatenate([[0], np.cumsum(sizes)])
        owner = np.repeat(np.arange(len(sizes)), sizes)
        number = number[np.lexsort((number, owner))]
        words = coded.dictionary.take(pa.array(order)).cast(pa.large_string())
        while len(_read) >= _OPEN:
            _read.pop(next(iter(_read)), None)
        found = _read[known] = Covers(begin, number, words)
    return found
