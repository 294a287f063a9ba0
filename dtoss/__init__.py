"""Exact nearest-neighbour and range answers over millions of moving objects, from Voronoi diagrams rebuilt every cycle.

>>> import dtoss
>>> index = dtoss.build([1, 2, 3], [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
>>> index.knn([[0.9, 0.9]], k=1).id.tolist()
[2]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dtoss.errors import DtossError, InputError, StoreError

if TYPE_CHECKING:
    from dtoss import history
    from dtoss.client.connecting import connect
    from dtoss.client.remote_index import RemoteIndex
    from dtoss.hits import Hits
    from dtoss.in_process import build
    from dtoss.index import Index
    from dtoss.joins.sjoin_nearest import sjoin_nearest
    from dtoss.opening import open_index as open
    from dtoss.update_store import update
    from dtoss.watch.events.event_lines import events
    from dtoss.watch.processing.in_memory_watch import Watch, subscriptions
    from dtoss.windows.query.window_query import Windows, open_windows

__version__ = "0.1.0"
__all__ = [
    "DtossError",
    "Hits",
    "Index",
    "InputError",
    "RemoteIndex",
    "StoreError",
    "Watch",
    "Windows",
    "build",
    "connect",
    "events",
    "history",
    "open",
    "open_windows",
    "sjoin_nearest",
    "subscriptions",
    "update",
]

_HOMES = {
    "Hits": ("dtoss.hits", "Hits"),
    "Index": ("dtoss.index", "Index"),
    "RemoteIndex": ("dtoss.client.remote_index", "RemoteIndex"),
    "Watch": ("dtoss.watch.processing.in_memory_watch", "Watch"),
    "Windows": ("dtoss.windows.query.window_query", "Windows"),
    "build": ("dtoss.in_process", "build"),
    "connect": ("dtoss.client.connecting", "connect"),
    "events": ("dtoss.watch.events.event_lines", "events"),
    "open": ("dtoss.opening", "open_index"),
    "open_windows": ("dtoss.windows.query.window_query", "open_windows"),
    "sjoin_nearest": ("dtoss.joins.sjoin_nearest", "sjoin_nearest"),
    "subscriptions": ("dtoss.watch.processing.in_memory_watch", "subscriptions"),
    "update": ("dtoss.update_store", "update"),
}


def __getattr__(name: str) -> Any:
    # kernels take a second to load, and not every command needs them
    if name == "history":
        return import_module("dtoss.history")
    if name not in _HOMES:
        raise AttributeError(f"module 'dtoss' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
