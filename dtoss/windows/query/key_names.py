"""What places are called beside their keys: ids of sites, names of polygons, cells of H3 in hexadecimal."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.names import near_name
from dtoss.windows.patches import NO_KEY
from dtoss.windows.spec import Spec

NAMED = {"key": "name", "from": "from_name", "to": "to_name"}
"""Columns of keys, and those of what they are called."""


_HEX_DIGITS = 16
"""Of a cell of H3 at the most; as a decimal number it has more."""


class Names:
    """What the keys of windows are called.

    ``count``: keys are 0 to this less one; None where any number may be one; ``texts``: string (count,). What they are
    called; None where they have numbers only.
    """

    def __init__(self, spec: Spec, count: int | None, texts: pa.Array | None) -> None:
        self._cells = spec.by.startswith("h3:")
        self._count = count
        self._texts = texts

    def beside(self, table: pa.Table) -> pa.Table:
        """Return a table with a column behind each one of keys; the same one where keys have numbers only."""
        if self._texts is None and not self._cells:
            return table
        columns = {}
        for name in table.column_names:
            columns[name] = table[name]
            if name in NAMED:
                columns[NAMED[name]] = self._of(np.asarray(table[name]))
        return pa.table(columns)

    def key_of(self, wanted: int | str) -> int:
        """Return a key by its number or what it is called: of several called so the first one."""
        text = str(wanted).strip()
        if self._cells:
            return _cell_of(text)
        try:
            number = int(text)
        except ValueError:
            return self._called(text)
        if number < 0 or (self._count is not None and number >= self._count):
            at = -1 if self._texts is None else self._texts.index(text).as_py()
            if at >= 0:  # ids of sites may be numbers
                return int(at)
            raise InputError(f"there is no key {number}: keys are 0 to {(self._count or 0) - 1:,}")
        return number

    def _called(self, text: str) -> int:
        if self._texts is None:
            raise InputError(f"there is no key {text!r}: keys are numbers from 0 to {(self._count or 0) - 1:,}")
        at: int = self._texts.index(text).as_py()
        if at < 0:
            near = near_name(text, [one for one in self._texts.to_pylist() if one is not None])
            hint = "" if near is None else f"; did you mean {near}?"
            raise InputError(f"no place is called {text!r}, and keys are numbers from 0 to {self._count - 1:,}{hint}")  # type: ignore[operator]
        return at

    def _of(self, keys: NDArray[np.int64]) -> pa.Array:
        if self._texts is None:
            return pa.array([None if key == NO_KEY else f"{key:x}" for key in keys.tolist()], pa.string())
        return self._texts.take(pa.array(keys, mask=keys == NO_KEY))


def _cell_of(text: str) -> int:
    """Return the key of a cell of H3, which is written in hexadecimal as anywhere."""
    try:
        number = int(text, 16) if len(text) <= _HEX_DIGITS else int(text)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 63:
        raise InputError(f"there is no key {text!r}: a cell of H3 is wanted, such as 88283082b9fffff")
    return number
