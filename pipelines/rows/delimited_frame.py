"""Delimited text as rows of strings: how a row that could not be read is written, and why, stand beside them.

Tasks read pieces of the files by the one parser, :mod:`dtoss.delimited`. A file is cut at line ends, after a look that
finds those which stand in quotes; what cannot be cut is read whole by one task. Files that only Spark reaches come from
it as bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs

from dtoss.delimited.record_batches import CORRUPT, FLAW, Layout, Part, ends_inside, layout_of, read_text_rows
from dtoss.delimited.records import Dialect, dialect_of
from dtoss.errors import InputError
from dtoss.partition import values_of
from dtoss.rows.input_columns import Columns
from dtoss.text.time_patterns import check_times
from pipelines.engines.rows import Batches, one_value
from pipelines.engines.spark_rows import numbered_tasks, struct_of
from pipelines.rows.inputs import Inputs
from pipelines.rows.row_sources import (
    LEAST,
    Piece,
    Place,
    blocks_in,
    blocks_of,
    bytes_of_task,
    cut,
    exactly,
    folder_values,
    groups_of,
    reading,
)
from pipelines.rows.table_formats import PACKED
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


AT_HAND = 1 << 30
"""Bytes on this machine's disks that are looked at in this process, a second of work; of more, tasks look."""


def check_text(columns: Columns) -> None:
    """Check how text is said to be written, before Spark starts."""
    if columns.decimal not in (".", ","):
        raise ValueError(f"decimal is {columns.decimal!r}: . or , is wanted")
    written_in(columns)


def written_in(columns: Columns, inputs: Inputs | None = None) -> Dialect:
    """Return the dialect of text that is written as columns say, and as the name and the mark of the files do."""
    delimiter = "tab" if inputs is not None and inputs.kind == "tsv" else columns.delimiter
    encoding = columns.encoding or (None if inputs is None else inputs.mark) or "utf-8"
    return dialect_of(
        delimiter, columns.quote, columns.escape, columns.null, encoding,
        multiline=columns.multiline, header=columns.header,
    )  # fmt: skip


def layout_in(inputs: Inputs, columns: Columns) -> Layout:
    """Return how the files of inputs are written, and their columns; it takes the first lines of the first of them."""
    dialect = written_in(columns, inputs)
    for place in inputs.places:
        with reading(place[1], inputs.kind):
            try:
                found = layout_of(blocks_of(place, block=1 << 16), dialect)
            except InputError as error:
                raise InputError(f"{place[1]}: {error}") from None
        if found is not None:
            return found
    raise _empty(inputs)


def _empty(inputs: Inputs) -> InputError:
    return InputError(f"{', '.join(inputs.files or inputs.paths)} is empty: a header line is wanted")


