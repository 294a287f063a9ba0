"""Answers about windows as bytes, JSON or Arrow, and what pages and Prometheus are told of how far each is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from dtoss.arrow_stream import stream_of
from dtoss.errors import StoreError
from dtoss.locks import Lock
from dtoss.serve.core.problems import Problem
from dtoss.serve.windows.open_windows import OpenWindows
from dtoss.watch.subscriptions.forms import instant_of
from dtoss.windows.durations import duration_text, time_text
from dtoss.windows.measures import MEASURES
from dtoss.windows.migration.migration_text import change_of
from dtoss.windows.query.window_query import Windows
from dtoss.windows.storage.group_placement import placement_of, rows_of
from dtoss.windows.storage.sets import current_home
from dtoss.windows.storage.window_document import Home

if TYPE_CHECKING:
    from prometheus_client.metrics_core import CounterMetricFamily


ROWS_A_PIECE = 10_000
"""Rows that are made into JSON at a time: other threads wait for so long at most."""


def facts(windows: Windows) -> dict[str, Any]:
    """Return what windows are, as JSON knows it."""
    spec, mark = windows.spec, windows.watermark
    return {
        "name": windows.home.name,
        "batch": windows.head.commit.number,
        "watermark": None if mark is None else time_text(mark),
        "lengths": list(spec.names),
        "slide": duration_text(spec.slide),
        "pane": duration_text(spec.pane),
        "late": duration_text(spec.late),
        "by": spec.by,
        "measures": list(spec.measures),
        "counts": dict(windows.counts),
        "quarantined": dict(windows.reasons),
        "set": windows.home.number,
        "since": None if windows.since is None else time_text(windows.since),
        "change": change_of(windows.sets),
    }


def check_rows(table: pa.Table, most: int) -> pa.Table:
    """Return a table of no more rows than go into an answer."""
    if len(table) > most:
        raise Problem(
            413,
            f"there are {len(table):,} rows: at most {most:,} go into an answer; ask for one key (key=) or for less "
            "time",
            limit="hits",
            value=len(table),
            bound=most,
        )
    return table


def json_body(snapshot: str, windows: Windows, head: dict[str, Any], rows: pa.Table) -> bytes:
    """Return rows as JSON behind what they are; ends of windows are times in ISO 8601."""
    said = orjson.dumps({"snapshot": snapshot, "windows": windows.home.name, **mark_of(windows), **head})
    pieces = []
    for at in range(0, len(rows), ROWS_A_PIECE):
        some = rows.slice(at, ROWS_A_PIECE).to_pylist()
        for row in some:
            if "end" in row:
                row["end"] = time_text(row["end"])
        pieces.append(orjson.dumps(some)[1:-1])
    return said[:-1] + b',"rows":[' + b",".join(pieces) + b"]}"


def arrow_body(snapshot: str, windows: Windows, head: dict[str, Any], rows: pa.Table) -> bytes:
    """Return rows as an Arrow stream, whose schema says what they are; ends are timestamps."""
    told = {"snapshot": snapshot, "windows": windows.home.name, **mark_of(windows), **head}
    if "change" in told:
        told["change"] = orjson.dumps(told["change"]).decode()
    if "end" in rows.column_names:
        at = rows.column_names.index("end")
        rows = rows.set_column(at, "end", rows["end"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")))
    return stream_of(rows.replace_schema_metadata({name: str(value) for name, value in told.items()}))


def mark_of(windows: Windows) -> dict[str, Any]:
    """Return the batch and the watermark that an answer is of, and whether other windows are to take over."""
    mark, change = windows.watermark, change_of(windows.sets)
    said = {"batch": windows.head.commit.number, "watermark": None if mark is None else time_text(mark)}
    return said if change is None else said | {"change": change}


def version_of(windows: Windows) -> str:
    """Return what names a commit of windows among all sets of their name, and whether others are to take over."""
    changes = f".{windows.sets.change}" if windows.sets.change else ""
    return f"{windows.head.commit.number}{changes}"


def moment_of(text: str | None) -> str | float | None:
    """Return a time as windows are asked for it: numbers are seconds since 1970.

    Examples
    --------
    >>> moment_of("1200"), moment_of("2026-01-31T12:00:00"), moment_of(None)
    (1200.0, '2026-01-31T12:00:00', None)
    """
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def end_text(windows: Windows, end: str | None) -> str | None:
    """Return when a window ends that was found; one that was asked for without its end is the last one due."""
    found = windows.watermark if end is None else instant_of(moment_of(end))
    return None if found is None else time_text(found)


NEAR_SECONDS, FAR_SECONDS = 0.2, 1.0
"""Between two looks whether a batch has come: in a folder, and in an object store, where a look is a request."""
NAMES_SECONDS = 2.0
"""Between two looks which windows there are."""
UNREAD_SECONDS = 5.0
"""Before another look where files cannot be read: each one is a line of the log."""
MOST_TOLD = 64
"""Windows that a page is told of."""


class WindowNews:
    """What is told of the windows of a store; one thread looks, others take what it has seen."""

    def __init__(self, opened: OpenWindows, now: Callable[[], float] = time.monotonic) -> None:
        self._opened = opened
        self._now = now
        self._every = FAR_SECONDS if "://" in opened.store else NEAR_SECONDS
        self._looking = Lock()
        self._looked, self._named = -FAR_SECONDS, -NAMES_SECONDS
        self._names: list[str] = []
        self._hints: dict[str, tuple[int, int]] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self.told: dict[str, Any] | None = None

    def look(self) -> bool:
        """Read what is new, and return whether anything is; in a thread that may wait for a disk."""
        if not self._looking.acquire(blocking=False):
            return False
        try:
            return self._look()
        finally:
            self._looking.release()

    def _look(self) -> bool:
        now = self._now()
        if now - self._looked < self._every:
            return False
        self._looked = now
        before = self.told
        try:
            if now - self._named >= NAMES_SECONDS:
                self._names, self._named = self._opened.names()[:MOST_TOLD], now
            for name in self._names:
                self._read(name)
        except (Problem, StoreError, OSError) as error:  # the log says more
            why = " ".join(getattr(error, "detail", str(error)).split())
            self._looked = now + UNREAD_SECONDS
            self.told = (before or {"windows": [], "waiting": []}) | {"problem": why}
            return self.told != before
        known = [self._facts[name] for name in self._names if name in self._facts]
        begun = {one["name"] for one in known}
        waiting = [name for name in self._names if name not in begun]
        self.told = {"windows": known, "waiting": waiting, "problem": None} if self._names else None
        return self.told != before

    def _read(self, name: str) -> None:
        """Read the facts of windows where a batch has come since."""
        first = Home(self._opened.store, name)
        sets = first.sets.hint() or 0
        hint = (current_home(first.store, name) if sets else first).batches.hint()
        if hint is None or self._hints.get(name) == (sets, hint):
            return
        found = self._opened.begun(name, fresh=True)
        if found:
            self._facts[name] = told_of(found[0])
            if found[0].head.number >= hint:  # else what is asked of it is still made: the next look tells of it
                self._hints[name] = sets, hint


def told_of(windows: Windows) -> dict[str, Any]:
    """Return what windows are and how far, with times as numbers: microseconds."""
    spec = windows.spec
    return facts(windows) | {
        "watermark_us": windows.watermark,
        "since_us": windows.since,
        "first_us": _first(windows),
        "lengths_us": list(spec.lengths),
        "slide_us": spec.slide,
        "pane_us": spec.pane,
        "metric": spec.space.metric,
        "shown": {name: [MEASURES[name].title, MEASURES[name].unit] for name in spec.measures if MEASURES[name].title},
        "digest": spec.keys,
        "workers": _workers(windows),
    }


def _first(windows: Windows) -> int | None:
    """Return the first time that was counted: no end before it has anything."""
    begun = windows.reader.made("first", "", lambda: windows.home.batches.read(1).document["batch"]["first"])
    anew = [one["first"] for one in windows.head.commit.document.get("rebuilds", ())]
    return None if begun is None else min([begun, *anew])


def _workers(windows: Windows) -> list[dict[str, int]]:
    """Return the groups of objects that each worker has, and their rows of the last batch; none before placements."""
    document = windows.head.commit.document
    placement = placement_of(document) if "placement" in document else None
    if placement is None:
        return []
    of, rows = np.array(placement.worker_of), rows_of(document)
    groups = np.bincount(of, minlength=placement.workers).tolist()
    sums = np.bincount(of, rows, placement.workers).astype(np.int64).tolist()
    return [{"worker": i, "groups": groups[i], "rows": sums[i]} for i in range(placement.workers)]


def families(opened: OpenWindows) -> Iterator[Any]:
    """Yield what Prometheus is told of the windows of a store: names alone where none are there or can be read."""
    try:
        found = [told_of(windows) for name in opened.names() for windows in opened.begun(name)]
    except Problem:
        found = []  # the log says why
    from prometheus_client import core

    def counter(name: str, text: str, count: str) -> CounterMetricFamily:
        made = core.CounterMetricFamily(f"dtoss_windows_{name}", text, labels=["windows"])
        for one in found:
            made.add_metric([one["name"]], one["counts"].get(count, 0))
        return made

    yield counter("rows", "Rows that windows have read.", "rows")
    yield counter("rows_counted", "Rows that count.", "counted")
    yield counter("rows_losers", "Rows that do not count: another one of the same object and time does.", "losers")
    aside = core.CounterMetricFamily(
        "dtoss_windows_rows_quarantined", "Rows that were set aside, by reason.", labels=["windows", "reason"]
    )
    for one in found:
        for reason, count in sorted(one["quarantined"].items()):
            aside.add_metric([one["name"], reason], count)
    yield aside
    yield counter("jumps", "Pairs of rows that are too fast to be moves.", "jumps")
    yield counter("results", "Results of ends and keys that were told.", "results")
    yield counter("results_revised", "Results that replaced one of before.", "revised")
    batch = core.GaugeMetricFamily("dtoss_windows_batch", "The number of the newest batch.", labels=["windows"])
    mark = core.GaugeMetricFamily(
        "dtoss_windows_watermark_seconds", "The time up to which ends are due, since 1970.", labels=["windows"]
    )
    for one in found:
        batch.add_metric([one["name"]], one["batch"])
        if one["watermark_us"] is not None:
            mark.add_metric([one["name"]], one["watermark_us"] / 1e6)
    yield batch
    yield mark
