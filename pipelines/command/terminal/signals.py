"""Being interrupted: Ctrl-C and SIGTERM end a command the same way."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from dtoss.snapshots.deferred_signals import ENDING, set_handlers

_state: dict[str, bool] = {"inside": False, "interrupted": False}
_ends: list[Callable[[], None]] = []


@contextmanager
def interruptible() -> Iterator[None]:
    """While inside, the first SIGINT or SIGTERM raises KeyboardInterrupt and later ones do nothing.

    Python threads other than the main one change nothing. Whoever sets handlers of his own inside, as Spark does, calls
    :func:`interrupt_once` after that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hook = sys.unraisablehook
    before = {number: signal.getsignal(number) for number in ENDING}
    _state.update(inside=True, interrupted=False)
    _ends.clear()
    interrupt_once()
    try:
        yield
    finally:
        _state["inside"] = False
        if _state["interrupted"]:
            import logging

            logging.disable(logging.NOTSET)
            sys.unraisablehook = hook
        set_handlers(before)


def interrupt_once(end: Callable[[], None] | None = None) -> None:
    """Set the handlers of :func:`interruptible` once more; does nothing outside of it or after an interruption.

    ``end``: is called when the signal comes, to end at once what the program may be waiting for.
    """
    inside = _state["inside"] and not _state["interrupted"]
    if inside and threading.current_thread() is threading.main_thread():
        if end is not None:
            _ends.append(end)
        for number in ENDING:
            signal.signal(number, _interrupt)


def was_interrupted() -> bool:
    """Return whether a signal has come since :func:`interruptible` began."""
    return _state["interrupted"]


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    _state["interrupted"] = True
    if not os.environ.get("DTOSS_DEBUG"):
        import logging

        logging.disable()  # libraries log a traceback of what is interrupted
        # where Python cannot raise, within an import among others, it would print one and go on
        sys.unraisablehook = lambda _: None
    for end in _ends:
        end()
    raise KeyboardInterrupt
