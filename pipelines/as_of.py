"""The index of a past moment: a rebuild of what stood by then, from a history.

Also a script for spark-submit: ``spark-submit pipelines/as_of.py --history H --as-of TIME --store STORE``, with the
options of ``dtoss rebuild``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.errors import InputError
from dtoss.history.query.read_plan import gather_column
from dtoss.history.row_blocks import BY_TIME, latest
from dtoss.history.schema import OWN, Schema, interval_of, moment_of, seconds_before
from dtoss.names import not_carried
from dtoss.rows.input_columns import DELETED, attribute_column
from dtoss.rows.store_clock import Scale
from dtoss.snapshots.column_types import type_name
from pipelines.cycles.spread import WorkContext
from pipelines.engines.rows import Batches, Work
from pipelines.engines.spark_rows import SparkRows
from pipelines.history_tasks.scans import (
    PastScan,
    as_batches,
    home_of,
    open_version,
    scan_rows,
    stored_schema,
)
from pipelines.options.snapshot_options import SnapshotOptions
from pipelines.rebuild import build_snapshot, rebuild
from pipelines.rows.position_frame import Positions, positions_of_rows
from pipelines.rows.survey import task_count
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME = "t"
"""The attribute as which the time of a row is carried."""


def as_of(
    session: SparkSession | None,
    history: str,
    time: str | float | datetime | date,
    store: str,
    *,
    max_age: float | None = None,
    version: int | None = None,
    columns: Sequence[str] | str = "all",
    **options: Any,
) -> dict[str, Any]:
    """Build a snapshot of what stood at a time, make it current, and return its manifest.

    Of each id the row stands that had the greatest (t, deletion, x, y, attributes) by then, and none where that is a
    deletion: as if all rows up to the time had been rebuilt, or had come in any number of cycles.

    Parameters
    ----------
    session
        The one whose executors read and build; None for this process.
    history
        Path or URI; executors must reach it too.
    time
        ISO 8601 (UTC where no zone is given), or a number as the times of the history.
    store
        Path or URI of the store; made if it is not there.
    max_age
        Seconds before the time: an object that was not heard of since does not stand. None for never, which reads all
        rows up to the time.
    version
        Of the history, by its number: what was known then of the time. The newest one when None: what is known now.
    columns
        Attributes to carry along: names, "all" or "none".
    **options
        Other arguments of :func:`pipelines.rebuild.rebuild`, but for those that say what a row is.

    Raises
    ------
    InputError
        If there is no such column, no snapshot has its type, or as :func:`pipelines.rebuild.rebuild`.
    StoreError
        If there is no such history or version, or as :func:`pipelines.rebuild.rebuild`.
    ValueError
        If an argument is out of its bounds.
    """
    positions = standing_at(session, history, time, max_age=max_age, version=version, columns=columns)
    space = home_of(history).version(version).schema.space
    return rebuild(positions, store, crs=space.crs, metric=space.metric, **options)


def build_past(
    positions: Positions,
    history: str,
    version: int,
    store: str,
    options: SnapshotOptions,
    work: WorkContext,
    *,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Make a snapshot of what stood at a time current, in the space of its history, and return its manifest."""
    space = home_of(history).version(version).schema.space
    reading = replace(options.reading, crs=space.crs, metric=space.metric)
    return build_snapshot(positions, store, replace(options, reading=reading), work, dry_run=dry_run)


def standing_at(
    session: SparkSession | None,
    history: str,
    time: str | float | datetime | date,
    *,
    max_age: float | None = None,
    version: int | None = None,
    columns: Sequence[str] | str = "all",
) -> Positions:
    """Return the rows that stood at a time, as :func:`as_of` does, for a rebuild; kept until their release."""
    if max_age is not None and not max_age >= 0.0:
        raise ValueError(f"max_age is {max_age!r}: seconds that are not negative are wanted")
    home = home_of(history)
    number = home.version(version).number
    schema = open_version(home, number).schema
    wanted = _attributes(columns, list(schema.attributes))
    # the time is carried as an attribute too, as a rebuild does
    timed = [] if columns == "none" or TIME in wanted else [TIME]
    carried = [attribute_column(name) for name in (*timed, *wanted)]
    names = (*OWN, *("t" for _ in timed), *wanted)
    scan = PastScan(home, number, names, _span(schema, time, max_age), deletions=True)
    chosen = scan.chosen()
    compared = [DELETED, "x", "y", *carried]
    found = stored_schema(schema.arrow, names, [*OWN, *carried])
    stand = pa.schema([field for field in found if field.name != DELETED])
    # most rows are not the latest ones, and need not travel
    rows = scan_rows(session, scan, chosen, found, lambda some: latest(some, compared))
    tasks = task_count(int(gather_column(open_version(home, number), chosen, "rows").sum()), cores(session))
    standing = rows.exchange_by_hash(tasks, "id").map(_standing(stand, compared), stand)
    types = {field.name: type_name(field.type) for field in stand}
    kept = None
    if isinstance(standing, SparkRows):  # a rebuild goes through them several times
        kept = standing.frame.persist()
        standing = SparkRows(kept)
    positions = positions_of_rows(standing, types, (*timed, *wanted), string_ids=schema.id_type == "string")
    return replace(positions, crs=schema.space.crs, kept=kept)


def moment_in(history: str, time: str | float | datetime | date, version: int | None = None) -> dict[str, Any]:
    """Return what a time means in a history: ``history``, ``version`` and ``as_of``, the time as a manifest says it."""
    home = home_of(history)
    held = home.version(version)
    moment = moment_of(time, held.schema.t_type, "as of")
    said = Scale("timestamp").said(moment) if held.schema.t_type == "timestamp" else moment
    return {"history": home.shown, "version": held.number, "as_of": said}


def bytes_of(history: str, version: int | None = None) -> int:
    """Return the bytes of the files that have the rows of a history by time."""
    files = home_of(history).version(version).files
    return int(files.bytes[files.order == BY_TIME].sum())


def _attributes(wanted: Sequence[str] | str, known: Sequence[str]) -> list[str]:
    if isinstance(wanted, str):
        if wanted in ("all", "none"):
            return list(known) if wanted == "all" else []
        wanted = [name.strip() for name in wanted.split(",")]
    for name in wanted:
        if name not in known:
            raise InputError(not_carried(name, known))
    return list(dict.fromkeys(wanted))


def _standing(schema: pa.Schema, compared: Sequence[str]) -> Work:
    """Return what keeps the latest row of each id that is no deletion, in the columns of a schema."""

    def run(batches: Batches) -> Batches:
        held = [batch for batch in batches if batch.num_rows]
        if held:
            found = latest(pa.Table.from_batches(held), compared)
            found = found.filter(pc.invert(found.column(DELETED)))
            yield from as_batches(found.select(schema.names), schema)

    return run


def _span(
    schema: Schema, time: str | float | datetime | date, max_age: float | None
) -> tuple[int | float, int | float]:
    moment = moment_of(time, schema.t_type, "as of")
    first, _ = interval_of(None, schema.t_type)
    return (first if max_age is None else seconds_before(moment, max_age, schema.t_type)), moment


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("rebuild")
