"""``dtoss.history.append``: the rows of a frame become a batch of a history, in this process.

Batches: what is appended by one commit, with keys by which it counts once, however often it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.erasure.forgotten import forgotten_in
from dtoss.errors import InputError
from dtoss.frames.arrow_tables import Table, table_of
from dtoss.frames.coordinates import there
from dtoss.frames.geo_columns import crs_name
from dtoss.frames.objects_of import objects_of
from dtoss.geometry.space import Space, space_of
from dtoss.history.data_file import NewFile, write_file
from dtoss.history.history_commit import Change, Entry, NewPeriod, RepeatedKeys, commit, keys_known, undone
from dtoss.history.row_blocks import BY_TIME, rows_of, sorted_rows
from dtoss.history.schema import Schema, attribute_names, plain_type, time_type_of
from dtoss.history.versions import Home, Version
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


OF_FILE, OF_STREAM, OF_CALLER = "file", "stream", "given"
"""Kinds of keys: the SHA-256 of a file, a stream's query and batch, or one that the caller gives."""


@dataclass(frozen=True)
class Key:
    """What tells a batch from others."""

    key: str  # The text by which it is known
    kind: str = OF_CALLER  # "file", "stream" or "given"
    source: str = ""  # The path, or what the stream reads
    batch: int = -1  # The number of a stream's batch; else -1

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not self.key.strip():
            raise ValueError(f"batch is {self.key!r}: a text that tells this batch from all others is wanted")


@dataclass(frozen=True)
class AppendResult:
    """What an append did."""

    version: int | None  # Of the history now; None where there is none, because nothing was there to append
    rows: int
    repeated: int  # Keys that stood in the history already, and were skipped
    rejected: Mapping[str, int] = field(default_factory=dict)  # Rows that were set aside, by their reasons
    files: tuple[str, ...] = ()  # Paths of files that hold those rows
    forgotten: int = 0  # Rows that were dropped, as those of whom they are were forgotten


def unknown(version: Version | None, keys: Sequence[Key]) -> list[Key]:
    """Return the keys that do not stand in the history, each once. Cost O(entries of the ledger)."""
    known = set(keys_known(version, [key.key for key in keys]))
    fresh: dict[str, Key] = {}
    for key in keys:
        if key.key not in known:
            fresh.setdefault(key.key, key)
    return list(fresh.values())


def changed_sources(version: Version | None, keys: Sequence[Key]) -> list[str]:
    """Return the paths of files under which other bytes were appended before."""
    if version is None:
        return []
    sources = _entries_of(version, OF_FILE).column("source")
    asked = pa.array([key.source for key in keys if key.kind == OF_FILE], sources.type)
    return sorted(set(sources.filter(pc.is_in(sources, asked)).to_pylist()))


def sources_below(version: Version | None, folder: str) -> list[str]:
    """Return the paths below a folder from which files were appended, sorted. Cost O(entries of the ledger)."""
    if version is None:
        return []
    sources = _entries_of(version, OF_FILE).column("source")
    return sorted(set(sources.filter(pc.starts_with(sources, f"{folder.rstrip('/')}/")).to_pylist()))


def check_stream(version: Version | None, query: str, source: str) -> None:
    """Check that a stream is one whose batches are known, or the first one of its source.

    A query that begins anew, because its checkpoint was deleted, reads its source again: all of it would be doubled.
    """
    if version is None:
        return
    said = _entries_of(version, OF_STREAM)
    keys = said.column("key").filter(pc.equal(said.column("source"), source))
    if len(keys) and not pc.any(pc.starts_with(keys, f"{query}:")).as_py():
        other = keys[0].as_py().rpartition(":")[0]
        raise InputError(
            f"the history has batches of another query ({other}) that led to {source}: was the checkpoint deleted? all "
            "would be appended twice; new_source=True says that this one reads another source"
        )


def _entries_of(version: Version, kind: str) -> pa.Table:
    """Return the entries of the ledger of one kind."""
    ledger = version.ledger()
    return ledger.filter(pc.equal(ledger.column("kind"), kind))


def commit_batch(home: Home, schema: Schema, files: Sequence[NewFile], keys: Sequence[Key]) -> Version:
    """Commit the files of a batch as a period of its own, and return the version.

    ``home``: the history; made where it is not there; ``keys``: of the batch, at least one. Where there are several,
    the rows are those of all, and stand with the first.
    """
    rows = sum(file.rows for file in files)
    total = sum(file.sum for file in files)
    entries = [Entry(key.key, key.kind, key.source, key.batch, 0, 0) for key in keys]
    first = keys[0]
    entries[0] = Entry(first.key, first.kind, first.source, first.batch, rows, total)
    assert all(file.order == BY_TIME for file in files)
    change = Change(
        "append",
        tuple((file, -1) for file in files),
        periods=(NewPeriod(0),) if files else (),
        entries=tuple(entries),
        schema=schema,
        detail={"rows": rows, "batches": len(keys)},
    )
    return commit(home, change, home.head())
