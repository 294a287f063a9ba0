"""Positions into the history: every row that is not rejected, late ones too, once.

Also a script for spark-submit: ``spark-submit pipelines/history.py append POSITIONS... --history H``, with the options
of ``dtoss history append``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoss.errors import InputError
from dtoss.geometry.space import Space, space_of
from dtoss.history.batches import Appended, Key, changed_sources, commit_batch, unknown
from dtoss.history.committing import Repeated
from dtoss.history.schema import Schema
from dtoss.history.versions import Home, Version
from pipelines.past.file_keys import KeyedFile, check_unchanged, keyed
from pipelines.past.into_files import Written, history_schema, write_rows
from pipelines.past.place import home_of
from pipelines.rows.inputs import Inputs
from pipelines.rows.positions import Columns, Positions, from_frame, screened
from pipelines.rows.read_files import read_positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RACES = 3
"""How often files are appended where others append some of them meanwhile."""


def append(
    positions: DataFrame | Positions,
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
    wrap: bool = False,
    before: Callable[[], None] | None = None,
) -> Appended:
    """Append positions to a history as one batch, and return what was done.

    Parameters
    ----------
    positions
        A DataFrame with an id, a time, two coordinates, and perhaps attributes; or positions.
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
    wrap
        Take 360 from longitudes above 180.
    before
        Is called when all is written and before it is committed: may raise.

    Raises
    ------
    InputError
        If there is no time, too many rows are bad, or the rows do not fit the history.
    StoreError, OSError
        If the history cannot be read or written.

    Notes
    -----
    One job: tasks sort and write their rows, nothing is shuffled. Rows that were set aside are in ``quarantine/``.
    """
    home = home_of(history)
    version = home.head()
    keys = [Key(batch)] if isinstance(batch, str) else list(batch)
    if len(unknown(version, keys)) < len(keys):
        return Appended(None if version is None else version.number, 0, len(keys))
    if not isinstance(positions, Positions):
        named = Columns(id=id, x=x, y=y, time=time, attributes=columns, deleted=deleted)
        positions = from_frame(positions, named)
    space = space_for(version, crs, metric, positions.crs)
    positions = screened(positions, space, wrap)
    schema = history_schema(positions, space)
    if version is not None:
        version.schema.merged(schema)
    written = write_rows(positions, home, schema, max_ahead)
    _judge(written, max_bad)
    if before is not None:
        before()
    return _committed(home, schema, written, keys)


def append_files(
    session: Callable[[], SparkSession],
    inputs: Inputs,
    history: str,
    columns: Columns,
    *,
    warn: Callable[[str], None],
    schema: str = "union",
    read: Positions | None = None,
    **options: Any,
) -> Appended:
    """Append the files of which the history does not know the bytes, as one batch, and return what was done.

    Parameters
    ----------
    session
        Returns the one that reads; not called where all files are known.
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
    **options
        Of :func:`append`: ``crs``, ``metric``, ``max_bad``, ``max_ahead``, ``wrap``.

    Raises
    ------
    InputError
        As :func:`append`; or if files cannot be listed, or one changes while it is read.
    StoreError, OSError
        As :func:`append`.
    """
    if not inputs.files:
        raise InputError(f"{', '.join(inputs.paths)} cannot be listed, so its files have no keys: name files")
    home = home_of(history)
    files = keyed(inputs.files)
    done = Appended(None, 0, 0)
    for _ in range(RACES):
        version = home.head()
        fresh_keys = {key.key for key in unknown(version, [file.key for file in files])}
        fresh = _first_of_each([file for file in files if file.key.key in fresh_keys])
        repeated = len(files) - len(fresh)
        if not fresh:
            return replace(done, version=None if version is None else version.number, repeated=repeated)
        for path in changed_sources(version, [file.key for file in fresh]):
            warn(f"{path} has other bytes than when it was appended before: it counts as a new batch")
        positions = read if read is not None and repeated == 0 else None
        own = positions is None
        if positions is None:
            some = replace(inputs, paths=tuple(file.path for file in fresh), files=tuple(file.path for file in fresh))
            wanted = {} if version is None else types_wanted(version, columns)
            positions = read_positions(session(), some, columns, schema=schema, wanted=wanted)
        try:
            keys = [file.key for file in fresh]
            done = append(positions, history, batch=keys, before=partial(check_unchanged, fresh), **options)
        finally:
            if own:
                positions.release()
        if not done.repeated:
            return replace(done, repeated=repeated)
    return done


def space_for(version: Version | None, crs: str | None, metric: str | None, found: str | None) -> Space:
    """Return the space of rows that come: as was said, as the files say, or as the history has it."""
    if crs is None and metric is None and version is not None and found is None:
        return version.schema.space
    if crs is None and metric is None and version is not None:
        held = version.schema.space
        return space_of(found, "sphere" if held.to_lonlat else None)
    return space_of(crs if crs is not None or metric == "plane" else found, metric)


def types_wanted(version: Version, columns: Columns) -> dict[str, str]:
    """Return the Spark types that columns of text are to have, so that the same text means the same in every batch."""
    from pyspark.sql.pandas.types import from_arrow_type

    wanted = {}
    for name, kind in version.schema.attributes.items():
        try:
            wanted[name] = from_arrow_type(kind, True).simpleString()
        except Exception:
            continue
    if columns.id is not None:
        wanted[columns.id] = "string" if version.schema.id_type == "string" else "bigint"
    if version.schema.t_type != "timestamp":
        wanted[columns.time or "t"] = "bigint" if version.schema.t_type == "int64" else "double"
    return wanted


def _judge(written: Written, max_bad: float) -> None:
    bad = sum(written.rejected.values())
    if bad > max_bad * (written.rows + bad):
        reasons = "; ".join(f"{n:,} {reason}" for reason, n in sorted(written.rejected.items()))
        raise InputError(
            f"{bad:,} of {written.rows + bad:,} rows are bad ({reasons}), more than --max-bad {max_bad:g} allows; "
            "nothing was appended"
        )


def _committed(home: Home, schema: Schema, written: Written, keys: Sequence[Key]) -> Appended:
    try:
        made = commit_batch(home, schema, written.files, keys)
    except Repeated:
        # another writer was faster: the same batch counts once
        head = home.head()
        return Appended(None if head is None else head.number, 0, len(keys))
    return Appended(made.number, written.rows, 0, written.rejected, written.quarantine)


def _first_of_each(files: Sequence[KeyedFile]) -> list[KeyedFile]:
    """Return files, of those with the same bytes the first one."""
    found: dict[str, KeyedFile] = {}
    for file in files:
        found.setdefault(file.key.key, file)
    return list(found.values())


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("history")
