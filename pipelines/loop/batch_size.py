"""Which files make a batch: the oldest first, whole files, about so many rows together."""

from __future__ import annotations

import pyarrow.parquet as pq

from pipelines.loop.arriving import Arrivals

BYTES_A_ROW = 64
"""Of text, about: how many rows a file has is known once it is read."""


def taken_files(found: Arrivals, most_rows: int | None) -> list[dict[str, int]]:
    """Return the fresh files of each batch with their bytes, oldest first, by name where the times are equal.

    ``most_rows``: rows of a batch, about; None makes one batch of all.
    """
    written = dict(zip(found.where.files, found.where.written, strict=True))
    order = sorted(found.fresh, key=lambda file: (written[file] or 0.0, file))
    if most_rows is None:
        return [{file: found.fresh[file] for file in order}] if order else []
    batches: list[dict[str, int]] = []
    left = 0
    for file in order:
        rows = _rows_in(found, file)
        if not batches or rows > left:
            batches.append({})
            left = most_rows
        batches[-1][file] = found.fresh[file]
        left -= rows
    return batches


def _rows_in(found: Arrivals, file: str) -> int:
    if found.kind == "parquet" and found.fresh[file]:
        try:
            with found.where.filesystem.open_input_file(file) as stream:
                return int(pq.read_metadata(stream).num_rows)
        except (OSError, ValueError):
            return 0
    return -(-found.fresh[file] // BYTES_A_ROW)
