"""Rows of objects by their ids, and what stood at a moment: the latest row of each object by then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.conditions.parse import Condition
from dtoss.history.query.block_queries import BlockQueries, Spans, stored_kind
from dtoss.history.query.found_rows import FoundRows, in_order, joined_found
from dtoss.history.query.read_plan import plan
from dtoss.history.query.scan_blocks import Scan, pieces_of, satisfying
from dtoss.history.row_blocks import id_words, latest
from dtoss.history.schema import Schema


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
