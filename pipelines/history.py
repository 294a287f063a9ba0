"""Positions into the history: every row that is not rejected, late ones too, once.

Also a script for spark-submit: ``spark-submit pipelines/history.py append POSITIONS... --history H``, with the options
of ``dtoss history append``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import Space, space_of
from dtoss.history.append_frame import AppendResult, Key, changed_sources, commit_batch, sources_below, unknown
from dtoss.history.history_commit import RepeatedKeys
from dtoss.history.schema import Schema
from dtoss.history.versions import Home, Version
from dtoss.rows.input_columns import Columns, attribute_column
from dtoss.snapshots.column_types import type_name
from dtoss.snapshots.manifest import space_of_manifest
from pipelines.history_tasks.into_files import (
    KeyedFile,
    WrittenFiles,
    check_unchanged,
    history_schema,
    key_files,
    write_rows,
)
from pipelines.history_tasks.scans import home_of
from pipelines.options.snapshot_options import Merging, Reading, SnapshotOptions
from pipelines.rows.inputs import Inputs, columns_of_log, some_of
from pipelines.rows.position_frame import Positions, screen_positions, without_forgotten
from pipelines.rows.read_files import positions_in, read_positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RACES = 3
"""How often files are appended where others append some of them meanwhile."""


def append(
    positions: DataFrame | Positions | pa.Table,
    history: str,
    *,
    batch: str | Sequence[Key],
    crs: str | None = None,
    metric: str | None = None,
    id: str = "id",
    x: str | None = None,
    y: str | None = None,
    time: str | None = None,
    columns: Sequence[str] | str = "all",
    deleted: str | None = None,
    max_bad: float = 0.10,
    max_ahead: float | None = None,
    now: Any = None,
    wrap: bool = False,
    space: Space | None = None,
    before: Callable[[], None] | None = None,
) -> AppendResult:
    """Append positions to a history as one batch, and return what was done.

    Parameters
    ----------
    positions
        A DataFrame of Spark's with an id, a time, two coordinates, and perhaps attributes; a table, whose rows this
        process appends; or positions, of either.
    history
        Path or URI, which executors reach too; made if it is not there.
    batch
        The key of the batch, or several: where one stands in the history already, nothing is appended.
    crs, metric
        As :func:`dtoss.geometry.space.space_of`; those of the history when neither is given, EPSG:4326 where there is
        none yet.
    id, x, y, time, columns
        As :func:`pipelines.rebuild.rebuild`.
    deleted
        The column that says of a row that its object is gone: the row is kept, and marked.
    max_bad
        The share of rows that may be set aside; with more nothing is appended.
    max_ahead
        Seconds after now from which on a row is set aside; None for never.
    now
        The moment at which this happens: ISO 8601 (UTC), or a number as the times; the clock's when None.
    wrap
        Take 360 from longitudes above 180.
    space
        Of the positions where it is known, as that of a store; ``crs`` and ``metric`` do not matter then.
    before
        Is called when all is written and before it is committed: may raise.

    Raises
    ------
    InputError
        If there is no time, too many rows are bad, or the rows do not fit the history.
    StoreError, OSError
        If the history cannot be read or written.
    ValueError
        If an argument is out of its bounds.

    Notes
    -----
    Tasks sort and write their rows, nothing is shuffled. Rows that were set aside are in ``quarantine/``.
    """
    reading = Reading(crs=crs, metric=metric, max_bad=max_bad, wrap=wrap)
    Merging(max_ahead=max_ahead)  # which checks it
    keys = [Key(batch)] if isinstance(batch, str) else list(batch)
    if not keys or not all(isinstance(key, Key) for key in keys):
        raise ValueError(f"batch is {batch!r}: a text that tells this batch from all others is wanted")
    home = home_of(history)
    version = home.head()
    if len(unknown(version, keys)) < len(keys):
        return AppendResult(None if version is None else version.number, 0, len(keys))
    if not isinstance(positions, Positions):
        if isinstance(positions, pa.Table):
            # a column without a value has no type yet
            positions = positions.select([one.name for one in positions.schema if not pa.types.is_null(one.type)])
        named = Columns(id=id, x=x, y=y, time=time, attributes=columns, deleted=deleted)
        positions = positions_in(positions, named)
    space = space or space_for(version, reading, positions.crs)
    reading.check_wrap(space)
    positions = screen_positions(without_forgotten(positions, history), space, wrap)
    schema = history_schema(positions, space)
    if version is not None:
        version.schema.merged(schema)
    written = write_rows(positions, home, schema, " ".join(key.key for key in keys), max_ahead, now)
    _judge(written, max_bad)
    if before is not None:
        before()
    return replace(_committed(home, schema, written, keys), forgotten=positions.forgotten)


def append_files(
    session: Callable[[], SparkSession | None],
    inputs: Inputs,
    history: str,
    columns: Columns,
    *,
    warn: Callable[[str], None],
    schema: str = "union",
    read: Positions | None = None,
    files: Sequence[KeyedFile] | None = None,
    **options: Any,
) -> AppendResult:
    """Append the files of which the history does not know the bytes, as one batch, and return what was done.

    Parameters
    ----------
    session
        Returns the one that reads, or None where this process does; not called where all files are known.
    inputs
        What :func:`pipelines.rows.inputs.look` has found.
    history
        Path or URI.
    columns
        Which columns mean what, and how text is written.
    warn
        Is told of paths under which other bytes were appended before.
    schema
        Of Parquet files: "union" or "strict".
    read
        The positions of all these files, where they were read already.
    files
        Their keys, which were taken before that.
    **options
        Of :func:`append`: ``crs``, ``metric``, ``space``, ``max_bad``, ``max_ahead``, ``now``, ``wrap``.

    Raises
    ------
    InputError
        As :func:`append`; or if files cannot be listed, or one changes while it is read.
    StoreError, OSError
        As :func:`append`; or if others have appended some of the files meanwhile, three times in a row.
    ValueError
        As :func:`append`.
    """
    if not inputs.files:
        raise InputError(f"{', '.join(inputs.paths)} cannot be listed, so its files have no keys: name files")
    home = home_of(history)
    files = key_files(inputs) if files is None else files
    for _ in range(RACES):
        version = home.head()
        chosen = _fresh(version, files)
        fresh = [files[i] for i in chosen]
        repeated = len(files) - len(fresh)
        if not fresh:
            return AppendResult(None if version is None else version.number, 0, repeated)
        _check_tables(version, inputs)
        for path in changed_sources(version, [file.key for file in fresh]):
            warn(f"{path} has other bytes than when it was appended before: it counts as a new batch")
        positions = read if read is not None and repeated == 0 else None
        own = positions is None
        if positions is None:
            some = inputs if not repeated else some_of(inputs, chosen, schema=schema, encoding=columns.encoding)
            wanted = {} if version is None else types_wanted(version, columns)
            positions = read_positions(
                session(), some, columns_of_log(columns, some.roles), schema=schema, wanted=wanted
            )
        try:
            keys = [file.key for file in fresh]
            valued = _with_values(positions, inputs)
            done = append(valued, history, batch=keys, before=partial(check_unchanged, fresh), **options)
        finally:
            if own:
                positions.release()
        if not done.repeated:
            return replace(done, repeated=repeated)
    raise StoreError(
        f"others have appended some of these files to {home.shown} meanwhile, {RACES} times in a row: start again"
    )


def space_for(version: Version | None, reading: Reading, found: str | None) -> Space:
    """Return the space of rows that come: as was said, as the files say, or as the history has it."""
    if reading.space is not None or version is None:
        return reading.space_of(found)
    held = version.schema.space
    return held if found is None else space_of(found, "sphere" if held.to_lonlat else None)


def options_of_cycle(manifest: Mapping[str, Any] | None, options: SnapshotOptions) -> dict[str, Any]:
    """Return the options of :func:`append` with which it takes the rows that a cycle takes.

    ``manifest``: of the snapshot that stands; None where there is none.
    """
    reading, merging = options.reading, options.merging
    return {
        "space": None if manifest is None else space_of_manifest(dict(manifest)),
        "crs": reading.crs,
        "metric": reading.metric,
        "max_bad": reading.max_bad,
        "max_ahead": None if merging.by_data else merging.max_ahead,
        "now": merging.now,
        "wrap": reading.wrap,
    }


def types_wanted(version: Version, columns: Columns) -> dict[str, str]:
    """Return the Spark types that columns of text are to have, so that the same text means the same in every batch."""
    wanted = {}
    for name, kind in version.schema.attributes.items():
        try:
            wanted[name] = type_name(kind)
        except TypeError:
            continue
    if columns.id is not None:
        wanted[columns.id] = "string" if version.schema.id_type == "string" else "bigint"
    if version.schema.t_type != "timestamp":
        wanted[columns.time or "t"] = "bigint" if version.schema.t_type == "int64" else "double"
    return wanted


def _judge(written: WrittenFiles, max_bad: float) -> None:
    bad = sum(written.rejected.values())
    if bad > max_bad * (written.rows + bad):
        reasons = "; ".join(f"{n:,} {reason}" for reason, n in sorted(written.rejected.items()))
        raise InputError(
            f"{bad:,} of {written.rows + bad:,} rows are bad ({reasons}), more than --max-bad {100 * max_bad:g}% "
            "allows; nothing was appended"
        )


def _committed(home: Home, schema: Schema, written: WrittenFiles, keys: Sequence[Key]) -> AppendResult:
    try:
        made = commit_batch(home, schema, written.files, keys)
    except RepeatedKeys:
        # another writer was faster: the same batch counts once
        head = home.head()
        return AppendResult(None if head is None else head.number, 0, len(keys))
    return AppendResult(made.number, written.rows, 0, written.rejected, written.quarantine)


def _with_values(positions: Positions, inputs: Inputs) -> Positions:
    """Return positions without columns that have no value in any file: their type says nothing."""
    if inputs.schema is None:
        return positions
    empty = {attribute_column(field.name) for field in inputs.schema if pa.types.is_null(field.type)}
    return positions.only([name for name in positions.columns if name not in empty]) if empty else positions


def _check_tables(version: Version | None, inputs: Inputs) -> None:
    """Check that no file of a table was appended that is the table's no more: its rows may stand in others by now."""
    for table in inputs.tables:
        for source in sources_below(version, table.root):
            if source not in table.files:
                raise InputError(
                    f"{source} was appended, and is no more of the {table.kind} {table.root}: its rows may stand in "
                    "other files by now, and would count twice; append a table once, then single new files by name"
                )


def _fresh(version: Version | None, files: Sequence[KeyedFile]) -> list[int]:
    """Return the numbers of the files that the history does not know, of those with the same bytes the first one."""
    wanted = {key.key for key in unknown(version, [file.key for file in files])}
    found: dict[str, int] = {}
    for number, file in enumerate(files):
        if file.key.key in wanted:
            found.setdefault(file.key.key, number)
    return list(found.values())


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("history")
