"""All rows within shapes in an interval, rows of objects by their ids, and what stood at a moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.conditions.parse import Condition
from dtoss.geometry.distance import chord_of, distance
from dtoss.geometry.space import Space
from dtoss.history.query.block_queries import BlockQueries, Spans, chords_of, least_chords, stored_kind
from dtoss.history.query.read_plan import ChosenBlocks, blocks_of, plan
from dtoss.history.query.scan_blocks import FoundRows, Piece, Scan, in_order, joined_found, pieces_of, satisfying
from dtoss.history.row_blocks import id_words, latest
from dtoss.history.schema import Schema
from dtoss.queries.covered import Shape

Test = Callable[[Piece, int, NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.float64]]]
"""Of rows of a piece, for a question: those that answer it, and their distances."""


def rows_of(scan: Scan, asked: BlockQueries, test: Test, *, by_id: bool = False) -> tuple[FoundRows, dict[str, Any]]:
    """Return the rows that pass a test, and the facts of the plan.

    ``by_id``: in the order (question, id, t), and not (question, distance, id, t).
    """
    found = plan(scan.version, asked)
    parts = []
    for piece in pieces_of(scan, found.chosen):
        for question, rows in piece.of_questions(asked):
            kept, far = test(piece, question, rows)
            if len(kept):
                parts.append(FoundRows(np.full(len(kept), question), far, piece.rows.take(kept)))
    whole = joined_found(parts, scan.names, scan.version.schema)
    return in_order(whole, by_id=by_id), dict(found.facts)


def count_rows(
    scan: Scan, asked: BlockQueries, test: Test, certain: NDArray[np.float64] | None
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Return how many rows answer each question, int64 (m,), and the facts of the plan.

    ``certain``: float64 (m,). Chords within which every row answers, so that blocks within them need not be read; None
    where there are no such. A block that a condition is to be tried on is always read.
    """
    found = plan(scan.version, asked)
    counts = np.zeros(len(asked.spans.first), np.int64)
    chosen = found.chosen
    whole = np.zeros(len(chosen), np.bool_)
    if scan.condition is None and len(counts) == 1:
        whole = _whole(scan, chosen, asked, certain)
        blocks = blocks_of(scan.version, chosen.take(whole))
        counts[0] += int(blocks.rows.sum()) - int(blocks.marks.sum())
    for piece in pieces_of(scan, chosen.take(~whole)):
        for question, rows in piece.of_questions(asked):
            counts[question] += len(test(piece, question, rows)[0])
    return counts, {**found.facts, "blocks_counted_unread": int(whole.sum())}