def text_tasks(
    session: SparkSession | None, inputs: Inputs, columns: Columns, *, least: int = LEAST
) -> tuple[list[list[Piece]], Callable[..., Iterator[pa.RecordBatch]], list[str]]:
    """Return groups of pieces of text files, what yields some or all columns of one, and the names of all columns.

    Each column is a string; beside them stand ``_corrupt_record`` and ``_dtoss_flaw``. A record with another number of
    fields than the first one has goes to ``_corrupt_record``, as does one whose quotes cannot be read; the latter have
    a flaw. No file of fewer than ``least`` bytes is cut.
    """
    layout = layout_in(inputs, columns)
    places, folders = inputs.places, folder_values(inputs.folders)
    sizes = inputs.sizes
    whole = [not layout.dialect.splits or place[1].lower().endswith(PACKED) for place in places]
    each = bytes_of_task(sum(sizes), cores(session), least)
    pieces = cut(sizes, whole, each)
    pieces = outside_quotes(pieces, _look(session, places, pieces, layout.dialect))
    kind = inputs.kind

    def read(piece: Piece, wanted: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        place = places[piece.file]
        said = {name: values[piece.file] for name, values in folders.items() if wanted is None or name in wanted}
        inside = None if wanted is None else [name for name in layout.names if name in wanted]
        with reading(place[1], kind):
            blocks = blocks_of(place, piece)
            for part in read_text_rows(blocks, layout, inside, begins=piece.begin == 0, file=place[1]):
                yield _beside(part, said)

    return groups_of(pieces, sizes, each), read, [*dict.fromkeys([*layout.names, *folders])]


def _beside(part: Part, said: dict[str, str | None]) -> pa.RecordBatch:
    """Return rows with values of columns that all of them have; these count where the text has such a column too."""
    rows = part.rows
    *names, _, _ = rows.schema.names
    columns = dict(zip(names, rows.columns, strict=False))
    columns |= {name: pa.repeat(pa.scalar(value, pa.string()), len(rows)) for name, value in said.items()}
    return pa.record_batch([*columns.values(), *rows.columns[-2:]], names=[*columns, CORRUPT, FLAW])


def outside_quotes(pieces: Sequence[Piece], inside: Sequence[bool]) -> list[Piece]:
    """Return pieces of which each begins outside of quotes: a file is cut no more behind one that ends inside.

    ``pieces``: in the order of the files.
    """
    found: list[Piece] = []
    uncut = None
    for piece, ends in zip(pieces, inside, strict=True):
        if piece.file != uncut:
            found.append(Piece(piece.file, piece.begin) if ends else piece)
            uncut = piece.file if ends else None
    return found


def _look(
    session: SparkSession | None, places: Sequence[Place], pieces: Sequence[Piece], dialect: Dialect
) -> list[bool]:
    """Return which pieces end inside quotes where they begin outside; nobody needs to know it of a file's last one."""
    asked = [] if dialect.quote is None else [i for i, piece in enumerate(pieces) if piece.end is not None]
    found = [False] * len(pieces)

    def look(batches: Batches) -> Batches:
        for batch in batches:
            for number in values_of(batch.column(0)).tolist():
                place = places[some[number].file]
                with reading(place[1], "csv"):
                    yield one_value("inside", ends_inside(blocks_of(place, some[number]), dialect))

    some = [pieces[i] for i in asked]
    tasks = numbered_tasks(None if bytes_at_hand(places, some) else session, len(some))
    seen = tasks.map(look, "inside boolean").values()
    for i, inside in zip(asked, seen, strict=True):
        found[i] = inside
    return found


def bytes_at_hand(places: Sequence[Place], pieces: Sequence[Piece]) -> bool:
    """Return whether pieces are on this machine's disks, and of :data:`AT_HAND` bytes at the most."""
    local = all(isinstance(places[piece.file][0], fs.LocalFileSystem) for piece in pieces)
    return local and sum((piece.end or 0) - piece.begin for piece in pieces) <= AT_HAND


def text_by_spark(session: SparkSession, inputs: Inputs, columns: Columns) -> DataFrame:
    """Return text from files that only Spark reaches, as :func:`text_tasks`: whole ones, each of 2 GiB at the most."""
    dialect, kind = written_in(columns, inputs), inputs.kind
    options = {} if inputs.base is None else {"basePath": inputs.base}
    files = session.read.format("binaryFile").options(**options).load(list(inputs.paths))
    folders = [name for name in files.columns if name not in ("path", "modificationTime", "length", "content")]
    files = files.select("path", "content", *(exactly(name).cast("string").alias(name) for name in folders))

    def layouts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                with reading(row["path"], kind):
                    found = layout_of(_unpacked(row), dialect)
                if found is not None:
                    yield one_value("layout", pickle.dumps(found))

    first = files.select("path", "content").mapInArrow(layouts, "layout binary").take(1)
    if not first:
        raise _empty(inputs)
    layout: Layout = pickle.loads(first[0]["layout"])

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                with reading(row["path"], kind):
                    for part in read_text_rows(_unpacked(row), layout, file=row["path"]):
                        yield _beside(part, {name: row[name] for name in folders})

    names = dict.fromkeys([*layout.names, *folders, CORRUPT, FLAW])
    return files.mapInArrow(rows, struct_of(pa.schema([(name, pa.string()) for name in names])))


def _unpacked(row: dict[str, object]) -> Iterator[bytes]:
    name = str(row["path"]).lower()
    packed = next(
        (how for how, end in (("gzip", ".gz"), ("bz2", ".bz2"), ("zstd", ".zst")) if name.endswith(end)), None
    )
    with pa.input_stream(pa.py_buffer(row["content"]), compression=packed) as stream:
        yield from blocks_in(stream)


def check_said(columns: Columns) -> None:
    """Check what is said of rows, whatever they are."""
    check_text(columns)
    check_times(columns.time_format, columns.zone)
    if columns.geometry is not None and (columns.x is not None or columns.y is not None):
        raise InputError("--geometry and --x, --y are two ways to say where positions are: name one")
    if columns.id_type not in (None, "int", "text"):
        raise ValueError(f"id_type is {columns.id_type!r}: int or text is wanted")
