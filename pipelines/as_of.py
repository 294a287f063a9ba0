"""The index of a past moment: a rebuild of what stood by then, from a history.

Also a script for spark-submit: ``spark-submit pipelines/as_of.py --history H --as-of TIME --store STORE``, with the
options of ``dtoss rebuild``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.errors import InputError
from dtoss.history.query.read_plan import gather_column
from dtoss.history.row_blocks import latest
from dtoss.history.schema import OWN, Schema
from dtoss.history.time_scale import interval_of, moment_of, seconds_before
from dtoss.names import not_carried
from pipelines.cycles.store_clock import Scale
from pipelines.history_tasks.scans import PastScan, as_batches, home_of, open_version, rows_frame
from pipelines.rebuild import rebuild
from pipelines.rows.by_id import by_hash, task_count
from pipelines.rows.position_frame import DELETED, RAW, REASON, Positions, attribute_column
from pipelines.spark.by_bucket import freeze_imports
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME = "t"
"""The attribute as which the time of a row is carried."""


def as_of(
    session: SparkSession,
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
        The one whose executors read and build.
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
        If there is no such column, Spark has no such type, or as :func:`pipelines.rebuild.rebuild`.
    StoreError
        If there is no such history or version, or as :func:`pipelines.rebuild.rebuild`.
    ValueError
        If an argument is out of its bounds.
    """
    positions = standing_at(session, history, time, max_age=max_age, version=version, columns=columns)
    space = home_of(history).version(version).schema.space
    return rebuild(positions, store, crs=space.crs, metric=space.metric, **options)


def standing_at(
    session: SparkSession,
    history: str,
    time: str | float | datetime | date,
    *,
    max_age: float | None = None,
    version: int | None = None,
    columns: Sequence[str] | str = "all",
) -> Positions:
    """Return the rows that stood at a time, as :func:`as_of` does, for a rebuild.

    Spark keeps them until their release.
    """
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
    # most rows are not the latest ones, and need not travel
    rows = rows_frame(session, scan, chosen, [*OWN, *carried], lambda found: latest(found, compared))
    tasks = task_count(int(gather_column(open_version(home, number), chosen, "rows").sum()), cores(session))
    frame = _standing(rows, compared, tasks).persist()
    return Positions(frame, (*timed, *wanted), True, schema.id_type == "string", schema.space.crs, kept=frame)


def moment_in(history: str, time: str | float | datetime | date, version: int | None = None) -> dict[str, Any]:
    """Return what a time means in a history: ``history``, ``version`` and ``as_of``, the time as a manifest says it."""
    home = home_of(history)
    held = home.version(version)
    moment = moment_of(time, held.schema.t_type, "as of")
    said = Scale("timestamp").said(moment) if held.schema.t_type == "timestamp" else moment
    return {"history": home.shown, "version": held.number, "as_of": said}


def _attributes(wanted: Sequence[str] | str, known: Sequence[str]) -> list[str]:
    if isinstance(wanted, str):
        if wanted in ("all", "none"):
            return list(known) if wanted == "all" else []
        wanted = [name.strip() for name in wanted.split(",")]
    for name in wanted:
        if name not in known:
            raise InputError(not_carried(name, known))
    return list(dict.fromkeys(wanted))


def _standing(rows: DataFrame, compared: Sequence[str], tasks: int) -> DataFrame:
    """Return the latest row of each id that is no deletion, in the columns of positions."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_schema

    kept = rows.drop(DELETED).schema
    arrow = to_arrow_schema(kept, timezone="UTC")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if held:
            found = latest(pa.Table.from_batches(held), compared)
            found = found.filter(pc.invert(found.column(DELETED)))
            yield from as_batches(found.select(arrow.names), arrow)

    shuffled = rows.repartitionById(tasks, by_hash(F.col("id"), tasks))
    none = F.lit(None).cast("string")
    return shuffled.mapInArrow(freeze_imports(run), kept).select("*", none.alias(REASON), none.alias(RAW))


def _span(
    schema: Schema, time: str | float | datetime | date, max_age: float | None
) -> tuple[int | float, int | float]:
    moment = moment_of(time, schema.t_type, "as of")
    first, _ = interval_of(None, schema.t_type)
    return (first if max_age is None else seconds_before(moment, max_age, schema.t_type)), moment


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("rebuild")
