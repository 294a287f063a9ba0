"""What a user says of rows, held against what can be said."""

from __future__ import annotations

from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from dtoss.text.time_patterns import check_times
from pipelines.rows.delimited_frame import check_text


def check_said(columns: Columns) -> None:
    """Check what is said of rows, whatever they are."""
    check_text(columns)
    check_times(columns.time_format, columns.zone)
    if columns.geometry is not None and (columns.x is not None or columns.y is not None):
        raise InputError("--geometry and --x, --y are two ways to say where positions are: name one")
    if columns.id_type not in (None, "int", "text"):
        raise ValueError(f"id_type is {columns.id_type!r}: int or text is wanted")
