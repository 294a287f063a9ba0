"""Where a history is, for processes that may run in another folder."""

from __future__ import annotations

from pathlib import Path

from dtoss.history.versions import Home


def home_of(history: str) -> Home:
    """Return where a history is; workers of a cluster run in other directories, and a URI stays as it is."""
    return Home(str(history) if "://" in str(history) else str(Path(history).absolute()))
