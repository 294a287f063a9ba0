"""Objects that were not heard of for so long: rows of the log that delete them, by the clock of who writes it."""

from __future__ import annotations

import asyncio
import threading

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.errors import DtossError
from dtoss.fresh.generations import Generations
from dtoss.fresh.intake import Intake
from dtoss.fresh.standing import Standing
from dtoss.log.log_schema import fit, roles_of
from dtoss.merge_rows import ids_of
from dtoss.partition import numbers
from dtoss.rows.store_clock import Scale

EXPIRY_SECONDS = 1.0
"""Between two looks."""
EXPIRED_AT_ONCE = 100_000
"""Rows that are told at a time."""


def expired_rows(standing: Standing, schema: pa.Schema, scale: Scale, before: float) -> pa.Table:
    """Return rows that delete the objects of before a moment, at the time of each, in the columns of a log.

    None where that would be all there are: then the clock is wrong. Cost O(n).
    """
    roles = roles_of(schema)
    gone: list[pa.Table] = [schema.empty_table()]
    for partition in standing.index.parts.all():
        owned = partition.owned_objects
        assert partition.times is not None  # who opens a snapshot has seen to it
        times = partition.times.slice(0, owned)
        late = numbers(scale.numbers(times) < before)
        columns = {
            roles["id"]: ids_of(partition).slice(0, owned).filter(late).cast(schema.field(roles["id"]).type),
            roles["time"]: times.filter(late),
        }
        columns[roles["deleted"]] = pc.is_valid(columns[roles["time"]])
        gone.append(fit(pa.table(columns), schema, "what expires"))
    rows = pa.concat_tables(gone)
    return rows.slice(0, EXPIRED_AT_ONCE) if len(rows) < len(standing.index) else schema.empty_table()


def expire_objects(
    made: Generations, seconds: float, intake: Intake, stop: threading.Event, pace: float = EXPIRY_SECONDS
) -> None:
    """Tell the log what expires, as who tells rows does, until told to stop.

    ``seconds``: for which an object that is not heard of stays.
    """
    scale, seq = Scale.of(made.store.manifest()), 0
    while not stop.wait(pace):
        standing = made.standing
        if standing.seq < seq:
            continue  # what was told is not seen yet
        rows = expired_rows(standing, made.schema, scale, scale.before(scale.now(), seconds))
        if len(rows):
            try:
                seq = asyncio.run(intake.put(rows)).seq or seq
            except DtossError as error:
                made.event("nothing expires", detail=str(error))
