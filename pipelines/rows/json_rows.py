"""Rows of JSON lines with the columns, types and values that Spark gives them, without Spark: tasks look, then read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from dtoss.partition import values_of
from dtoss.rows.json_values import BATCH_ROWS, Kind, batches_of_block, kinds_of_block, merge_kinds, schema_of_kinds
from pipelines.engines.rows import Batches, one_value
from pipelines.engines.spark_rows import numbered_tasks
from pipelines.rows.file_splits import LEAST, Piece, Place, blocks_of, groups_in, reading
from pipelines.rows.inputs import Inputs
from pipelines.rows.table_formats import PACKED
from pipelines.rows.table_tasks import folder_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MARK = b"\xef\xbb\xbf"


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
    """Yield the rows of a file or a piece in these columns, null where a value is of another type.

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


def json_tasks(
    session: SparkSession | None, inputs: Inputs, *, multiline: bool, least: int = LEAST
) -> tuple[list[list[Piece]], Callable[..., Iterator[pa.RecordBatch]], pa.Schema]:
    """Return groups of pieces of JSON lines, what yields columns of one, and the columns of all, in the types they say.

    With ``multiline`` a file is one value. No file of fewer than ``least`` bytes is shared by tasks.
    """
    places, folders = inputs.places, folder_columns(inputs)
    whole = [multiline or file.lower().endswith(PACKED) for _, file in places]
    groups = groups_in(session, inputs.sizes, whole, least)

    def look(batches: Batches) -> Batches:
        for batch in batches:
            for number in values_of(batch.column(0)).tolist():
                kinds = [kinds_of_lines(places[piece.file], piece, multiline=multiline) for piece in groups[number]]
                yield one_value("kinds", pickle.dumps(kinds))

    seen = numbered_tasks(session, len(groups)).map(look, "kinds binary").values()
    inside = schema_of_kinds([kinds for some in seen for kinds in pickle.loads(some)])

    def read(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in json_batches(places[piece.file], inside, piece, multiline=multiline):
            for name, values in folders.items():
                batch = batch.append_column(name, pa.repeat(values[piece.file], len(batch)))
            yield batch.select(list(columns))

    return groups, read, pa.schema([*inside, *((name, values.type) for name, values in folders.items())])
