"""What a server answers to the questions of the others, and to its own about what it holds itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.index import Index
from dtoss.kinds.alone import raw_table
from dtoss.kinds.kind import Question
from dtoss.serve.answers.one_object import ObjectQuestion, object_answer
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.bulk.places_in import read_shapes
from dtoss.serve.bulk.query_pieces import SMALLER_SHAPES, check_hits, found_within
from dtoss.serve.cluster.wire_messages import PartialAnswer, PeerQuestion, in_older_words
from dtoss.serve.core.pool import Stop
from dtoss.serve.state.worker_state import WorkerState
from dtoss.shards.merge_answers import AT_HOMES, BY_SHARES, ShareQuestion, answered_by


def answered_here(state: WorkerState, served: ServedSnapshot, question: PeerQuestion, stop: Stop) -> PartialAnswer:
    """Return this server's answer to a question."""
    stop.check()
    assert served.share is not None
    if isinstance(question, ObjectQuestion):
        return _object(served, question)
    if isinstance(question.asked, Question):
        return _shapes(state, served.share.owned(question.partitions), question.asked, stop)
    if question.step in (AT_HOMES, BY_SHARES) and question.asked.k == 0:
        # the one who asks has counted; a stranger may not have
        asked = question.asked
        count = int(served.index.search(asked.positions, asked.radius, -1, asked.where).count.sum())
        check_hits(count, state.settings.limits.hits, "ask about fewer places at a time, or for smaller radii")
    return answered_by(served.share, question)


def _shapes(state: WorkerState, index: Index, asked: Question[Any], stop: Stop) -> pa.Table | NDArray[np.int64]:
    """Return the hits that an index has in shapes, or how many there are in each."""
    assert asked.shapes is not None
    shapes, corners = read_shapes(asked.shapes, index.space, state.settings.limits, stop)
    most = asked.given["most"]
    found = found_within(index, shapes, corners, asked.where, most, stop, state.metrics, state.sizes.tested)
    if asked.given["count"]:
        return found.count
    check_hits(len(found.distance), most, SMALLER_SHAPES)
    return raw_table(index.engine, found, tuple(asked.columns), asked.having)


def older_shapes(
    state: WorkerState, served: ServedSnapshot, asked: ShareQuestion, stop: Stop
) -> tuple[ShareQuestion, Callable[[Any], Any]]:
    """Return a question about shapes in the words of an older server, and what makes its answer the right one."""
    space, limits = served.index.space, state.settings.limits
    assert isinstance(asked.asked, Question)
    assert asked.asked.shapes is not None
    shapes, _ = read_shapes(asked.asked.shapes, space, limits, stop)
    return in_older_words(asked, space, shapes, limits.hits)


def _object(served: ServedSnapshot, asked: ObjectQuestion) -> tuple[bytes, float, float] | None:
    """Return the bytes of an answer and the object's place, None where it is not held."""
    try:
        body, (x, y) = object_answer(served, asked)
    except KeyError:
        return None
    return body, x, y
