"""Files of places as a stream of batches with an id and two coordinates each, without Spark.

Columns, formats and values mean what they mean to :func:`pipelines.rows.read_files.read_positions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from pipelines.engines.local_rows import LocalRows
from pipelines.rows.delimited_frame import check_said
from pipelines.rows.inputs import look
from pipelines.rows.read_files import read_positions

QUERY = ("query_id", "x", "y")
"""Names of the columns of a batch, as :func:`dtoss.answer_rows.answer_batch` wants them."""
KEPT_BYTES = 1 << 25
"""Of text that is kept from the first look at it: such a file is read once."""


@dataclass(frozen=True)
class Places:
    """Places in files."""

    id_type: pa.DataType  # Of the ids: int64 or string
    crs: str | None  # What the files say their CRS is, None where they do not
    # Returns a new stream of batches with the columns query_id, x and y, in the order of the files and their rows
    batches: Callable[[], Iterator[pa.RecordBatch]]


def read_places(
    path: str,
    *,
    id: str = "id",
    x: str | None = None,
    y: str | None = None,
    rows: Mapping[str, Any] = MappingProxyType({}),
    kept_bytes: int = KEPT_BYTES,
    geometry: str | None = None,
    id_type: str | None = None,
    crs: str | None = None,
) -> Places:
    """Return the places in a file, in a folder at any depth, or in what a glob matches.

    ``x``, ``y``: the columns of the coordinates; None takes those that :class:`dtoss.rows.input_columns.Columns`
    does; ``rows``: how they are written: other fields of :class:`dtoss.rows.input_columns.Columns`;
    ``kept_bytes``: of text that is kept from the first look at it, so that no more than that is held.
    """
    columns = Columns(id=id, x=x, y=y, attributes="none", geometry=geometry, id_type=id_type, crs=crs, **rows)
    check_said(columns)
    inputs = look([path], encoding=columns.encoding)
    if not inputs.files:
        raise InputError(f"{path} cannot be reached by this process: name --master for a Spark that can")
    read = read_positions(None, inputs, columns, timeless=True, kept_bytes=kept_bytes)

    def batches() -> Iterator[pa.RecordBatch]:
        rows = read.frame.all_rows()
        assert isinstance(rows, LocalRows)
        for batch in (batch for task in rows.tasks for batch in task()):
            yield pa.record_batch([batch.column(name) for name in ("id", "x", "y")], names=list(QUERY))

    return Places(pa.string() if read.string_ids else pa.int64(), read.crs, batches)
