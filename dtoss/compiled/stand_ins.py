"""The instructions that numba lacks, in numpy: what kernels call in checked mode instead of the intrinsics.

A stand-in has the name of its intrinsic (:mod:`dtoss.compiled.pointers`, ``lanes8``, ``lanes16``), gives the
same bits, and reads and writes only what the intrinsic may by its docstring. What an intrinsic leaves behind what it
was asked for is filled with numbers that nobody may use.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import Array, Pointer, pointer_at, pointer_to

_LANES_OF_8, _LANES_OF_16 = 8, 16
_ALL_BITS = (1 << 64) - 1
_NOTHING = 0x7FF8DEAD7FF8DEAD
"""What is left where nothing was asked for: no number, and no count."""


class Eight(np.ndarray):
    """Eight float64 as a value: ``a += b`` makes another one."""

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]
        return self + other

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        return self - other

    def __imul__(self, other: Any) -> Any:  # type: ignore[misc]
        return self * other

    def __itruediv__(self, other: Any) -> Any:  # type: ignore[misc]
        return self / other


# of dtoss.compiled.pointers

pointer = pointer_to


def shift(start: Pointer, count: int) -> Pointer:
    """Return ``start + count`` elements."""
    return start.moved(count)


def part_of(start: Pointer, place: int, count: int) -> Pointer:
    """Return ``start + place``, with ``count`` elements of its own from there on."""
    return start.part(place, count)


def float64_at(address: int) -> Pointer:
    """Return a pointer to the float64 at an address."""
    return pointer_at(address, np.float64)


def int64_at(address: int) -> Pointer:
    """Return a pointer to the int64 at an address."""
    return pointer_at(address, np.int64)


def int32_at(address: int) -> Pointer:
    """Return a pointer to the int32 at an address."""
    return pointer_at(address, np.int32)


def uint8_at(address: int) -> Pointer:
    """Return a pointer to the bytes at an address."""
    return pointer_at(address, np.uint8)


def uint64_at(address: int) -> Pointer:
    """Return a pointer to the uint64 at an address."""
    return pointer_at(address, np.uint64)


def trailing_zeros(mask: int) -> int:
    """Return the number of the lowest set bit of a mask; none is an error."""
    if mask == 0:
        raise ValueError("trailing_zeros of a mask that is 0: nobody knows what it is")
    return (mask & -mask).bit_length() - 1


def bits_set(mask: int) -> int:
    """Return how many bits of a mask are set."""
    return (mask & _ALL_BITS).bit_count()


def float_bits(value: float) -> int:
    """Return the bits of a float64."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits


def bits_float(bits: int) -> np.float64:
    """Return the float64 with these bits."""
    return np.int64(bits).view(np.float64)


def prefetch(start: Pointer, count: int) -> None:
    """Do nothing: a processor may be asked for any address."""


# of dtoss.compiled.lanes8


def lanes_at(start: Pointer, place: int) -> Eight:
    """Return ``start[place:place + 8]``; integers as the float64 of the same bits."""
    eight = Eight(_LANES_OF_8)
    eight[:] = start.window(place, _LANES_OF_8, "read").view(np.float64)
    return eight


def put_lanes(start: Pointer, place: int, values: Eight) -> None:
    """Store to ``start[place:place + 8]``."""
    start.window(place, _LANES_OF_8, "written").view(np.float64)[:] = values


def splat(value: float) -> Eight:
    """Return eight times the same number."""
    eight = Eight(_LANES_OF_8)
    eight.fill(value)
    return eight


