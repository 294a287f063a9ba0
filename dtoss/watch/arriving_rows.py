"""Rows that arrive: positions of objects, or messages, as the columns that matching reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class Rows:
    """Rows whose positions are legal."""

    positions: NDArray[np.float64]  # float64 (n, 2), C-contiguous. lon, lat or x, y
    ids: pa.Array | None = None  # int64 or string (n,); null only in messages; None where rows have no id
    t: NDArray[np.int64] | None = None  # int64 (n,). Microseconds since 1970; None where rows have no time
    text: pa.Array | None = None  # string (n,). Of messages; None where no column of text is named
    # The other columns, by name, each (n,): what conditions read and what is carried along
    attributes: Mapping[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.positions)

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Return some of the rows, in the order of their numbers; O(rows taken)."""
        at = pa.array(rows)
        return Rows(
            np.ascontiguousarray(self.positions[rows]),
            None if self.ids is None else self.ids.take(at),
            None if self.t is None else self.t[rows],
            None if self.text is None else self.text.take(at),
            {name: column.take(at) for name, column in self.attributes.items()},
        )
