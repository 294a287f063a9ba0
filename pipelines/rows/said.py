"""What a user says of rows, held against what can be said."""

from __future__ import annotations

from dtoss.errors import InputError
from pipelines.rows.delimited import check_text
from pipelines.rows.moments import check_times
from pipelines.rows.positions import Columns


def check_said(columns: Columns) -> None:
    """Check what is said of rows, whatever they are.

    Raises
    ------
    InputError
        If a time format or a zone is not known, or positions are said to be in two places.
    ValueError
        As :func:`pipelines.rows.delimited.check_text`.
    """
    check_text(columns)
    check_times(columns.time_format, columns.zone)
    if columns.geometry is not None and (columns.x is not None or columns.y is not None):
        raise InputError("--geometry and --x, --y are two ways to say where positions are: name one")
    if columns.id_type not in (None, "int", "text"):
        raise ValueError(f"id_type is {columns.id_type!r}: int or text is wanted")
