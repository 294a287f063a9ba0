"""A stream in, its rounds and what each strategy would have done with them out, and which one to take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ceps.balance.rehearse import StrategyRun, rehearse
from ceps.balance.round_costs import Loads, Terms, WorkModel
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.strategies import AUTO, names, strategy_of
from dtoss.errors import InputError
from dtoss.geometry.space import Space, space_of
from dtoss.rows.input_columns import Columns, attribute_column
from dtoss.watch.index.build_index import build
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.matching.grid_search import candidates_of
from dtoss.watch.matching.matcher import StandingMatcher
from dtoss.watch.processing.in_memory_watch import columns_in
from dtoss.watch.rows_of_frames import given_rows
from dtoss.watch.sharding.layout_files import asked_cells, grid_of_standing
from dtoss.watch.sharding.routing_grid import SIDE, RoutingGrid, cells_of
from dtoss.watch.subscription import ENTER, INSIDE, LEAVE
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.subscriptions.known_columns import asked_space
from dtoss.watch.subscriptions.subscription_files import read_files
from dtoss.watch.watch_folder import Home, check_there
from dtoss.watch.watch_settings import Rows
from dtoss.watch.words.messages import Vocabulary, messages_of
from pipelines.options.streaming import Questions, StreamColumns
from pipelines.rows.inputs import look
from pipelines.rows.position_frame import screen_positions
from pipelines.rows.read_files import names_in, read_positions


@dataclass(frozen=True)
class Stream:
    """Rows by time."""

    rows: Rows
    skipped: int  # Rows that cannot be used, as a job judges them: without a legal position, say, or a time


def read_stream(path: str, space: Space, names: StreamColumns, wanted: Sequence[str] = ()) -> Stream:
    """Return the rows of files, which are read as those of any job. All rows are held in memory."""
    inputs = look([path])
    columns = Columns(id=names.id, x=names.x, y=names.y, time=names.time or "t", attributes="none")
    there = names_in(None, inputs, columns)
    if columns.id is None and "id" in there:
        columns = replace(columns, id="id")
    called = {"x": "lon", "y": "lat", "t": "t"} if space.geographic else {"x": "x", "y": "y", "t": "t"}
    if columns.id is not None:
        called["id"] = "id"
    named = [*wanted, *([] if names.text is None else [names.text])]
    others = [name for name in dict.fromkeys(named) if name not in called.values()]
    for name in others:
        if name not in there:
            raise InputError(f"{path} has no column {name!r}; there are {', '.join(there)}")
    # what all texts look like is no matter: words are asked of them
    text = {} if names.text is None else {names.text: "string"}
    read = read_positions(None, inputs, replace(columns, attributes=others or "none"), wanted=text)
    frame = screen_positions(read, space).frame
    called |= {attribute_column(name): name for name in others}
    kept = frame.rows(list(called)).table(pa.schema([frame.schema.field(name) for name in called]))
    rows = given_rows(kept.rename_columns(list(called.values())), space, names.text, set(wanted)).rows
    assert rows.t is not None
    order = np.argsort(rows.t, kind="stable")
    return Stream(rows.take(order), frame.tally.read - len(kept))


MICROSECONDS = 1_000_000
NEAR_BEST = 0.05
"""A strategy is as good as the best if its mean is within so much of the best one's: then moves and copies decide."""
FEW_MOVED, FEW_COPIES = 1e-3, 1e-2
"""Shares moved a round, and copies, that make no difference."""
SMALL_BYTES = 64e6
"""Subscriptions that fit the memory of any worker, where it is not said how much that is."""


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What strategies would have done."""

    rounds: Rounds  # Of the stream; the first one is the sample
    space: Space
    results: Sequence[StrategyRun]  # Of each strategy and number of workers
    rows: int  # Rows of the stream, and those that were none
    skipped: int  # Rows of the stream, and those that were none
    round_seconds: float
    fits: bool  # Whether all subscriptions fit the memory of each worker


def rehearse_stream(
    positions: str,
    questions: Questions,
    *,
    strategies: Sequence[str] = ("all",),
    workers: Sequence[int] = (8,),
    round_seconds: float = 1800.0,
    columns: StreamColumns | None = None,
    space: Space | None = None,
    memory_bytes: float | None = None,
    model: WorkModel | None = None,
    side: int = SIDE,
) -> Rehearsal:
    """Return what strategies would have done with a stream. Needs no Spark; the same arguments give the same result.

    ``strategies``: names of :mod:`ceps.strategies`; "all" for all of them; ``space``: of the positions; None takes the
    watch's, else degrees; ``memory_bytes``: of a worker, for "auto".
    """
    if not round_seconds > 0.0:
        raise InputError(f"--round is {round_seconds:g} s: more than 0 is wanted")
    chosen = _chosen(strategies, memory_bytes)
    made = [(name, count, strategy_of(name, count, memory_bytes)) for count in workers for name in chosen]
    columns = columns or StreamColumns()
    table, space = _asked(questions.subscriptions or (), questions.store, questions.watch, space, columns)
    texts = [text for text in table.column("where").unique().to_pylist() if text is not None]
    wanted = sorted(frozenset().union(*map(columns_in, texts)) - {"id"})
    stream = read_stream(positions, space, columns, wanted)
    index = _standing(table, space, stream.rows, columns.text)
    grid = grid_of_standing(index, space, side)
    cells = asked_cells(index.parts[0][1], grid)
    asked = SubscriptionLoad(grid.shape, cells.rects, cells.owner, cells.bytes, cells.cover_begin, cells.cover)
    rounds = rounds_of(
        stream.rows, index, space, grid, asked, round(round_seconds * MICROSECONDS), model or WorkModel(),
        cells.vocabulary,
    )  # fmt: skip
    if len(rounds) < 2:
        raise InputError(
            f"{positions} has rows in {len(rounds)} rounds of {round_seconds:g} s: at least two are wanted, the first "
            "as a sample to begin with; make --round shorter"
        )
    results = [rehearse(name, strategy, rounds.each()) for name, _, strategy in made]
    fits = float(asked.bytes.sum()) <= (SMALL_BYTES if memory_bytes is None else memory_bytes)
    return Rehearsal(rounds, space, results, len(stream.rows), stream.skipped, round_seconds, fits)


def _chosen(strategies: Sequence[str], memory_bytes: float | None) -> list[str]:
    found: list[str] = []
    for name in strategies:
        all_of_them = [one for one in names() if one != AUTO or memory_bytes is not None]
        found += all_of_them if name == "all" else [name]
    return list(dict.fromkeys(found))


def _asked(
    files: Sequence[str], store: str | None, watch: str, space: Space | None, columns: StreamColumns
) -> tuple[Any, Space]:
    """Return the table of subscriptions, and their space."""
    if (store is None) == (not files):
        raise InputError("subscriptions come of files (--subscriptions FILE) or of a watch (--store STORE): name one")
    if store is not None:
        home = Home(store, watch)
        check_there(home)
        return table_at(home, change_number(home)), space or asked_space(home) or space_of()
    space = space or space_of()
    read = read_files(list(files), space, text=columns.text is not None)
    if read.bad:
        raise InputError(f"{len(read.bad):,} subscriptions cannot be asked, such as {read.bad[0]}")
    return read.table, space


def _standing(table: Any, space: Space, rows: Rows, text: str | None) -> Standing:
    schema = {name: column.type for name, column in rows.attributes.items()}
    if rows.ids is not None:
        schema.setdefault("id", rows.ids.type)
    return Standing(build(table, space, schema, text is not None), None)


def best_of(results: Sequence[StrategyRun], fits: bool) -> StrategyRun:
    """Return the one to take: of those whose mean is near the best the one that moves least, then that copies least.

    One that has everything everywhere is always even: it is taken where all fits each worker, else only where no other
    one is there.
    """
    parted = [one for one in results if one.copies.max() < one.workers - FEW_COPIES]
    whole = [one for one in results if one.copies.max() >= one.workers - FEW_COPIES]
    results = (whole or parted) if fits else (parted or whole)
    least = min(float(one.max_over_mean[one.settled].mean()) for one in results)
    good = [one for one in results if float(one.max_over_mean[one.settled].mean()) <= least * (1.0 + NEAR_BEST)]
    return min(
        good,
        key=lambda one: (
            round(float(one.moved_share[one.settled].mean()) / FEW_MOVED),
            round(float(one.copies[one.settled].mean()) / FEW_COPIES),
            float(one.max_over_mean[one.settled].mean()),
        ),
    )


def facts_of(rehearsal: Rehearsal) -> dict[str, Any]:
    """Return what the page and the JSON say; times that decisions took are left out, so that two runs are the same."""
    rounds = rehearsal.rounds
    counts = sorted({one.workers for one in rehearsal.results})
    strategies = []
    for one in rehearsal.results:
        settled = one.settled
        strategies.append(
            {
                "strategy": one.name,
                "workers": one.workers,
                "mean": round(float(one.max_over_mean[settled].mean()), 4),
                "worst": round(float(one.max_over_mean[settled].max()), 4),
                "movedShare": round(float(one.moved_share[settled].mean()), 6),
                "mostMovedShare": round(float(one.moved_share[settled].max()), 6),
                "copies": round(float(one.copies[settled].mean()), 4),
                "messageBytes": round(float(one.messages[settled].mean()), 1),
                "maxOverMean": [round(float(value), 4) for value in one.max_over_mean],
                "sigma": [None if not np.isfinite(value) else round(float(value), 4) for value in one.sigma],
                "movedBytes": [round(float(value)) for value in one.moved],
            }
        )
    take = [best_of([one for one in rehearsal.results if one.workers == count], rehearsal.fits) for count in counts]
    return {
        "format": 1,
        "rows": rehearsal.rows,
        "skipped": rehearsal.skipped,
        "subscriptions": len(rounds.asked),
        "subscriptionBytes": round(float(rounds.asked.bytes.sum())),
        "roundSeconds": rehearsal.round_seconds,
        "rounds": len(rounds) - 1,
        "begin": [int(one) // MICROSECONDS for one in rounds.begin_us[1:]],
        "grid": vars(rounds.grid),
        "prices": {"row": rounds.model.a, "candidate": rounds.model.b, "match": rounds.model.c},
        "strategies": strategies,
        "take": [{"strategy": one.name, "workers": one.workers} for one in take],
    }


MOST_ROUNDS = 10_000


@dataclass(frozen=True, eq=False)
class Spoken:
    """Words by round and cell."""

    ends: NDArray[np.int64]  # int64 (r,). Where those of each round end in the arrays below
    cell: NDArray[np.int64]  # cell, word, rows, under: int64. As of :class:`ceps.balance.round_costs.Terms`
    word: NDArray[np.int64]
    rows: NDArray[np.int64]
    under: NDArray[np.int64]

    def terms(self, number: int) -> Terms:
        """Return those of a round."""
        part = slice(int(self.ends[number - 1]) if number else 0, int(self.ends[number]))
        rows, under = self.rows[part].astype(np.float64), self.under[part].astype(np.float64)
        return Terms(self.cell[part], self.word[part], rows, under)


@dataclass(frozen=True, eq=False)
class Rounds:
    """What rows of each round cost, of r rounds that have any."""

    grid: RoutingGrid
    asked: SubscriptionLoad
    begin_us: NDArray[np.int64]  # int64 (r,). When each begins, microseconds since 1970
    ends: NDArray[np.int64]  # int64 (r,). Where the cells of each end in the arrays below
    # cell, rows, candidates, matches: int64. Cells of a round that have rows, rising, and what these are
    cell: NDArray[np.int64]
    rows: NDArray[np.int64]
    candidates: NDArray[np.int64]
    matches: NDArray[np.int64]
    model: WorkModel
    # What rows of each round have said of the words that are asked for; None where rows have no words
    spoken: Spoken | None = None

    def __len__(self) -> int:
        return len(self.begin_us)

    def loads(self, number: int) -> Loads:
        """Return what a round has cost."""
        part = slice(int(self.ends[number - 1]) if number else 0, int(self.ends[number]))
        full = [np.zeros(self.grid.cells) for _ in range(3)]
        for total, values in zip(full, (self.rows, self.candidates, self.matches), strict=True):
            total[self.cell[part]] = values[part]
        rows, candidates, matches = full
        stored, sizes = self.asked.stored_by_cell.astype(np.float64), self.asked.bytes_by_cell
        terms = None if self.spoken is None else self.spoken.terms(number)
        return Loads(self.grid.shape, rows, candidates, matches, stored, sizes, self.model, terms)

    def each(self) -> Iterator[tuple[Loads, SubscriptionLoad]]:
        """Yield all in turn, as a rehearsal takes them."""
        for number in range(len(self)):
            yield self.loads(number), self.asked


def rounds_of(
    rows: Rows, standing: Standing, space: Space, grid: RoutingGrid, asked: SubscriptionLoad, round_us: int,
    model: WorkModel, vocabulary: Vocabulary,
) -> Rounds:  # fmt: skip
    """Return the rounds of a stream. Cost O(rows log rows + matches), and O(words log words) where rows have texts.

    Candidates of a row are the places that the index looks at for it, and the subscriptions of its cell that stand
    under one of its words.

    ``round_us``: microseconds of a round; rounds begin at whole multiples.
    """
    assert rows.t is not None
    number = rows.t // round_us
    begins, of = np.unique(number, return_inverse=True)
    if len(begins) > MOST_ROUNDS:
        raise InputError(
            f"the stream has {len(begins):,} rounds of {round_us / 1e6:g} s; at most {MOST_ROUNDS:,} are wanted"
        )
    cell = cells_of(grid, space, rows.positions)
    looked, held = candidates_of(standing, rows.positions), _matches(rows, standing)
    key, inverse = np.unique(of * grid.cells + cell, return_inverse=True)
    ends = np.searchsorted(key, (np.arange(len(begins)) + 1) * grid.cells)
    candidates = np.bincount(inverse, looked, len(key)).astype(np.int64)
    spoken = None
    if rows.text is not None and len(asked.cover):
        spoken = _spoken(inverse, key, ends, rows.text, asked, vocabulary)
        at = np.searchsorted(
            key, np.repeat(np.arange(len(ends)), np.diff(spoken.ends, prepend=0)) * grid.cells + spoken.cell
        )
        candidates += np.bincount(at, spoken.rows * spoken.under, len(key)).astype(np.int64)
    return Rounds(
        grid,
        asked,
        begins * round_us,
        ends,
        key % grid.cells,
        np.bincount(inverse, minlength=len(key)),
        candidates,
        np.bincount(inverse, held, len(key)).astype(np.int64),
        model,
        spoken,
    )


def _spoken(
    of: NDArray[np.int64], key: NDArray[np.int64], ends: NDArray[np.int64], text: pa.Array, asked: SubscriptionLoad,
    vocabulary: Vocabulary,
) -> Spoken:  # fmt: skip
    """Return the words of rows: ``of`` is the place of each in ``key``, of rounds and cells."""
    said = messages_of(vocabulary, text)
    row, word = np.repeat(np.arange(len(text)), np.diff(said.first)), said.words.astype(np.int64)
    wanted = np.isin(word, asked.under_words.words)
    count = max(int(asked.under_words.words.max(initial=0)) + 1, 1)
    pairs, rows = np.unique(of[row[wanted]] * count + word[wanted], return_counts=True)
    place, word = pairs // count, pairs % count
    cell = key[place] % (asked.shape[0] * asked.shape[1])
    under = asked.under_words.over(cell, word)
    return Spoken(np.searchsorted(place, ends), cell, word, rows, under)


def _matches(rows: Rows, standing: Standing) -> NDArray[np.int64]:
    """Return how many subscriptions hold each row, int64 (n,)."""
    found = np.zeros(len(rows), np.int64)
    for piece in StandingMatcher(standing, standing.alive(None)).pieces(rows, INSIDE | ENTER | LEAVE):
        size = piece.last_row - piece.first_row
        found[piece.first_row : piece.last_row] += np.bincount(piece.row - piece.first_row, minlength=size)
    return found
