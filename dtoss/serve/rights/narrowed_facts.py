"""What is told of a snapshot to a token that may not see all of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from dtoss.serve.answers.responses import Asker
from dtoss.serve.core.pool import Stop
from dtoss.serve.rights.sight import Sight

_OF_ALL = ("sites", "objects_held")
"""Facts that count objects, beside ``objects``."""


async def seen_count(sight: Sight, request: Asker, questions: Any) -> int:
    """Return how many objects a request sees, on all servers."""
    if sight.token.where is None:
        return int(sight.served.facts["objects"])

    async def work(stop: Stop) -> int:
        seen = sight.own()
        if sight.served.share is None:
            assert seen is not None
            return seen.count
        whole = sight.served.whole
        anywhere = whole.space.positions(whole.partitioning.pivots[:1])
        return int((await questions.count(anywhere, inf, where=sight.token.where))[0])

    return await sight.state.pool.run_steps(request, work)


async def seen_facts(sight: Sight, request: Asker, questions: Any) -> Mapping[str, Any]:
    """Return the facts of a snapshot without objects and columns that are not seen; parameters as of `seen_count`."""
    facts = dict(sight.served.facts)
    facts["columns"] = {name: kind for name, kind in facts["columns"].items() if sight.token.may_see(name)}
    facts["subscriptions"] = sight.token.prefix
    if sight.token.where is not None:
        facts["objects"] = await seen_count(sight, request, questions)
        for name in _OF_ALL:
            facts.pop(name, None)
    return facts


def seen_map(sight: Sight, objects: int) -> dict[str, Any]:
    """Return what the page is told of a snapshot, of the objects and columns that are seen; in a thread.

    Classes of an attribute are by the objects that are seen. Regions are by all, and are not told beside a condition.
    """
    served, own = sight.served, sight.own()
    told = dict((served.map_facts if own is None else served.narrow_map(own)).told())
    told["columns"] = [one for one in told["columns"] if sight.token.may_see(one["name"])]
    if own is not None:
        told |= {"sites": None, "partitions": 0, "regions": {"objects": [], "sites": [], "bytes": [], "place": []}}
    return told | {"objects": objects}
