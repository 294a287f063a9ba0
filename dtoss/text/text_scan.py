"""Reading many texts side by side: each step takes a part of a time from all of them, where it stands in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.partition import texts as arrow_texts
from dtoss.partition import values_of

Fields = dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]]
"""Values by the name of their field, and in which texts there is one."""
LONGEST_RUN = 400
"""Bytes of all literals together; so much is never read past the end of the last text."""
_HUGE = 10**16
"""A number from here on is none of any field."""
_EMPTY, _ZERO_BYTE = arrow_texts(["", "\0"])


@dataclass(frozen=True)
class Literal:
    """Bytes that must be there: of each place those that may stand there."""

    places: tuple[bytes, ...]


@dataclass(frozen=True)
class Digits:
    """A whole number."""

    field: str
    least: int  # Digits that it has
    most: int
    signs: str = ""  # Those that it may have; with both more digits than the least need a plus
    after: int = 0  # Digits that the numbers right behind it need
    base: int = 0  # Is added
    fraction: bool = False  # Whether it is one of a second, in nanoseconds then


@dataclass(frozen=True)
class Word:
    """What a function reads at the start of some bytes: the bytes that it took and the value, or None."""

    field: str
    width: int
    read: Callable[[bytes], tuple[int, int] | None]


@dataclass(frozen=True)
class Optional:
    """Parts that are there, or else nothing is read."""

    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Texts:
    """Texts in one piece of memory, with a zero byte behind each."""

    held: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def texts_of(values: pa.Array) -> Texts:
    """Return texts for :func:`read_parts`; null is empty."""
    joined = pc.binary_join_element_wise(pc.fill_null(values, _EMPTY), _EMPTY, _ZERO_BYTE)
    behind = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset : joined.offset + len(joined) + 1]
    held = np.frombuffer(joined.buffers()[2], np.uint8)
    offsets: NDArray[np.int64] = behind.astype(np.int64)
    return Texts(np.concatenate([held, np.zeros(LONGEST_RUN + 64, np.uint8)]), offsets[:-1], offsets[1:] - 1)


def read_whole(parts: Sequence[Any], texts: Texts) -> tuple[NDArray[np.bool_], Fields]:
    """Return which texts are nothing but these parts, and what they hold."""
    found: Fields = {}
    at, alive = read_parts(parts, texts, texts.starts, np.ones(len(texts.starts), np.bool_), found)
    return alive & (at == texts.ends), found


def read_parts(
    parts: Sequence[Any], texts: Texts, at: NDArray[np.int64], alive: NDArray[np.bool_], found: Fields
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where texts are read on behind some parts, and which hold them; adds the values to those found.

    As Java's: nothing is read twice another way, and a field that already has another value is not there.
    """
    for part in parts:
        if not alive.any():
            break
        if isinstance(part, Optional):
            inner = dict(found)
            behind, there = read_parts(part.parts, texts, at, alive, inner)
            at = np.where(there, behind, at)
            for field, (values, has) in inner.items():
                before, had = found.get(field, (values, np.zeros(len(at), np.bool_)))
                found[field] = np.where(there, values, before), np.where(there, has, had)
        elif isinstance(part, Literal):
            for k, allowed in enumerate(part.places):
                byte = texts.held[at + k]
                same = byte == allowed[0]
                for other in allowed[1:]:
                    same |= byte == other
                alive = alive & same
            at = at + len(part.places)
        else:
            read = _digits if isinstance(part, Digits) else _words
            at, alive, values = read(part, texts, at, alive)
            alive = put(found, part.field, values, alive)
    return at, alive


def put(found: Fields, field: str, values: NDArray[np.int64], there: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add values of a field; returns where they were added: not where it has another one."""
    if field in found:
        before, had = found[field]
        there = there & ~(had & (before != values))
        values, had = np.where(there, values, before), had | there
        found[field] = values, had
    else:
        found[field] = values, there
    return there


def _digits(
    part: Digits, texts: Texts, at: NDArray[np.int64], alive: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    minus = plus = np.zeros(len(at), np.bool_)
    if part.signs:
        byte = texts.held[at]
        minus = alive & (byte == ord("-"))
        plus = alive & (byte == ord("+")) if "+" in part.signs else plus
        at = at + (minus | plus)
    values, width = _number(texts, at, alive, np.full(len(at), part.most + part.after))
    if part.after:
        wanted = np.maximum(part.least, width - part.after)
        values, width = _number(texts, at, alive, wanted)
    alive = alive & (width >= part.least) & ~(minus & (values == 0))
    if "+" in part.signs:
        alive &= minus | (plus == (width > part.least))
    if part.fraction:
        values = values * 10 ** (9 - width)
    values = np.where(minus, -values, values) if part.signs else values
    return at + width, alive, values + part.base if part.base else values


def _number(
    texts: Texts, at: NDArray[np.int64], alive: NDArray[np.bool_], most: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers that stand somewhere, of so many digits at the most, and how many they have."""
    values, width = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    more = alive
    for k in range(int(most.max(initial=0))):
        digit = texts.held[at + k] - np.uint8(ord("0"))
        more = more & (digit < 10) & (k < most)
        if not more.any():
            break
        if k > 16:
            values = np.minimum(values, _HUGE)
        values = np.where(more, values * 10 + digit, values)
        width += more
    return values, width


def _words(
    part: Word, texts: Texts, at: NDArray[np.int64], alive: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    alive = alive & (at < texts.ends)
    if not alive.any():
        return at, alive, np.zeros(len(at), np.int64)
    # what stands there in few bytes, cut off where a text ends; most texts have the same
    shown = np.zeros((len(at), part.width), np.uint8)
    for k in range(part.width):
        shown[:, k] = texts.held[np.minimum(at + k, texts.ends)]
    shown[~alive] = 0
    held = pa.py_buffer(shown)
    codes = pa.Array.from_buffers(pa.binary(part.width), len(at), [None, held]).dictionary_encode()
    read = [part.read(raw.split(b"\0", 1)[0]) for raw in codes.dictionary.to_pylist()]
    places = values_of(codes.indices)
    taken = np.array([-1 if one is None else one[0] for one in read], np.int64)[places]
    values = np.array([0 if one is None else one[1] for one in read], np.int64)[places]
    alive = alive & (taken >= 0)
    return at + np.where(alive, taken, 0), alive, values
