"""Snapshots that another server names: those that are open, or opened now while the store has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtoss.errors import InputError, StoreError
from dtoss.locks import Lock
from dtoss.snapshots.store import Store

if TYPE_CHECKING:
    from dtoss.serve.answers.open_snapshots import ServedSnapshot, Serving
    from dtoss.serve.state.worker_state import WorkerState

OPENED_KEPT = 2
"""Snapshots that were opened for others and are kept."""
ONE_AT_A_TIME = Lock()
"""Held by who opens a snapshot that somebody else may be opening, too."""


def open_named(state: WorkerState, name: str) -> ServedSnapshot | None:
    """Return a snapshot that another server names, None where it is gone; in a thread of a pool.

    It holds what the one that answers holds, too, or is opened again.
    """
    serving = state.serving
    found = serving.open_one(name)
    if found is not None and _holds_as_now(state, found):
        return found
    with ONE_AT_A_TIME:
        found = serving.open_one(name)
        if found is not None and _holds_as_now(state, found):
            return found
        fresh = _opened_now(state, name)
        if fresh is None:
            return None
        keep_open(serving, fresh)
        return fresh


def keep_open(serving: Serving, fresh: ServedSnapshot) -> None:
    """Keep a snapshot open for other servers, the latest ones."""
    serving.opened[fresh.name] = fresh
    for old in [*serving.opened][:-OPENED_KEPT]:
        serving.opened.pop(old, None)


def _holds_as_now(state: WorkerState, served: ServedSnapshot) -> bool:
    now, share = state.serving.now.share, served.share
    if now is None or share is None or served is state.serving.now:
        return True
    other_regions = served.facts.get("pivots_hash") != state.serving.now.facts.get("pivots_hash")
    return other_regions or set(share.held) >= set(now.held)


def _opened_now(state: WorkerState, name: str) -> ServedSnapshot | None:
    from dtoss.serve.cluster.plan_placement import held_by_plan
    from dtoss.serve.reload.prepare import Head, prepare

    serving = state.serving
    now = serving.now

    def held(manifest: dict[str, object]) -> object:
        if now.share is not None and manifest["pivots_hash"] == now.facts.get("pivots_hash"):
            return now.share.held
        return held_by_plan(state.settings)(manifest)

    try:
        fresh, _ = prepare(
            Store(state.settings.served_store),
            Head(0, name, ""),
            lambda index: now.conditions.on(index),
            verify=state.settings.verify,
            held=held,  # type: ignore[arg-type]
            before=now.generation,
        )
    except (StoreError, InputError):
        return None
    return fresh
