"""Files of places as a stream of batches with an id and two coordinates each, without Spark.

Columns, formats and values mean what they mean to :func:`pipelines.rows.read_files.read_positions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dtoss.delimited.reading import FLAW
from dtoss.errors import InputError
from dtoss.snapshots.place import filesystem_of
from pipelines.rows.delimited import check_text
from pipelines.rows.inputs import Inputs, look
from pipelines.rows.positions import Columns, check_found

if TYPE_CHECKING:
    from pyarrow import fs

QUERY = ("query_id", "x", "y")
"""Names of the columns of a batch, as :func:`dtoss.answer_rows.answer_batch` wants them."""
KEPT_BYTES = 1 << 25
"""Of text that is kept from the first look at it: such a file is read once."""
_ROWS = 1 << 16
_FOLDER = re.compile(r"/([^/=]+)=[^/]*(?=/)")


@dataclass(frozen=True)
class Places:
    """Places in files.

    Parameters
    ----------
    id_type
        Of the ids: int64 or string.
    crs
        What the files say their CRS is, None where they do not.
    batches
        Returns a new stream of batches with the columns query_id, x and y, in the order of the files and their rows.
    """

    id_type: pa.DataType
    crs: str | None
    batches: Callable[[], Iterator[pa.RecordBatch]]


def read_places(
    path: str,
    *,
    id: str = "id",
    x: str | None = None,
    y: str | None = None,
    rows: Mapping[str, Any] = MappingProxyType({}),
    kept_bytes: int = KEPT_BYTES,
) -> Places:
    """Return the places in a file, in a folder at any depth, or in what a glob matches.

    Parameters
    ----------
    path
        Of files of one format, local or a URI: Parquet, GeoParquet points, CSV, TSV or JSON lines, text also packed.
    id
        The column of the ids.
    x, y
        The columns of the coordinates; None takes ``lon`` and ``lat``, ``x`` and ``y`` where there is no ``lon``, or
        the points of a GeoParquet file.
    rows
        How they are written: other fields of :class:`pipelines.rows.positions.Columns`.
    kept_bytes
        Of text that is kept from the first look at it, so that no more than that is held.

    Raises
    ------
    InputError
        If nothing is there, it cannot be read, a column is missing (the message lists those found), or one is of a type
        that is of no use. What is wrong further behind in a file is raised by the stream.
    ValueError
        If text cannot be written as ``rows`` says.
    """
    columns = Columns(id=id, x=x, y=y, attributes="none", **rows)
    check_text(columns)
    inputs = look([path], encoding=columns.encoding)
    if not inputs.files:
        raise InputError(f"{path} cannot be reached by this process: name --master for a Spark that can")
    filesystem = filesystem_of(path)[0]
    if inputs.kind == "parquet":
        return _parquet(inputs, filesystem, columns)
    if inputs.kind == "json":
        return _json(inputs, filesystem, columns, kept_bytes)
    return _read_delimited(inputs, columns, kept_bytes)


def _names(inputs: Inputs, columns: Columns, found: Sequence[str]) -> tuple[str, str, str]:
    """Return the columns of the id and the coordinates, after a look whether they are there."""
    assert columns.id is not None
    x, y = columns.coordinates(found)
    folders = {name for file in inputs.files for name in _FOLDER.findall(file)}
    for option, name in (("--id", columns.id), ("--x", x), ("--y", y)):
        if name in folders and name not in found:
            raise InputError(f"column {name!r} stands in names of folders: Spark reads it (--master 'local[*]')")
        check_found(name, option, found)
    return columns.id, x, y


def _batch(ids: pa.Array, x: pa.Array, y: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([ids, x, y], names=list(QUERY))


def _keep_first(batches: Iterator[pa.RecordBatch], most: int) -> tuple[list[pa.RecordBatch], bool]:
    """Return the first batches of a stream, up to so many bytes, and whether these are all."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > most:
            return held, False
    return held, True