def disc_test(scan: Scan, centres: NDArray[np.float64], radii: NDArray[np.float64]) -> Test:
    """Return the test of closed discs."""
    space = scan.version.schema.space

    def test(piece: Piece, question: int, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        vectors = space.vectors(piece.positions(rows))
        far = np.asarray(distance(vectors, centres[question][None])).reshape(len(rows))
        kept = far <= radii[question]
        return rows[kept], far[kept]

    return test


def shape_test(scan: Scan, shapes: Sequence[Sequence[Shape]]) -> Test:
    """Return the test of shapes: a row is within where it is within one of the parts. Distances are 0."""
    space = scan.version.schema.space

    def test(piece: Piece, question: int, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        positions = piece.positions(rows)
        vectors = space.vectors(positions)
        held = np.zeros(len(rows), np.bool_)
        for shape in shapes[question]:
            held |= shape.holds(positions, vectors)
        return rows[held], np.zeros(int(held.sum()))

    return test


def certain_chords(radii: NDArray[np.float64], asked: BlockQueries, space: Space) -> NDArray[np.float64]:
    """Return chords within which every vector is nearer than a radius: as much below it as the discs are above it."""
    assert asked.chords is not None
    exact = chord_of(radii) if space.metric == "sphere" else radii
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(exact), exact, 2.0 * exact - asked.chords)


def asked_of_shapes(shapes: Sequence[Sequence[Shape]], spans: Spans, space: Space) -> BlockQueries:
    """Return what shapes ask of blocks: the discs that cover them."""
    parts = [(number, shape.discs) for number, whole in enumerate(shapes) for shape in whole]
    centres = np.concatenate([np.zeros((0, space.dimension)), *(part.centres for _, part in parts)])
    radii = np.concatenate([np.zeros(0), *(part.radii for _, part in parts)])
    question = np.concatenate([np.zeros(0, np.int64), *(np.full(len(part.radii), n) for n, part in parts)])
    return BlockQueries(spans, np.ascontiguousarray(centres), chords_of(radii, space), question.astype(np.int64))


def _all_test(_piece: Piece, _question: int, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return rows, np.zeros(len(rows))


ALL: Test = _all_test
"""The test that every row passes."""


def _whole(
    scan: Scan, chosen: ChosenBlocks, asked: BlockQueries, certain: NDArray[np.float64] | None
) -> NDArray[np.bool_]:
    """Return which blocks answer the only question with all of their rows."""
    blocks = blocks_of(scan.version, chosen)
    inside = (blocks.t_from >= asked.spans.first[0]) & (blocks.t_to <= asked.spans.last[0])
    if asked.centres is None:
        return inside
    if certain is None or len(asked.centres) != 1:
        return np.zeros(len(chosen), np.bool_)
    _, furthest = least_chords(blocks.low, blocks.high, asked.centres[0])
    return inside & (furthest <= certain[0])


def asked_of_ids(ids: pa.Array, spans: Spans) -> BlockQueries:
    """Return what objects ask of blocks."""
    return BlockQueries(spans, words=np.unique(id_words(ids)) if len(ids) else np.zeros(0, np.int64))


def asked_at(first: Any, moment: Any, schema: Schema) -> BlockQueries:
    """Return what a moment asks of blocks: all rows of the closed interval before it."""
    kind = stored_kind(schema)
    return BlockQueries(Spans(np.array([first], kind), np.array([moment], kind)))


def rows_of_objects(scan: Scan, ids: pa.Array, asked: BlockQueries) -> tuple[FoundRows, dict[str, Any]]:
    """Return the rows of objects in the order (question, t), and the facts of the plan.

    ``ids``: (m,) in the type of the history's ids; a question each, also where an id repeats.
    """
    found = plan(scan.version, asked)
    known = pc.unique(ids)
    parts = []
    for piece in pieces_of(scan, found.chosen):
        index = pc.index_in(piece.rows.column("id"), value_set=known)
        mine = index.combine_chunks().fill_null(-1).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(piece.good & (np.asarray(mine) >= 0))
        if len(rows):
            parts.append(FoundRows(np.asarray(mine)[rows].astype(np.int64), np.zeros(len(rows)), piece.rows.take(rows)))
    whole = joined_found(parts, scan.names, scan.version.schema)
    return in_order(_for_questions(whole, pc.index_in(ids, value_set=known), asked.spans), by_id=True), dict(
        found.facts
    )


def rows_at(scan: Scan, asked: BlockQueries, condition: Condition | None) -> tuple[FoundRows, dict[str, Any]]:
    """Return the latest row of each object at a moment by ascending id, and the facts of the plan.

    ``scan``: all that is looked at, deletions too: without a condition.

    Of equal times a deletion counts, else the greatest (x, y, attributes) does (:mod:`dtoss.history.row_blocks`), so
    all columns are read. Objects whose row is a deletion are not there.
    """
    found = plan(scan.version, asked)
    first, moment = asked.spans.first[0], asked.spans.last[0]
    schema = scan.version.schema
    standing = schema.arrow.empty_table()
    compared = ["deleted", "x", "y", *schema.attributes]
    for piece in pieces_of(scan, found.chosen):
        timely = (piece.t >= first) & (piece.t <= moment)
        rows = piece.rows if timely.all() else piece.rows.filter(pa.array(timely))
        standing = latest(pa.concat_tables([standing, latest(rows, compared)]), compared)
    standing = standing.filter(pc.invert(standing.column("deleted")))
    if condition is not None:
        standing = standing.filter(pa.array(satisfying(condition, standing, schema)))
    whole = FoundRows(np.zeros(len(standing), np.int64), np.zeros(len(standing)), standing)
    return in_order(whole, by_id=True), dict(found.facts)


def _for_questions(found: FoundRows, of_question: pa.Array, spans: Spans) -> FoundRows:
    """Return rows of distinct ids as those of questions, each in its interval."""
    distinct = np.asarray(of_question.to_numpy(zero_copy_only=False)).astype(np.int64)
    order = np.argsort(found.question, kind="stable")
    sizes = np.bincount(found.question, minlength=int(distinct.max(initial=-1)) + 1)
    starts = np.cumsum(sizes) - sizes
    rows: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    numbers: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    t = found.rows.column("t")
    stored = t.cast(pa.int64()).to_numpy() if pa.types.is_timestamp(t.type) else t.to_numpy()
    for number, one in enumerate(distinct.tolist()):
        mine = order[starts[one] : starts[one] + sizes[one]]
        mine = mine[(stored[mine] >= spans.first[number]) & (stored[mine] <= spans.last[number])]
        rows.append(mine)
        numbers.append(np.full(len(mine), number))
    taken = found.take(np.concatenate(rows))
    return FoundRows(np.concatenate(numbers), taken.distance, taken.rows)
