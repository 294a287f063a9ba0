"""What a subscription is: the columns of a table of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

EVERYWHERE, CIRCLE, BOX, POLYGON, AROUND = range(5)
"""Kinds of place, as column ``kind`` has them."""
INSIDE, ENTER, LEAVE, CROSS, DWELL = 1, 2, 4, 8, 32
"""Events that are wanted, as bits of column ``events``."""
WANTS = {"inside": INSIDE, "enter": ENTER, "leave": LEAVE, "cross": CROSS, "dwell": DWELL}
ROW_EVENTS = INSIDE | ENTER | LEAVE | CROSS
"""Those that a row and the row before decide."""
PAIR_EVENTS = ENTER | LEAVE | CROSS | DWELL
"""Those of rows of an object that follow one another."""
COMPLEMENT = 16
"""A bit of the same column: what is asked about is all that does not lie in the place."""
STAYS = 64
"""A bit of an index: enter, leave and dwell are of all rows since the object came, and none of their bits is set."""
PAIRS = 128
"""A bit of an index: enter and leave are of pairs of objects, and none of their bits is set."""
ANY_EVENT = ROW_EVENTS | STAYS

SUBSCRIPTION_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("kind", pa.uint8()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("radius", pa.float64()),
        ("west", pa.float64()),
        ("south", pa.float64()),
        ("east", pa.float64()),
        ("north", pa.float64()),
        ("polygon", pa.string()),
        ("object", pa.string()),
        ("where", pa.string()),
        ("words", pa.string()),
        ("events", pa.uint8()),
        ("expires", pa.int64()),
        ("meta", pa.string()),
        ("version", pa.int64()),
        ("stay", pa.string()),
    ]
)
"""Of a table of subscriptions, a row each, by id.

x, y and radius are of circles; radius, in metres or units of the CRS, and object, an id as text, of those around an
object, whose x and y are null until a centre is known. west to north are of boxes, polygon is GeoJSON. where, words and
meta (JSON) are null where there is none. expires is in microseconds since 1970, null for never. version is the number
of the change that added it. stay is null, or JSON of :class:`Stay`
or :class:`Near`: such columns are missing in files of before.
"""


_LATER = ("stay",)
"""Columns that files of before do not have."""


def with_later_columns(table: pa.Table) -> pa.Table:
    """Return a table of subscriptions that was kept, with the columns that it lacks because it is of before."""
    if "version" in table.column_names:
        for name in set(_LATER) - set(table.column_names):
            table = table.append_column(SUBSCRIPTION_SCHEMA.field(name), pa.nulls(len(table), pa.string()))
    return table


@dataclass(frozen=True)
class Stay:
    """When an object counts as inside, and what is told of its stay."""

    dwell: int | None = None  # Microseconds after which a dwell is told; None for none
    metres: float | None = None  # How far outside of the place it is still inside; None where this does not count
    seconds: int | None = None  # Microseconds up to which it is still inside without being held; None as above

    @classmethod
    def of(cls, text: str) -> Stay:
        """Return the stay of a column's text."""
        said = json.loads(text)
        margin = said.get("margin", {})
        seconds = (said.get("dwell", {}).get("seconds"), margin.get("seconds"))
        dwell, late = (None if one is None else round(one * 1e6) for one in seconds)
        return cls(dwell, margin.get("metres"), late)


@dataclass(frozen=True)
class Near:
    """Of which pairs of objects is told when they come near one another."""

    metres: float
    where: str | None = None  # The condition of the other object; None for any

    @classmethod
    def of(cls, text: str | None) -> Near | None:
        """Return what a column's text says of pairs; None where it is of stays."""
        said = said_of_stay(text).get("near")
        return None if said is None else cls(said["metres"], said.get("where"))


def said_of_stay(text: str | None) -> dict[str, Any]:
    """Return the fields ``dwell``, ``margin`` and ``near`` of a column's text, as far as it has them."""
    return {} if text is None else dict(json.loads(text))
