"""JSON lines in pieces that tasks read, and what all of them say that the columns are: tasks look, and look again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from dtoss.partition import values_of
from dtoss.rows.json_values import schema_of_kinds
from pipelines.engines.rows import Batches, one_value
from pipelines.engines.spark_rows import numbered_tasks
from pipelines.rows.file_splits import LEAST, Piece, groups_in
from pipelines.rows.inputs import Inputs
from pipelines.rows.json_rows import json_batches, kinds_of_lines
from pipelines.rows.table_formats import PACKED
from pipelines.rows.table_tasks import folder_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def json_tasks(
    session: SparkSession | None, inputs: Inputs, *, multiline: bool, least: int = LEAST
) -> tuple[list[list[Piece]], Callable[..., Iterator[pa.RecordBatch]], pa.Schema]:
    """Return groups of pieces of JSON lines, what yields columns of one, and the columns of all, in the types they say.

    With ``multiline`` a file is one value. No file of fewer than ``least`` bytes is shared by tasks.
    """
    places, folders = inputs.places, folder_columns(inputs)
    groups = groups_in(session, places, [multiline or place[1].lower().endswith(PACKED) for place in places], least)

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
