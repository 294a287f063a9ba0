"""Batches on workers under layouts that are drawn anew for each: shared cells, cells split by words, idle workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ceps.balance.baselines import Decision
from dtoss.commits.offsets import Source
from dtoss.watch.processing.watch_commit import worth_a_commit
from dtoss.watch.processing.watch_plan import Options, RoutingFiles, plan_batch, set_back
from dtoss.watch.sharding.layout_files import grid_of_standing, write_routing
from dtoss.watch.sharding.routing_grid import Routing, RoutingGrid
from dtoss.watch.sharding.sharded_batch import commit_on_workers
from pipelines.watching.spreading import columns_sent, write_all_stored
from tests.ceps.balance.drawn_cells import drawn_layout
from tests.dtoss.watch.streams import NOW, rows_of
from tests.dtoss.watch.watch_batch import run_on_workers

WORDS = ("coffee", "tea", "decaf", "cake", "東京", "unasked")


@dataclass(frozen=True)
class Drawn:
    """Another layout in each round, drawn by the number of the round."""

    workers: int

    def next_layout(self, layout, loads, asked, memory):
        """Return it."""
        number = int(memory["number"]) if "number" in memory else 0
        made = drawn_layout(np.random.default_rng(number), asked.shape, self.workers)
        return Decision(made, {"number": np.array(number + 1)})


def drawn_grid(rng, standing, space):
    """The grid of what stands, or one that is drawn, with few cells or many."""
    rows, columns = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    if rng.random() < 0.5:
        found = grid_of_standing(standing, space)
        return RoutingGrid(rows, columns, found.cut, found.x, found.y, found.width, found.height)
    wide, high = rng.choice([0.05, 1.0, 90.0, 360.0]), rng.choice([0.05, 1.0, 180.0])
    return RoutingGrid(rows, columns, float(rng.uniform(-180, 180)), float(rng.uniform(0, 180)), -1.0, wide, high)


def drawn_routing(rng, grid, words=WORDS):
    """A layout of some workers, of which some cells are shared and some split by words."""
    workers = int(rng.integers(1, 7))
    begin, worker, share, word_cell, word, word_worker = [0], [], [], [], [], []
    for cell in range(grid.cells):
        kind = rng.random()
        if kind < 0.4:
            held = rng.permutation(workers)[: rng.integers(1, workers + 1)]
            worker += sorted(held.tolist())
            share += rng.dirichlet(np.ones(len(held))).tolist()
        else:
            worker.append(int(rng.integers(workers)))
            share.append(1.0)
            if kind > 0.7:
                for text in sorted(rng.choice(words, rng.integers(1, len(words)), replace=False).tolist()):
                    word_cell.append(cell)
                    word.append(text)
                    word_worker.append(int(rng.integers(workers)))
        begin.append(len(worker))
    return Routing(
        grid,
        workers,
        np.array(begin),
        np.array(worker, np.int32),
        np.array(share),
        np.array(word_cell, np.int64),
        pa.array(word, pa.large_string()),
        np.array(word_worker, np.int32),
    )


def routed_by(plan, routing):
    """The files of a layout, as a plan has them."""
    made = write_all_stored(plan, routing)
    before = RoutingFiles.of(plan.document_before().get("layout"))
    return RoutingFiles(
        "drawn",
        routing.workers,
        write_routing(plan.home, routing),
        made.base,
        made.delta,
        {} if before is None else before.indexes,
        columns=columns_sent(plan.standing, plan.options.carry),
    )


def run_drawn(home, settings, rows, rng, tasks=1, ids="int64", source=None, words=WORDS, **options):
    """Run a batch of a watch under a drawn layout; return its commit, None where there is nothing to do."""
    plan = plan_batch(home, settings, source or Source(files={"f": len(rows)}), Options(**options), NOW)
    if plan is None:
        return None
    routing = drawn_routing(rng, drawn_grid(rng, plan.standing, settings.space), words)
    plan = replace(plan, routed=routed_by(plan, routing))
    done, worked = run_on_workers(plan, rows_of(rows, ids), tasks)
    if right := set_back(plan, [one.heard for one in done]):
        plan = right
        done, worked = run_on_workers(plan, rows_of(rows, ids), tasks)
    assert sum(int(one.rows.sum()) for one in worked) >= sum(one.counts.get("accepted", 0) for one in done)
    ended = worth_a_commit(plan, done)
    return None if ended is None else commit_on_workers(plan, done, worked, ended=ended)
