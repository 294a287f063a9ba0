"""The history of positions: every row that was read, asked by place and time.

>>> import dtoss
>>> "open" in dir(dtoss.history)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES: dict[str, tuple[str, str]] = {
    "History": ("dtoss.history.query.history", "History"),
    "append": ("dtoss.history.append_frame", "append"),
    "open": ("dtoss.history.query.open_history", "open_history"),
}


def __getattr__(name: str) -> Any:
    # what appends needs no kernels of questions, and the other way round
    if name not in _HOMES:
        raise AttributeError(f"module 'dtoss.history' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
