"""What a watch is fixed to with its first batch: where its rows are, what they carry. A commit holds it as JSON.

Rows that arrive: positions of objects, or messages, as the columns that matching reads.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.errors import StoreError
from dtoss.geometry.space import Space

SPEED_COLUMN = "speed"
"""What conditions may name besides columns of rows: metres (units of a projected CRS) a second since the row before."""


@dataclass(frozen=True)
class Settings:
    """What all batches of a watch have in common."""

    space: Space  # Of the rows and the subscriptions
    id_type: str | None  # "int64" or "string"; None where rows have no id
    time: str | None  # "timestamp", "double" (seconds since 1970) or None, where rows have no time
    text: str | None = None  # The column of text, None where there is none
    messages: bool = False  # Rows are messages, not positions of objects: inside only, no state
    attributes: Mapping[str, pa.DataType] = field(default_factory=dict)  # The types of the other columns, by name

    @property
    def timed(self) -> bool:
        """Whether objects are followed: rows have ids and times, and are no messages."""
        return self.time is not None and self.id_type is not None and not self.messages

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The types of the attributes, and of the speed where objects are followed and rows have none of their own."""
        return {**({SPEED_COLUMN: pa.float64()} if self.timed else {}), **self.attributes}

    @property
    def schema(self) -> dict[str, pa.DataType]:
        """The types of what a condition may name: the columns, and the id."""
        known = self.columns
        if self.id_type is not None:
            known.setdefault("id", pa.int64() if self.id_type == "int64" else pa.string())
        return known

    @property
    def no_rows(self) -> Rows:
        """Rows of these types, of which there are none."""
        kind = {"int64": pa.int64(), "string": pa.string(), None: None}[self.id_type]
        return Rows(
            np.zeros((0, 2)),
            None if kind is None else pa.array([], kind),
            None if self.time is None else np.zeros(0, np.int64),
            None if self.text is None else pa.array([], pa.string()),
            {name: pa.array([], column) for name, column in self.attributes.items()},
        )

    def as_json(self) -> dict[str, Any]:
        """Return what a commit's document holds of it."""
        kept = pa.schema(list(self.attributes.items())).serialize()
        return {
            **asdict(self.space),
            "id": self.id_type,
            "time": self.time,
            "text": self.text,
            "messages": self.messages,
            "attributes": {name: str(kind) for name, kind in self.attributes.items()},
            "arrow": base64.b64encode(kept).decode(),
        }

    @classmethod
    def of(cls, said: Any) -> Settings:
        """Return the settings that :meth:`as_json` has made."""
        try:
            kept = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["arrow"])))
            if said["id"] not in ("int64", "string", None) or said["time"] not in ("timestamp", "double", None):
                raise ValueError("types of ids and times")
            return cls(
                Space(said["crs"], said["metric"], bool(said["to_lonlat"])),
                said["id"],
                said["time"],
                said["text"],
                bool(said["messages"]),
                {column.name: column.type for column in kept},
            )
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowInvalid) as error:
            raise StoreError(f"the settings of the watch are damaged: {error}") from None


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

    take = take_rows
