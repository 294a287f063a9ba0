"""Compiled code that comes with a wheel: for any processor of its platform, until there is some for this one.

It only bridges. Beside the process that uses it another one compiles for this processor, puts that into the user's
files, and ends; then the kernels in use are exchanged, and later processes load what was compiled. The bits of answers
are the same: no kernel contracts or reorders arithmetic. Where nothing can be kept between processes it is not used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

from dtoss.compiled.kept_places import SHIPPED
from dtoss.compiled.second_process import can_start, run_beside

GENERIC = "generic"
"""The processor that shipped code is made for: what every one of the platform has."""
_WAITING: dict[str, Callable[[], Any]] = {}
_LOCK = threading.Lock()
_REPLACED: list[Any] = []


def wanted() -> bool:
    """Return whether shipped code may be used: not where DTOSS_KERNELS is native, as in benchmarks."""
    return os.environ.get("DTOSS_KERNELS") != "native" and can_start()


def shipped(file: str) -> bytes | None:
    """Return a file of compiled code that came with this installation, None if there is none."""
    try:
        return files("dtoss").joinpath(*SHIPPED, file).read_bytes()
    except OSError:
        return None


def bridge(name: str, exchange: Callable[[], Any]) -> None:
    """Have a kernel compiled for this processor by another process; ``exchange`` is called when it is done."""
    with _LOCK:
        _WAITING[name] = exchange
        if len(_WAITING) == 1:
            threading.Thread(target=_compile_beside, name="dtoss-compiling", daemon=True).start()


def _compile_beside() -> None:
    while True:
        with _LOCK:
            names = list(_WAITING)
        if not names:
            return
        made = run_beside(names)
        with _LOCK:
            exchanges = [_WAITING.pop(name) for name in names]
        if made:
            for exchange in exchanges:
                exchange()


def exchange_code(dispatcher: Any, fresh: list[Any]) -> None:
    """Put code that was compiled for this processor in the place of what a kernel uses.

    Calls that run go on in the old code; those that come in between wait for the compiler's lock.
    """
    if None in fresh:
        return
    with global_compiler_lock:
        _REPLACED.extend(dispatcher.overloads.values())  # kept: another thread may be inside
        dispatcher.disable_compile(False)
        dispatcher._reset_overloads()
        for result in fresh:
            dispatcher.add_overload(result)
        dispatcher.disable_compile()
