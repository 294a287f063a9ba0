"""``dtoss.history.open``: a history as it stands, or as one of its versions had it."""

from __future__ import annotations

from dtoss.history.query.history import History
from dtoss.history.query.note_queries import Learner
from dtoss.history.versions import Home


def open_history(path: str, version: int | None = None, *, learn: bool = True) -> History:
    """Return a history, opened for questions. Cost: the newest commit is found and read; tables are mapped when asked.

    Parameters
    ----------
    path
        Path or URI.
    version
        Its number; the newest one when None.
    learn
        Whether shapes and intervals of questions are noted in ``asked/``, by which the layout adapts.

    Raises
    ------
    StoreError
        If there is no history, it is of a newer format, or there is no such version: those that are there are named.
    OSError
        If something cannot be read.
    """
    home = Home(str(path))
    return History(home, home.version(version), Learner(home) if learn else None)
