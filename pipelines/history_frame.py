"""Rows of a history as a DataFrame: the driver chooses blocks, tasks read them.

Spark needs no jar for it: tasks read with the code of a process without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from dtoss.errors import InputError
from dtoss.history.query.scan_blocks import condition_on, stored_name
from dtoss.history.schema import Schema, interval_of
from dtoss.names import not_carried
from dtoss.queries.covered import as_boxes
from pipelines.history_tasks.scans import PastScan, home_of, open_version, rows_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def history_frame(
    session: SparkSession,
    history: str,
    *,
    between: Sequence[Any] | None = None,
    box: ArrayLike | None = None,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    version: int | None = None,
) -> DataFrame:
    """Return rows of a history: id, t, lon and lat (x and y in a plane), and the attributes.

    Parameters
    ----------
    session
        The one whose executors read.
    history
        Path or URI; executors must reach it too.
    between
        The first and the last time, both within: ISO 8601 (UTC where no zone is given) or numbers as the column's, None
        or "-" where there is no end; all times when None.
    box
        As in :meth:`dtoss.Index.box`.
    where
        A condition on the rows (:mod:`dtoss.conditions.parse`); it may also name id, t and the position.
    columns
        Those that are wanted, in their order; all when None.
    version
        Its number; the newest one when None. It is fixed when this is called, whenever the rows are read.

    Raises
    ------
    ValueError
        If the box or the condition is not one.
    InputError
        If there is no such column or time, or Spark has no such type.
    StoreError
        If there is no such history or version.

    Notes
    -----
    Lazy: nothing is read before an action. Only the blocks that can hold such rows are; Spark's own filters come after
    that and spare no block. Deletions are no rows. The order of rows is no order that means anything.
    """
    home = home_of(history)
    version = home.version(version).number
    schema = open_version(home, version).schema
    span = interval_of(between, schema.t_type)
    condition_on(schema, where)
    x, y = schema.position_names
    known = ["id", "t", x, y, *schema.attributes]
    for name in columns or ():
        if name not in known:
            raise InputError(not_carried(name, known))
    wanted = known if columns is None else list(columns)
    names = tuple(stored_name(name, schema) for name in wanted)
    scan = PastScan(home, version, names, span, None if box is None else _box(box, schema), where)
    return rows_frame(session, scan, scan.chosen(), wanted)


def _box(box: ArrayLike, schema: Schema) -> tuple[float, ...]:
    boxes = as_boxes(box, schema.space)
    if len(boxes) != 1:
        raise ValueError(f"box holds {len(boxes)} boxes: one is wanted")
    return tuple(boxes[0].tolist())


if __name__ == "__main__":
    from pipelines.command.main import refuse_script

    refuse_script("history_frame is a function of Python; pipelines/history.py has the commands of a history")
