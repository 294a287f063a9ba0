"""What the page shows besides the snapshot: the optimiser's files, what is asked, a watch, and streams of these."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.space import NO_CRS, Space
from dtoss.index import Index
from dtoss.serve.answers.open_snapshots import Serving
from dtoss.serve.core.server_settings import PACES, Paces
from dtoss.serve.map.live_streams import TO_ALL, TO_SOME, TO_SUMS, Kind, Live
from dtoss.serve.map.map_files import PageFiles
from dtoss.serve.map.subscriptions_in_view import FenceSource
from dtoss.serve.map.watch_activity import Happening
from dtoss.serve.observability.partition_counts import MOST_PARTITIONS, HomeCounts, Homes, PartitionCounts, mark_of
from dtoss.serve.windows.open_windows import OpenWindows
from dtoss.serve.windows.window_responses import WindowNews
from dtoss.tiles.map_frame import Frame

WINDOW_SECONDS = 6.0
"""That a rate is the mean of."""
SILENT_SECONDS = 4.0
"""A worker that has told nothing for so long answers nothing: it counts once a second."""
_NANO = 1e9


@dataclass(frozen=True, eq=False)
class Load:
    """What is asked now."""

    requests: float  # Requests/s of all workers: places that were asked about
    partitions: NDArray[np.float64]  # float64 (P,), requests/s by the partition that holds the place


def settle(homes: Homes, index: Index) -> None:
    """Look up whose partitions were asked for, and tell the other processes."""

    def home_of(places: NDArray[np.float64]) -> NDArray[np.int32]:
        try:
            return index.partitioning.nearest(index.space.vectors(places))
        except ValueError:  # a place that is none in the store's CRS was not answered either
            return np.full(len(places), MOST_PARTITIONS, np.int32)

    homes.settle(mark_of(index.partitioning.digest), len(index.parts), home_of)


class Loads:
    """Makes rates of counts; of one process, for one caller at a time."""

    def __init__(self, counts: HomeCounts) -> None:
        self._counts = counts
        self._history: list[deque[PartitionCounts]] = []

    def look(self, mark: int, partitions: int, now: float) -> Load:
        """Return what is asked now, as far as it is known: nothing at the first look."""
        counted = self._counts.read(partitions)
        if not self._history:
            self._history = [deque() for _ in counted]
        requests, of = 0.0, np.zeros(partitions)
        for history, latest in zip(self._history, counted, strict=True):
            if latest is not None and (not history or history[-1].moment != latest.moment):
                history.append(latest)
            # one that is older than the window stays: rates are of at least as long
            while len(history) > 2 and now - history[1].moment / _NANO > WINDOW_SECONDS:
                history.popleft()
            if len(history) < 2 or now - history[-1].moment / _NANO > SILENT_SECONDS:
                continue
            last = history[-1]
            known = [one for one in history if now - one.moment / _NANO <= WINDOW_SECONDS + SILENT_SECONDS]
            if len(known) < 2:
                continue
            requests += (last.requests - known[0].requests) * _NANO / (last.moment - known[0].moment)
            # at other pivots counting began anew
            alike = list(takewhile(lambda one: one.regions == mark, reversed(known)))
            if len(alike) > 1:
                first, share = alike[-1], min(len(last.of), len(alike[-1].of))
                of[:share] += np.maximum(last.of[:share] - first.of[:share], 0) * (_NANO / (last.moment - first.moment))
        return Load(requests, of)


RATE_DIGITS = 3
"""Behind the point of rates."""


class Showing:
    """What one worker shows."""

    def __init__(
        self,
        serving: Serving,
        files: PageFiles,
        counts: HomeCounts,
        streams: int,
        tell: Callable[..., None],
        paces: Paces = PACES,
    ) -> None:
        self.files = files
        self._news: WindowNews | None = None
        self._serving = serving
        self._loads = Loads(counts)
        self._tell = tell
        self._planned: tuple[object, dict[str, Any]] | None = None
        self.fences = None if files.home is None else FenceSource(files.home)
        self._happening = None if files.home is None else Happening(files.home, self.frame_of)
        self._problem: str | None = None
        kinds = (
            Kind("snapshot", self.snapshot, at_once=True),
            Kind("snapshot", self.snapshot_named, at_once=True, told_to=(TO_SUMS, TO_SOME)),
            Kind("plan", self.plan, at_once=True, told_to=(TO_ALL, TO_SUMS)),
            Kind("load", self._load, always=True, told_to=(TO_ALL, TO_SUMS)),
            Kind("watch", self.watch, at_once=True, beside=True),
            Kind("windows", self._windows, at_once=True, beside=True, told_to=(TO_ALL, TO_SUMS)),
        )
        self.live = Live(
            kinds,
            streams,
            self.look,
            lambda error: tell("live failed", error=repr(error)),
            self._look_at_windows,
            paces.live,
        )

    def tell_windows(self, opened: OpenWindows) -> None:
        """Tell of the windows of the store from now on."""
        self._news = WindowNews(opened)

    def look(self) -> None:
        """Read files again that have changed; in a thread."""
        self.files.look(lambda why: self._tell("file not read", detail=why))
        if self._happening is None:
            return
        self._happening.look()
        if self._happening.problem != self._problem:
            self._problem = self._happening.problem
            if self._problem is not None:
                self._tell("watch not read", detail=self._problem)

    def frame_of(self, space: Space) -> Frame | None:
        """Return what the map is for places of a space; None where they have no place on it."""
        frame = self._serving.now.tiles.frame
        if space.crs == NO_CRS:
            return None if frame.plane is None else frame
        return None if frame.plane is not None else Frame(space, None)

    def watch(self) -> dict[str, Any] | None:
        """Return what happens in the watch; None where there is none."""
        return None if self._happening is None else self._happening.told

    def _look_at_windows(self) -> bool:
        return self._news is not None and self._news.look()

    def _windows(self) -> dict[str, Any] | None:
        return None if self._news is None else self._news.told

    def snapshot(self) -> dict[str, Any]:
        """Return which snapshot is served."""
        now = self._serving.now
        return {
            "snapshot": now.name,
            "commit": now.commit,
            "objects": len(now.index),
            "made": now.made,
            "refused": self._serving.refused,
        }

    def snapshot_named(self) -> dict[str, Any]:
        """Return which snapshot is served, to who may not see all of it."""
        now = self._serving.now
        return {"snapshot": now.name, "commit": now.commit, "made": now.made}

    def plan(self) -> dict[str, Any] | None:
        """Return the plan in force beside the snapshot that is served; None where there is none."""
        index, held = self._serving.now.index, self.files.plan_file
        if held is None:
            return None
        plan, pivots, partitions = held.now, index.partitioning.digest, len(index.parts)
        of = (plan, pivots, partitions, held.problem)
        if self._planned is None or self._planned[0] != of:
            self._planned = (of, {**plan.told(pivots, partitions), "problem": held.problem})
        return self._planned[1]

    def patterns(self) -> dict[str, Any] | None:
        """Return the patterns beside the snapshot that is served; None where there are none."""
        patterns = self.files.patterns
        return None if patterns is None else patterns.told(self._serving.now.index.partitioning.digest)

    def _load(self) -> dict[str, Any]:
        index, plan = self._serving.now.index, self.files.plan
        load = self._loads.look(mark_of(index.partitioning.digest), len(index.parts), time.monotonic())
        servers = None
        if plan is not None and plan.stale(index.partitioning.digest) is None:
            servers = [round(rate, RATE_DIGITS) for rate in plan.load(load.partitions)]
        return {
            "requests": round(load.requests, RATE_DIGITS),
            "partitions": load.partitions.round(RATE_DIGITS).tolist(),
            "servers": servers,
        }
