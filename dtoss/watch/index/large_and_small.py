"""The subscriptions that stand at a change: a large index, a small one of what came since, and what is gone.

In which order the ids of two indexes of subscriptions follow one another, where each has its own in order.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.conditions.parse import Condition, parse_condition
from dtoss.errors import StoreError
from dtoss.watch.index.index_files import open_built
from dtoss.watch.index.subscription_index import SubscriptionIndex, Unanswered
from dtoss.watch.subscription import (
    ANY_EVENT,
    AROUND,
    CROSS,
    PAIR_EVENTS,
    PAIRS,
    STAYS,
    SUBSCRIPTION_SCHEMA,
    Near,
    Stay,
)
from dtoss.watch.watch_folder import Home

GONE = "gone"
"""The array of the small index that has the rows of the large one which stand no more."""
NEVER_DUE = np.iinfo(np.int64).max
"""A time that does not come."""
_OPEN = 4


@dataclass(frozen=True)
class Files:
    """The files of what stands, as a commit says them."""

    number: int  # The change that they stand for
    base_number: int  # The change that the large index was built at
    base: dict[str, Any] | None  # base, delta: the files; None where there is nothing in one
    delta: dict[str, Any] | None
    centred: str | None = None  # The snapshot from which the centres around objects were taken; None for none

    def as_json(self) -> dict[str, Any]:
        """Return what a commit's document holds of it."""
        return asdict(self)

    @classmethod
    def of(cls, said: Any) -> Files | None:
        """Return the files that :meth:`as_json` has made; None where nothing stands yet."""
        if not said:
            return None
        try:
            for entry in (said["base"], said["delta"]):
                if entry is not None and not isinstance(entry["name"], str):
                    raise ValueError("names of files")
            return cls(int(said["number"]), int(said["base_number"]), said["base"], said["delta"], said.get("centred"))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"what stands is damaged: {error}; restore the commit from a copy") from None


@lru_cache(maxsize=_OPEN)
def open_standing(home: Home, base: str | None, delta: str | None) -> Standing:
    """Return what stands by the names of its files, mapped; the last few are kept."""
    return Standing(
        None if base is None else open_index_of(home, base), None if delta is None else open_index_of(home, delta)
    )


@lru_cache(maxsize=_OPEN)
def open_index_of(home: Home, name: str) -> SubscriptionIndex:
    """Return an index by the name of its file, mapped; the last few are kept."""
    return open_built(home.asked, name)


def standing_of(home: Home, files: Files | None) -> Standing:
    """Return what stands by its files."""
    if files is None:
        return Standing(None, None)
    return open_standing(
        home, None if files.base is None else files.base["name"], None if files.delta is None else files.delta["name"]
    )


@dataclass(frozen=True)
class Stays:
    """Subscriptions whose enter, leave and dwell are of all rows since an object came, (k,) each."""

    number: NDArray[np.int32]  # int32, rising. Their rows of the table
    ids: pa.Array
    events: NDArray[np.uint8]  # uint8. Those that are wanted, as bits
    dwell: NDArray[np.int64]  # int64. Microseconds after which a dwell is told, NEVER_DUE for none
    # How far outside an object is still inside: metres (NaN: does not count), microseconds (NEVER_DUE: does not count)
    metres: NDArray[np.float64]
    seconds: NDArray[np.int64]


@dataclass(frozen=True)
class AskedPairs:
    """A subscription to pairs of objects that come near one another."""

    number: int  # Its row of the table
    id: str
    events: int  # Those that are wanted, as bits
    metres: float
    where: Condition | None  # where, other: what the object satisfies and what the other one; None for any
    other: Condition | None


