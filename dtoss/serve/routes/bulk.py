"""Questions about many places at once, in JSON or in Arrow streams."""

from __future__ import annotations

from litestar.handlers import HTTPRouteHandler

from dtoss.serve.state import WorkerState


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the routes of questions about many places."""
    return []
