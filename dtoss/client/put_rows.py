"""Rows that are put: a frame as a table of plain columns, sent in pieces, again where a server is busy or away."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa

from dtoss.arrow_stream import stream_of
from dtoss.client.http_connections import JSON, LONGEST_PAUSE, SHORTEST_PAUSE, BadRows, Later, TooMuch, backoff
from dtoss.client.remote_server import Server, smaller_pieces
from dtoss.frames.arrow_tables import Table, plain_column, read_column, table_of
from dtoss.frames.coordinates import locate_rows
from dtoss.frames.geo_columns import agree_crs
from dtoss.frames.objects_of import ID_COLUMN
from dtoss.geometry.space import Space
from dtoss.log.read_upto import ReadUpto, read_upto

ROWS_OF_PIECE = 50_000
"""Rows of one request, at the most."""


@dataclass(frozen=True)
class Put:
    """What became of rows that were put."""

    taken: int  # Rows that are on disk
    seq: int | None  # Sequence number of the last of them; None where there was none
    late: int  # Rows of which a later one of the same object stood already
    unchanged: int  # Rows that say what stood already
    bad: int  # How many rows were refused
    refused: tuple[tuple[int, str], ...]  # The row, from 0 on, and the reason of the first of those


def table_of_rows(frame: Any, space: Space, names: tuple[str, str]) -> pa.Table:
    """Return the columns of a frame as they are sent: plain ones, points as coordinates by ``names``.

    An index of pandas is a column, by its name or ``id`` where no column is called so.
    """
    table = table_of(frame)
    if table is None:
        raise ValueError(
            f"{type(frame).__name__} is no frame: a mapping of columns, a DataFrame, a GeoDataFrame or an Arrow table "
            "is wanted"
        )
    columns = {str(name): _plain(read_column(table, name)) for name in table.names if name not in table.geometries}
    columns = _of_index(table, columns) | columns
    if table.geometries and not set(names) <= set(columns):
        at = locate_rows(table, missing=True)
        assert at is not None
        if at.crs is not None:
            agree_crs(space.crs, at.crs, "the frame", "transform the frame by gdf.to_crs first")
        nowhere = np.isnan(at.positions).any(axis=1)
        for name, axis in zip(names, at.positions.T, strict=True):
            columns[name] = pa.array(axis, mask=nowhere)
    return pa.table(columns)


def _of_index(table: Table, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    index = table.index
    if index is None or index.nlevels > 1:
        return {}
    name = index.name
    if name is None:
        # rows that are numbered by themselves are nobody's
        return {} if ID_COLUMN in columns or type(index).__name__ == "RangeIndex" else {ID_COLUMN: pa.array(index)}
    return {} if str(name) in columns else {str(name): pa.array(index)}


def _plain(column: pa.Array) -> pa.Array:
    column = plain_column(column)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def put_table(
    server: Server,
    rows: pa.Table,
    patience: float,
    upto: ReadUpto | None = None,
    *,
    wait: Callable[[float], None] = time.sleep,
    most: int = ROWS_OF_PIECE,
) -> Put:
    """Return what became of rows, sent in pieces of ``most``, each again for ``patience`` seconds until it is taken.

    ``upto``: where their source goes on behind them, which goes with the last piece.
    """
    offsets = [] if upto is None else [*upto.pieces()]
    waiting = [slice(at, min(at + most, len(rows))) for at in range(0, max(len(rows), 1), most)][::-1]
    done = Put(0, None, 0, 0, 0, ())
    while waiting:
        piece = waiting.pop()
        try:
            target = _target_of(offsets[0]) if offsets and not waiting else "/positions"
            said = _send(server, stream_of(rows.slice(piece.start, piece.stop - piece.start)), patience, wait, target)
        except TooMuch as error:
            waiting += smaller_pieces(piece, error)[::-1]
            continue
        refused = tuple((piece.start + one["row"] - 1, str(one["reason"])) for one in said["refused"])
        done = Put(
            done.taken + said["taken"], said["seq"] or done.seq, done.late + said["late"],
            done.unchanged + said["unchanged"], done.bad + said["bad"], done.refused + refused,
        )  # fmt: skip
    for one in offsets[1:]:
        put_offsets(server, one, patience)
    return done


def put_offsets(server: Server, upto: ReadUpto, patience: float) -> ReadUpto:
    """Return where a source goes on by the log, once ``upto`` is in it, which without offsets only asks."""
    known = ""
    for one in [*upto.pieces()] or [upto]:
        known = _send(server, b"", patience, time.sleep, _target_of(one)).get("offsets", "")
    return read_upto(upto.source, known)


def _target_of(upto: ReadUpto) -> str:
    return f"/positions?{urlencode({'source': upto.source, 'offsets': upto.text()})}"


def _send(server: Server, body: bytes, patience: float, wait: Callable[[float], None], target: str) -> dict[str, Any]:
    """Return what the server says of a piece, also where no row of it is good."""
    until, pauses = time.monotonic() + patience, backoff(SHORTEST_PAUSE, LONGEST_PAUSE)
    while True:
        try:
            return server.connections.ask("POST", target, body, JSON).document()
        except BadRows as wrong:
            return {"taken": 0, "seq": None, "late": 0, "unchanged": 0, "bad": wrong.bad, "refused": wrong.rows}
        except Later as later:
            pause = max(next(pauses), later.seconds)
            if time.monotonic() + pause > until:
                raise
            wait(pause)
