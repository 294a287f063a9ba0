"""Which texts speak of whom: rows that were set aside, as they were read.

Files of rows that were set aside, without those that speak of somebody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.commits.file_entry import write_entry
from dtoss.commits.folder import Folder
from dtoss.commits.rejected_rows import encode_rejected, read_rejected


@dataclass(frozen=True)
class Mentions:
    """Ids that are looked for in rows as they were read."""

    ids: frozenset[str]  # As texts; whole numbers as their digits
    # The column of ids in JSON; where None, or where a row has none of this name, each of its values may be one
    column: str | None = None

    @cached_property
    def _words(self) -> re.Pattern[str]:
        some = "|".join(re.escape(one) for one in sorted(self.ids, key=len, reverse=True))
        return re.compile(rf"(?<!\w)(?:{some})(?!\w)")

    def mask(self, rows: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
        """Return which rows speak of one of the ids, bool (n,); a null speaks of nobody."""
        return np.array([text is not None and self.found_in(text) for text in rows.to_pylist()], np.bool_)

    def stands_in(self, text: str) -> bool:
        """Return whether one of the ids stands in a text as a word."""
        return bool(self.ids) and self._words.search(text) is not None

    def found_in(self, text: str) -> bool:
        """Return whether a row speaks of one: its id is one, or, in what is no JSON, one stands as a word."""
        if not self.ids:
            return False
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            return self.stands_in(text)
        if isinstance(row, dict):
            said = row.get(self.column) if self.column is not None else None
            if said is not None and not isinstance(said, (dict, list)):
                return _text(said) in self.ids
        # a line that could not be read stands in a text of its own
        return any(one in self.ids or self.stands_in(one) for one in _texts(row))


def among(column: pa.Array | pa.ChunkedArray, ids: pa.Array) -> NDArray[np.bool_]:
    """Return which values of a column are some ids, bool (n,): none where the one has numbers and the other texts."""
    if pa.types.is_integer(column.type) != pa.types.is_integer(ids.type):
        return np.zeros(len(column), np.bool_)
    return np.asarray(pc.is_in(column, value_set=ids.cast(column.type)), np.bool_)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif value is not None:
        yield _text(value)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value)


def without_mentions(rows: pa.Table, mentions: Mentions) -> pa.Table:
    """Return the rows that speak of nobody who is looked for."""
    return rows.filter(pa.array(~mentions.mask(rows.column("row"))))


def clear_rejected(folder: Folder, room: str, mentions: Mentions, *, dry: bool = False) -> int:
    """Remove rows that speak of somebody from the files of a folder that nothing lists; return how many went.

    ``folder``, ``room``: where the files are, each named by its bytes.

    What stays of a file is written before it goes: rows stand in two for a moment, and never in none.
    """
    gone = 0
    for name in folder.files(room):
        rows = read_rejected(folder, room, name)
        kept = without_mentions(rows, mentions)
        gone += len(rows) - len(kept)
        if dry or len(kept) == len(rows):
            continue
        if len(kept):
            write_entry(folder, encode_rejected(kept), len(kept), "parquet", room, digits=len(name.partition(".")[0]))
        folder.remove(room, name)
    return gone
