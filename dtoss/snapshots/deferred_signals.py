"""Signals that must not cut a cleaning in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM)
"""What asks a process to end."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """While inside, SIGINT and SIGTERM wait; the first of them is sent again at the end.

    In threads other than the main one, where Python handles no signals, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, lambda got, _frame: waiting.append(got))
    try:
        yield
    finally:
        set_handlers(before)
        if waiting:
            signal.raise_signal(signal.Signals(waiting[0]))


def set_handlers(handlers: Mapping[signal.Signals, Any]) -> None:
    """Set handlers as ``signal.getsignal`` gave them."""
    for number, handler in handlers.items():
        # None: not set from Python
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
