"""What a kernel depends on, as a hash of content: its own code, and the code and constants of all that it reaches.

numba keeps compiled code by the source file of one function, and would go on using a kernel whose helpers in other
files have changed. Here a kernel is followed from name to name. Comments, docstrings, line numbers, times and places
of files do not count.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.types import Type
from numba.extending import _Intrinsic

_THEIRS = sys.stdlib_module_names | {"numpy", "numba", "llvmlite"}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def stamp(kernel: Dispatcher) -> str:
    """Return a hash of a kernel's content and of everything that it reaches by name.

    The same functions give the same stamp in every process, wherever their files lie. Cost O(code reached).
    """
    seen: dict[int, int] = {}
    texts: list[str] = []
    _follow(kernel, seen, texts)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _follow(value: Any, seen: dict[int, int], texts: list[str]) -> str:
    """Return what a value is; functions are appended to ``texts`` once and named by their place there."""
    if isinstance(value, Dispatcher):
        options = sorted((name, str(option)) for name, option in value.targetoptions.items())
        return f"kernel {options} {_follow(value.py_func, seen, texts)}"
    if isinstance(value, _Intrinsic):
        return f"intrinsic {_follow(value._defn, seen, texts)}"
    if isinstance(value, FunctionType) and not _theirs(value.__module__):
        if id(value) not in seen:
            seen[id(value)] = len(texts)
            texts.append("")  # its place is taken before those of what it calls: cycles end
            texts[seen[id(value)]] = _function(value, seen, texts)
        return f"function {seen[id(value)]}"
    return _constant(value, seen, texts)


def _function(function: FunctionType, seen: dict[int, int], texts: list[str]) -> str:
    code = function.__code__
    parts = [function.__module__, _code(code, function.__doc__), repr(function.__kwdefaults__)]
    parts += [_follow(default, seen, texts) for default in function.__defaults__ or ()]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        parts.append(f"{name} = {_follow(cell.cell_contents, seen, texts)}")
    names = _names(code)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and not _theirs(value.__name__):
            inside = sorted(names & vars(value).keys())
            parts += [f"{name}.{part} = {_follow(vars(value)[part], seen, texts)}" for part in inside]
        else:
            parts.append(f"{name} = {_follow(value, seen, texts)}")
    return "; ".join(parts)


def _names(code: CodeType) -> set[str]:
    """Return the names of globals and attributes that code uses, also in functions inside it."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


def _code(code: CodeType, docstring: str | None = None) -> str:
    """Return all of a code object but where it stands, and its docstring."""
    fields = ("co_name", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_names",
              "co_varnames", "co_freevars", "co_cellvars", "co_code", "co_exceptiontable")  # fmt: skip
    values = code.co_consts
    if docstring is not None and values[0] == docstring:
        values = (None, *values[1:])
    constants = [_code(part) if isinstance(part, CodeType) else _literal(part) for part in values]
    return repr([getattr(code, field) for field in fields] + constants)


def _literal(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"set {sorted(_literal(part) for part in value)}"
    if isinstance(value, tuple):
        return f"({', '.join(_literal(part) for part in value)})"
    return f"{type(value).__name__} {value!r}"


def _constant(value: Any, seen: dict[int, int], texts: list[str]) -> str:
    if isinstance(value, _PLAIN):
        return _literal(value)
    if isinstance(value, (tuple, list, frozenset)):
        parts = [_follow(part, seen, texts) for part in value]
        return f"{type(value).__name__} {sorted(parts) if isinstance(value, frozenset) else parts}"
    if isinstance(value, (np.generic, np.ndarray)):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, (type, FunctionType, BuiltinFunctionType, np.ufunc)):
        home = getattr(value, "__module__", "numpy")
        return f"{home}.{value.__name__} {_source(home)}"
    home = type(value).__module__
    text = str(value)
    if isinstance(value, Type) or (" at 0x" not in text and not _theirs(home)) or home.startswith("llvmlite."):
        return f"{home}.{type(value).__name__} {text} {_source(home)}"
    raise TypeError(f"a kernel uses {text}, of {home}.{type(value).__name__}: whether it has changed cannot be told")


def _source(module: str) -> str:
    """Return the hash of the source of a module of ours; of others their version counts."""
    if _theirs(module):
        return ""
    return hashlib.sha256(inspect.getsource(sys.modules[module]).encode()).hexdigest()


def _theirs(module: str | None) -> bool:
    return module is None or module.partition(".")[0] in _THEIRS
