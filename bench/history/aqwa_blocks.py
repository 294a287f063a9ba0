"""AQWA on files read whole, and its rule on blocks, for questions that have an interval: four phases, online.

``python -m bench.history.aqwa_blocks`` asks the questions of `bench.history.worlds.phases` of one place order that
begins with 64 leaves. Costs are in MB a question at 1 MB a request, with what cuts have rewritten: read once, and
written at twice the price. Five ways:

- never cut, files read whole: what SpatialHadoop's k-d tree is in the paper;
- AQWA: the paper's counters decide, files are read whole;
- the same cuts, but rows lie by time inside a leaf and only blocks that a question touches are read;
- AQWA's rule on blocks: (1) to (4) with the bytes of those blocks for the points of a partition. Still no price of a
  request, still every question counted at every cut above it, still no merges;
- ours: `dtoss.history.adaptive.rewrite_decisions`, which has those.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.history.aqwa_run import AqwaRun, even_grid, first_parts
from bench.history.layouts import Layout, laid_out, reads, time_order
from bench.history.online import Online, leaf_of, play
from bench.history.worlds import PHASES, World, cabspotting, phases
from bench.measuring.points import missing
from dtoss.history.adaptive.cost import Prices
from dtoss.history.aqwa.aqwa_grid import GRID_LINES, Rectangle
from dtoss.history.aqwa.aqwa_partitions import FADE_EVERY, FADING, Rule
from dtoss.history.aqwa.grid_counts import PointCounts
from dtoss.history.questions import Questions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAVES = 64
REQUEST = 1e6
"""Bytes: g."""
REWRITE = 3.0
"""Bytes that are read once, and written at twice the price."""
LEASTS = (128.0, 8.0, 1.0)
"""minCount, as MB."""
TOGETHER = 20
"""Questions after which the rule on blocks looks at its leaves: a batch of the paper's 7.2."""


@dataclass
class Kept:
    """A leaf: its rows by time, and their blocks."""

    rows: Ints
    layout: Layout
    waste: float = 0.0


@dataclass
class Played:
    """What each question read, ranges and bytes, and what was rewritten after it, bytes."""

    read: Ints
    paid: Floats
    cuts: int = 0
    rewritten: float = 0.0
    leaves: dict[int, Kept] = field(default_factory=dict)


def kept(world: World, rows: Ints) -> Kept:
    """Return a leaf of rows, which ascend."""
    return Kept(rows, laid_out(world, rows, np.zeros(len(rows), np.int64), world.block_rows))


def box_of(world: World, questions: Questions, number: int) -> Floats:
    """Return the box of a question as AQWA knows it: without its interval; all of the world where it has no place."""
    pieces = slice(questions.begin[number], questions.begin[number + 1])
    if pieces.start == pieces.stop:
        return np.concatenate([world.xy.min(axis=0), world.xy.max(axis=0)])
    reach = questions.reach[pieces, None]
    low, high = questions.low[pieces] - reach, questions.high[pieces] + reach
    return np.concatenate([low.min(axis=0), high.max(axis=0)])


def started(world: World, least: float) -> tuple[AqwaRun, dict[int, Kept]]:
    """Return AQWA on 64 leaves, and their rows."""
    grid = even_grid([*world.xy.min(axis=0), *world.xy.max(axis=0)])
    counts = PointCounts.of(grid, world.xy)
    parts = first_parts(counts, grid.everything, 1, LEAVES)
    row, column = grid.cells(world.xy)
    rows = {number: np.flatnonzero(_within(part, row, column)) for number, part in enumerate(parts)}
    rule = Rule(int(least / world.row_bytes))
    return AqwaRun(grid, counts, parts, rule), {number: kept(world, some) for number, some in rows.items()}


def _within(part: Rectangle, row: Ints, column: Ints) -> NDArray[np.bool_]:
    return (row >= part.top) & (row < part.bottom) & (column >= part.left) & (column < part.right)


def by_counters(world: World, questions: Questions, least: float) -> tuple[Played, Played]:
    """Return what AQWA's own cuts cost: files read whole, and only their blocks."""
    aqwa, leaves = started(world, least)
    count = len(questions)
    whole = Played(np.zeros((count, 2), np.int64), np.zeros(count), leaves=leaves)
    blocks = Played(np.zeros((count, 2), np.int64), np.zeros(count), leaves=leaves)
    row, column = aqwa.grid.cells(world.xy)
    for number in range(count):
        answer = aqwa.ask(box_of(world, questions, number))
        whole.read[number] = len(answer.parts), answer.points.sum() * world.row_bytes
        one = questions.take(np.array([number]))
        blocks.read[number] = sum(reads(leaves[part].layout, one)[0] for part in answer.parts.tolist())
        for cut in answer.cuts:
            rows = leaves.pop(cut.part).rows
            first = (row if cut.across_rows else column)[rows] < cut.line
            leaves[cut.first], leaves[cut.second] = kept(world, rows[first]), kept(world, rows[~first])
            for played in (whole, blocks):
                played.cuts += 1
                played.rewritten += len(rows) * world.row_bytes
                played.paid[number] += REQUEST + REWRITE * len(rows) * world.row_bytes
    return whole, blocks


