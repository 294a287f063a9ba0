"""What comes from other servers is bounded as what comes from clients: anybody whom the doors let in may send it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.space import Space, as_positions
from dtoss.kinds.kind import Question
from dtoss.serve.answers.one_object import ObjectQuestion
from dtoss.serve.bulk.request_bodies import of_corners
from dtoss.serve.cluster.wire_messages import PeerQuestion
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits
from dtoss.shards.merge_answers import COUNTED_BY_SHARES


def check_question(question: PeerQuestion, space: Space, limits: Limits) -> None:
    """Refuse a question that no server of a plan asks."""
    if isinstance(question, ObjectQuestion):
        if not isinstance(question.text, str):
            raise ValueError(f"an object is called {question.text!r}: a text is wanted")
        _check_at_most("line_bytes", len(question.text), limits.line_bytes)
        check_conditions(question.where, None, limits)
        return
    asked = question.asked
    if isinstance(asked, Question):
        assert asked.shapes is not None
        form, text = asked.shapes.form, asked.shapes.text
        if form not in ("box", "boxes", "within"):
            raise ValueError(f"shapes are of kind {form!r}: box, boxes or within is known")
        _check_at_most("hits", asked.given["most"], limits.hits)
        if form == "within":
            bound = of_corners(limits)
            _check_at_most(bound.limit, -(-len(text) * bound.number // bound.bytes), bound.number)
        check_conditions(asked.where, asked.having, limits)
        return
    check_places(asked.positions, asked.radius if question.step.radii else np.zeros(len(asked)), space)
    check_conditions(asked.where, asked.having, limits)
    if question.step is COUNTED_BY_SHARES:
        _check_at_most("bulk_queries", len(asked), limits.bulk_queries)
        return
    # of each place six hits at the most are asked about in turn
    _check_at_most("bulk_queries", len(asked), 6 * limits.bulk_queries)
    if asked.k < 0:
        raise ValueError(f"k is {asked.k}: 0 or more are wanted")
    # a page looks one hit beyond its end, and reverse nearest for two of each of six
    _check_at_most("hits", len(asked) * asked.k, max(limits.hits + 1, 12 * limits.bulk_queries))


def check_places(positions: NDArray[np.float64], radius: NDArray[np.float64], space: Space) -> None:
    """Refuse places that are not legal: kernels do not look."""
    as_positions(positions, space)
    if len(radius) != len(positions) or not (radius >= 0.0).all():
        raise ValueError(f"{len(positions)} places want as many radii that are 0 or more")


def check_conditions(where: str | None, having: str | None, limits: Limits) -> None:
    """Refuse conditions that are too long."""
    for text in (where, having):
        if text is not None:
            # two conditions are one where a page is asked for, and that of the token of who asks is a third one
            _check_at_most("condition_length", len(text), 3 * limits.condition_length + 60)


def _check_at_most(limit: str, value: int, bound: int) -> None:
    if not isinstance(value, int):
        raise ValueError(f"{limit} is {value!r}: a whole number is wanted")
    if value > bound:
        raise Problem(
            413, f"{limit} is {value:,}: at most {bound:,} are answered", limit=limit, value=value, bound=bound
        )
