"""Checked mode: kernels run as Python, on memory that knows its bounds.

``DTOSS_CHECKED=1`` in the environment, when dtoss is imported, makes of each kernel the Python function that it was
written as. In its module's names each intrinsic is exchanged for its stand-in (:mod:`dtoss.compiled.stand_ins`), each
kernel for its own Python function, ``np`` for what numba has of it, and arrays for those that know their bounds. The
modules themselves stay as they are. Answers are the same to the bit, some thousand times slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import RLock
from types import FunctionType
from typing import Any

import numpy as np
from numba import typeof, types
from numba.core import sigutils
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.extending import _Intrinsic

from dtoss.compiled import stand_ins
from dtoss.compiled.checked_memory import Array

_NAMES: dict[int, tuple[dict[str, Any], dict[str, Any], int]] = {}
"""By the identity of a module's names: these, what its kernels see in their place, and how many there were."""
_LOCK = RLock()


class CheckedKernel:
    """A kernel in checked mode.

    ``function``: as it was written; ``signatures``: those that it takes from Python; any when empty.
    """

    def __init__(self, function: Any, signatures: tuple[Any, ...] = ()) -> None:
        self.py_func, self._signatures = function, signatures
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__

    def __call__(self, *args: Any) -> Any:
        """Call it as numba would be called, by arrays and numbers."""
        inner = _inner(self.py_func)
        with np.errstate(all="ignore"):  # kernels divide by 0 as IEEE 754 says
            return _outward(inner(*self._inward(args)))

    @cached_property
    def _declared(self) -> list[tuple[Any, ...]]:
        return [sigutils.normalize_signature(signature)[0] for signature in self._signatures]

    def _inward(self, args: tuple[Any, ...]) -> list[Any]:
        """Return arguments as kernels see them."""
        if not self._signatures:
            return [_argument(arg) for arg in args]
        for signature in self._declared:
            if len(signature) == len(args) and all(_fits(arg, kind) for arg, kind in zip(args, signature, strict=True)):
                return [_argument(arg, kind) for arg, kind in zip(args, signature, strict=True)]
        raise TypeError(f"No matching definition of {self.__name__} for {', '.join(str(typeof(arg)) for arg in args)}")


def _fits(arg: Any, kind: Any) -> bool:
    context = cpu_target.typing_context
    return context.can_convert(typeof(arg), kind) is not None


def _argument(arg: Any, kind: Any = None) -> Any:
    if isinstance(arg, np.ndarray):
        return arg.view(Array)
    if isinstance(kind, types.Float) or (kind is None and isinstance(arg, float)):
        return np.float64(arg)
    if isinstance(kind, types.Boolean):
        return bool(arg)
    if isinstance(kind, types.Integer):
        return int(arg)
    return arg


def _outward(result: Any) -> Any:
    """Return a result as numba hands it to Python."""
    if isinstance(result, tuple):
        return tuple(_outward(part) for part in result)
    if isinstance(result, np.ndarray):
        return result.view(np.ndarray)
    return result.item() if isinstance(result, np.generic) else result


def _inner(function: Any) -> Callable[..., Any]:
    """Return the function that other kernels call: the same code, with other names."""
    names = seen_by(function.__globals__)
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)


def seen_by(module: dict[str, Any]) -> dict[str, Any]:
    """Return what the kernels of a module see as its names."""
    with _LOCK:
        _, names, count = _NAMES.get(id(module), (module, {}, -1))
        if count != len(module):  # at first, and when it has defined another one
            _NAMES[id(module)] = module, names, len(module)  # before those of kernels it calls: they may call back
            names.update({name: _exchanged(name, value) for name, value in module.items()})
        return names


def _exchanged(name: str, value: Any) -> Any:
    if isinstance(value, (CheckedKernel, Dispatcher)):
        return _inner(value.py_func)
    if isinstance(value, _Intrinsic):
        return getattr(stand_ins, name)
    if isinstance(value, np.ndarray):
        return value.view(Array)
    return stand_ins.numpy if value is np else value
