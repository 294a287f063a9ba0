"""Adapting: leaves of a period are cut and merged where what was asked has paid for it, and an order is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.history.adaptive.by_paper import decide_by_paper
from dtoss.history.adaptive.cost import Points, Prices, Run, asking, cost_of, reads_of
from dtoss.history.adaptive.rewrite_decisions import Decision, Leaf, Look, Rewriting, decide
from dtoss.history.data_file import FILE_BYTES, READ_OVER, NewFile, Part, read_blocks, write_file
from dtoss.history.history_commit import Change, Stale, commit, undone
from dtoss.history.layouts.compaction import make_order
from dtoss.history.query.read_plan import request_bytes
from dtoss.history.query.scan_blocks import QUESTIONS
from dtoss.history.questions import Questions, gather, keep
from dtoss.history.row_blocks import BY_OBJECT, BY_PLACE, BY_TIME, Blocks, places_in, sorted_rows, t_numbers
from dtoss.history.versions import Home, Version

AT_ONCE_BYTES = 64 * 2**20
"""Bytes of leaves that are rewritten by one commit, about: they are in memory together."""
ADAPT_TRIES = 8
"""How often a period is looked at again because others have rewritten it meanwhile."""
Say = Callable[[str], None]
Method = Literal["regret", "aqwa"]


@dataclass(frozen=True)
class Adapted:
    """What adapting did, or would do."""

    version: Version
    questions: int  # How many are remembered
    cut: int = 0  # cut, merged, made: leaves that were cut, that were merged, and those that came of both
    merged: int = 0
    made: int = 0
    objects: tuple[int, ...] = ()  # Periods that got an order by object
    bytes: int = 0  # Of the leaves that were rewritten
    looked: int = 0  # Bytes that were read to decide, those among them
    regret: float = 0.0  # Bytes that recent questions would have cost less, each with its weight
    waste: float = 0.0  # Bytes that they read beyond the blocks of their answers
    unreadable: int = 0  # Files of questions that could not be read

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "version"}
        kept |= {"regret": round(self.regret), "waste": round(self.waste), "objects": list(self.objects)}
        return {"version": self.version.number} | kept


def adapt(
    home: Home,
    *,
    request_bytes: float | None = None,
    dry_run: bool = False,
    say: Say | None = None,
    method: Method = "regret",
) -> Adapted:
    """Rewrite the leaves whose questions have paid for it, and return what was done.

    ``request_bytes``: what a request costs, as bytes that could be read in its time; kept for the history. As measured
    or by file system where nobody said; ``method``: "aqwa" cuts as the AQWA paper does, for comparison: by points of
    whole leaves, with neither intervals nor requests; it merges nothing, makes no order, and reads all leaves twice.

    Each commit rewrites leaves of one period to one new file, with the rows and sums of old and new leaves compared.
    Without new questions a second call changes nothing.
    """
    if request_bytes is not None and not 0 < request_bytes < np.inf:
        raise InputError(f"request bytes are {request_bytes:g}: a positive number is wanted")
    if method not in ("regret", "aqwa"):
        raise InputError(f"the method is {method!r}: give 'regret' or 'aqwa'")
    version = home.version()
    if request_bytes is not None and version.options.get("request_bytes") != int(request_bytes) and not dry_run:
        version = commit(home, Change("options", options={"request_bytes": int(request_bytes)}), version)
    gathered = gather(home, version.schema.space.dimension)
    questions = gathered.questions
    looks = dict(gathered.looks)
    done = Adapted(version, len(questions), unreadable=gathered.unreadable)
    for period in version.periods.number[(version.periods.orders >> np.uint8(BY_PLACE)) & np.uint8(1) == 1].tolist():
        done = _adapt_period(home, done, period, questions, looks, request_bytes, method, dry_run=dry_run, say=say)
    due = object_due(done.version, questions, prices_of(done.version, request_bytes)) if method == "regret" else ()
    for period in due:
        if not dry_run:
            done = replace(done, version=make_order(home, period, "object"))
            _told(say, f"period {period} has an order by object")
        done = replace(done, objects=(*done.objects, period))
    if not dry_run:
        keep(home, gathered, _standing(looks, done.version))
    return done


def _adapt_period(
    home: Home,
    done: Adapted,
    period: int,
    questions: Questions,
    looks: dict[str, Any],
    request_bytes: float | None,
    method: Method,
    *,
    dry_run: bool,
    say: Say | None,
) -> Adapted:
    """Return what was done once all leaves of a period are as they are to be."""
    version, stale = done.version, 0
    while True:
        prices = prices_of(version, request_bytes)
        held = place_leaves(home, version, period)
        if not held.leaves:
            return replace(done, version=version)  # others have taken the order away
        most = np.inf if dry_run else AT_ONCE_BYTES
        if method == "aqwa":
            made = decide_by_paper(held.leaves, questions, held.load, prices, most)
        else:
            elsewhere = cost_by(version, period, BY_TIME, questions, prices)
            made = decide(held.leaves, elsewhere, questions, held.load, prices, held.known(looks), most)
        looks.update(held.told(made.looks))
        tally = _counted(done, made)
        if dry_run or not made.rewritings:
            return replace(tally, version=version)
        try:
            version = _rewrite(home, version, period, held, made.rewritings)
        except Stale:
            stale += 1
            if stale >= ADAPT_TRIES:
                raise
            version = home.version()
            continue
        done = tally
        _told(say, f"{_leaves_said(made.rewritings)} of period {period} were rewritten")


def _counted(done: Adapted, made: Decision) -> Adapted:
    rewritings = made.rewritings
    return replace(
        done,
        cut=done.cut + sum(len(one.leaves) == 1 for one in rewritings),
        merged=done.merged + sum(len(one.leaves) for one in rewritings if len(one.leaves) > 1),
        made=done.made + sum(len(one.parts) for one in rewritings),
        bytes=done.bytes + sum(one.size for one in rewritings),
        looked=done.looked + made.looked,
        regret=done.regret + sum(one.regret for one in rewritings),
        waste=done.waste + sum(one.waste for one in rewritings),
    )


def _rewrite(home: Home, version: Version, period: int, held: PlaceLeaves, rewritings: list[Rewriting]) -> Version:
    gone = [held.numbers[number] for one in rewritings for number in one.leaves]
    detail = {
        "period": period,
        "cut": sum(len(one.leaves) == 1 for one in rewritings),
        "merged": sum(len(one.leaves) for one in rewritings if len(one.leaves) > 1),
        "made": sum(len(one.parts) for one in rewritings),
        "bytes": sum(one.size for one in rewritings),
        "regret": round(sum(one.regret for one in rewritings)),
        "waste": round(sum(one.waste for one in rewritings)),
    }
    keys = tuple(held.keys[number] for number in gone)
    with undone(home, version):
        files = tuple((file, period) for file in _files(home, version, held, rewritings))
        return commit(home, Change("adapt", files=files, gone=keys, detail=detail), version)


def _files(home: Home, version: Version, held: PlaceLeaves, rewritings: list[Rewriting]) -> list[NewFile]:
    """Return new files of all leaves that come: one, unless that would be too large."""
    groups: list[list[Rewriting]] = [[]]
    size = 0
    for one in rewritings:
        if groups[-1] and size + one.size > FILE_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.size

    def parts(group: list[Rewriting]) -> list[Part]:
        return [part for one in group for part in _parts(home, version, held, one)]

    def origin(group: list[Rewriting]) -> str:
        keys = held.keys
        return " ".join(f"{keys[held.numbers[number]]}" for one in group for number in one.leaves)

    return [write_file(home.folder, BY_PLACE, parts(group), version.schema, origin(group)) for group in groups]


def _parts(home: Home, version: Version, held: PlaceLeaves, one: Rewriting) -> list[Part]:
    rows = held.rows(one.leaves)
    return [(rows.take(pa.array(numbers)), cell) for numbers, cell in one.parts]


def _leaves_said(rewritings: list[Rewriting]) -> str:
    count = sum(len(one.leaves) for one in rewritings)
    return f"{count:,} {'leaf' if count == 1 else 'leaves'}"


def _standing(looks: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """Return the looks at files that the version still has."""
    names = set(version.files.name)
    return {key: look for key, look in looks.items() if all(part.split("#")[0] in names for part in key.split(" "))}


def _told(say: Say | None, text: str) -> None:
    if say is not None:
        say(text)


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
