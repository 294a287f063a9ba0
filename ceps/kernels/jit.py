"""How kernels are compiled: once, kept on disk, without the interpreter's lock, and dividing as IEEE 754 says."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from numba import njit


def _digest() -> str:
    """Hash of the sources of all kernels."""
    total = hashlib.sha256()
    for source in sorted((f for f in files(__package__).iterdir() if f.name.endswith(".py")), key=lambda f: f.name):
        total.update(source.read_bytes())
    return total.hexdigest()


CHECKED = os.environ.get("DTOSS_CHECKED", "0") not in ("", "0")
"""Whether indexes are compared with the bounds of their arrays, at some cost: ``DTOSS_CHECKED=1`` asks for it."""
_SOURCES = _digest() + CHECKED * " checked"


def kernel(function: Callable[..., Any] | None = None, *, fastmath: set[str] | bool = False) -> Any:
    """Compile a function with numba when it is first called; `fastmath` as `numba.njit`.

    numba keeps compiled code by the source file of one function alone and would go on using a kernel whose helpers in
    another file have changed, so what is kept is stamped with the sources of all kernels.
    """
    if function is None:
        return lambda decorated: kernel(decorated, fastmath=fastmath)
    dispatcher = njit(nogil=True, error_model="numpy", fastmath=fastmath, boundscheck=CHECKED or None)(function)
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        return dispatcher  # nowhere to write: compiled anew in each process
    kept = dispatcher._cache._cache_file
    kept._source_stamp = (kept._source_stamp, _SOURCES)
    return dispatcher
