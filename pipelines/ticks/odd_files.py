"""A beat whose files do not all go together: those that cannot be read are refused by name, the others count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoss.errors import DtossError, InputError
from dtoss.geometry.space import LONLAT, space_of
from dtoss.names import columns_of_manifest
from dtoss.snapshots.manifest import space_of_manifest
from pipelines.cycles.column_agreement import agree_columns, check_columns
from pipelines.local_joins import first_look
from pipelines.loop.arriving import Arrivals
from pipelines.loop.odd_columns import REFUSE, check_ids, check_rows, may_refuse, refusal, session_of, take_apart
from pipelines.rows.position_frame import Positions, screen_positions
from pipelines.rows.read_files import unreadable
from pipelines.ticks.three_commits import Steady, committed, how_read, read_files
from pipelines.windowing.feed_windows import placed_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def committed_apart(
    loop: Steady, found: Arrivals, mine: Arrivals, manifest: dict[str, Any] | None, due: bool, odd: Mapping[str, str]
) -> tuple[dict[str, Any] | None, bool]:
    """Make what has arrived current without files that cannot be read.

    Return its manifest, and whether more is there.
    """
    try:
        made, more = committed(loop, found, mine, manifest, due, odd), False
    except InputError as error:
        if loop.on_odd_file != REFUSE:
            raise
        try:
            files = {file: size for file, size in found.fresh.items() if size}
            apart = take_apart(files, partial(_check, loop, found, manifest))
        except Exception:
            raise error from None  # what cannot be looked at says nothing of the files
        if found.gone() or not may_refuse(apart, manifest is not None, loop.patience.has_read):
            raise
        odd, more = {**odd, **apart.odd}, len(apart.groups) > 1
        some = found.some(apart.groups[0] if apart.groups else {})
        fresh = {file: size for file, size in some.fresh.items() if file in mine.fresh}
        made = committed(loop, some, mine.some(fresh), manifest, due, odd)
    for file, why in odd.items():
        loop.patience.tell(file, refusal(why), loop.warn)
    loop.metrics.files(refused=len(odd))
    loop.patience.has_read |= made is not None and any(mine.fresh.values())
    return made, more


def _check(loop: Steady, found: Arrivals, manifest: dict[str, Any] | None, files: Mapping[str, int]) -> None:
    """Raise where some files cannot be made current together: reads all of them, and commits nothing."""
    columns, wanted = how_read(loop, manifest)
    inputs = found.some(files).inputs(schema=loop.schema, encoding=columns.encoding)
    if inputs is None:
        return
    first_look.check_columns(inputs, replace(columns, attributes="all"))
    check_columns(inputs, manifest, loop.options.get("missing", "error"))
    if manifest is not None:
        check_ids(inputs, columns.id, manifest["id_type"], f"store {loop.home.shown}")
    session = session_of(loop.sessions)
    try:
        _check_rows(loop, session, read_files(columns, wanted, session, inputs), manifest)
    except DtossError:
        raise
    except Exception as error:
        raise unreadable(error, inputs) from None


def _check_rows(loop: Steady, session: SparkSession, positions: Positions, manifest: dict[str, Any] | None) -> None:
    try:
        first = loop.options.get("first") or {}
        space = space_of(first.get("crs") or LONLAT, first.get("metric"))
        if manifest is not None:
            space = space_of_manifest(manifest)
            missing = loop.options.get("missing", "error")
            agree_columns(positions, manifest, tuple(columns_of_manifest(manifest)), missing)
        rows = screen_positions(positions, space, loop.options.get("wrap", False))
        check_rows(rows.frame, loop.options.get("max_bad", 0.10))
        for one in loop.feeds:
            if one.running is not None:
                one.running.check(session, placed_rows(positions))
    finally:
        positions.release()
