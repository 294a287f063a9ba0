"""Rows of a batch that were set aside: their files, their counts by reason, and how many of them are borne."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dtoss.commits.columnar_files import decoding, encode_parquet
from dtoss.commits.folder import Folder
from dtoss.errors import InputError

REJECTED = pa.schema([("reason", pa.large_string()), ("row", pa.large_string())])
"""Why a row was set aside, and the row as it was read."""
_WORST = 3
"""Reasons that a message names."""


def encode_rejected(rows: pa.Table) -> pa.Buffer:
    """Return rows of :data:`REJECTED` as bytes: the same rows in any order, the same bytes."""
    return encode_parquet(rows.sort_by([("reason", "ascending"), ("row", "ascending")]))


def read_rejected(folder: Folder, *parts: str) -> pa.Table:
    """Return the rows of a file; none where it is gone."""
    import pyarrow.parquet as pq

    data = folder.read(*parts)
    if data is None:
        return REJECTED.empty_table()
    with decoding(folder.path(*parts)):
        return pq.read_table(pa.BufferReader(data), use_threads=False)


def sum_counts(counts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return counts of several tasks as one, by name."""
    total: dict[str, int] = {}
    for one in counts:
        for name, value in one.items():
            total[name] = total.get(name, 0) + value
    return dict(sorted(total.items()))


def check_bad(rows: int, reasons: Mapping[str, int], max_bad: float) -> None:
    """Check that of so many rows no more are bad than are borne, a share of them."""
    bad = sum(reasons.values())
    if bad > max_bad * rows:
        worst = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(reasons.items(), key=lambda x: -x[1])[:_WORST]
        )
        raise InputError(
            f"{bad:,} of {rows:,} rows are bad ({worst}), more than --max-bad {100 * max_bad:g}% allows: nothing of "
            "this batch counts; mend the rows, or allow more"
        )
