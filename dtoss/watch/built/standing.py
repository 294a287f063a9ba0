"""The subscriptions that stand at a change: a large index, a small one of what came since, and what is gone.

Nothing is updated in place. A change makes the small index anew, and the large one once the small has grown. Files are
named by what they hold, and stay as long as a batch may need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.errors import StoreError
from dtoss.watch.asked.live import Delta, changes_between, table_at
from dtoss.watch.built.build import build
from dtoss.watch.built.built import Built, Unanswered
from dtoss.watch.built.files import open_built, write_built
from dtoss.watch.built.turns import turns_of
from dtoss.watch.home import Home
from dtoss.watch.settings import Settings
from dtoss.watch.subscription import AROUND, ENTER, LEAVE, SUBSCRIPTION_SCHEMA

LEAST_DELTA = 10_000
"""Subscriptions that may have come or gone before the large index is built anew, or an eighth of its own."""
_SHARE = 8
_GONE = "gone"
"""The array of the small index that has the rows of the large one which stand no more."""
_OPEN = 4

Centres = Callable[[Sequence[str]], NDArray[np.float64]]
"""Returns the positions (n, 2) of objects by their ids as text, NaN where there is none."""


@dataclass(frozen=True)
class Files:
    """The files of what stands, as a commit says them.

    Parameters
    ----------
    number
        The change that they stand for.
    base_number
        The change that the large index was built at.
    base, delta
        The files; None where there is nothing in one.
    centred
        The snapshot from which the centres around objects were taken; None for none.
    """

    number: int
    base_number: int
    base: dict[str, Any] | None
    delta: dict[str, Any] | None
    centred: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what a commit's document holds of it."""
        return {
            "number": self.number,
            "base_number": self.base_number,
            "base": self.base,
            "delta": self.delta,
            "centred": self.centred,
        }

    @classmethod
    def of(cls, said: Any) -> Files | None:
        """Return the files that :meth:`as_json` has made; None where nothing stands yet.

        Raises
        ------
        StoreError
            If they are not.
        """
        if not said:
            return None
        try:
            for entry in (said["base"], said["delta"]):
                if entry is not None and not isinstance(entry["name"], str):
                    raise ValueError("names of files")
            return cls(int(said["number"]), int(said["base_number"]), said["base"], said["delta"], said.get("centred"))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"what stands is damaged: {error}; restore the commit from a copy") from None


def prepare(
    home: Home,
    number: int,
    settings: Settings,
    previous: Files | None,
    centres: Centres | None = None,
    centred: str | None = None,
) -> Files:
    """Return the files for a change, and write those that are not there yet.

    Parameters
    ----------
    home
        The watch.
    number
        Of the change.
    settings
        Of the watch.
    previous
        The files of an earlier change.
    centres
        Where the objects are around which subscriptions ask; None knows none.
    centred
        The name of the snapshot that says so.

    Raises
    ------
    StoreError, InputError, OSError
        If changes cannot be read, or files cannot be written.

    Notes
    -----
    Costs O(n) where the large index is built, else O(d) for d subscriptions that came or went since it was, and a look
    at its ids: what came since is in the small index of before, and only changes after that one are read.
    """
    if previous is not None and (previous.number, previous.centred) == (number, centred):
        return previous
    files, table, gone = (
        Files(number, number, None, None, centred),
        SUBSCRIPTION_SCHEMA.empty_table(),
        np.zeros(0, np.int32),
    )
    rebuilt = previous is None or previous.base is None
    if previous is not None and previous.base is not None:
        files = replace(previous, number=number, centred=centred)
        delta = changes_between(home, previous.number, number)
        table, gone = _since(home, previous, delta)
        # those around objects are in no large index
        came = pc.sum(pc.not_equal(table.column("kind"), AROUND)).as_py() or 0
        rebuilt = delta.replaced or came + len(gone) > max(LEAST_DELTA, previous.base["rows"] // _SHARE)
    if rebuilt:
        whole = table_at(home, number)
        around = pc.equal(whole.column("kind"), AROUND)
        still = whole.filter(pc.invert(around))
        # a large index of a few is built with each change: so is a small one
        base = write_built(home.asked, _built(still, settings), "base") if len(still) else None
        files = Files(number, number, base, None, centred)
        table, gone = whole.filter(around), np.zeros(0, np.int32)
    if len(table) == 0 and len(gone) == 0:
        return replace(files, delta=None)
    small = _built(_centred(table, centres), settings)
    if files.base is not None:
        small = replace(small, arrays={**small.arrays, _GONE: gone})
    return replace(files, delta=write_built(home.asked, small, "delta"))


def _since(home: Home, previous: Files, delta: Delta) -> tuple[pa.Table, NDArray[np.int32]]:
    """Return what the small index of before holds once changes are made, and the rows of the large one that are gone.

    All that asks around objects is in the small one.
    """
    assert previous.base is not None
    table, gone = SUBSCRIPTION_SCHEMA.empty_table(), np.zeros(0, np.int32)
    if previous.delta is not None:
        small = _opened(home, previous.delta["name"])
        table, gone = small.table, small.arrays.get(_GONE, gone)
    if len(delta.removed):
        kept = table.filter(pc.invert(pc.is_in(table.column("id"), delta.removed)))
        table = pa.concat_tables([kept, delta.table]).sort_by("id").combine_chunks()
        large = _opened(home, previous.base["name"]).table.column("id")
        gone = np.union1d(gone, np.flatnonzero(np.asarray(pc.is_in(large, value_set=delta.removed)))).astype(np.int32)
    return table, gone


def _centred(table: pa.Table, centres: Centres | None) -> pa.Table:
    """Return subscriptions with the centres of those around objects; null where none is known."""
    rows = np.flatnonzero(np.asarray(pc.equal(table.column("kind"), AROUND)))
    if len(rows) == 0:
        return table
    found = np.full((len(rows), 2), np.nan)
    if centres is not None:
        found = centres(table.column("object").take(pa.array(rows)).to_pylist())
    for axis, name in enumerate(("x", "y")):
        values = np.array(table.column(name).to_numpy(), np.float64)
        values[rows] = found[:, axis]
        column = pa.array(values, mask=np.isnan(values))
        table = table.set_column(table.column_names.index(name), SUBSCRIPTION_SCHEMA.field(name), column)
    return table


def _built(table: pa.Table, settings: Settings) -> Built:
    text = settings.text is not None
    return build(table, settings.space, settings.schema, text, time=settings.time is not None and not settings.messages)


@lru_cache(maxsize=_OPEN)
def open_standing(home: Home, base: str | None, delta: str | None) -> Standing:
    """Return what stands by the names of its files, mapped; the last few are kept."""
    return Standing(None if base is None else _opened(home, base), None if delta is None else _opened(home, delta))


@lru_cache(maxsize=_OPEN)
def _opened(home: Home, name: str) -> Built:
    return open_built(home.asked, name)


def standing_of(home: Home, files: Files | None) -> Standing:
    """Return what stands by its files."""
    if files is None:
        return Standing(None, None)
    return open_standing(
        home, None if files.base is None else files.base["name"], None if files.delta is None else files.delta["name"]
    )


@dataclass(frozen=True)
class Standing:
    """Subscriptions that stand; their numbers count the rows of :attr:`table`.

    Parameters
    ----------
    base, delta
        The large index and the small one; None where there is nothing.
    """

    base: Built | None
    delta: Built | None

    @cached_property
    def parts(self) -> tuple[tuple[int, Built], ...]:
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
        if self.delta is not None and _GONE in self.delta.arrays:
            found[self.delta.arrays[_GONE]] = False
        for first, built in self.parts:
            found[[first + one.row for one in built.unanswered]] = False
        return found

    @cached_property
    def expires(self) -> NDArray[np.int64]:
        """When each expires, int64 (n,), the greatest number where none does."""
        return self._numbers("expires", np.iinfo(np.int64).max)

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
    def columns_kept(self) -> tuple[str, ...]:
        """The columns that conditions of enter and leave read, sorted: a state has these."""
        found: set[str] = set()
        for first, built in self.parts:
            asked = built.arrays["where"]
            counts = ((built.arrays["events"] & (ENTER | LEAVE)) != 0) & self.stands[first : first + len(built)]
            for number in np.unique(asked[counts & (asked >= 0)]).tolist():
                found |= built.conditions[number].columns
        return tuple(sorted(found))

    @property
    def unanswered(self) -> list[Unanswered]:
        """Those that rows like these cannot be held against, or whose object is not there, numbered as the table."""
        gone = np.zeros(len(self), np.bool_)
        if self.delta is not None and _GONE in self.delta.arrays:
            gone[self.delta.arrays[_GONE]] = True
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

    def rows_of(self, ids: pa.Array) -> NDArray[np.int64]:
        """Return the rows that stand of some ids, in the order of the ids, int64 (m,); others are left out."""
        # a look through all ids for a few costs a tenth of a table of them all
        there = [np.asarray(pc.is_in(held, value_set=ids)).astype(np.bool_) for held in self.texts("id")]
        rows = np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *there]) & self.stands)
        found = pc.index_in(ids, value_set=self.table.column("id").take(pa.array(rows)).combine_chunks())
        return rows[np.asarray(found.drop_null())]
