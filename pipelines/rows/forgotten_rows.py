"""Rows of those who are forgotten go before anything is made of them; they are counted, and no file says whose."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from dtoss.erasure.forgotten import ForgottenIds, forgotten_in
from pipelines.rows.local_frame import LocalFrame
from pipelines.rows.position_frame import Positions

if TYPE_CHECKING:
    from pyspark.sql import Column

_BLOCK = hashlib.sha256().block_size
_INNER, _OUTER = 0x36, 0x5C
"""Bytes of RFC 2104."""


def without_forgotten(positions: Positions, path: str) -> Positions:
    """Return positions without the rows of those who are forgotten in a store or a history.

    How many these are is ``forgotten`` of what is returned, once the rows were read.

    Spark compares the quick hash of each id, and computes the keyed one where that is known. Nothing is done where
    nobody is forgotten, or rows have no ids.
    """
    known = forgotten_in(path)
    if known is None or (positions.source is not None and positions.source.id is None):
        return positions
    if isinstance(positions.frame, LocalFrame):
        return replace(positions, frame=replace(positions.frame, known=known))
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    gone = _is_forgotten(known)
    seen = Observation()
    frame = positions.frame.observe(seen, F.count(F.when(gone, 1)).alias("rows"))
    return replace(positions, frame=frame.where(~gone), dropped=seen)


def _is_forgotten(known: ForgottenIds) -> Column:
    """Return whether the column ``id`` is one of those, also where it is null."""
    from pyspark.sql import functions as F

    text = F.col("id").cast("string")
    block = known.key.ljust(_BLOCK, b"\0")
    inner, outer = (bytes(byte ^ mask for byte in block) for mask in (_INNER, _OUTER))
    first = F.sha2(F.concat(F.lit(inner + b"id:"), text.cast("binary")), 256)
    tag = F.sha2(F.concat(F.lit(outer), F.unhex(first)), 256)
    alike = F.xxhash64(F.concat(F.lit(known.salt), text)).isin(known.quick.tolist())
    return F.when(text.isNotNull() & alike, tag.isin(sorted(known.tags))).otherwise(F.lit(False))