@dataclass(frozen=True)
class Standing:
    """Subscriptions that stand; their numbers count the rows of :attr:`table`."""

    base: SubscriptionIndex | None  # base, delta: the large index and the small one; None where there is nothing
    delta: SubscriptionIndex | None

    @cached_property
    def parts(self) -> tuple[tuple[int, SubscriptionIndex], ...]:
        """The indexes, and the number of the first subscription of each."""
        first = 0
        found = []
        for built in (self.base, self.delta):
            if built is not None:
                found.append((first, built))
                first += len(built)
        return tuple(found)

    @cached_property
    def table(self) -> pa.Table:
        """All rows of the indexes, those of the large one first; those that are gone are still among them."""
        return pa.concat_tables([SUBSCRIPTION_SCHEMA.empty_table(), *(built.table for _, built in self.parts)])

    def __len__(self) -> int:
        return sum(len(built) for _, built in self.parts)

    def texts(self, name: str) -> list[pa.Array]:
        """Return a column of text, in a piece for each index; nothing is copied."""
        columns = [built.table.column(name) for _, built in self.parts]
        return [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in columns]

    @cached_property
    def turns(self) -> NDArray[np.int32]:
        """The place of each in the order of ids, int32 (n,); none where there is one index, which has them in order."""
        if len(self.parts) < 2:
            return np.zeros(0, np.int32)
        return turns_of(*self.texts("id")).astype(np.int32)

    @cached_property
    def stands(self) -> NDArray[np.bool_]:
        """Which rows of the table stand, bool (n,): all but those that came anew or went, and those not answered."""
        found = np.ones(len(self), np.bool_)
        if self.delta is not None and GONE in self.delta.arrays:
            found[self.delta.arrays[GONE]] = False
        for first, built in self.parts:
            found[[first + one.row for one in built.unanswered]] = False
        return found

    @cached_property
    def expires(self) -> NDArray[np.int64]:
        """When each expires, int64 (n,), the greatest number where none does."""
        return self._numbers("expires", NEVER_DUE)

    @cached_property
    def versions(self) -> NDArray[np.int64]:
        """The version of each, int64 (n,)."""
        return self._numbers("version", 0)

    def _numbers(self, name: str, missing: int) -> NDArray[np.int64]:
        """Return a column of the table; that of one index without nulls is the one that is mapped."""
        columns = [built.table.column(name) for _, built in self.parts]
        found = [
            np.full(len(column), missing) if column.null_count == len(column) else column.fill_null(missing).to_numpy()
            for column in columns
        ]
        return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, np.int64), *found])

    @cached_property
    def events(self) -> NDArray[np.uint8]:
        """What each wants, as bits, uint8 (n,)."""
        return np.concatenate([np.zeros(0, np.uint8), *(built.arrays["events"] for _, built in self.parts)])

    @cached_property
    def crosses(self) -> bool:
        """Whether any wants to know who crosses its place."""
        return bool((self.events & CROSS).any())

    @cached_property
    def stays(self) -> Stays | None:
        """What is told of stays, None where nobody wants to know."""
        rows = np.flatnonzero(self.events & STAYS)
        if not len(rows):
            return None
        table = self.table.select(["id", "events", "stay"]).take(pa.array(rows)).combine_chunks()
        coded = table.column("stay").combine_chunks().dictionary_encode()
        rules = [Stay.of(text) for text in coded.dictionary.to_pylist()]
        of = coded.indices.to_numpy()

        def numbers(values: list[float | None], missing: float, kind: type) -> NDArray[Any]:
            return np.array([missing if value is None else value for value in values], kind)[of]

        return Stays(
            rows.astype(np.int32),
            table.column("id").combine_chunks(),
            table.column("events").to_numpy(),
            numbers([one.dwell for one in rules], NEVER_DUE, np.int64),
            numbers([one.metres for one in rules], np.nan, np.float64),
            numbers([one.seconds for one in rules], NEVER_DUE, np.int64),
        )

    @cached_property
    def pairs(self) -> tuple[AskedPairs, ...]:
        """Those that are told of pairs of objects, in the order of their ids."""
        found = []
        for first, built in self.parts:
            for row in np.flatnonzero(built.arrays["events"] & PAIRS).tolist():
                near, at = Near.of(built.table.column("stay")[row].as_py()), int(built.arrays["where"][row])
                if near is None:
                    continue
                other = None if near.where is None else parse_condition(near.where, built.schema)
                where = built.conditions[at] if at >= 0 else None
                table = built.table.select(["id", "events"]).slice(row, 1).to_pylist()[0]
                found.append(AskedPairs(first + row, table["id"], table["events"], near.metres, where, other))
        return tuple(sorted(found, key=lambda one: one.id.encode()))

    @cached_property
    def columns_kept(self) -> tuple[str, ...]:
        """The columns that conditions of enter, leave and cross read, sorted: a state has these."""
        return self._columns(PAIR_EVENTS)

    @cached_property
    def columns_named(self) -> tuple[str, ...]:
        """The columns that conditions read, of whatever events, sorted."""
        return self._columns(ANY_EVENT)

    def _columns(self, events: int) -> tuple[str, ...]:
        found: set[str] = set()
        for first, built in self.parts:
            asked = built.arrays["where"]
            counts = ((built.arrays["events"] & events) != 0) & self.stands[first : first + len(built)]
            for number in np.unique(asked[counts & (asked >= 0)]).tolist():
                found |= built.conditions[number].columns
        halves = [half for one in self.pairs if self.stands[one.number] for half in (one.where, one.other)]
        found |= {name for half in halves if half is not None for name in half.columns}
        return tuple(sorted(found))

    @property
    def unanswered(self) -> list[Unanswered]:
        """Those that rows like these cannot be held against, or whose object is not there, numbered as the table."""
        gone = np.zeros(len(self), np.bool_)
        if self.delta is not None and GONE in self.delta.arrays:
            gone[self.delta.arrays[GONE]] = True
        found = {first + one.row: one for first, built in self.parts for one in built.unanswered}
        for row, name, thing in self._lost():
            found.setdefault(row, Unanswered(row, name, f"the store's snapshot has no object {thing!r} to be around"))
        return [replace(one, row=row) for row, one in sorted(found.items()) if not gone[row]]

    def _lost(self) -> list[tuple[int, str, str]]:
        """Return the row, the id and the object of what is around an object that is nowhere."""
        found = []
        for first, built in self.parts:
            table = built.table
            rows = np.flatnonzero(
                np.asarray(pc.and_(pc.equal(table.column("kind"), AROUND), table.column("x").is_null()))
            )
            some = table.select(["id", "object"]).take(pa.array(rows)).to_pylist()
            found += [(first + row, one["id"], one["object"]) for row, one in zip(rows.tolist(), some, strict=True)]
        return found

    def alive(self, clock: int | None) -> NDArray[np.bool_]:
        """Return which stand and have not expired at a clock in microseconds, bool (n,)."""
        if clock is None or all(built.table.column("expires").null_count == len(built) for _, built in self.parts):
            return self.stands
        return self.stands & (self.expires > clock)

    def ended_between(self, since: int | None, clock: int) -> NDArray[np.int64]:
        """Return the rows that stand and whose time has ended after one clock and up to another, int64 (m,)."""
        if all(built.table.column("expires").null_count == len(built) for _, built in self.parts):
            return np.zeros(0, np.int64)
        over = self.stands & (self.expires <= clock)
        return np.flatnonzero(over if since is None else over & (self.expires > since))

    def rows_of(self, ids: pa.Array) -> NDArray[np.int64]:
        """Return the rows that stand of some ids, in the order of the ids, int64 (m,); others are left out."""
        # a look through all ids for a few costs a tenth of a table of them all
        there = [np.asarray(pc.is_in(held, value_set=ids)).astype(np.bool_) for held in self.texts("id")]
        rows = np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *there]) & self.stands)
        found = pc.index_in(ids, value_set=self.table.column("id").take(pa.array(rows)).combine_chunks())
        return rows[np.asarray(found.drop_null())]


