"""How kernels are compiled: when first called, and kept; without the interpreter's lock, dividing as IEEE 754 says."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.compiler_lock import global_compiler_lock
from numpy.typing import NDArray

from dtoss.compiled.kept_code import KernelFiles
from dtoss.compiled.linked_code import LinkedKernel
from dtoss.compiled.mode import CHECKED

if CHECKED:
    from dtoss.compiled.checked import CheckedKernel


def operand(array: Any, dtype: Any = None) -> NDArray[Any]:
    """Return an array as kernels take it: contiguous and writable; one mapped from a file is copied."""
    if type(array) is np.ndarray and (dtype is None or array.dtype == dtype):
        flags = array.flags
        if flags.c_contiguous and flags.writeable and flags.aligned:
            return array  # np.require takes a microsecond to say the same
    return np.require(array, dtype, ["C_CONTIGUOUS", "WRITEABLE"])


_OPTIONS = {"nogil": True, "error_model": "numpy"}
DECLARED: dict[str, Any] = {}
"""Kernels that state their signatures, by module and name: those that Python calls."""

if hasattr(os, "register_at_fork"):
    # a fork amid compiling would leave locks of numba and of LLVM held in the child: it waits until nobody compiles
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


def kernel(*signatures: Any) -> Any:
    """Compile a function with numba when it is first called: for the signatures given, or for whatever kernel calls it.

    Importing compiles nothing, and a question compiles only what answers it. What is compiled is kept
    (:mod:`dtoss.compiled.kept_code`). In checked mode nothing is: see :mod:`dtoss.compiled.checked`.
    """
    if len(signatures) == 1 and callable(signatures[0]):
        return CheckedKernel(signatures[0]) if CHECKED else _inner(signatures[0])

    def decorate(function: Callable[..., Any]) -> Any:
        return CheckedKernel(function, signatures) if CHECKED else _declared(_kept(function), signatures)

    return decorate


def step(function: Callable[..., Any]) -> Any:
    """Return a step of a long kernel: it is written into the kernel that calls it, and never compiled by itself.

    Each call of a kernel with many arguments costs nanoseconds.
    """
    return CheckedKernel(function) if CHECKED else njit(**_OPTIONS, inline="always")(function)


def _kept(function: Callable[..., Any], **options: Any) -> Any:
    # what C would call is never needed, and takes time to compile
    dispatcher: Any = njit(**_OPTIONS, no_cfunc_wrapper=True, **options)(function)
    dispatcher._cache = KernelFiles(dispatcher)
    return dispatcher


def _inner(function: Callable[..., Any]) -> Any:
    """Return a kernel that is compiled for what kernels call it with, without the entrance that Python would need.

    A constant counts as any number, and callers optimise it (:mod:`dtoss.compiled.linked_code`). Where Python does call
    it, it is compiled once more.
    """
    dispatcher = _kept(function, no_cpython_wrapper=True, pipeline_class=LinkedKernel)
    template, with_entrance = dispatcher.get_call_template, lru_cache(maxsize=1)(_kept)

    def called_by_a_kernel(args: Any, named: Any) -> Any:
        return template(
            tuple(types.unliteral(arg) for arg in args), {name: types.unliteral(arg) for name, arg in named.items()}
        )

    def called_by_python(*args: Any, **named: Any) -> Any:
        return with_entrance(function)  # which numba calls with these arguments

    def known(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result  # to kernels, and not to Python

    dispatcher.get_call_template = called_by_a_kernel
    dispatcher._compile_for_args = called_by_python
    dispatcher.add_overload = known
    return dispatcher


def _declared(dispatcher: Any, signatures: tuple[Any, ...]) -> Any:
    """Return a kernel that is compiled for its signatures, and for no others, when it is first called or asked for."""

    def ready() -> None:
        with global_compiler_lock:
            if dispatcher._can_compile:
                with dispatcher._cache.turn():
                    for signature in signatures:
                        dispatcher.compile(signature)
                dispatcher.disable_compile()

    template = dispatcher.get_call_template

    def first_call(*args: Any, **named: Any) -> Any:
        ready()
        return dispatcher  # which numba calls with these arguments: one of the signatures fits, or none ever will

    def called_by_a_kernel(args: Any, named: Any) -> Any:
        ready()
        return template(args, named)

    dispatcher._compile_for_args = first_call
    dispatcher.get_call_template = called_by_a_kernel
    dispatcher.ready = ready
    DECLARED[f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"] = dispatcher
    return dispatcher
