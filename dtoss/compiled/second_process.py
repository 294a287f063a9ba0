"""A second process that compiles beside the one that needs it: what it makes is kept where that one looks for it.

It is started as a program and runs no code of the user's, so a script needs no ``__main__``.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtoss.compiled.kept_places import package, writable

SECOND = "DTOSS_SECOND_PROCESS"
"""The variable by which a process knows that it is one, and starts none."""
_HERE = "import sys; from dtoss.compiled.beside import {0}; {0}(sys.argv[1:])"


def can_start() -> bool:
    """Return whether a Python can be started that shares our code: not in an application that brings its own."""
    return bool(sys.executable) and not getattr(sys, "frozen", False) and SECOND not in os.environ


def program(code: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return what :mod:`subprocess` needs to run code of ours, which imports from where this process does."""
    known = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return {
        "args": [sys.executable, "-P", "-c", code, *names],
        "env": os.environ | {"DTOSS_KERNELS": "native", "DTOSS_QUIET": "1", "PYTHONPATH": known, SECOND: "1"},
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "start_new_session": True,  # whom an interruption is for may go on
    }


def start_next(names: Sequence[str]) -> None:
    """Have kernels compiled, in this order, by a process that ends with this one, however that ends.

    Where there is one processor, or nothing can be kept or started, nothing is done.
    """
    alone = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < 2
    if not names or alone or not can_start() or writable(package() / "__pycache__") is None:
        return
    try:
        other = subprocess.Popen(**program(_HERE.format("compile_next"), names), stdin=subprocess.PIPE)
    except OSError:
        return
    atexit.register(_end, other, os.getpid())


def _end(other: subprocess.Popen[bytes], parent: int) -> None:
    if os.getpid() == parent:  # a fork of it ends nothing
        other.kill()
        other.wait()


def run_beside(names: Sequence[str]) -> bool:
    """Have kernels compiled, and wait for it; return whether they are. The other process ends when it has done it."""
    code = _HERE.format("compile_in_spare_time")
    return subprocess.run(**program(code, names), stdin=subprocess.DEVNULL, check=False).returncode == 0
