"""What columns of text hold, by Arrow: whole numbers, numbers, or just text, as Spark finds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.partition import numbers as arrow_of
from dtoss.text.text_types import AS_NUMBER, AS_TEXT, AS_WHOLE, KINDS_OF_TYPES, MOST_VALUES, MOSTLY, plain_pattern
from dtoss.text.text_values import (
    EMPTY_TEXT,
    LOOSE_PATTERN,
    any_whole_numbers,
    dotted,
    matching,
    numbers,
    of_java,
    whole_numbers,
)  # fmt: skip


@dataclass
class Counts:
    """What was seen of a column of text: how many values are not empty, whole numbers, numbers."""

    filled: int = 0
    whole: int = 0
    numbers: int = 0

    def add(self, texts: pa.Array, decimal: str, tolerant: bool, read: bool = True) -> None:
        """Count some values more; ``read``: whether numbers among them matter still."""
        self.filled += len(texts) - texts.null_count - (pc.sum(pc.equal(texts, EMPTY_TEXT)).as_py() or 0)
        if not read:
            return
        here = whole_numbers(texts)
        whole = len(here) - here.null_count
        self.whole += whole
        fit = (
            matching(dotted(texts, decimal), LOOSE_PATTERN)
            if tolerant
            else matching(texts, of_java(plain_pattern(decimal)))
        )
        self.numbers += fit.true_count

    def kind(self, tolerant: bool, wanted: str | None) -> str:
        """Return the kind of the column.

        All values must be numbers for it to be one; where it is ``tolerant``, :data:`MOST_VALUES` is enough, and it is
        MOSTLY whole where not all are. ``wanted``: the Spark type that it is to have: it is of the kind of that where
        :data:`MOST_VALUES` of the values are, or there is none.
        """
        enough = self.filled * (MOST_VALUES if tolerant else 1.0)
        kind = AS_TEXT
        if enough and self.whole >= enough:
            kind = AS_WHOLE if self.whole == self.filled else MOSTLY
        elif enough and self.numbers >= enough:
            kind = AS_NUMBER
        asked = KINDS_OF_TYPES.get(wanted or "")
        fits = {AS_WHOLE: self.whole, AS_NUMBER: self.numbers, AS_TEXT: self.filled}
        if asked is not None and fits[asked] >= MOST_VALUES * self.filled:
            # of those that are whole, 007 is not
            kind = MOSTLY if asked == AS_WHOLE else asked
        return kind


def read_as(texts: pa.Array, kind: str, decimal: str = ".") -> pa.Array:
    """Return texts as what their kind says."""
    if kind in (AS_WHOLE, MOSTLY):
        return any_whole_numbers(texts)
    return numbers(texts, decimal) if kind == AS_NUMBER else texts


def strictly(texts: pa.Array, kind: str, decimal: str = ".") -> pa.Array:
    """Return texts as what their kind says, null where one would not be written back as it was read."""
    if kind in (AS_WHOLE, MOSTLY):
        return whole_numbers(texts)
    if kind != AS_NUMBER:
        return texts
    return pc.if_else(matching(texts, of_java(plain_pattern(decimal))), numbers(texts, decimal), None)


def kinds_of_texts(
    batches: Iterable[pa.RecordBatch],
    names: Sequence[str],
    tolerant: Sequence[str],
    decimal: str = ".",
    types: Mapping[str, str] | None = None,
) -> dict[str, Counts]:
    """Return what is seen of some columns in batches, to be added to that of others."""
    seen = {name: Counts() for name in names}
    for batch in batches:
        for name in names:
            strict = name not in tolerant
            one = seen[name]
            # an attribute is a number only where all values are, unless its type is known
            hopeless = strict and name not in (types or {}) and one.numbers < one.filled
            one.add(batch.column(name), decimal, not strict, read=not hopeless)
    return seen


def add_counts(parts: Sequence[Mapping[str, Counts]]) -> dict[str, Counts]:
    """Return what was seen of columns in all parts."""
    return {
        name: Counts(*(sum(getattr(part[name], what) for part in parts) for what in ("filled", "whole", "numbers")))
        for name in (parts[0] if parts else {})
    }


_TRUE = arrow_of(np.array([True]))[0]


def empty_or_null(values: pa.Array) -> pa.Array:
    """Return where values are null, or an empty text."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.fill_null(pc.equal(values, EMPTY_TEXT), _TRUE)
    return values.is_null()
