"""What a subscription is: the columns of a table of them."""

from __future__ import annotations

import pyarrow as pa

EVERYWHERE, CIRCLE, BOX, POLYGON, AROUND = range(5)
"""Kinds of place, as column ``kind`` has them."""
INSIDE, ENTER, LEAVE, CROSS = 1, 2, 4, 8
"""Events that are wanted, as bits of column ``events``."""
WANTS = {"inside": INSIDE, "enter": ENTER, "leave": LEAVE, "cross": CROSS}
PAIR_EVENTS = ENTER | LEAVE | CROSS
"""Those of two rows of an object that follow one another."""
ANY_EVENT = INSIDE | PAIR_EVENTS
COMPLEMENT = 16
"""A bit of the same column: what is asked about is all that does not lie in the place."""

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
    ]
)
"""Of a table of subscriptions, a row each, by id.

x, y and radius are of circles; radius, in metres or units of the CRS, and object, an id as text, of those around an
object, whose x and y are null until a centre is known. west to north are of boxes, polygon is GeoJSON. where, words and
meta (JSON) are null where there is none. expires is in microseconds since 1970, null for never. version is the number
of the change that added it.
"""
