"""An index of subscriptions: flat arrays, and the table that they were made of. Immutable; threads share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.conditions.parse import Condition, parse_condition
from dtoss.geometry.polygon_tables import Areas
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.space import Space
from dtoss.watch.subscriptions.subscription_text import polygons_kept

NO_TEXT = -1
"""The number of the condition of what has none."""


@dataclass(frozen=True)
class Unanswered:
    """A subscription that rows like these cannot be held against."""

    row: int
    id: str
    reason: str  # Why, in a line


@dataclass(frozen=True)
class SubscriptionIndex:
    """Subscriptions that are ready to be matched."""

    table: pa.Table  # Of :data:`dtoss.watch.subscription.SUBSCRIPTION_SCHEMA`, n rows
    space: Space  # Of places and rows
    schema: Mapping[str, pa.DataType]  # Types of the columns that conditions may name
    arrays: Mapping[str, NDArray[Any]]  # By name, see :func:`dtoss.watch.index.build_index.build`
    texts: tuple[str, ...]  # The distinct conditions
    unanswered: tuple[Unanswered, ...] = ()  # Subscriptions that match nothing

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions, parsed, in the order of their numbers."""
        return tuple(parse_condition(text, self.schema) for text in self.texts)

    @cached_property
    def areas(self) -> Areas:
        """The tables of all polygons."""
        return Areas(*(self.arrays[f"areas/{name}"] for name in Areas._fields))

    def polygon(self, number: int) -> Polygon:
        """Return a polygon by its number; those of a subscription are read again when one is first wanted."""
        parts = self.arrays["parts"]
        row = int(np.searchsorted(parts, number, side="right")) - 1
        if row not in self._read:
            self._read[row] = polygons_kept([self.table.column("polygon")[row].as_py()], self.space)[0]
        return self._read[row][number - int(parts[row])]

    @cached_property
    def _read(self) -> dict[int, list[Polygon]]:
        return {}

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What others have made of it, by a name, to be made once."""
        return {}

    @cached_property
    def worded(self) -> dict[str, NDArray[Any]]:
        """The arrays of the index of words; none where no subscription has words."""
        return {name[6:]: array for name, array in self.arrays.items() if name.startswith("words/")}

    @property
    def bytes(self) -> int:
        """Of the arrays and the table."""
        return sum(array.nbytes for array in self.arrays.values()) + int(self.table.nbytes)