def on_blocks(world: World, questions: Questions, least: float) -> Played:
    """Return what the rule costs on the blocks that are read: (1) to (4) with their bytes."""
    _, leaves = started(world, least)
    count = len(questions)
    played = Played(np.zeros((count, 2), np.int64), np.zeros(count), leaves=leaves)
    made = len(leaves)
    for begin in range(0, count, TOGETHER):
        some = np.arange(begin, min(begin + TOGETHER, count))
        asked = questions.take(some)
        fade = FADING if begin and begin % FADE_EVERY == 0 else 1.0
        due = []
        for number, leaf in leaves.items():
            got = reads(leaf.layout, asked)
            played.read[some] += got
            leaf.waste = leaf.waste / fade + float(got[:, 1].sum())
            # no cut saves more than all that was read
            if leaf.waste > 2 * leaf.layout.bytes.sum():
                due.append(number)
        known = np.arange(some[-1] + 1)
        weights = FADING ** -np.maximum((some[-1] + 1) // FADE_EVERY - known // FADE_EVERY - 1, 0.0)
        while due:
            number = due.pop()
            leaf = leaves[number]
            first = _cut(world, leaf, questions.take(known), weights, least)
            if first is None:
                leaf.waste = 0.0
                continue
            del leaves[number]
            size = float(leaf.layout.bytes.sum())
            played.cuts += 1
            played.rewritten += size
            played.paid[some[-1]] += REQUEST + REWRITE * size
            for rows in (leaf.rows[first], leaf.rows[~first]):
                leaves[made] = kept(world, rows)
                due.append(made)
                made += 1
    return played


def _cut(world: World, leaf: Kept, asked: Questions, weights: Floats, least: float) -> NDArray[np.bool_] | None:
    """Return which rows are in the first half of the best cut by (2) to (4), None where none pays.

    Lines are looked at by the binary search of 4.1 in both axes, on the grid's lines; the one that saves most is best.
    """
    own = reads(leaf.layout, asked)[:, 1]
    touched = np.flatnonzero(own)
    asked, weights = asked.take(touched), weights[touched]
    cost = float(own[touched] @ weights)
    size = float(leaf.layout.bytes.sum())
    best, most = None, 2 * size
    if cost <= most:
        return None
    for axis in range(2):
        at = world.xy[leaf.rows, axis]
        world_low, world_high = world.xy[:, axis].min(), world.xy[:, axis].max()
        lines = np.linspace(world_low, world_high, GRID_LINES + 1)
        low, high = np.searchsorted(lines, [at.min(), at.max()])
        while low < high:
            middle = (low + high) // 2
            first = at <= lines[middle]
            sides = []
            for rows in (leaf.rows[first], leaf.rows[~first]):
                sides.append(float(reads(kept(world, rows).layout, asked)[:, 1] @ weights) if len(rows) else 0.0)
            smaller = min(int(first.sum()), int((~first).sum())) * world.row_bytes
            if smaller > least and cost - sum(sides) > most:
                best, most = first, cost - sum(sides)
            if sides[0] > sides[1]:
                high = middle
            else:
                low = middle + 1
    return best


def ours(world: World, questions: Questions, least: float, elsewhere: Floats | None = None) -> Played:
    """Return what the leaves cost that the product cuts and merges, with another order beside it or none."""
    aqwa, leaves = started(world, least)
    prices = Prices(REQUEST, block_rows=world.block_rows, least=least)
    cells = [aqwa.grid.box(aqwa.rectangle(number)) for number in leaves]
    held = [leaf_of(world, leaf.rows, cell, 0, prices) for leaf, cell in zip(leaves.values(), cells, strict=True)]
    online = Online(world, prices, held)
    done = play(online, questions, elsewhere, every=TOGETHER)
    return Played(done.reads, done.paid, online.cuts, online.rewritten)


def shown(name: str, played: Played, size: float, other: Floats, beside: Played | None = None) -> None:
    """Print a row: the mean cost of each phase in MB and of all, the same with an order by time beside it, cuts."""
    cost = played.read[:, 0] * REQUEST + played.read[:, 1]
    means = [float(part.mean()) / 1e6 for part in np.array_split(cost + played.paid, len(PHASES))]
    two = played if beside is None else beside
    together = np.minimum(two.read[:, 0] * REQUEST + two.read[:, 1], other) + two.paid
    reads = f"{played.read[:, 0].mean():.0f} / {played.read[:, 1].mean() / 1e6:,.0f}"
    cells = [f"{mean:,.0f}" for mean in (*means, float(np.mean(means)), float(together.mean()) / 1e6)]
    print(f"| {name} | {' | '.join(cells)} | {reads} | {played.cuts} | {played.rewritten / size:.2f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--least", type=float, nargs="*", default=LEASTS, help="MB that each half of a cut has more of")
    options = parser.parse_args()
    if (reason := missing("taxi")) is not None:
        print(reason)
        return
    world = cabspotting()
    questions, _ = phases(world)
    size = len(world.t) * world.row_bytes
    read = reads(time_order(world), questions)
    other = read[:, 0] * REQUEST + read[:, 1]
    print(f"{len(world.t):,} rows that stand for {size / 1e9:.1f} GB, {len(questions):,} questions, {LEAVES} leaves\n")
    print("| layout | I | II | III | IV | mean | with a time order | ranges / MB | cuts | rewritten, of all bytes |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for bound in (None, *options.least):
        least = size if bound is None else bound * 2**20
        name = "never cut" if bound is None else f"minCount {bound:g} MB"
        whole, blocks = by_counters(world, questions, least)
        shown(f"AQWA, files read whole, {name}", whole, size, other)
        shown(f"the same leaves, by time inside, blocks, {name}", blocks, size, other)
        if bound is not None:
            shown(f"AQWA's rule on blocks, {name}", on_blocks(world, questions, least), size, other)
            two = ours(world, questions, least, other)
            shown(f"ours, no leaf below {bound:g} MB", ours(world, questions, least), size, other, two)


if __name__ == "__main__":
    main()
