"""Subscriptions that come and go by requests: all of a body or nothing, as files of ``dtoss subscribe``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.chain import Conflict
from dtoss.serve.limits import Limits
from dtoss.serve.pool import Stop
from dtoss.serve.problems import Problem
from dtoss.watch.asked.changing import Changed, subscribe, unsubscribe
from dtoss.watch.asked.checking import Bad
from dtoss.watch.asked.known import known_of
from dtoss.watch.asked.live import change_number, standing_of, table_at
from dtoss.watch.asked.reading import Bounds, read_body
from dtoss.watch.asked.writing import written
from dtoss.watch.home import Home
from dtoss.watch.told.counts import tally_of
from dtoss.watch.told.document import head_of

NAMED_BAD = 20
"""Bad rows that a problem names; of more the count is told."""
SUBSCRIPTIONS_PAGE_BYTES = 4 << 20
"""Of a page, about: one with large polygons has fewer subscriptions."""
_AT_ONCE = 1_000
_AGAIN = "others have changed the subscriptions time and again meanwhile: nothing was changed, ask again"


def added(home: Home, body: bytes, limits: Limits, stop: Stop) -> Changed:
    """Return what a body of subscriptions has changed; in a thread.

    Parameters
    ----------
    home
        Of the watch.
    body
        JSON lines, a list of rows, or GeoJSON.
    limits
        Of requests.
    stop
        Whether anybody waits; nothing is changed where nobody does.

    Raises
    ------
    Problem
        400 if it cannot be read, 422 if a row is bad: nothing is changed then; 409 if others change them all the time.
    InputError
        If it is no such JSON, or holds too many.
    StoreError
        If something of the watch is damaged.
    OSError
        If something cannot be read or written.
    """
    known = known_of(home)
    read = read_body(body, known, Bounds(limits.bulk_queries, limits.condition_length, stop.check))
    if read.bad:
        raise _refused(read.bad, read.rows)
    stop.check()
    try:
        return subscribe(home, read.table, space=known.space)
    except Conflict:
        raise Problem(409, _AGAIN, retry_after=1) from None


def removed(home: Home, subscription: str) -> Changed:
    """Return what removing a subscription has changed; in a thread.

    Parameters
    ----------
    home
        Of the watch.
    subscription
        Its id.

    Raises
    ------
    Problem
        404 if there is none; 409 if others change them all the time.
    StoreError
        If something of the watch is damaged.
    OSError
        If something cannot be read or written.
    """
    try:
        done = unsubscribe(home, [subscription])
    except Conflict:
        raise Problem(409, _AGAIN, retry_after=1) from None
    if not done.removed:
        raise _unknown(home, subscription)
    return done


def one(home: Home, subscription: str) -> dict[str, Any]:
    """Return a subscription as ``dtoss subscriptions --json`` prints it; in a thread.

    Parameters
    ----------
    home
        Of the watch.
    subscription
        Its id.

    Raises
    ------
    Problem
        404 if there is none.
    StoreError
        If something of the watch is damaged.
    OSError
        If something cannot be read.
    """
    found = standing_of(home, change_number(home), pa.array([subscription], pa.string()))
    if not len(found):
        raise _unknown(home, subscription)
    return _rows(home, found, _tally(home))[0]


def listed(home: Home, after: str | None, limit: int, snapshot: str, stop: Stop) -> bytes:
    """Return a page of subscriptions by id, as JSON; in a thread.

    Parameters
    ----------
    home
        Of the watch.
    after
        The id before the first; from the first one on when None.
    limit
        How many, at the most.
    snapshot
        The name of the one that is served.
    stop
        Whether anybody waits.

    Raises
    ------
    StoreError
        If something of the watch is damaged.
    OSError
        If something cannot be read.
    """
    number = change_number(home)
    table, tally, head = table_at(home, number), _tally(home), head_of(home)
    stop.check()
    first = 0 if after is None else _place(table.column("id"), after)
    rows: list[bytes] = []
    size, last = 0, min(first + limit, len(table))
    while first < last and size < SUBSCRIPTIONS_PAGE_BYTES:
        stop.check()
        # of large polygons a thousand would be too many
        some = table.slice(first, min(_AT_ONCE, last - first))
        some = some.slice(
            0, max(1, int(len(some) * SUBSCRIPTIONS_PAGE_BYTES / max(some.nbytes, SUBSCRIPTIONS_PAGE_BYTES)))
        )
        made = [orjson.dumps(row) for row in _rows(home, some, tally)]
        rows += made
        size += sum(map(len, made))
        first += len(some)
    told: dict[str, Any] = {
        "snapshot": snapshot,
        "watch": home.name,
        "change": number,
        "adopted": 0 if head is None else head.changes,
        "count": len(table),
        "subscriptions": [orjson.Fragment(row) for row in rows],
    }
    if first < len(table):
        told["next"] = table.column("id")[first - 1].as_py()
    return orjson.dumps(told)


def _place(ids: pa.ChunkedArray, after: str) -> int:
    """Return the number of the first id that comes after another, in the order of their bytes."""
    low, high = 0, len(ids)
    wanted = after.encode()
    while low < high:
        middle = (low + high) // 2
        if ids[middle].as_py().encode() > wanted:
            high = middle
        else:
            low = middle + 1
    return low


def _tally(home: Home) -> pa.Table | None:
    """Return how many events each subscription had; None before the first batch."""
    return tally_of(home) if home.folder.there() and head_of(home) is not None else None


def _rows(home: Home, table: pa.Table, tally: pa.Table | None) -> list[dict[str, Any]]:
    """Return subscriptions as people write them, with counts of their events where there are batches."""
    rows = written(table)
    if tally is None:
        return rows
    ids = table.column("id").combine_chunks()
    mine = tally.filter(pc.is_in(tally.column("subscription"), ids))
    counts: dict[str, dict[str, int]] = {}
    for name, kind, events in zip(*(column.to_pylist() for column in mine.columns), strict=True):
        counts.setdefault(name, {})[kind] = events
    return [row | {"counts": counts.get(row["id"], {})} for row in rows]


def _refused(bad: Sequence[Bad], rows: int) -> Problem:
    named = [{"row": one.row, "id": one.id, "reason": one.reason} for one in bad[:NAMED_BAD]]
    first = f"row {bad[0].row}: {bad[0].reason}"
    more = "" if len(bad) <= NAMED_BAD else f", of which {NAMED_BAD} are named"
    return Problem(
        422,
        f"{len(bad):,} of {rows:,} subscriptions are bad{more}; nothing has changed. The first is {first}",
        limit="rows",
        value=len(bad),
        bound=0,
        more={"bad": len(bad), "rows": named},
    )


def _unknown(home: Home, subscription: str) -> Problem:
    return Problem(
        404,
        f"watch {home.name!r} has no subscription {subscription[:200]!r}",
        limit="id",
        value=subscription[:200],
    )
