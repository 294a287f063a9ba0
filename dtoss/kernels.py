"""How kernels are compiled: once, kept on disk, without the interpreter's lock, and dividing as IEEE 754 says."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


def operand(array: Any, dtype: Any = None) -> NDArray[Any]:
    """Return an array as kernels take it: contiguous and writable; one mapped from a file is copied."""
    if type(array) is np.ndarray and (dtype is None or array.dtype == dtype):
        flags = array.flags
        if flags.c_contiguous and flags.writeable and flags.aligned:
            return array  # np.require takes a microsecond to say the same
    return np.require(array, dtype, ["C_CONTIGUOUS", "WRITEABLE"])


_OPTIONS = {"nogil": True, "error_model": "numpy"}


def _digest() -> str:
    """Return a hash of the sources that hold kernels."""
    total = hashlib.sha256()
    for source in sorted((f for f in files(__package__).iterdir() if f.name.endswith(".py")), key=lambda f: f.name):
        text = source.read_bytes()
        if b"@kernel" in text or b"@intrinsic" in text:
            total.update(text)
    return total.hexdigest()


_SOURCES = _digest()


def kernel(*signatures: Any) -> Any:
    """Compile a function with numba: at once for the signatures given, or for whatever kernel first calls it.

    numba keeps compiled code by the source of one function alone and would go on using a kernel whose helpers have
    changed, so the stamp of what is kept names all sources that hold kernels.
    """
    if len(signatures) == 1 and callable(signatures[0]):
        return _compiled(signatures[0], ())

    def decorate(function: Callable[..., Any]) -> Any:
        return _compiled(function, signatures)

    return decorate


def _compiled(function: Callable[..., Any], signatures: tuple[Any, ...]) -> Any:
    dispatcher = njit(**_OPTIONS)(function)
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        pass  # nowhere to write: compiled anew in each process
    else:
        kept = dispatcher._cache._cache_file
        kept._source_stamp = (kept._source_stamp, _SOURCES)
    for signature in signatures:
        dispatcher.compile(signature)
    if signatures:
        dispatcher.disable_compile()
    return dispatcher
