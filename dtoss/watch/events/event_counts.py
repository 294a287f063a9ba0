"""How many events of which kind each subscription had: a table up to the last fold, and what has come since."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.columnar_files import decoding, encode_parquet, read_parquet
from dtoss.watch.events.event_log import told_events, view_of
from dtoss.watch.events.folded_list import Contents
from dtoss.watch.events.readers import BEGINNING, END_OF_BATCH, Cursor
from dtoss.watch.watch_folder import EVENTS, Home

TALLY = pa.schema([("subscription", pa.string()), ("kind", pa.string()), ("events", pa.int64())])
"""Of a table of counts, by subscription and kind."""
MOST_WATCHES_COUNTED = 16
"""Watches whose counts a process keeps, to count only what has come since."""
SHARE_SINCE = 8
"""What has come since is a table of its own up to that share of the older one: a new batch costs what it has told, and
not as much as there are subscriptions."""


@dataclass(frozen=True)
class Tallies:
    """Counts of events up to a batch."""

    number: int  # Of the batch, and of its commit
    sha256: str  # Of the batch, and of its commit
    older: pa.Table  # older, since: tables of :data:`TALLY`, each sorted, whose sums are the counts
    since: pa.Table

    def whole(self) -> pa.Table:
        """Return all of them as one table of :data:`TALLY`, sorted. Cost O(n)."""
        return added([self.older, self.since]) if len(self.since) else self.older

    def among(self, ids: pa.ChunkedArray) -> pa.Table:
        """Return those of some subscriptions, sorted. Cost: as many rows as lie between the first id and the last."""
        parts = [_between(table, ids) for table in (self.older, self.since)] if len(ids) else []
        return added([TALLY.empty_table(), *parts])


_known: dict[tuple[str, str], Tallies] = {}
_lock = threading.Lock()


def event_counts(home: Home) -> dict[str, dict[str, int]]:
    """Return how many events each subscription has had, by kind, also those that retention has removed.

    Read are the table of the last fold and two columns of the events since; called again in one process, only what has
    come since the last call.
    """
    found: dict[str, dict[str, int]] = {}
    table = tally_of(home)
    columns = (table.column(name).to_pylist() for name in TALLY.names)
    for subscription, kind, number in zip(*columns, strict=True):
        found.setdefault(subscription, {})[kind] = number
    return found


def tally_of(home: Home) -> pa.Table:
    """Return the counts of :func:`event_counts` as a table of :data:`TALLY`, sorted."""
    tallies = tallies_of(home)
    return TALLY.empty_table() if tallies is None else tallies.whole()


def tallies_of(home: Home) -> Tallies | None:
    """Return the counts of :func:`event_counts`, of which some are asked for; None where the watch has not begun."""
    view = view_of(home)
    if view is None:
        return None
    key, number = (home.store, home.name), view.head.number
    with _lock:
        known = _known.get(key)
    if known is not None and known.number == number and known.sha256 == view.head.commit.sha256:
        return known
    contents = view.contents
    if known is not None and number > known.number >= contents.last and _stands(home, known.number, known.sha256):
        start, older, parts = known.number, known.older, [known.since]
    else:
        start, older, parts = contents.last, read_tally(home, contents), []
    after = Cursor(start, END_OF_BATCH) if start else BEGINNING
    upto = Cursor(number, END_OF_BATCH)
    for told in told_events(home, after, until=upto, columns=["subscription", "kind"]):
        if told.events is not None and told.events.num_rows:
            parts.append(counted(told.events))
            if len(parts) > 64:
                parts = [added(parts)]
    since = added([TALLY.empty_table(), *parts])
    if len(since) > max(home.limits.least_since, len(older) // SHARE_SINCE):
        older, since = added([older, since]), TALLY.empty_table()
    found = Tallies(number, view.head.commit.sha256, older, since)
    with _lock:
        if key not in _known and len(_known) >= MOST_WATCHES_COUNTED:
            del _known[next(iter(_known))]
        _known[key] = found
    return found


def counted(events: pa.Table) -> pa.Table:
    """Return how many events a table has, by subscription and kind; O(rows)."""
    plain = pa.table({name: events.column(name).cast(pa.string()) for name in ("subscription", "kind")})
    found = plain.group_by(["subscription", "kind"], use_threads=False).aggregate([([], "count_all")])
    return found.rename_columns(TALLY.names).cast(TALLY)


def added(parts: list[pa.Table]) -> pa.Table:
    """Return the sum of tables of counts, by subscription and kind."""
    together = pa.concat_tables(parts)
    found = together.group_by(["subscription", "kind"], use_threads=False).aggregate([("events", "sum")])
    keys = [("subscription", "ascending"), ("kind", "ascending")]
    return found.rename_columns(TALLY.names).cast(TALLY).sort_by(keys)


def _between(tally: pa.Table, ids: pa.ChunkedArray) -> pa.Table:
    """Return the rows of some subscriptions."""
    names, bounds = tally.column("subscription"), pc.min_max(ids).as_py()

    def name(row: int) -> str:
        return str(names[row].as_py())

    first = bisect_left(range(len(tally)), bounds["min"], key=name)
    last = bisect_right(range(len(tally)), bounds["max"], key=name)
    some = tally.slice(first, last - first)
    return some.filter(pc.is_in(some.column("subscription"), ids.combine_chunks()))


def encoded_tally(tally: pa.Table) -> pa.Buffer:
    """Return the bytes of the file of a table of counts."""
    return encode_parquet(tally, write_page_checksum=True)


def read_tally(home: Home, contents: Contents) -> pa.Table:
    """Return the counts up to the last fold."""
    if contents.counts is None:
        return TALLY.empty_table()
    table = read_parquet(home.folder, EVENTS, contents.counts)
    with decoding(home.folder.path(EVENTS, contents.counts.name)):
        return table.cast(TALLY)


def _stands(home: Home, number: int, sha256: str) -> bool:
    """Return whether a commit that was counted is still the one of its number."""
    return home.batches.read(number).sha256 == sha256