def _read_delimited(inputs: Inputs, columns: Columns, most: int) -> Places:
    from pipelines.files.delimited_text import flawless, text_batches
    from pipelines.files.text_values import ids_of, numbers, type_of_ids
    from pipelines.rows.delimited import layout_in

    layout = layout_in(inputs, columns)
    id_name, x, y = _names(inputs, columns, layout.names)
    wanted = list(dict.fromkeys((id_name, x, y)))
    kept, whole = _keep_first(text_batches(inputs, layout, wanted), most)
    some = kept if whole else text_batches(inputs, layout, [id_name])
    kind = type_of_ids(batch.column(id_name) for batch in some)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in kept if whole else text_batches(inputs, layout, wanted):
            xy = [numbers(batch.column(name), columns.decimal) for name in (x, y)]
            found = (ids_of(batch.column(id_name), kind), *xy)
            yield _batch(*(flawless(values, batch.column(FLAW)) for values in found))

    if not whole:
        kept.clear()
    return Places(kind, None, batches)


def _json(inputs: Inputs, filesystem: fs.FileSystem, columns: Columns, most: int) -> Places:
    from pipelines.files.json_lines import JsonLines

    lines = JsonLines(inputs.files, filesystem)
    asked = [columns.x, columns.y] if columns.x and columns.y else ["lon", "lat", "x", "y", columns.x, columns.y]
    others = [name for name in dict.fromkeys(asked) if name is not None and name != columns.id]
    for kind in (pa.int64(), pa.string()):
        schema = pa.schema([(columns.id, kind), *((name, pa.float64()) for name in others)])
        seen: set[str] = set()
        kept: list[pa.RecordBatch] = []
        size = 0
        try:
            for batch in lines.quick(schema):
                seen.update(n for n in batch.schema.names if batch.column(n).null_count < len(batch))
                size += batch.nbytes
                kept = [*kept, batch] if size <= most else []
        except pa.ArrowInvalid:
            continue
        except (OSError, EOFError) as error:
            raise InputError(f"{', '.join(inputs.paths)} cannot be read as json: {error}") from None
        x, y = columns.coordinates([*seen])
        if {columns.id, x, y} <= seen:
            return _quick_json(lines, schema, (columns.id or "", x, y), kept if size <= most else None)
        break
    return _slow_json(lines, inputs, columns)


def _quick_json(
    lines: Any, schema: pa.Schema, names: tuple[str, str, str], kept: list[pa.RecordBatch] | None
) -> Places:
    def batches() -> Iterator[pa.RecordBatch]:
        for batch in lines.quick(schema) if kept is None else kept:
            yield _batch(*(batch.column(name) for name in names))

    return Places(schema.field(names[0]).type, None, batches)


def _slow_json(lines: Any, inputs: Inputs, columns: Columns) -> Places:
    found = lines.columns()
    id_name, x, y = _names(inputs, columns, list(found))
    if found[id_name] not in ("bigint", "string"):
        raise InputError(f"column {id_name!r} is {found[id_name]}: ids are integers or strings, cast it first")
    for name in (x, y):
        if found[name] not in ("bigint", "double", "string"):
            raise InputError(f"column {name!r} is {found[name]}: coordinates are numbers")
    kind = pa.int64() if found[id_name] == "bigint" else pa.string()

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in lines.slow(id_name, (x, y), kind):
            yield batch.rename_columns(list(QUERY))

    return Places(kind, None, batches)


def _parquet(inputs: Inputs, filesystem: fs.FileSystem, columns: Columns) -> Places:
    from pipelines.files.parquet_places import parquet_batches, point_of

    assert inputs.schema is not None
    found = inputs.schema.names
    x, y = columns.coordinates(found)
    point = None
    if columns.x is None and columns.y is None and not {x, y} <= set(found):
        point = point_of(inputs.schema)
    if point is None:
        names = _names(inputs, columns, found)
    else:
        check_found(columns.id, "--id", found)
        names = (columns.id or "", point.name)  # type: ignore[assignment]
    kind, batches = parquet_batches(inputs.files, filesystem, inputs.schema, names, point, _ROWS)

    def renamed() -> Iterator[pa.RecordBatch]:
        for columns_ in batches():
            yield _batch(*columns_)

    return Places(kind, None if point is None else point.crs, renamed)
