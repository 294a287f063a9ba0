"""Files of places as a stream of batches with an id and two coordinates each, without Spark.

Columns, formats and values mean what they mean to :func:`pipelines.rows.read_files.read_positions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.delimited.record_batches import FLAW
from dtoss.errors import InputError
from dtoss.geometry.space import AXES
from dtoss.snapshots.store_location import filesystem_of
from pipelines.local_joins.text_values import ID_TYPES, numbers
from pipelines.rows.inputs import Inputs, look
from pipelines.rows.option_checks import check_said
from pipelines.rows.paths import check_found, leaves, parts_of
from pipelines.rows.point_columns import points
from pipelines.rows.position_frame import Columns

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

    ``x``, ``y``: the columns of the coordinates; None takes those that :class:`pipelines.rows.position_frame.Columns`
    does; ``rows``: how they are written: other fields of :class:`pipelines.rows.position_frame.Columns`;
    ``kept_bytes``: of text that is kept from the first look at it, so that no more than that is held.
    """
    columns = Columns(id=id, x=x, y=y, attributes="none", geometry=geometry, id_type=id_type, crs=crs, **rows)
    check_said(columns)
    inputs = look([path], encoding=columns.encoding)
    if not inputs.files:
        raise InputError(f"{path} cannot be reached by this process: name --master for a Spark that can")
    filesystem = filesystem_of(path)[0]
    if inputs.kind == "parquet":
        return _parquet(inputs, filesystem, columns)
    if inputs.kind == "json":
        return _json(inputs, filesystem, columns, kept_bytes)
    return _read_delimited(inputs, columns, kept_bytes)


def _names(inputs: Inputs, columns: Columns, found: Sequence[str], nested: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the columns of the id and the coordinates, or of the points, after a look whether they are there."""
    assert columns.id is not None
    options = [("--id", columns.id)]
    if columns.geometry is not None:
        options.append(("--geometry", columns.geometry))
    else:
        options += zip(("--x", "--y"), columns.coordinates(found), strict=True)
    folders = {name for file in inputs.files for name in _FOLDER.findall(file)}
    for option, name in options:
        if name in folders and name not in found:
            raise InputError(f"column {name!r} stands in names of folders: Spark reads it (--master 'local[*]')")
        if name not in nested:
            check_found(name, option, found, nested)
    return tuple(name for _, name in options)


def _places(columns: Sequence[pa.Array], decimal: str = ".") -> tuple[pa.Array, pa.Array]:
    """Return the x and y of texts: of two columns, or of one that holds points."""
    if len(columns) == 2:
        return numbers(columns[0], decimal), numbers(columns[1], decimal)
    found = points(columns[0])
    return pc.struct_field(found, "x"), pc.struct_field(found, "y")


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
    from pipelines.local_joins.delimited_text import flawless, text_batches
    from pipelines.local_joins.text_values import ids_of, type_of_ids
    from pipelines.rows.delimited_frame import layout_in

    layout = layout_in(inputs, columns)
    id_name, *at = _names(inputs, columns, layout.names)
    wanted = list(dict.fromkeys((id_name, *at)))
    kept, whole = _keep_first(text_batches(inputs, layout, wanted), most)
    some = kept if whole else text_batches(inputs, layout, [id_name])
    kind = ID_TYPES.get(columns.id_type or "") or type_of_ids(batch.column(id_name) for batch in some)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in kept if whole else text_batches(inputs, layout, wanted):
            places = _places([batch.column(name) for name in at], columns.decimal)
            found = (ids_of(batch.column(id_name), kind), *places)
            yield _batch(*(flawless(values, batch.column(FLAW)) for values in found))

    if not whole:
        kept.clear()
    return Places(kind, columns.crs, batches)


def _json(inputs: Inputs, filesystem: fs.FileSystem, columns: Columns, most: int) -> Places:
    from pipelines.local_joins.json_lines import JsonLines

    lines = JsonLines(inputs.files, filesystem)
    asked = [columns.x, columns.y]
    if not all(asked):
        asked += dict.fromkeys(axis for pair in AXES for axis in pair)
    others = [name for name in dict.fromkeys(asked) if name is not None and name != columns.id]
    simple = all(parts_of(name) == (name,) for name in (columns.id or "", *others)) and columns.geometry is None
    kinds = [ID_TYPES[columns.id_type]] if columns.id_type else [pa.int64(), pa.string()]
    for kind in kinds if simple else ():
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
            return _quick_json(lines, schema, (columns.id or "", x, y), kept if size <= most else None, columns.crs)
        break
    return _slow_json(lines, inputs, columns)


def _quick_json(
    lines: Any,
    schema: pa.Schema,
    names: tuple[str, str, str],
    kept: list[pa.RecordBatch] | None,
    crs: str | None,
) -> Places:
    def batches() -> Iterator[pa.RecordBatch]:
        for batch in lines.quick(schema) if kept is None else kept:
            yield _batch(*(batch.column(name) for name in names))

    return Places(schema.field(names[0]).type, crs, batches)


def _slow_json(lines: Any, inputs: Inputs, columns: Columns) -> Places:
    found = lines.columns()
    nested = [name for name in (columns.id, columns.x, columns.y, columns.geometry) if name and name not in found]
    nested = [name for name, kind in lines.kinds(nested).items() if kind is not None]
    id_name, *at = _names(inputs, columns, list(found), nested)
    types = found | lines.kinds(nested)
    if types[id_name] not in ("bigint", "string"):
        raise InputError(f"column {id_name!r} is {types[id_name]}: ids are integers or strings, cast it first")
    for name in at:
        if types[name] not in ("bigint", "double", "string") and columns.geometry is None:
            raise InputError(f"column {name!r} is {types[name]}: coordinates are numbers")
    kind = ID_TYPES.get(columns.id_type or "") or (pa.int64() if types[id_name] == "bigint" else pa.string())

    def batches() -> Iterator[pa.RecordBatch]:
        for ids, *others in lines.slow(id_name, at, kind, pointed=columns.geometry is not None):
            yield _batch(ids, *(_places(others) if len(others) == 1 else others))

    return Places(kind, columns.crs, batches)


def _parquet(inputs: Inputs, filesystem: fs.FileSystem, columns: Columns) -> Places:
    from pipelines.local_joins.parquet_places import parquet_batches
    from pipelines.rows.geoparquet_in import crs_taken, point_of

    assert inputs.schema is not None
    found, nested = inputs.schema.names, leaves(inputs.schema)
    point = point_of(inputs.schema, columns)
    crs = crs_taken(point, columns.crs)
    names = _names(inputs, columns if point is None else replace(columns, geometry=point.name), found, nested)
    kind, batches = parquet_batches(
        inputs.files, filesystem, inputs.schema, names, point is not None, _ROWS, columns.id_type
    )

    def renamed() -> Iterator[pa.RecordBatch]:
        for columns_ in batches():
            yield _batch(*columns_)

    return Places(kind, crs, renamed)
