"""What is told of a change that is under way: which set is to take over, from which end on, and when."""

from __future__ import annotations

from typing import Any

from dtoss.windows.durations import time_text
from dtoss.windows.storage.sets import Sets


def change_of(sets: Sets) -> dict[str, Any] | None:
    """Return what JSON says of a change that is under way; None where none is.

    Examples
    --------
    >>> from dtoss.windows.storage.sets import Coming
    >>> change_of(Sets(coming=Coming(2, 7, 0, 60_000_000, 90_000_000)))
    {'set': 2, 'since': '1970-01-01T00:01:00Z', 'full_at': '1970-01-01T00:01:30Z'}
    """
    coming = sets.coming
    if coming is None:
        return None
    return {"set": coming.number, "since": time_text(coming.since), "full_at": time_text(coming.full_at)}


def under_way(sets: Sets) -> str | None:
    """Return the same as a sentence without its end; None where no change is under way."""
    said = change_of(sets)
    if said is None:
        return None
    return (
        f"another set runs beside this one: it answers ends from {said['since']} on once the watermark is "
        f"{said['full_at']}"
    )
