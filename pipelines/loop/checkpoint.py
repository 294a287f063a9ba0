"""What a streaming query has planned to read, as its checkpoint says: whether a batch is the one of before."""

from __future__ import annotations

import hashlib

from dtoss.errors import DtossError
from dtoss.snapshots.store_location import folder_of

OFFSETS = "offsets"
"""The folder of a checkpoint in which Spark writes what a batch will read, before it reads anything."""


def planned(checkpoint: str, batch: int) -> str:
    """Return the hash of what a batch of a query reads; "" where this process cannot read it.

    Spark gives the last batch once more when it does not know how that has ended, from the same plan. A batch of the
    same number and another plan is of a checkpoint that was put back to an older one.
    """
    try:
        data = folder_of(checkpoint.removeprefix("file://")).read(OFFSETS, str(batch))
    except (DtossError, OSError, ValueError):
        return ""
    return "" if data is None else hashlib.sha256(data).hexdigest()
