"""Rows of JSON lines with the columns, types and values that Spark gives them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from dtoss.rows.json_values import BATCH_ROWS, Kind, batches_of_block, kinds_of_block, merge_kinds, schema_of_kinds
from pipelines.rows.file_splits import Piece, Place, blocks_of, reading
from pipelines.rows.table_formats import PACKED

_MARK = b"\xef\xbb\xbf"


def json_schema(files: Sequence[Place], *, multiline: bool = False) -> pa.Schema:
    """Return the columns that Spark finds in all lines of files, or with ``multiline`` in each file as one value."""
    return schema_of_kinds([kinds_of_lines(place, None, multiline=multiline) for place in files])


def kinds_of_lines(place: Place, piece: Piece | None, *, multiline: bool) -> dict[str, Kind]:
    """Return the kinds of columns that the lines of a file, or of a piece of one, say.

    Where a line is no object, ``_corrupt_record`` is among them. Raises InputError for a name that stands twice in one.
    """
    with reading(place[1], "json"):
        blocks = _blocks(place, multiline, piece)
        return merge_kinds(kinds_of_block(block, place[1], multiline=multiline) for block in blocks)


def json_batches(
    place: Place, schema: pa.Schema, piece: Piece | None = None, *, multiline: bool = False, most: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file or a piece in the columns of :func:`json_schema`, null where a value is of another type.

    What is no object, or not wholly of these types, stands in ``_corrupt_record`` if there is that column.
    """
    if not schema.names:
        return
    anew = multiline and place[1].lower().endswith(PACKED)
    with reading(place[1], "json"):
        for block in _blocks(place, multiline, piece):
            yield from batches_of_block(block, schema, place[1], multiline=multiline, anew=anew, most=most)


def _blocks(place: Place, whole: bool, piece: Piece | None) -> Iterator[bytes]:
    """Yield a file or a piece of it in parts that end where a line does, or whole."""
    rest, first = b"", not whole and (piece is None or piece.begin == 0)
    for block in blocks_of(place, piece):
        rest += block
        if first and len(rest) >= len(_MARK):
            rest, first = rest.removeprefix(_MARK), False
        end = 0 if whole else rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest
