"""The files of what stands, made for a change: the small index anew, the large one once the small has grown.

Nothing is updated in place. Files are named by what they hold, and stay as long as a batch may need them. Whoever runs
batch after batch lets the large index be built beside them, and gives it to the next one when it is there.

The large index of subscriptions built beside the batches, and swapped in between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.watch.index.build_index import build
from dtoss.watch.index.index_files import write_built
from dtoss.watch.index.large_and_small import GONE, Files, open_index_of
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.subscription import AROUND, SUBSCRIPTION_SCHEMA
from dtoss.watch.subscriptions.current import Delta, changes_between, table_at
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings

_SHARE = 8
Centres = Callable[[Sequence[str]], NDArray[np.float64]]
"""Returns the positions (n, 2) of objects by their ids as text, NaN where there is none."""


def prepare(
    home: Home,
    number: int,
    settings: Settings,
    previous: Files | None,
    centres: Centres | None = None,
    centred: str | None = None,
    newer: Files | None = None,
    patience: int = 1,
) -> Files:
    """Return the files for a change, and write those that are not there yet.

    ``centres``: where the objects are around which subscriptions ask; None knows none; ``newer``: files of a change up
    to this one, whose large index was built meanwhile; None for none.

    Costs O(n) where the large index is built, else O(d) for d subscriptions that came or went since it was, and a look
    at its ids: what came since is in the small index of before, and only changes after that one are read.
    """
    if newer is not None and previous is not None and previous.base_number < newer.base_number <= number:
        previous = newer
    same = previous is not None and previous.number == number
    if previous is not None and same and (previous.centred == centred or not _asks_around(home, previous)):
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
        rebuilt = delta.replaced or _outgrown(home, table, gone, previous.base, patience)
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
        small = replace(small, arrays={**small.arrays, GONE: gone})
    return replace(files, delta=write_built(home.asked, small, "delta"))


def outgrown(home: Home, files: Files) -> bool:
    """Return whether the small index has outgrown the large one, which is to be built anew."""
    if files.base is None or files.delta is None:
        return False
    small = open_index_of(home, files.delta["name"])
    return _outgrown(home, small.table, small.arrays.get(GONE, np.zeros(0, np.int32)), files.base, 1)


def _outgrown(home: Home, table: pa.Table, gone: NDArray[np.int32], base: Mapping[str, Any], times: int) -> bool:
    # those around objects are in no large index
    came = pc.sum(pc.not_equal(table.column("kind"), AROUND)).as_py() or 0
    return bool(came + len(gone) > times * max(home.limits.least_delta, base["rows"] // _SHARE))


def _asks_around(home: Home, files: Files) -> bool:
    if files.delta is None:
        return False
    return bool(pc.any(pc.equal(open_index_of(home, files.delta["name"]).table.column("kind"), AROUND)).as_py())


def _since(home: Home, previous: Files, delta: Delta) -> tuple[pa.Table, NDArray[np.int32]]:
    """Return what the small index of before holds once changes are made, and the rows of the large one that are gone.

    All that asks around objects is in the small one.
    """
    assert previous.base is not None
    table, gone = SUBSCRIPTION_SCHEMA.empty_table(), np.zeros(0, np.int32)
    if previous.delta is not None:
        small = open_index_of(home, previous.delta["name"])
        table, gone = small.table, small.arrays.get(GONE, gone)
    if len(delta.removed):
        kept = table.filter(pc.invert(pc.is_in(table.column("id"), delta.removed)))
        table = pa.concat_tables([kept, delta.table]).sort_by("id").combine_chunks()
        large = open_index_of(home, previous.base["name"]).table.column("id")
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


def _built(table: pa.Table, settings: Settings) -> SubscriptionIndex:
    text = settings.text is not None
    return build(table, settings.space, settings.schema, text, time=settings.time is not None and not settings.messages)


PATIENCE = 4
"""Times as large as it may be the small index becomes while the large one is built, before a batch waits for it."""


@dataclass
class Background:
    """Builds a large index at a time."""

    home: Home
    warn: Callable[[str], None] = lambda text: None  # Is told why one could not be built
    _newer: Files | None = None
    _builder: Thread | None = field(default=None, repr=False)

    @property
    def newer(self) -> Files | None:
        """The files of the last large index that was built; None before the first."""
        return self._newer

    def look(self, files: Files | None, settings: Settings, centres: Centres | None, centred: str | None) -> None:
        """Begin to build the large index anew where the small one has outgrown it, and none is being built.

        ``files``: what stands now; None for nothing.
        """
        if files is None or (self._builder is not None and self._builder.is_alive()):
            return
        if self._newer is not None and self._newer.base_number > files.base_number:
            return  # the next batch takes it
        if not outgrown(self.home, files):
            return
        # a process that ends does not wait for it: no commit has named its file
        self._builder = Thread(
            target=self._build, args=(files.number, settings, centres, centred), name="dtoss-index", daemon=True
        )
        self._builder.start()

    def wait(self) -> None:
        """Return once nothing is being built."""
        if self._builder is not None:
            self._builder.join()

    def _build(self, number: int, settings: Settings, centres: Centres | None, centred: str | None) -> None:
        try:
            self._newer = prepare(self.home, number, settings, None, centres, centred)
        except Exception as error:
            # the batch that can wait no longer builds it, and fails with the same
            self.warn(f"the index of subscriptions could not be built beside the batches: {error}")
