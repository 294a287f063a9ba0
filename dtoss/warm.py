"""Compiling kernels before they are needed: all of them, or those that a process asks for beside it."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import dtoss
from dtoss.compiled.bridge import GENERIC
from dtoss.compiled.kernel import DECLARED
from dtoss.compiled.second_process import SECOND


def warm(say: Callable[[str], None] | None = None, names: Sequence[str] = ()) -> int:
    """Compile every kernel of the index that is not kept yet; return how many kernels there are.

    About a minute of processor time where nothing is kept, a second where everything is.
    """
    wanted = list(names) or kernels()
    for number, name in enumerate(wanted, 1):
        importlib.import_module(name.rpartition(".")[0])
        began, kernel = time.perf_counter(), DECLARED[name]
        kernel.ready()
        if say is not None:
            found = sum(kernel.stats.cache_hits.values()) > 0
            how = "is kept" if found else f"{time.perf_counter() - began:.1f} s"
            say(f"{number} of {len(wanted)}: {name} {how}")
    return len(wanted)


def kernels() -> list[str]:
    """Return the names of all kernels of the index, in the order of their modules."""
    for module in pkgutil.walk_packages(dtoss.__path__, "dtoss."):
        with suppress(ImportError):  # a library that is an extra
            importlib.import_module(module.name)
    return list(DECLARED)


def make_generic(folder: str, names: Sequence[str] = ()) -> None:
    """Write the code of every kernel for any processor of this platform into a folder, for a wheel.

    It is made in a process of its own: numba fixes the processor when it is loaded.
    """
    code = """
import itertools, json, sys
from numba.core.bytecode import FunctionIdentity
# names of functions that no process gives, so that this code and that of a process never stand for one another
FunctionIdentity._unique_ids = itertools.count(1_000_000_000)
from dtoss.compiled import kept_code
from dtoss.warm import warm
kept_code.places = lambda beside: []  # such code as a test keeps has names that a process gives
warm(lambda line: print(line, file=sys.stderr), json.loads(sys.argv[1]))
"""
    target = Path(folder)
    with tempfile.TemporaryDirectory() as kept:
        made_for = {"NUMBA_CPU_NAME": GENERIC, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": kept, "HOME": kept,
                    "XDG_CACHE_HOME": kept, "DTOSS_KERNELS": "native", "DTOSS_QUIET": "1", SECOND: "1"}  # fmt: skip
        subprocess.run(
            [sys.executable, "-c", code, json.dumps([*names])],
            env=os.environ | made_for,
            check=True,
        )
        target.mkdir(parents=True, exist_ok=True)
        for name in names or kernels():
            for file in (Path(kept) / "dtoss").glob(f"{name}-*.nbc"):
                shutil.copy(file, target)
