"""``dtoss.history.open``: a history as it stands, or as one of its versions had it.

What is asked is noted, so that the layout can adapt: shapes and intervals, some at a time, never in the way.
"""

from __future__ import annotations

import atexit
import random
import threading
import weakref
from contextlib import suppress

import numpy as np

from dtoss.column_rows import join_rows
from dtoss.history.query.history import History
from dtoss.history.query.scan_blocks import QUESTIONS, Told
from dtoss.history.questions import ASKED, Questions, gather, keep, note
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


NOTED_AT_ONCE = 64
"""Questions of a file."""
MOST_PIECES = 64
"""Discs of a question that are noted: of one about more places as many of them, evenly."""
_MANY_FILES = 256
"""Files from which on a reader gathers them, now and then, where nobody adapts."""
_GATHERED_BY_ONE_OF = 16
_CHANCES = random.Random()  # Of its own: a caller's seeded numbers stay as they are, whenever garbage is collected


class Learner:
    """Notes questions of a history; as ``listen`` of :class:`dtoss.history.query.history.History`.

    What cannot be written is forgotten: a history may be read-only. A process that dies forgets at most
    :data:`NOTED_AT_ONCE` questions.
    """

    def __init__(self, home: Home) -> None:
        self._home, self._lock = home, threading.Lock()
        self._waiting: list[Questions] = []
        atexit.register(_flush, weakref.ref(self))

    def __reduce__(self) -> tuple[type[Learner], tuple[Home]]:
        return Learner, (self._home,)

    def __call__(self, told: Told) -> None:
        """Note a question; every so many of them are written."""
        with self._lock:
            self._waiting.append(question_of(told))
            full = len(self._waiting) >= NOTED_AT_ONCE
        if full:
            self.flush()

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be half gone
            self.flush()

    def flush(self) -> None:
        """Write what was noted."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        with suppress(OSError):
            if not self._home.folder.there():
                return  # removed meanwhile: it does not come back for this
            note(self._home, join_rows(waiting))
            if _CHANCES.randrange(_GATHERED_BY_ONE_OF) == 0 and len(self._home.folder.files(ASKED)) > _MANY_FILES:
                keep(self._home, gather(self._home, waiting[0].low.shape[1]))


def _flush(learner: weakref.ref[Learner]) -> None:
    found = learner()
    if found is not None:
        found.flush()


def question_of(told: Told) -> Questions:
    """Return a question that was answered as one that is noted.

    One call is one question, as it reads every block once, however many places it has: about all of them, from its
    earliest to its latest time.
    """
    asked, version = told.asked, told.scan.version
    first, last = asked.spans.widest
    dimension = version.schema.space.dimension
    centres, reach = np.zeros((0, dimension)), np.zeros(0)
    if asked.centres is not None and asked.chords is not None:
        some = np.unique(np.linspace(0, len(asked.centres) - 1, min(MOST_PIECES, len(asked.centres))).astype(np.int64))
        centres, reach = asked.centres[some], asked.chords[some]
        if not len(some):  # about no place at all: an interval that holds nothing
            first, last = np.inf, -np.inf
    return Questions(
        np.ones(1, np.int64),
        np.array([QUESTIONS.index(told.question)], np.int8),
        np.array([version.number], np.int64),
        np.array([0 if asked.words is None else len(asked.words)], np.int32),
        np.array([first], np.float64),
        np.array([last], np.float64),
        np.array([0, len(reach)], np.int64),
        centres,
        centres,
        reach,
    )
