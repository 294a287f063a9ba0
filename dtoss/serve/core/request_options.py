"""What a request says of how several servers are to answer it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(eq=False)
class ClusterOptions:
    """What a request says of how it is to be answered by several servers."""

    partial: bool = False  # Whether an answer may lack what is held by nobody who answers
    snapshot: str | None = None  # Which one answers, where it does not name one
    missing: set[int] = field(default_factory=set)  # Partitions that the answer lacks
    asker: str = ""  # The name of the token of who asks


GIVEN: ContextVar[ClusterOptions | None] = ContextVar("given", default=None)
"""Of the request in hand."""