_OFFSETS, _BYTES = "Array(int32, 1, 'C', readonly=True)", "Array(uint8, 1, 'C', readonly=True)"


def turns_of(large: pa.Array, small: pa.Array) -> NDArray[np.int64]:
    """Return the place of each id among all of both, int64 (large + small,), those of the first one first.

    ``large``, ``small``: texts, each rising by their bytes. One that is in both comes first where the small one has it.

    Cost O(large + small log large).

    Examples
    --------
    >>> turns_of(pa.array(["a", "c", "e"]), pa.array(["b", "c"])).tolist()
    [0, 3, 4, 1, 2]
    """
    before = np.empty(len(small), np.int64)
    _before(*_texts(large), *_texts(small), before)
    passed = np.cumsum(np.bincount(before, minlength=len(large) + 1)[: len(large)])
    return np.concatenate([np.arange(len(large)) + passed, before + np.arange(len(small))])


def _texts(ids: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return where texts begin in their bytes, and these."""
    if len(ids) == 0:
        return np.zeros(1, np.int32), np.zeros(1, np.uint8)
    _, offsets, data = ids.buffers()
    flat = np.zeros(1, np.uint8) if data is None or data.size == 0 else np.frombuffer(data, np.uint8)
    return np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1], flat


@kernel(f"void({_OFFSETS}, {_BYTES}, {_OFFSETS}, {_BYTES}, int64[::1])")
def _before(large, large_bytes, small, small_bytes, out):
    """Write for each small text how many of the large ones are less."""
    count = large.size - 1
    begin = 0
    for i in range(small.size - 1):
        # texts that rise are mostly near the one before
        step = 1
        low, high = begin, count
        while low + step < count and _less(large, large_bytes, low + step, small, small_bytes, i):
            low += step
            step *= 2
        if low + step < count:
            high = low + step
        while low < high:
            middle = (low + high) // 2
            if _less(large, large_bytes, middle, small, small_bytes, i):
                low = middle + 1
            else:
                high = middle
        begin = low
        out[i] = low


@kernel
def _less(large, large_bytes, a, small, small_bytes, b):
    """Return whether a large text is less than a small one, by their bytes."""
    first, second = large[a], small[b]
    one, other = large[a + 1] - first, small[b + 1] - second
    for k in range(min(one, other)):
        if large_bytes[first + k] != small_bytes[second + k]:
            return large_bytes[first + k] < small_bytes[second + k]
    return one < other
