"""Memory that knows its bounds: what arrays, pointers and addresses are in checked mode.

Compiled kernels follow a pointer wherever it leads. With ``DTOSS_CHECKED=1`` in the environment they run as Python
(:mod:`dtoss.compiled.checked`), each pointer keeps the array that it points into, and each access is compared with the
bounds of that array. An index below 0 is out of bounds; numpy would count it from the end. What stands for an address
is a handle: the number of an array that :func:`address` was given. The array is not kept alive by it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.mode import CHECKED

GUIDE = "see dtoss/compiled/README.md"
_FIRST_HANDLE = 1 << 40
"""Handles begin far above all counts: a count that is taken for a handle is found."""


class OutOfBoundsError(IndexError):
    """A kernel read or wrote past the end of an array, or followed the address of one that is gone."""


def address(array: NDArray[Any], name: str, owner: Any = None) -> int:
    """Return the address of the first element of a contiguous array, for a kernel's ``int64_at`` and its like.

    ``array``: whoever holds the address keeps this alive; ``name``: what it is called where checked mode finds it read
    past its end; ``owner``: what is kept alive instead, where ``array`` is a view that is made for this call.
    """
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} is not contiguous, and kernels read it by its address: copy it first")
    if not CHECKED:
        return int(array.ctypes.data)
    handle = next(_HANDLES)
    _NAMES[handle] = name
    kept = None if owner is None else array
    # ends with what it belongs to: an address does not keep memory alive
    _ARRAYS[handle] = weakref.ref(array if owner is None else owner, lambda _: _ARRAYS.pop(handle)), kept
    return handle


_HANDLES = count(_FIRST_HANDLE)
_ARRAYS: dict[int, tuple[weakref.ref[Any], NDArray[Any] | None]] = {}
_NAMES: dict[int, str] = {}


class Array(np.ndarray):
    """An array as kernels get it: elements are read as numba reads them, and no index is counted from the end."""

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int and self.ndim == 1 and 0 <= key < self.size:  # most often, and in half the time
            return number(super().__getitem__(key))
        if _is_place(key):
            _check(self, key, "read")
        found = super().__getitem__(key)
        return found if isinstance(found, Array) else number(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        if _is_place(key):
            if not (type(key) is int and self.ndim == 1 and 0 <= key < self.size):
                _check(self, key, "written")
            value = _fitting(self, value)
        try:
            super().__setitem__(key, value)
        except OverflowError as error:
            raise _too_large(_name(self), self.dtype, value) from error


def _is_place(key: Any) -> bool:
    kind = type(key)
    if kind is int:
        return True
    if kind is tuple:
        return all(isinstance(part, (int, np.integer)) for part in key)
    return isinstance(key, np.integer)


def _check(array: Array, key: Any, what: str) -> None:
    places = key if type(key) is tuple else (key,)
    for axis, (place, size) in enumerate(zip(places, array.shape, strict=False)):
        if not 0 <= place < size:
            along = f" along axis {axis}" if array.ndim > 1 else ""
            shown = ", ".join(str(int(part)) for part in places)
            raise OutOfBoundsError(f"{_name(array)}[{shown}] is {what}: {_range(0, size)}{along}; {GUIDE}")


def number(value: Any) -> Any:
    """Return an element as numba has it in kernels: small integers are counted in 64 bits."""
    kind = type(value)
    if kind is np.float64 or kind is np.uint64 or kind is int:
        return value
    return value.item()


def _fitting(array: NDArray[Any], value: Any) -> Any:
    """Return what numpy is to store, so that a number with too many bits is an error; fractions are cut off."""
    return value if type(value) is int or array.dtype.kind not in "iu" or isinstance(value, np.ndarray) else int(value)


def _too_large(name: str, dtype: Any, value: Any) -> OverflowError:
    info = np.iinfo(dtype)
    return OverflowError(f"{value} is written to {name}, which holds {info.min} to {info.max}; {GUIDE}")


class Pointer:
    """A place in an array, from which elements are counted; those of its part of the array can be read and written."""

    __slots__ = ("array", "high", "low", "name", "offset")

    def __init__(self, array: NDArray[Any], offset: int, low: int, high: int, name: str = "") -> None:
        self.array, self.offset, self.low, self.high, self.name = array, offset, low, high, name

    def __getitem__(self, place: int) -> Any:
        at = self.offset + place
        if self.low <= at < self.high:
            return number(self.array[at])
        raise self.beyond(at, "read")

    def __setitem__(self, place: int, value: Any) -> None:
        at = self.offset + place
        if not self.low <= at < self.high:
            raise self.beyond(at, "written")
        try:
            self.array[at] = _fitting(self.array, value)
        except OverflowError as error:
            raise _too_large(_known(self)[0], self.array.dtype, value) from error

    def moved(self, count: int) -> Pointer:
        """Return the place so many elements further on; it may lie outside, as long as nobody looks there."""
        return Pointer(self.array, self.offset + count, self.low, self.high, self.name)

    def part(self, place: int, count: int) -> Pointer:
        """Return the place so many elements further on, with ``count`` elements of its own."""
        begin = self.offset + place
        if count < 0 or begin < self.low or begin + count > self.high:
            at = begin if begin < self.low else begin + count - 1
            raise self.beyond(at, f"needed for a part of {count}")
        return Pointer(self.array, begin, begin, begin + count, self.name)

    def window(self, place: int, count: int, what: str) -> NDArray[Any]:
        """Return a view of the ``count`` elements from a place on, all of which are ``what``."""
        begin = self.offset + place
        if begin < self.low:
            raise self.beyond(begin, what)
        if begin + count > self.high:
            raise self.beyond(max(self.high, begin), what)
        return self.array[begin : begin + count]

    def beyond(self, at: int, what: str) -> OutOfBoundsError:
        """Return the error that says which element is out of bounds; it is counted as its first owner counts."""
        name, begin = _known(self)
        legal = _range(self.low - begin, self.high - begin)
        return OutOfBoundsError(f"{name}[{at - begin}] is {what}: {legal}; {GUIDE}")


def pointer_to(array: NDArray[Any]) -> Pointer:
    """Return a pointer to the first element of a contiguous array."""
    flat = array.reshape(-1).view(np.ndarray)
    return Pointer(flat, 0, 0, flat.size)


_NOWHERE = Pointer(np.zeros(0), 0, 0, 0, "address 0")


def pointer_at(handle: int, dtype: Any) -> Pointer:
    """Return a pointer to the elements at an address, of the type that they have; bytes may be read as any."""
    if handle == 0:
        return _NOWHERE
    if handle not in _ARRAYS:
        name = _NAMES.get(handle)
        raise OutOfBoundsError(
            f"{handle} is no address: take addresses by address(); {GUIDE}" if name is None else
            f"{name} is read by its address, and is gone: whoever holds an address keeps its array alive; {GUIDE}"
        )  # fmt: skip
    alive, kept = _ARRAYS[handle]
    array = alive() if kept is None else kept
    if array is None:
        raise OutOfBoundsError(f"{_NAMES[handle]} is read by its address, and is gone; {GUIDE}")
    flat = array.reshape(-1).view(np.uint8 if array.dtype == np.bool_ else array.dtype)
    if flat.dtype != dtype:
        if flat.dtype != np.uint8:
            raise OutOfBoundsError(f"{_NAMES[handle]} is read as {np.dtype(dtype)}, and is {flat.dtype}; {GUIDE}")
        size = np.dtype(dtype).itemsize
        flat = flat[: flat.size // size * size].view(dtype)
    return Pointer(flat, 0, 0, flat.size, _NAMES[handle])


def _range(low: int, high: int) -> str:
    return f"legal are {low} to {high - 1}" if high > low else "it is empty"


def _name(array: NDArray[Any]) -> str:
    """Return what the outermost kernel calls an array."""
    names = (key for values in _outermost_first() for key, value in values if value is array)
    return next(names, "an array")


def _known(pointer: Pointer) -> tuple[str, int]:
    """Return what the outermost kernel calls the part of an array that a pointer may reach, and where that begins."""
    if pointer.name:
        return pointer.name, 0
    for values in _outermost_first():
        found = [(_begins(value, pointer), isinstance(value, Pointer), key) for key, value in values]
        known = [
            (begin != pointer.low, is_pointer, begin, key) for begin, is_pointer, key in found if begin is not None
        ]
        if known:
            # who has all of it rather than a place in it, an argument of the kernel rather than what it made of it
            *_, begin, name = min(known)
            return name, begin
    return "an array", pointer.low


def _begins(value: Any, pointer: Pointer) -> int | None:
    """Return where a value begins, if it is the part of an array that a pointer may reach; else None."""
    if isinstance(value, Pointer):
        same = value.array is pointer.array and (value.low, value.high) == (pointer.low, pointer.high)
        return value.offset if same else None
    whole = isinstance(value, Array) and pointer.high - pointer.low == value.size
    return 0 if whole and value.ctypes.data == pointer.array.ctypes.data else None


def _outermost_first() -> Iterator[list[tuple[str, Any]]]:
    """Yield names and values of each call that led here, but those in this file; in tuples as well."""
    frames, frame = [], sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename != __file__:
            frames.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    for frame in reversed(frames):
        yield [pair for item in frame.f_locals.items() for pair in _with_fields(*item)]


def _with_fields(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if isinstance(value, tuple):
        for field, part in zip(getattr(value, "_fields", [name] * len(value)), value, strict=True):
            yield from _with_fields(field, part)
