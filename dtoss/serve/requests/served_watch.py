"""The watch that a server tells of, and subscriptions that come and go there by requests, all of a body or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.chain import Conflict
from dtoss.errors import InputError, StoreError
from dtoss.serve.auth.tokens import EVERYBODY, Token
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits
from dtoss.serve.rights.sight import as_asked, narrow_subscriptions, seen_rows
from dtoss.serve.state.worker_state import WorkerState
from dtoss.watch.events.event_counts import Tallies, tallies_of
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.subscriptions.changes import Change, subscribe, unsubscribe
from dtoss.watch.subscriptions.current import Pages, Stand
from dtoss.watch.subscriptions.known_columns import known_of
from dtoss.watch.subscriptions.subscription_files import Bounds, read_body
from dtoss.watch.subscriptions.subscription_text import write_rows
from dtoss.watch.subscriptions.validation import Bad
from dtoss.watch.watch_folder import Home


def no_watch() -> Problem:
    """Return what is said where a server has no watch."""
    return Problem(404, "the server tells of no watch: --watch names one", limit="watch")


def home_of(state: WorkerState) -> Home:
    """Return where the watch is."""
    if state.home is None:
        raise no_watch()
    return state.home


def asked_of(state: WorkerState) -> Pages:
    """Return what the watch is asked."""
    home_of(state)
    assert state.asked is not None
    return state.asked


@contextmanager
def of_watch(state: WorkerState) -> Iterator[None]:
    """Make problems of what goes wrong with the files of the watch; the log is told why."""
    try:
        yield
    except InputError as error:
        raise Problem(400, str(error)) from None
    except (StoreError, OSError) as error:
        state.watch_not_read(str(error))
        raise Problem(
            503,
            "the files of the watch cannot be read or written now: the server's log says why; ask again",
            limit="watch",
            retry_after=5,
        ) from None


NAMED_BAD = 20
"""Bad rows that a problem names; of more the count is told."""
_AGAIN = "others have changed the subscriptions time and again meanwhile: nothing was changed, ask again"


def add_subscriptions(home: Home, body: bytes, limits: Limits, stop: Stop, token: Token = EVERYBODY) -> Change:
    """Return what a body of subscriptions has changed; in a thread."""
    known = known_of(home)
    bounds = Bounds(limits.bulk_queries, limits.condition_length, stop.check)
    read = narrow_subscriptions(token, read_body(body, seen_rows(token, known), bounds))
    if read.bad:
        raise _refused(read.bad, read.rows)
    stop.check()
    try:
        return subscribe(home, read.table, space=known.space)
    except Conflict:
        raise Problem(409, _AGAIN, retry_after=1) from None


def remove_subscription(home: Home, subscription: str) -> Change:
    """Return what removing a subscription has changed; in a thread."""
    try:
        done = unsubscribe(home, [subscription])
    except Conflict:
        raise Problem(409, _AGAIN, retry_after=1) from None
    if not done.removed:
        raise _unknown(home, subscription)
    return done


def one(pages: Pages, subscription: str, token: Token = EVERYBODY) -> dict[str, Any]:
    """Return a subscription as ``dtoss subscriptions --json`` prints it; in a thread."""
    found = pages.one(pages.now(), subscription)
    if not len(found):
        raise _unknown(pages.home, subscription)
    return _rows(as_asked(token, found), tallies_of(pages.home))[0]


def list_subscriptions(
    pages: Pages,
    after: str | None,
    limit: int,
    most: int,
    snapshot: str,
    stop: Stop,
    token: Token = EVERYBODY,
) -> bytes:
    """Return a page of subscriptions by id, as JSON; in a thread.

    ``after``: the id before the first; from the first one on when None; ``limit``: how many, at the most; ``most``:
    bytes of them, about: a page with large polygons has fewer subscriptions.
    """
    stand, head, counts = pages.now(), head_of(pages.home), tallies_of(pages.home)
    rows: list[bytes] = []
    size, last, more = 0, "", False
    for some in _bites(_of_token(pages, stand, after, token), most):
        stop.check()
        room = limit - len(rows) if size < most else 0
        more = room < len(some)
        shown = as_asked(token, some.slice(0, room))
        if len(shown):
            made = [orjson.dumps(row) for row in _rows(shown, counts)]
            rows += made
            size += sum(map(len, made))
            last = shown.column("id")[-1].as_py()
        if more:
            break
    told: dict[str, Any] = {
        "snapshot": snapshot,
        "watch": pages.home.name,
        "change": stand.number,
        "adopted": 0 if head is None else head.changes,
        "count": stand.count if token.prefix is None else sum(map(len, _of_token(pages, stand, None, token))),
        "subscriptions": [orjson.Fragment(row) for row in rows],
    }
    if more:
        told["next"] = last
    return orjson.dumps(told)


def _of_token(pages: Pages, stand: Stand, after: str | None, token: Token) -> Iterator[pa.Table]:
    """Yield the subscriptions behind an id, of a token that may not see all its own: they stand together, by id."""
    prefix = token.prefix
    if prefix is None:
        yield from pages.behind(stand, after)
        return
    for some in pages.behind(stand, prefix if after is None else max(after, prefix)):
        mine = some.filter(pc.starts_with(some.column("id"), prefix))
        if len(mine):
            yield mine
        if len(mine) < len(some):
            return


def _bites(tables: Iterable[pa.Table], most: int) -> Iterator[pa.Table]:
    """Yield rows of tables, fewer at a time where they are large: of large polygons a thousand would be too many."""
    for table in tables:
        many = max(int(len(table) * most / max(table.nbytes, most)), 1)
        yield from (table.slice(first, many) for first in range(0, len(table), many))


def _rows(table: pa.Table, counts: Tallies | None) -> list[dict[str, Any]]:
    """Return subscriptions as people write them, with counts of their events where there are batches."""
    rows = write_rows(table)
    if counts is None:
        return rows
    had: dict[str, dict[str, int]] = {}
    mine = counts.among(table.column("id"))
    for name, kind, events in zip(*(column.to_pylist() for column in mine.columns), strict=True):
        had.setdefault(name, {})[kind] = events
    return [row | {"counts": had.get(row["id"], {})} for row in rows]


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
