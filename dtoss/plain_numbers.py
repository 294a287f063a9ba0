"""What is a number, by one rule each: of texts in commands digits of ASCII, of arrays neither dates nor masks."""

from __future__ import annotations

import re
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FINITE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""Of a number as people write it: 12, -1.5, .5, 5., 1e3. All of a text has to match."""
_NAMED = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"-?[0-9]+")


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number: digits, perhaps with a minus before them."""
    return _WHOLE.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Return whether a text is a number (:data:`FINITE`), or one of inf, infinity and nan."""
    return (FINITE.fullmatch(text) or _NAMED.fullmatch(text)) is not None


def whole_in(text: str) -> int:
    """Return the whole number that a text is.

    Examples
    --------
    >>> whole_in("-17")
    -17
    """
    if not is_whole(text):
        raise ValueError(f"{text!r} is no whole number: digits are wanted, such as 17")
    return int(text)


def number_in(text: str) -> float:
    """Return the number that a text is.

    Examples
    --------
    >>> number_in(".5"), number_in("1e3")
    (0.5, 1000.0)
    """
    if not is_number(text):
        raise ValueError(f"{text!r} is no number: one such as 12, -1.5 or 1e3 is wanted")
    return float(text)


_KINDS = {
    "M": "dates",
    "m": "durations",
    "b": "booleans",
    "c": "complex numbers",
    "U": "text",
    "S": "text",
    "T": "text",
}
"""What numpy would make numbers of, or takes for some, by the kinds of its types."""


def floats(value: Any) -> NDArray[np.float64]:
    """Return numbers as float64, of any shape; None is NaN."""
    import numpy as np

    try:
        found = value if type(value) is np.ndarray else np.asanyarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("they are of several shapes or kinds") from None
    if isinstance(found, np.ma.MaskedArray):
        if masked := int(np.sum(np.ma.getmaskarray(found))):
            raise ValueError(f"{masked:,} of {found.size:,} are masked, which is no value: fill them or leave them out")
        found = found.data
    if found.dtype.kind == "O":
        for one in found.flat:
            plain = isinstance(one, (Real, Decimal)) and not isinstance(one, (bool, np.timedelta64))
            if one is not None and not plain:
                raise ValueError(f"they are of type {type(one).__name__}")
    elif found.dtype.kind in _KINDS:
        raise ValueError(f"they are {_KINDS[found.dtype.kind]}")
    return np.asarray(found, np.float64)
