"""Compiled kernels between processes: a file each, named by the content of its source, by signature and by machine.

What a kernel depends on, as a hash of content: its own code, and the code and constants of all that it reaches.

numba keeps compiled code by the source file of one function, and would go on using a kernel whose helpers in other
files have changed. Here a kernel is followed from name to name. Comments, docstrings, line numbers, times and places
of files do not count.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite.binding import parse_bitcode
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.types import Type
from numba.core.types.containers import BaseNamedTuple, BaseTuple
from numba.extending import _Intrinsic

from dtoss.compiled.bridge import GENERIC, bridge, exchange_code, shipped, wanted
from dtoss.compiled.compiling import show_compiling
from dtoss.compiled.kept_places import places, turn, writable

KEPT_FILES = 8
"""Files of one kernel that stay in a place, the latest: other versions of it, signatures and machines."""
_DIGEST = 32


class KernelFiles:
    """Where a kernel's compiled code is kept: what numba calls a cache.

    numba asks :meth:`load_overload` before it compiles a signature, and hands to :meth:`save_overload` what it made.
    """

    def __init__(self, kernel: Dispatcher) -> None:
        self._kernel = kernel
        self._stamp: str | None = None
        self._bridged: list[Any] = []
        self._turn: ExitStack | None = None
        self._name = f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}".replace("<", "").replace(">", "")
        source = Path(kernel.py_func.__code__.co_filename).absolute()
        # one place for all kernels of a package, whichever folder of it their sources lie in
        self._beside = source.parents[max(kernel.py_func.__module__.count(".") - 1, 0)] / "__pycache__"

    @property
    def cache_path(self) -> str | None:
        """The directory that is written to, None where none can be."""
        place = writable(self._beside)
        return None if place is None else str(place)

    def load_overload(self, signature: Any, target: Any) -> CompileResult | None:
        """Return the code that is kept for a signature and this machine, None if there is none that is whole."""
        machine = target.codegen().magic_tuple()
        found = self._kept(signature, target, machine)
        if found is None and wanted() and writable(self._beside) is not None:
            found = _rebuilt(shipped(self._file(signature, (machine[0], GENERIC, ""))), target)
            if found is not None:
                self._bridged.append(signature)
                bridge(self._name, lambda: self._exchange(target))
        if found is None and self._turn is not None:
            begun, self._turn = self._turn, None
            begun.enter_context(show_compiling(self._name))
            begun.enter_context(turn(writable(self._beside), self._name))
            found = self._kept(signature, target, machine)  # another process may have compiled it meanwhile
        return found

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have this process alone compile the kernel, from the first signature on that has no code."""
        with ExitStack() as begun:
            self._turn = begun
            yield
        self._turn = None

    def _exchange(self, target: Any) -> None:
        machine = target.codegen().magic_tuple()
        exchange_code(self._kernel, [self._kept(signature, target, machine) for signature in self._bridged])

    def _kept(self, signature: Any, target: Any, machine: Any) -> CompileResult | None:
        file = self._file(signature, machine)
        for place in places(self._beside):
            with suppress(OSError):
                found = _rebuilt((place / file).read_bytes(), target)
                if found is not None:
                    return found
        return None

    def save_overload(self, signature: Any, result: CompileResult) -> None:
        """Keep the code of a signature, where a place can be written to."""
        place = writable(self._beside)
        if place is None or result.library.has_dynamic_globals or not all(x.can_cache for x in result.lifted):
            return
        data = dumps(result._reduce())
        file = self._file(signature, result.codegen.magic_tuple())
        fresh = place / f"{file}.{uuid.uuid4().hex}"
        try:
            fresh.write_bytes(hashlib.sha256(data).digest() + data)
            fresh.replace(place / file)
        except OSError:
            with suppress(OSError):
                fresh.unlink()  # a full disk: compiled anew in the next process
            return
        self._thin(place)

    def enable(self) -> None:
        """Do nothing: code is always kept."""

    def disable(self) -> None:
        """Do nothing: code is always kept."""

    def flush(self) -> None:
        """Do nothing: a file is found only by the content that it was made of."""

    def _file(self, signature: Any, machine: tuple[str, str, str]) -> str:
        """Return the name of the file with code for a triple, a processor and its features."""
        if self._stamp is None:
            self._stamp = stamp(self._kernel)
        made_by = (*machine, numba.__version__, llvmlite.__version__, sys.implementation.cache_tag,
                   config.OPT, config.BOUNDSCHECK)  # fmt: skip
        text = f"{self._stamp}\n{signature}{_fields(signature)}\n{made_by}"
        return f"{self._name}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.nbc"

    def _thin(self, place: Path) -> None:
        with suppress(OSError):  # another process may thin as well
            found = sorted(place.glob(f"{self._name}-*.nbc"), key=lambda file: file.stat().st_mtime, reverse=True)
            for file in found[KEPT_FILES:]:
                file.unlink()


def _fields(kind: Any) -> str:
    """Return the names of the fields of the named tuples in a signature, "" if there are none.

    A kernel that takes one finds its fields by their places, and reaches the class by no name.
    """
    if isinstance(kind, tuple):
        return "".join(map(_fields, kind))
    if isinstance(kind, BaseTuple):
        own = f"\n{', '.join(kind.fields)}" if isinstance(kind, BaseNamedTuple) else ""
        return own + _fields(tuple(kind.types))
    return ""


def _rebuilt(data: bytes | None, target: Any) -> CompileResult | None:
    """Return the code in a file, None if there is no file, it is not whole, or it names what is gone since."""
    if data is None or hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        return None
    rtsys.initialize(target)  # what compiled code calls; numba's refresh() would load the compiler as well
    try:
        parts = pickle.loads(data[_DIGEST:])
    except (AttributeError, ImportError):
        return None
    result = CompileResult._rebuild(target, *parts)
    _, _, (_, bitcode) = parts[0]
    _read_when_linked(result.library, bitcode)
    return result


def _read_when_linked(library: Any, bitcode: bytes) -> None:
    """Let go of what kernels above would link of a kernel until one does: read, it takes ten times the memory."""

    def module() -> Any:
        if library._shared_module is None:
            library._shared_module = parse_bitcode(bitcode)
        return library._shared_module

    library._shared_module, library._get_module_for_linking = None, module


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
