"""What a server answers to the questions of the others, and to its own about what it holds itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtoss.geometry.straight_edges import BY_VECTORS
from dtoss.kinds.alone import raw_table
from dtoss.serve.answers.one_object import object_body, object_table
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.bulk.places_in import read_shapes
from dtoss.serve.bulk.query_pieces import SMALLER_SHAPES, check_hits, found_within
from dtoss.serve.cluster.wire_messages import ObjectQuestion, ShapesQuestion, in_older_words
from dtoss.serve.core.pool import Stop
from dtoss.serve.state.worker_state import WorkerState
from dtoss.shards.merge_answers import AT_HOMES, BY_SHARES, answered_by


def answered_here(state: WorkerState, served: ServedSnapshot, question: Any, stop: Stop) -> Any:
    """Return this server's answer to a question."""
    stop.check()
    assert served.share is not None
    if isinstance(question, ShapesQuestion):
        return _shapes(state, served, question, stop)
    if isinstance(question, ObjectQuestion):
        return _object(served, question)
    if question.step in (AT_HOMES, BY_SHARES) and question.asked.k == 0:
        # the one who asks has counted; a stranger may not have
        asked = question.asked
        count = int(served.index.search(asked.positions, asked.radius, -1, asked.where).count.sum())
        check_hits(count, state.settings.limits.hits, "ask about fewer places at a time, or for smaller radii")
    return answered_by(served.share, question)


def _shapes(state: WorkerState, served: ServedSnapshot, asked: ShapesQuestion, stop: Stop) -> Any:
    """Return a table of hits, or numbers of them."""
    assert served.share is not None
    index, limits = served.share.owned(asked.partitions), state.settings.limits
    edges = BY_VECTORS if asked.by_vectors else None
    shapes, corners = read_shapes(asked.kind, asked.text, index.space, limits, stop, edges)
    found = found_within(index, shapes, corners, asked.where, asked.most, stop, state.metrics, state.sizes.tested)
    if asked.count:
        return found.count
    check_hits(len(found.distance), asked.most, SMALLER_SHAPES)
    return raw_table(index.engine, found, asked.columns, asked.having)


def older_shapes(
    state: WorkerState, served: ServedSnapshot, asked: ShapesQuestion, stop: Stop
) -> tuple[ShapesQuestion, Callable[[Any], Any]]:
    """Return a question about shapes in the words of an older server, and what makes its answer the right one."""
    space, limits = served.index.space, state.settings.limits
    shapes, _ = read_shapes(asked.kind, asked.text, space, limits, stop)
    return in_older_words(asked, space, shapes, limits.hits)


def _object(served: ServedSnapshot, asked: ObjectQuestion) -> tuple[bytes, float, float] | None:
    """Return the bytes of an answer and the object's place, None where it is not held."""
    try:
        if asked.arrow:
            body, (x, y) = object_table(served, asked.text, asked.where, asked.columns)
        else:
            body, (x, y) = object_body(
                served, asked.text, neighbours=asked.neighbours, cell=asked.cell, text_ids=asked.text_ids,
                where=asked.where, columns=asked.columns,
            )  # fmt: skip
    except KeyError:
        return None
    return body, x, y
