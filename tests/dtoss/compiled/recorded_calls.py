"""Calls of kernels as Python made them, run again in checked mode with one array exchanged."""

from __future__ import annotations

import inspect

import numpy as np

from dtoss.compiled import checked_memory
from dtoss.compiled.checked import CheckedKernel
from dtoss.compiled.checked_memory import OutOfBoundsError


class Call:
    """The arguments of a kernel's call, by their names."""

    def __init__(self, kernel, arguments):
        self.kernel = CheckedKernel(kernel.py_func)
        names = [name.rstrip("_") for name in inspect.signature(kernel.py_func).parameters]
        self.arguments = dict(zip(names, arguments, strict=True))

    def run(self, **others):
        """Call it in checked mode on copies, some arguments exchanged; returns these with what it has written."""
        copies = {
            name: np.array(a) if isinstance(a, np.ndarray) else a for name, a in (self.arguments | others).items()
        }
        result = self.kernel(*copies.values())
        return result, copies


def as_handles(monkeypatch):
    """Let addresses be handles, as in checked mode."""
    monkeypatch.setattr(checked_memory, "CHECKED", True)


def recorded(monkeypatch, module, name, ask):
    """Arguments of the first call of a kernel while something is asked in compiled mode, as they were before it."""
    calls, kernel = [], getattr(module, name)

    def record(*arguments):
        calls.append([np.array(a) if isinstance(a, np.ndarray) else a for a in arguments])
        return kernel(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, record)
        ask()
    return Call(kernel, calls[0])


def shortened(array, rows):
    """The first rows of an array that has no room behind them."""
    return np.array(array[:rows]) if rows >= 0 else array


def least_size(call, name):
    """The least length of an array with which a call ends; with one less it must be an error that names it."""
    array, low, high = call.arguments[name], 0, len(call.arguments[name])
    call.run()
    while low < high:
        middle = (low + high) // 2
        try:
            call.run(**{name: shortened(array, middle)})
            high = middle
        except OutOfBoundsError:
            low = middle + 1
    return high
