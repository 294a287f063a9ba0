"""What a request says of how several servers are to answer it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(eq=False)
class ClusterOptions:
    """What a request says of how it is to be answered by several servers.

    Parameters
    ----------
    partial
        Whether an answer may lack what is held by nobody who answers.
    snapshot
        Which one answers, where it does not name one.
    missing
        Partitions that the answer lacks.
    asker
        The name of the token of who asks.
    """

    partial: bool = False
    snapshot: str | None = None
    missing: set[int] = field(default_factory=set)
    asker: str = ""


GIVEN: ContextVar[ClusterOptions | None] = ContextVar("given", default=None)
"""Of the request in hand."""