def _mask(flags: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _flags(mask: int) -> NDArray[np.bool_]:
    return _FLAGS[mask & 255]


_FLAGS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(np.bool_)


def above(a: Eight, b: Eight) -> int:
    """Return the mask of lanes where ``a > b``."""
    return _mask(np.greater(a, b))


def equal(a: Eight, b: Eight) -> int:
    """Return the mask of lanes where ``a == b``."""
    return _mask(np.equal(a, b))


def larger(a: Eight, b: Eight) -> Eight:
    """Return the larger of each pair; b where one is no number."""
    found = b.copy()
    np.copyto(found, a, where=np.greater(a, b))
    return found


def where(mask: int, a: Eight, b: Eight) -> Eight:
    """Return a in the lanes of the mask, b in the others."""
    found = b.copy()
    np.copyto(found, a, where=_flags(mask))
    return found


def roots(a: Eight) -> Eight:
    """Return the square root of each lane."""
    return np.sqrt(a)  # type: ignore[return-value]


def whole(a: Eight) -> Eight:
    """Return each lane without what stands behind its point."""
    return np.trunc(a)  # type: ignore[return-value]


def entries(start: Pointer, places: Eight) -> Eight:
    """Return ``start[place]`` for each lane of whole places."""
    found = Eight(_LANES_OF_8)
    found[:] = [start[int(place)] for place in places]
    return found


def _halves(values: Eight, join: Any) -> Any:
    found = np.asarray(values)
    for half in (4, 2, 1):
        found = join(found[:half], found[half:])
    return found[0]


def least(a: Eight) -> Any:
    """Return the smallest lane."""
    return _halves(a, lambda p, q: np.where(p < q, p, q))


def greatest(a: Eight) -> Any:
    """Return the largest lane."""
    return _halves(a, lambda p, q: np.where(p > q, p, q))


def total(a: Eight) -> Any:
    """Return the sum of the lanes, by halves."""
    return _halves(a, np.add)


# of dtoss.compiled.lanes16


def _gaps(sites: Pointer, place: tuple[float, ...], out: Pointer) -> None:
    whole = sites.window(0, _LANES_OF_16 * len(place), "read").reshape(_LANES_OF_16, len(place))
    far = None
    for axis, at in enumerate(place):
        d = whole[:, axis] - at
        far = d * d if far is None else far + d * d
    out.window(0, _LANES_OF_16, "written")[:] = far


def gaps_plane(sites: Pointer, x: float, y: float, out: Pointer) -> None:
    """Fill ``out[:16]`` with the squared distances of 16 planar sites from (x, y)."""
    _gaps(sites, (x, y), out)


def gaps_sphere(sites: Pointer, x: float, y: float, z: float, out: Pointer) -> None:
    """Fill ``out[:16]`` with the squared chords of 16 vectors from (x, y, z)."""
    _gaps(sites, (x, y, z), out)


def at_most(values: Pointer, bound: float) -> int:
    """Return a bit for each of ``values[:16]``: whether it is at most the bound."""
    return _mask(values.window(0, _LANES_OF_16, "read") <= bound)


def _append(values: NDArray[Any], flags: NDArray[np.bool_], out: Pointer) -> int:
    room, found = out.window(0, _LANES_OF_16, "written").view(np.int64), values[flags].view(np.int64)
    room[: len(found)] = found
    room[len(found) :] = _NOTHING
    return len(found)


def append_flagged(mask: int, values: Pointer, first: int, out: Pointer, names: Pointer) -> int:
    """Write those of ``values[:16]`` whose bit is set to ``out``, and their numbers to ``names``."""
    flags = np.concatenate([_flags(mask), _flags(mask >> _LANES_OF_8)])
    _append(values.window(0, _LANES_OF_16, "read").copy(), flags, out)
    return _append(np.arange(first, first + _LANES_OF_16), flags, names)


def append_names(mask: int, first: int, out: Pointer) -> int:
    """Write first + i to ``out`` for each bit i that is set among the lowest 16; returns how many are."""
    flags = np.concatenate([_flags(mask), _flags(mask >> _LANES_OF_8)])
    return _append(np.arange(first, first + _LANES_OF_16), flags, out)


def ball_meets(ball: Pointer, x: float, y: float, z: float, reach: float) -> int:
    """Return 1 if a ball is within reach of a place, else 0."""
    step = ball.window(0, 4, "read") - np.array([x, y, z, -reach])
    a, b, c, far = step * step
    return int(not np.signbit(far - (a + b + c)))


# of dtoss.compiled.rank_sort


def _placing(chunks: int) -> Any:
    def put(keys: Pointer, first: int, count: int, n: int, out: Pointer) -> None:
        keys.window(first, _LANES_OF_16 * chunks, "read")
        every, own = keys.window(0, n, "read"), keys.window(first, count, "read")
        for key in own.tolist():
            out[n - 1 - int(np.count_nonzero(every > key))] = key

    return put


_put16, _put32, _put48 = _placing(1), _placing(2), _placing(3)


# of dtoss.compiled.network_sort


def _sorting(count: int) -> Any:
    def sort(keys: Pointer, n: int, out: Pointer) -> None:
        room, found = out.window(0, count, "written"), np.sort(keys.window(0, count, "read")[:n])
        room[:n], room[n:] = found, _NOTHING

    return sort


sort16, sort32, sort64 = _sorting(16), _sorting(32), _sorting(64)


class Numpy:
    """What kernels call ``np``: arrays that know their bounds, and what numba takes from C's library taken from there.

    numpy's own sines and the like may differ in the last bit from one processor to another.
    """

    arccos, arctan2, cos, sin = math.acos, math.atan2, math.cos, math.sin

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(shape: Any, dtype: Any = np.float64) -> Any:
        """Return an array of which nothing may be read before it is written."""
        made = np.empty(shape, dtype)
        made.view(np.uint8)[...] = 0xBB  # what nobody has written may be anything
        return made.view(Array)

    @staticmethod
    def zeros(shape: Any, dtype: Any = np.float64) -> Any:
        """Return an array of zeros."""
        return np.zeros(shape, dtype).view(Array)

    @staticmethod
    def full(shape: Any, value: Any, dtype: Any = None) -> Any:
        """Return an array of one value."""
        return np.full(shape, value, dtype).view(Array)

    @staticmethod
    def concatenate(arrays: Any) -> Any:
        """Return arrays one after another."""
        return np.concatenate(arrays).view(Array)

    @staticmethod
    def uint8(value: Any) -> int:
        """Return the lowest 8 bits of a whole number."""
        return int(value) & 0xFF

    @staticmethod
    def uint32(value: Any) -> int:
        """Return the lowest 32 bits of a whole number."""
        return int(value) & 0xFFFFFFFF

    @staticmethod
    def uint64(value: Any) -> np.uint64:
        """Return the lowest 64 bits of a whole number, which count modulo 2^64."""
        return np.uint64(int(value) & _ALL_BITS)


numpy = Numpy()
