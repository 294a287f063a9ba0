"""Batches and rebuilds of windows in a store, and the oracle of both: which rows count for which end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtoss.windows.backfill.backfill_commit import check_there, plan_rebuild, reads_of
from dtoss.windows.backfill.recount import rebuild_of
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.storage.window_document import head_of
from dtoss.windows.storage.window_plan import Options
from tests.dtoss.windows.brute import World, watermark
from tests.dtoss.windows.storage.kept import FAR_FUTURE, SITES, check_answer, check_row, commit, far, key_of, rows_of
from tests.dtoss.windows.window_batch import run_rebuild

SECOND = 1_000_000


def rebuild(home, fixed, raw, since, until, tasks=1, there=None, files=None):
    """Count a time anew from raw rows; return the rebuild and its commit."""
    head = head_of(home)
    wanted = rebuild_of(fixed.spec, head.watermark, since, until)
    reads = reads_of(home, head, wanted.rows_from, wanted.rows_to)
    if there is not None:
        check_there(reads, there, wanted.rows_from, wanted.rows_to)
    types = head.commit.document["id"], head.commit.document["time"]
    plan = plan_rebuild(home, fixed, types, wanted, files or {}, Options(max_bad=1.0), FAR_FUTURE, tasks)
    return wanted, run_rebuild(plan, wanted, rows_of(raw), reads)


@dataclass
class Played:
    """Windows in a store, and beside them which rows count: of each end those of its own list."""

    home: Any
    fixed: Any
    accepted: list[Any] = field(default_factory=list)
    reached: int | None = None
    settled: dict[int, World] = field(default_factory=dict)

    def batch(self, rows, tasks=1, source=None):
        """Commit a batch; return its document."""
        spec = self.fixed.spec
        good = [row for row in rows if self.reached is None or row[1] >= self.reached - spec.late]
        self.accepted = self.accepted + good
        document = commit(self.home, self.fixed, rows, source, tasks).document
        self.reached = watermark(spec, self.accepted, self.reached)
        assert document["reasons"].get("later than --late", 0) == len(rows) - len(good)
        assert document["watermark"] == self.reached
        return document

    def rebuilt(self, raw, since, until, tasks=1, **more):
        """Count a time anew; return its commit."""
        wanted, made = rebuild(self.home, self.fixed, raw, since, until, tasks, **more)
        spec = self.fixed.spec
        before, now = (World(spec, rows, key_of, far) for rows in (self.accepted, raw))
        for end in range(0, self.reached + 1, spec.slide):
            if wanted.replaced and end > wanted.first:
                self.settled.pop(end, None)  # from the rows of now on, and those to come
            elif wanted.replaced:
                self.settled.setdefault(end, before)
            elif wanted.first < end <= wanted.last:
                self.settled[end] = now
        if wanted.replaced:
            self.accepted = list(raw)
        return made

    def worlds(self):
        """The oracle of each end: that of the rebuild that has counted it last, or of the rows that were accepted."""
        whole = World(self.fixed.spec, self.accepted, key_of, far)
        return lambda end: self.settled.get(end, whole)

    def check(self):
        """Hold all answers about all ends that are due to the oracle; return how many rows of answers there were."""
        found, world, count = open_windows(self.home.store, self.home.name), self.worlds(), 0
        spec = found.spec
        ends = range(0, found.watermark + 1, spec.slide)
        for end in ends:
            known = world(end).at(end)
            for name in spec.names:
                answer = found.at(end / SECOND, name)
                assert set(answer["final"].to_pylist()) <= {end <= found.watermark - spec.late}
                count += check_answer(answer, known, name)
        for key in range(len(SITES)):
            line = found.series(key, spec.names[0], 0)
            assert line["end"].to_pylist() == list(ends)
            for row in line.to_pylist():
                check_row(row, world(row["end"]).at(row["end"]).get(key, {}), spec.names[0])
        known = World(spec, self.accepted, key_of, far)
        for panes in range(1, spec.longest + 1):
            name = f"{panes * spec.pane / SECOND:g}s"
            if panes * spec.pane not in spec.lengths:
                count += check_answer(found.at(window=name), known.at(found.watermark, {name: panes * spec.pane}), name)
            if "flow" in spec.measures:
                flow = {(row["from"], row["to"]): row["moves"] for row in found.flow(window=name).to_pylist()}
                assert flow == known.flow(found.watermark, panes * spec.pane)
        return count


def late_ones(seed, raw, before, count=4, reach=12):
    """Rows of before, up to so many seconds behind a watermark: most of them are too late."""
    rng = np.random.default_rng(seed + 1000)
    t = (before - rng.integers(0, reach * SECOND, count)).clip(0)
    places = rng.integers(-2, 12, (count, 2)).tolist()
    who = rng.integers(0, 7, count).tolist()
    return [(i, int(at), *map(float, place)) for i, at, place in zip(who, t, places, strict=True)]
