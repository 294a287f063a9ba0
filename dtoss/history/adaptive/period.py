"""A period of a history as the decisions see it: its leaves by place, what other orders cost, the rows of leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.history.adaptive.cost import Points, Prices, Run, asking, cost_of, reads_of
from dtoss.history.adaptive.rewrite_decisions import Leaf, Look
from dtoss.history.query.explain import QUESTIONS
from dtoss.history.query.read_plan import request_bytes
from dtoss.history.questions import Questions
from dtoss.history.read_blocks import READ_OVER, read_blocks
from dtoss.history.row_blocks import BY_OBJECT, BY_PLACE, BY_TIME, Blocks, places_in, sorted_rows, t_numbers
from dtoss.history.versions import Home, Version

BLOCKS_OF_TRACK = 2
"""Blocks that the rows of one object are in, where they lie together."""


def prices_of(version: Version, given: float | None = None) -> Prices:
    """Return what reads and writes of a version cost; a request what is given, or what the plan thinks."""
    request = float(request_bytes(version) if given is None else given)
    # reading a leaf takes as long as asking for it where it has as many bytes as a request costs
    return Prices(request, gap=int(min(READ_OVER, request)), least=max(request, LEAST_LEAF))


LEAST_LEAF = 2**18
"""Bytes of a leaf, below which none is cut whatever a request costs: three blocks or so."""


def run_of_blocks(blocks: Blocks) -> Run:
    """Return blocks that lie one behind the other as a run."""
    times = (blocks.t_from.astype(np.float64), blocks.t_to.astype(np.float64))
    return Run(*times, blocks.low, blocks.high, blocks.bytes.astype(np.int64))


@dataclass(frozen=True)
class PlaceLeaves:
    """The leaves of the place order of one period."""

    home: Home
    version: Version
    numbers: NDArray[np.int64]  # int64 (n,). Which leaves of the version
    leaves: list[Leaf]  # n of them, as decisions see them
    # Of each leaf of the version that is among them, by its number: its file, and the first of its row groups
    keys: Mapping[int, tuple[str, int]]

    def rows(self, chosen: tuple[int, ...]) -> pa.Table:
        """Return the rows of some leaves by (t, id)."""
        version, leaves = self.version, self.version.leaves
        parts = []
        for number in chosen:
            leaf = int(self.numbers[number])
            name = version.files.name[leaves.file[leaf]]
            parts.append(read_blocks(self.home, name, version.blocks(leaf), version.schema))
        return parts[0] if len(parts) == 1 else sorted_rows(pa.concat_tables(parts), "time")

    def load(self, chosen: tuple[int, ...]) -> Points:
        """Return the same rows as points."""
        rows = self.rows(chosen)
        size = sum(self.leaves[number].run.size for number in chosen)
        return points_of(rows, self.version, size / max(len(rows), 1))

    def known(self, looks: Mapping[str, Any]) -> dict[tuple[int, ...], Look]:
        """Return what looks, as :meth:`told` made them, say of these leaves."""
        place = {self._key(number): number for number in range(len(self.leaves))}
        found = {}
        for key, (number, share) in looks.items():
            parts = key.split(" ")
            if all(part in place for part in parts):
                found[tuple(place[part] for part in parts)] = Look(int(number), float(share))
        return found

    def told(self, looks: Mapping[tuple[int, ...], Look]) -> dict[str, Any]:
        """Return looks as what JSON can hold, by the names of files."""
        return {" ".join(map(self._key, leaves)): [look.number, look.share] for leaves, look in looks.items()}

    def _key(self, number: int) -> str:
        name, group = self.keys[int(self.numbers[number])]
        return f"{name}#{group}"


def place_leaves(home: Home, version: Version, period: int) -> PlaceLeaves:
    """Return the leaves of the place order of a period; none where it has no such order."""
    leaves = version.leaves
    numbers = np.flatnonzero((leaves.period == period) & (leaves.order == BY_PLACE))
    made, keys = [], {}
    for number in numbers.tolist():
        blocks = version.blocks(number)
        x0, y0, x1, y1 = leaves.cell[number].tolist()
        rows = int(leaves.rows[number])
        made.append(Leaf(run_of_blocks(blocks), (x0, y0, x1, y1), int(leaves.since[number]), rows))
        keys[number] = (version.files.name[leaves.file[number]], int(blocks.row_group[0]))
    return PlaceLeaves(home, version, numbers, made, keys)


def points_of(rows: pa.Table, version: Version, row_bytes: float) -> Points:
    """Return rows, by ascending times, as points; deletions are nowhere."""
    positions, vectors = places_in(rows, version.schema.space)
    return Points(t_numbers(rows.column("t")).astype(np.float64), positions, vectors, row_bytes)


def cost_by(version: Version, period: int, order: int, questions: Questions, prices: Prices) -> NDArray[np.float64]:
    """Return what each question would cost in an order of a period whose leaves lie by time, float64 (m,)."""
    leaves = version.leaves
    total = np.zeros(len(questions))
    for number in np.flatnonzero((leaves.period == period) & (leaves.order == order)).tolist():
        run = run_of_blocks(version.blocks(number))
        met = asking(run, questions, prices)
        if len(met):
            total[met] += cost_of(reads_of(run, questions.take(met), prices), prices)
    return total


def object_due(version: Version, questions: Questions, prices: Prices) -> list[int]:
    """Return the periods whose trajectories have paid for an order by object, which they do not have.

    A period pays for itself only by questions that read it, and only once it has a place order: small periods are to be
    merged first.
    """
    tracks = np.flatnonzero((questions.kind == QUESTIONS.index("trajectory")) & (questions.ids > 0))
    if not len(tracks):
        return []
    weights, some = questions.weights()[tracks], questions.take(tracks)
    due = []
    periods = version.periods
    for number, size, orders in zip(periods.number.tolist(), periods.bytes, periods.orders, strict=True):
        if orders >> BY_OBJECT & 1 or not orders >> BY_PLACE & 1:
            continue
        mine = (version.leaves.period == number) & (version.leaves.order == BY_TIME)
        block = float(version.leaves.bytes[mine].sum()) / float(version.leaves.count[mine].sum())
        now = cost_by(version, number, BY_TIME, some, prices)
        then = some.ids * (prices.request + BLOCKS_OF_TRACK * block)
        saved = np.maximum(now - then, 0.0)
        saved[some.version < int(version.leaves.since[mine].min())] = 0.0
        if saved @ weights >= prices.to_rewrite(float(size)):
            due.append(number)
    return due
