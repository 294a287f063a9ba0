"""Rows of a DataFrame that ask: their columns are looked at, counted, and sent to the tasks that answer them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dtoss.errors import InputError
from dtoss.geometry.space import Space, same_crs
from dtoss.rows.input_columns import Columns
from pipelines.rows.place_columns import coordinate, exactly, out_of_range
from pipelines.spark.session import configure_session, cores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import StructType

    from dtoss.answer_rows import Ask
    from pipelines.history_tasks.history_answers import PastAsk


def check_crs_of(crs: str | None, space: Space, what: str, whose: str) -> None:
    """Check that what is said to be in a CRS is in that of what it is joined with."""
    if crs is not None and not same_crs(crs, space.crs):
        raise ValueError(f"crs {crs!r} of the {what} is not {space.crs!r} of the {whose}: transform the {what} first")


def check_named(frame: DataFrame, names: Sequence[str], what: str) -> None:
    """Check that a frame has columns."""
    for name in names:
        if name not in frame.columns:
            raise InputError(f"the {what} have no column {name!r}; their columns are {', '.join(frame.columns)}")


def query_frame(
    queries: DataFrame,
    ask: Ask | PastAsk,
    id_name: str,
    x: str | None,
    y: str | None,
    named: Sequence[str] = (),
    more: Callable[[dict[str, Any]], dict[str, Column]] = lambda kinds: {},
) -> DataFrame:
    """Return queries with the columns query_id, x, y, ``more``, and per_row where k or the radius is of each.

    ``named``: other columns that are needed; ``more``: makes columns of what the types of all are.
    """
    from pyspark.sql import types as T

    x, y = Columns(x=x, y=y).coordinates(queries.columns)
    per_row = [ask.per_row] if ask.per_row else []
    check_named(queries, [id_name, x, y, *named, *per_row], "queries")
    kinds = {field.name: field.dataType for field in queries.schema.fields}
    for name in per_row:
        if ask.radius is None and not isinstance(kinds[name], T.IntegralType):
            raise ValueError(f"k is column {name!r} of {kinds[name].simpleString()}: whole numbers are wanted")
        if ask.radius is not None and not isinstance(kinds[name], T.NumericType):
            raise ValueError(f"radius is column {name!r} of {kinds[name].simpleString()}: numbers are wanted")
    if ask.exclude_self and not isinstance(kinds[id_name], (T.IntegralType, T.StringType)):
        raise ValueError(
            f"exclude_self compares ids, and column {id_name!r} is {kinds[id_name].simpleString()}: "
            "integers or strings are wanted"
        )
    columns = {"query_id": exactly(id_name), "x": coordinate(x, kinds[x]), "y": coordinate(y, kinds[y])} | more(kinds)
    if ask.per_row:
        columns["per_row"] = exactly(ask.per_row).cast("double")
    return queries.select(*(column.alias(name) for name, column in columns.items()))


def count_queries(
    frame: DataFrame, observation: Observation | None, ask: Ask | PastAsk, space: Space, timeless: Column | None = None
) -> DataFrame:
    """Return queries that an observation counts: all, and those that cannot have hits, each for its first reason.

    ``timeless``: which of those that have a place have no time.
    """
    from pyspark.sql import functions as F

    if observation is None:
        return frame
    x, y = F.col("x"), F.col("y")
    missing = x.isNull() | y.isNull() | F.isnan(x) | F.isnan(y)
    reasons = {"no_position": missing, "not_legal": out_of_range(x, y, space)}
    if timeless is not None:
        reasons["no_time"] = timeless
    if ask.per_row:
        value, least = F.col("per_row"), 1 if ask.radius is None else 0
        reasons["no_k" if ask.radius is None else "no_radius"] = value.isNull() | F.isnan(value) | (value < least)
    counts, good = [F.count(F.lit(1)).alias("queries")], F.lit(True)
    for reason, bad in reasons.items():
        counts.append(F.count(F.when(good & bad, 1)).alias(reason))
        good &= ~bad
    return frame.observe(observation, *counts)


def tasks_of(frame: DataFrame) -> int:
    """Return how many tasks answer the rows of a frame."""
    return 4 * cores(configure_session(frame.sparkSession))


def answer_in_tasks(
    frame: DataFrame, route: Callable[..., Any], answer: Callable[..., Any], schema: StructType
) -> DataFrame:
    """Return what tasks answer of rows. ``route``: adds the column ``task``, by which they go: a number of any size."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    tasks = tasks_of(frame)
    sent = frame.mapInArrow(route, T.StructType([*frame.schema.fields, T.StructField("task", T.IntegerType())]))
    sent = sent.repartitionById(tasks, F.pmod(F.col("task"), F.lit(tasks)).cast("int")).drop("task")
    return sent.mapInArrow(answer, schema)
