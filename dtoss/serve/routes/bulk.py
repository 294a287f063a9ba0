"""Questions about many places at once, in JSON or in Arrow streams."""

from __future__ import annotations

from fastapi import APIRouter

from dtoss.serve.state import WorkerState


def router(state: WorkerState) -> APIRouter:
    """Return the routes of questions about many places."""
    return APIRouter(tags=["many places"])
