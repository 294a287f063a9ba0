"""Whether there is enough: an input that is empty, or lost most of its objects, does not become current unnoticed."""

from __future__ import annotations

from collections.abc import Callable

from dtoss.errors import InputError, StoreError, Unreadable
from dtoss.snapshots.store import Store

TOLD = 0.5
"""A shrink by more than this share of the objects is told."""


def objects_now(store: Store) -> int | None:
    """Return how many objects the current snapshot has; None where there is none, or it is damaged."""
    try:
        return int(store.manifest()["objects"])
    except Unreadable:
        raise
    except (StoreError, KeyError, TypeError, ValueError):
        return None


def check_enough(
    objects: int,
    before: int | None,
    min_objects: int,
    max_shrink: float | None,
    allow_empty: bool,
    warn: Callable[[str], None],
    why_none: str | None = None,
) -> None:
    """Raise where there are too few objects; tell where they are less than half of those before.

    ``objects``: how many there are, or at the most; ``before``: of the current snapshot, None where there is none;
    ``max_shrink``: the share of ``before`` that may be missing; any when None; ``why_none``: why there is none, and the
    way out; None where only the input may know.
    """
    stays = "the current snapshot stays"
    if objects == 0 and not allow_empty:
        raise InputError(f"there is no object: {why_none or f'{stays}; --allow-empty builds an empty one'}")
    if objects < min_objects:
        raise InputError(f"{objects:,} objects are fewer than --min-objects {min_objects:,}: {stays}")
    if not before or objects >= before:
        return
    shrunk = f"{objects:,} objects, the current snapshot has {before:,}: {1.0 - objects / before:.1%} fewer"
    if max_shrink is not None and before - objects > max_shrink * before:
        raise InputError(f"{shrunk}, more than --max-shrink {max_shrink:.4g} allows; {stays}")
    if max_shrink is None and before - objects > TOLD * before:
        warn(f"{shrunk}; --max-shrink 50% would have refused that")
