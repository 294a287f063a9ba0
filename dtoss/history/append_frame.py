"""``dtoss.history.append``: the rows of a frame become a batch of a history, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.erasure.forgotten import forgotten_in
from dtoss.errors import InputError
from dtoss.frames.arrow_tables import Table, table_of
from dtoss.frames.coordinates import there
from dtoss.frames.crs_names import crs_name
from dtoss.frames.objects_of import objects_of
from dtoss.geometry.space import Space, space_of
from dtoss.history.append_batches import AppendResult, Key, commit_batch, unknown
from dtoss.history.data_file import write_file
from dtoss.history.history_commit import RepeatedKeys
from dtoss.history.rollback import undone
from dtoss.history.row_blocks import BY_TIME
from dtoss.history.row_tables import rows_of, sorted_rows
from dtoss.history.schema import Schema, attribute_names, plain_type, time_type_of
from dtoss.history.versions import Home
from dtoss.ids import as_ids

NEEDS_TIME = "history needs a time: --time (in Python time=) names its column, or one is called t"
"""Said where there is none."""


def append(
    frame: Any,
    history: str,
    *,
    batch: str,
    id: str | None = None,
    time: str | None = None,
    geometry: str | None = None,
    x: str | None = None,
    y: str | None = None,
    columns: Sequence[str] | None = None,
    deleted: str | None = None,
    crs: Any = None,
    metric: str | None = None,
) -> AppendResult:
    """Append the rows of a frame to a history as one batch, and return what was done.

    Parameters
    ----------
    frame
        As :func:`dtoss.build` takes them: GeoPandas, pandas, Polars, Arrow, DuckDB, or a mapping of arrays.
    history
        Path or URI; made if it is not there.
    batch
        The key of the batch: one that stands in the history already is skipped.
    id
        As :func:`dtoss.build`.
    time
        The column of times; one called ``t`` when None.
    geometry, x, y
        As :func:`dtoss.build`.
    columns
        Attributes to keep; all when None.
    deleted
        A column of booleans: whether a row says that its object is gone.
    crs, metric
        As :func:`dtoss.build`; those of the history when None.

    Raises
    ------
    InputError
        If there is no time, or the rows do not fit the history: another CRS, type of ids, times or a column.
    TypeError
        If it is no frame.
    ValueError
        If ids or positions are missing or not legal, or the batch has no key.
    StoreError, OSError
        If the history cannot be read or written.

    Notes
    -----
    Nothing is set aside here: one bad row refuses the batch. ``dtoss history append`` quarantines. Rows of those who
    are forgotten are dropped, and counted. Cost O(n log n).
    """
    key = Key(batch)
    home = Home(str(history))
    version = home.head()
    if not unknown(version, [key]):
        return AppendResult(None if version is None else version.number, 0, 1)
    if version is not None and crs is None and metric is None and getattr(frame, "crs", None) is None:
        crs = version.schema.space.crs
        metric = "sphere" if version.schema.space.to_lonlat else None
    rows, schema = rows_of_frame(frame, id, time, geometry, x, y, columns, deleted, crs, metric)
    if version is not None:
        version.schema.merged(schema)
    known = forgotten_in(str(history))
    came = len(rows)
    if known is not None:
        rows = rows.filter(pa.array(~known.mask(rows.column("id").combine_chunks())))
    parts = [(sorted_rows(rows, "time"), None)]
    try:
        with undone(home, version):
            files = [write_file(home.folder, BY_TIME, parts, schema, of=key.key)] if len(rows) else []
            made = commit_batch(home, schema, files, [key])
    except RepeatedKeys:
        head = home.head()
        return AppendResult(None if head is None else head.number, 0, 1)
    return AppendResult(made.number, len(rows), 0, forgotten=came - len(rows))


def rows_of_frame(
    frame: Any,
    id: str | None,
    time: str | None,
    geometry: str | None,
    x: str | None,
    y: str | None,
    columns: Sequence[str] | None,
    deleted: str | None,
    crs: Any,
    metric: str | None,
) -> tuple[pa.Table, Schema]:
    """Return the rows of a frame and their schema."""
    table = table_of(frame)
    if table is None:
        raise TypeError(f"{type(frame).__name__} is no frame: a DataFrame, an Arrow table or a mapping is wanted")
    timed = _time_column(table, time)
    named: dict[str, Any] = {"id": id, "geometry": geometry, "x": x, "y": y, "crs": crs, "metric": metric}
    objects = objects_of(frame, columns=columns, missing=deleted is not None, **named)
    space = space_of(crs_name(objects.crs) if objects.crs is not None else None, metric)
    ids = as_ids(objects.ids)
    t = _one(there(table, timed, "time"))
    gone = np.zeros(len(t), np.bool_)
    if deleted is not None:
        gone = _marks(_one(there(table, deleted, "deleted")), deleted)
    positions = _checked(np.asarray(objects.positions, np.float64), gone, space)
    # a column without a value has no type yet
    valued = {name: value for name, value in objects.columns.items() if not pa.types.is_null(value.type)}
    left = {name: value for name, value in valued.items() if name not in (timed, deleted)}
    called = attribute_names(list(left))
    held = {called[name]: _one(value) for name, value in left.items()}
    schema = Schema(
        space,
        "string" if isinstance(ids, (pa.Array, pa.ChunkedArray)) else "int64",
        time_type_of(t.type),
        {name: plain_type(value.type) for name, value in held.items()},
    )
    made = pa.table(
        {"id": ids if not isinstance(ids, np.ndarray) else pa.array(ids), "t": t, "x": positions[:, 0],
         "y": positions[:, 1], "deleted": pa.array(gone), **held}
    )  # fmt: skip
    return rows_of(made, schema), schema


def _time_column(table: Table, time: str | None) -> Any:
    if time is not None:
        return time
    found = [name for name in table.names if str(name).lower() == "t"]
    if len(found) != 1:
        raise InputError(NEEDS_TIME)
    return found[0]


def _marks(values: pa.Array, name: str) -> NDArray[np.bool_]:
    """Return which rows delete their objects, bool (n,); no mark is no."""
    legal = pa.types.is_boolean(values.type) or pa.types.is_null(values.type)
    if not legal and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        legal = bool(pc.all(pc.is_in(values, pa.array([0, 1, None], values.type))).as_py() in (True, None))
    if not legal:
        raise ValueError(f"column {name!r} marks deletions by {values.type}: booleans, or 1 and 0, are wanted")
    return np.asarray(values.cast(pa.bool_()).fill_null(False)).astype(np.bool_)


def _checked(positions: NDArray[np.float64], gone: NDArray[np.bool_], space: Space) -> NDArray[np.float64]:
    """Return positions of rows; deletions have none, wherever they are said to be."""
    missing = np.asarray(~np.isfinite(positions).all(axis=1))
    filled = np.where(missing[:, None], 0.0, positions)
    legal = np.asarray(space.legal(filled)) & ~missing
    bad = (~legal & ~gone) | np.asarray(space.too_near(filled))
    if bad.any():
        row = int(bad.argmax())
        x, y = positions[row].tolist()
        raise ValueError(f"positions row {row} is ({x:g}, {y:g}): that is no place of crs {space.crs}; lon before lat")
    return np.where((legal & ~gone)[:, None], positions, np.nan)


def _one(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    return column
