"""Lists of numbers in the JSON that a stranger sent.

Only lists of so many numbers each are read, some thousands at a time: the interpreter is held while they are, and the
loop waits for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dtoss.serve.core.problems import Problem

PIECE_BYTES = 1 << 15
_SPACE = b" \t\r\n"
_ROW = re.compile(r" - at `\$\[(\d+)\]")
"""Where a message says in which list of a piece something is wrong."""


class Members(msgspec.Struct, forbid_unknown_fields=True):
    """The members of a body, not read yet."""

    positions: msgspec.Raw = msgspec.Raw()
    boxes: msgspec.Raw = msgspec.Raw()
    radius: msgspec.Raw = msgspec.Raw()


def lists_in(
    body: bytes | bytearray,
    name: str,
    width: int,
    most: int,
    check: Callable[[], None],
    radius: bool = False,
    piece_bytes: int = PIECE_BYTES,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the lists of numbers of a body, (n, width), and its radii (n,), if there are any and they may be.

    ``body``: ``{"positions": [[1, 2], ...], "radius": [3, ...]}``, or boxes; ``most``: lists at the most; ``check``: is
    called now and then.
    """
    if (lists := body.count(b"[") - 1) > most + 1:
        raise too_many(lists - 1, most)
    try:
        members = msgspec.json.decode(body, type=Members)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _wrong(f"{_first_line(error)}; send {_example(name, width, radius)}") from None
    values = bytes(getattr(members, name))
    others = [other for other in ("positions", "boxes") if other != name and bytes(getattr(members, other))]
    if not values or others:
        raise _wrong(f"{name} are missing; send {_example(name, width, radius)}")
    if bytes(members.radius) and not radius:
        raise _wrong(f"it has a radius, which is not asked for; send {_example(name, width, radius)}")
    found = _rows(values, name, width, check, piece_bytes)
    if len(found) > most:
        raise too_many(len(found), most)
    if bytes(members.radius).count(b",") > most:
        raise _wrong(f"there are more than {most:,} radii: send one, or one for each place")
    radii = _radii(bytes(members.radius), len(found)) if bytes(members.radius) else None
    return found, radii


def too_many(number: int, most: int) -> Problem:
    """Return what to say of too many places."""
    return Problem(
        413,
        f"there are {number:,} places: at most {most:,} go into a request; send them in several",
        limit="bulk_queries",
        value=number,
        bound=most,
    )


def _rows(values: bytes, name: str, width: int, check: Callable[[], None], piece_bytes: int) -> NDArray[np.float64]:
    """Return the lists in a list, of valid JSON: it is cut behind a ``]``, where it can only be cut between two."""
    inner = values.strip(_SPACE)
    if inner[:1] != b"[":
        raise _wrong(f"{name} are no list; send {_example(name, width)}")
    decoder = msgspec.json.Decoder(list[tuple[(float,) * width]])  # type: ignore[misc]
    inner = inner[1:-1].strip(_SPACE)
    pieces: list[NDArray[np.float64]] = [np.zeros((0, width))]
    at = rows = 0
    while at < len(inner):
        check()
        end = inner.find(b"]", at + piece_bytes) + 1 or len(inner)
        try:
            found = decoder.decode(b"[" + inner[at:end] + b"]")
        except (msgspec.DecodeError, RecursionError) as error:
            text = _first_line(error)
            row = rows + (int(told[1]) if (told := _ROW.search(text)) else 0)
            raise _wrong(f"{name} row {row}: {_ROW.split(text)[0]}; send {_example(name, width)}") from None
        pieces.append(np.array(found, dtype=np.float64).reshape(-1, width))
        rows += len(found)
        at = end
        while at < len(inner) and inner[at : at + 1] in (b" ", b"\t", b"\r", b"\n"):
            at += 1
        if at < len(inner):
            if inner[at : at + 1] != b",":
                raise _wrong(f"{name} from row {rows} on are no lists of {width} numbers")
            at += 1
            if not inner[at:].strip(_SPACE):
                raise _wrong(f"{name} end with a comma")
    return np.concatenate(pieces)


def _radii(values: bytes, count: int) -> NDArray[np.float64]:
    """Return radii: one for all, or as many as there are places."""
    if values.strip(_SPACE)[:1] != b"[":
        values = b"[" + values + b"]"
    try:
        found = msgspec.json.decode(values, type=list[float])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _wrong(f"radius: {_first_line(error)}") from None
    if len(found) not in (1, count):
        raise _wrong(f"there are {len(found):,} radii and {count:,} places: send one, or one for each")
    return np.broadcast_to(np.array(found, dtype=np.float64), (count,)) if len(found) == 1 else np.array(found)


def _example(name: str, width: int, radius: bool = False) -> str:
    numbers = ", ".join(str(float(i + 1)) for i in range(width))
    more = ', "radius": [3.0, ...]' if radius else ""
    return f'{{"{name}": [[{numbers}], ...]{more}}}'


def _wrong(text: str) -> Problem:
    return Problem(400, f"the body is not read here: {text}", limit="body")


def _first_line(error: Any) -> str:
    return (str(error).splitlines() or ["it is nested too deeply"])[0]
