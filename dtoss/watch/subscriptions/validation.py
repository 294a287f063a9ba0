"""Checks subscriptions before anything changes: each bad one is named, with the reason.

Whether the places of subscriptions are some, by the functions that questions about places are checked with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.conditions.language import Mismatch
from dtoss.conditions.parse import parse_condition
from dtoss.conditions.program import parse_program
from dtoss.frames.geojson_members import read_json
from dtoss.frames.polygon_frames import polygons_of_wkb
from dtoss.geometry.polygons import (
    BY_VECTORS,
    PLANAR,
    SPHERICAL,
    as_polygons,
    edges_meant,
    polygons_in,
    rings_of,
    rings_together,
)
from dtoss.geometry.space import HALF_TURN, LONLAT, Space, as_positions
from dtoss.queries.covered import as_boxes
from dtoss.watch.subscription import (
    AROUND,
    BOX,
    CIRCLE,
    COMPLEMENT,
    CROSS,
    DWELL,
    ENTER,
    EVERYWHERE,
    INSIDE,
    LEAVE,
    PAIR_EVENTS,
    POLYGON,
    SUBSCRIPTION_SCHEMA,
    WANTS,
    said_of_stay,
    with_later_columns,
)
from dtoss.watch.subscriptions.forms import BOX_SIDES, Draft, Reasons, Values, draft_of, said, unknown_names
from dtoss.watch.subscriptions.subscription_text import edges_column, polygon_text


@dataclass(frozen=True)
class Bad:
    """A row that is no subscription."""

    file: str  # Where it stands; "" where it was not in a file
    row: int  # Its line in a file of lines, else its number, from 1 on
    id: str | None  # Of the subscription; None where it has none
    reason: str  # What is wrong, in a line

    def __str__(self) -> str:
        where = f"{self.file}:{self.row}" if self.file else f"row {self.row}"
        named = "" if self.id is None else f" ({_short(self.id)})"
        return f"{where}{named}: {self.reason}"


@dataclass(frozen=True)
class Against:
    """What is known of the rows that subscriptions will be asked of; None is what is not known yet."""

    space: Space = Space(LONLAT, "sphere")  # noqa: RUF009
    schema: Mapping[str, pa.DataType] | None = None  # Types of the columns that a condition may name
    text: bool | None = None  # Whether they have a text
    # Whether they have a time, and are positions of objects that move: without, there is no enter, leave or cross
    time: bool | None = None
    allow_everything: bool = False  # Whether words that are all negated may be asked for everywhere


def check_subscriptions(
    records: Iterable[Mapping[str, Any]],
    against: Against | None = None,
    *,
    file: str = "",
    lines: Sequence[int] | None = None,
) -> tuple[pa.Table, list[Bad]]:
    """Return the table of good subscriptions, and the bad ones.

    ``records``: A row each: id, one of circle, box, polygon and around or none, where, words, events, expires, meta;
    numbers of a circle may stand as lon, lat and radius, those of a box as west, south, east and north; ``against``:
    what is known of the rows; degrees, and nothing else, when None; ``lines``: (n,) The line of each, where it is not
    its number; it may grow as records are taken.

    Of several with one id the first is good. Cost O(n); a condition and words are read once for each distinct text.
    """
    against = against or Against()
    source = iter(records)
    pieces: list[_Piece] = []
    first = 0
    while rows := list(islice(source, _AT_ONCE)):
        reasons: Reasons = {}
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                reasons[number] = f'it is of type {type(row).__name__}: an object such as {{"id": 1}} is wanted'
                rows[number] = {}
        names = set().union(*rows)
        if unknown_names([str(name) for name in names]):
            for number, row in enumerate(rows):
                if why := unknown_names(list(row)):
                    reasons.setdefault(number, why)
                    # a column for each name that somebody has made up would have a cell for each row
                    rows[number] = {"id": row["id"]} if "id" in row else {}
            names = set().union(*rows)
        columns = {name: [row.get(name) for row in rows] for name in names}
        last = first + len(rows)
        line = np.arange(first + 1, last + 1) if lines is None else np.array(lines[first:last], np.int64)
        pieces.append(_piece(columns, line, reasons, against, file))
        first = last
    return _together(pieces, file)


def checked_table(table: pa.Table, against: Against | None = None, *, file: str = "") -> tuple[pa.Table, list[Bad]]:
    """Return the good subscriptions of a table, and the bad ones: as :func:`check_subscriptions`, from columns.

    ``table``: of columns as :func:`check_subscriptions` takes them, or of
    :data:`dtoss.watch.subscription.SUBSCRIPTION_SCHEMA`, as such tables are kept.
    """
    against = against or Against()
    table = with_later_columns(table)
    kept = set(SUBSCRIPTION_SCHEMA.names) <= set(table.column_names)
    if not kept and (why := unknown_names(table.column_names)):
        raise ValueError(f"column {why}")
    if len(set(table.column_names)) < len(table.column_names):
        raise ValueError(f"columns are {', '.join(table.column_names)}: two have one name")
    pieces = []
    for first in range(0, len(table), _AT_ONCE):
        some = table.slice(first, _AT_ONCE)
        columns: dict[str, Values] = {name: _one_chunk(some.column(name)) for name in some.column_names}
        expires = None
        if kept:
            columns, expires = _as_written(some)
        pieces.append(_piece(columns, np.arange(first + 1, first + len(some) + 1), {}, against, file, expires))
    return _together(pieces, file)


def _as_written(table: pa.Table) -> tuple[dict[str, Values], pa.Array]:
    """Return the columns as people write them of a table as it is kept, but for when it expires."""
    column = {name: _one_chunk(table.column(name)) for name in SUBSCRIPTION_SCHEMA.names}
    around = column["object"].is_valid()
    nothing = pa.scalar(None, pa.float64())
    bits = column["events"].fill_null(INSIDE).to_pylist()
    names = {bit: [name for name, one in WANTS.items() if bit & one] for bit in set(bits)}
    columns: dict[str, Values] = {name: column[name] for name in ("id", "where", "words", "meta", "polygon")}
    columns["edges"] = edges_column(column["polygon"])
    columns |= {name: column[name] for name in ("west", "south", "east", "north")}
    columns |= {name: pc.if_else(around, nothing, column[name]) for name in ("x", "y", "radius")}
    columns["around"] = [
        None if name is None else {"object": name, "metres": metres}
        for name, metres in zip(column["object"].to_pylist(), column["radius"].to_pylist(), strict=True)
    ]
    columns["events"] = [names[bit] for bit in bits]
    columns["outside"] = [bool(bit & COMPLEMENT) for bit in bits]
    stays = [said_of_stay(text) for text in column["stay"].to_pylist()]
    columns |= {name: [one.get(name) for one in stays] for name in ("dwell", "margin", "near")}
    return columns, column["expires"]


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


@dataclass(frozen=True)
class _Piece:
    """Good and bad ones of some rows, and the lines of the good ones."""

    table: pa.Table
    bad: list[Bad]
    lines: NDArray[np.int64]


def _piece(
    columns: Mapping[str, Values],
    line: NDArray[np.int64],
    reasons: Reasons,
    against: Against,
    file: str,
    expires: pa.Array | None = None,
) -> _Piece:
    count = len(line)
    draft = draft_of(columns, count, reasons)
    polygons = check_places(draft, against.space)
    _check_texts(draft, against)
    _check_events(draft, against)
    ids = draft.texts["id"]
    bad = [Bad(file, int(line[row]), ids[row].as_py(), reasons[row]) for row in sorted(reasons)]
    numbers = {name: pa.array(values, from_pandas=True) for name, values in draft.numbers.items()}
    held = draft.texts | numbers | {
        "kind": pa.array(draft.kind),
        "polygon": polygons,
        "events": pa.array(draft.events),
        "expires": draft.expires if expires is None else expires,
        "version": pa.nulls(count, pa.int64()),
    }  # fmt: skip
    table = pa.table([held[name] for name in SUBSCRIPTION_SCHEMA.names], schema=SUBSCRIPTION_SCHEMA)
    if not reasons:
        return _Piece(table, bad, line)
    good = np.ones(count, np.bool_)
    good[list(reasons)] = False
    return _Piece(table.filter(pa.array(good)), bad, line[good])


def _together(pieces: Sequence[_Piece], file: str) -> tuple[pa.Table, list[Bad]]:
    """Return all pieces; of several good rows with one id the first stays."""
    if not pieces:
        return SUBSCRIPTION_SCHEMA.empty_table(), []
    table = pa.concat_tables([piece.table for piece in pieces]).combine_chunks()
    bad = [one for piece in pieces for one in piece.bad]
    ids = table.column("id")
    if pc.count_distinct(ids).as_py() == len(ids):
        return table, bad
    line = np.concatenate([piece.lines for piece in pieces])
    coded = _one_chunk(ids).dictionary_encode()
    number = coded.indices.to_numpy()
    first = np.full(len(coded.dictionary), len(ids))
    np.minimum.at(first, number, np.arange(len(ids)))
    twice = first[number] != np.arange(len(ids))
    for row in np.flatnonzero(twice).tolist():
        name, before = ids[row].as_py(), int(line[first[number[row]]])
        where = f"{file}:{before}" if file else f"row {before}"
        bad.append(Bad(file, int(line[row]), name, f"the id {_short(name)} stands twice: {where} has it too"))
    return table.filter(pa.array(~twice)), sorted(bad, key=lambda one: one.row)


def _check_texts(draft: Draft, against: Against) -> None:
    where = draft.texts["where"]
    _spread(where, {text: _condition(text, against.schema) for text in where.unique().to_pylist()}, draft.reasons)
    words = draft.texts["words"]
    distinct = [text for text in words.unique().to_pylist() if text is not None]
    if not distinct:
        return
    from dtoss.watch.words.formula import parse_words

    negated = set()
    why: dict[Any, str | None] = {}
    for text in distinct:
        try:
            if parse_words(text).only_negated:
                negated.add(text)
        except (ValueError, RecursionError) as error:
            why[text] = f"words {_short(text)}: {' '.join(str(error).split()).removeprefix('words: ')}"
        if against.text is False:
            way = "dtoss watch --text COLUMN under another --watch NAME reads one"
            why.setdefault(text, f"it has words, and the rows have no text: {way}")
    _spread(words, why, draft.reasons)
    if negated and not against.allow_everything:
        anywhere = pc.and_(pc.is_in(words, pa.array(sorted(negated))), pa.array(draft.kind == EVERYWHERE))
        for row in np.flatnonzero(anywhere.to_numpy(zero_copy_only=False)).tolist():
            draft.reasons.setdefault(
                row,
                f"words {_short(words[row].as_py())} only say what is not there, and no place does: almost every row "
                "would be found; name a place or a word, or give --allow-everything",
            )


def _condition(text: str | None, schema: Mapping[str, pa.DataType] | None) -> str | None:
    """Return what is wrong with a condition; of columns only where their types are known."""
    if text is None:
        return None
    try:
        if schema is not None:
            parse_condition(text, schema)
        elif text.strip():
            parse_program(text)
        else:
            parse_condition(text, {})
    except (ValueError, RecursionError) as error:
        return " ".join(str(error).split())
    except Mismatch as error:
        return f"where {_short(text)}: {' '.join(str(error).split())}"
    return None


def _spread(texts: pa.Array, why: Mapping[Any, str | None], reasons: Reasons) -> None:
    """Name the rows whose text is wrong."""
    wrong = {text: reason for text, reason in why.items() if reason is not None}
    if wrong:
        found = pc.is_in(texts, pa.array(list(wrong), pa.string())).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(found).tolist():
            reasons.setdefault(row, wrong[texts[row].as_py()])


def _check_events(draft: Draft, against: Against) -> None:
    moving = (draft.events & PAIR_EVENTS) != 0
    words = np.asarray(draft.texts["words"].is_valid().to_numpy(zero_copy_only=False), np.bool_)
    _name(moving & words, "words go with inside only: a message is not a position, leave the other events out", draft)
    _name(
        moving & (draft.kind == AROUND),
        "around goes with inside only: its centre moves, leave the other events out",
        draft,
    )
    crossed = (draft.events & CROSS) != 0
    _name(crossed & (draft.kind == EVERYWHERE), "cross needs a place: nothing is outside of everywhere", draft)
    outside = (draft.events & COMPLEMENT) != 0
    _name(outside & (draft.kind == EVERYWHERE), "outside needs a place: nothing is outside of everywhere", draft)
    _name(
        outside & (words | (draft.kind == AROUND) | crossed),
        "outside goes with a place that stands still, without words and without cross: leave it out, or these",
        draft,
    )
    stays = [said_of_stay(text) for text in draft.texts["stay"].to_pylist()]
    dwells, margins, metres = (
        np.array([name in one for one in some], np.bool_)
        for name, some in (
            ("dwell", stays),
            ("margin", stays),
            ("metres", [one.get("margin", {}) for one in stays]),
        )
    )
    wants = (draft.events & DWELL) != 0
    _name(wants & ~dwells, 'dwell is wanted, and nothing says after how long: add "dwell": {"seconds": NUMBER}', draft)
    _name(dwells & ~wants, 'there is a dwell, and events do not want it: add "dwell" to them, or leave it out', draft)
    _name(
        margins & ((draft.events & (ENTER | LEAVE | DWELL)) == 0),
        "a margin is of enter, leave and dwell: add one of these to events, or leave it out",
        draft,
    )
    _name(
        metres & (outside | (draft.kind == EVERYWHERE)),
        "a margin in metres needs a place, and none outside of it: leave it out, or give it in seconds",
        draft,
    )
    pairs = np.array(["near" in one for one in stays], np.bool_)
    _name(
        pairs
        & (((draft.events & ~np.uint8(ENTER | LEAVE)) != 0) | (draft.kind != EVERYWHERE) | words | dwells | margins),
        "near goes with enter and leave only, everywhere and without words, dwell and margin: leave these out",
        draft,
    )
    for row in np.flatnonzero(pairs).tolist():
        near = stays[row]["near"]
        why = _condition(near.get("where"), against.schema)
        why = 'near has no metres: {"metres": NUMBER, "where": CONDITION} is wanted' if "metres" not in near else why
        if why is not None:
            draft.reasons.setdefault(row, why)
    if against.time is False:
        _name(
            moving, "enter, leave, dwell and cross need rows of objects that move, with a time: these have none", draft
        )


def _name(rows: NDArray[np.bool_], why: str, draft: Draft) -> None:
    for row in np.flatnonzero(rows).tolist():
        draft.reasons.setdefault(row, why)


def _short(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else repr(text[: _SHOWN - 1] + "…")


_AT_ONCE = 1 << 14
"""Rows that are looked at together: objects of Python do not pile up."""
_SHOWN = 60
"""Characters of a text that a reason shows."""


def check_places(draft: Draft, space: Space) -> pa.Array:
    """Return the polygons of drafted subscriptions as GeoJSON; the bad ones of all places are named in the draft.

    ``draft``: of which rows that are bad already are not looked at.

    Cost O(n) for circles and boxes, O(v) for v corners of polygons.
    """
    good = np.ones(len(draft.kind), np.bool_)
    good[list(draft.reasons)] = False
    _check_circles(draft, np.flatnonzero(good & (draft.kind == CIRCLE)), space)
    _check_radii(draft, np.flatnonzero(good & ((draft.kind == CIRCLE) | (draft.kind == AROUND))))
    _check_boxes(draft, np.flatnonzero(good & (draft.kind == BOX)), space)
    return _polygons(draft, np.flatnonzero(good & (draft.kind == POLYGON)), space)


def _check_circles(draft: Draft, rows: NDArray[np.int64], space: Space) -> None:
    centres = np.stack([draft.numbers["x"][rows], draft.numbers["y"][rows]], axis=1)
    if not len(rows) or (legal := space.legal(centres)).all():
        return
    for at in np.flatnonzero(~legal).tolist():
        why = f"the centre ({centres[at, 0]:g}, {centres[at, 1]:g}) is no place of {space.crs}"
        try:
            space.vectors(as_positions(centres[at : at + 1], space, "centre"))
        except ValueError as error:
            why = str(error).replace("centre row 0 is", "the centre is").replace("positions row 0 is", "the centre is")
        draft.reasons.setdefault(int(rows[at]), why)


def _check_radii(draft: Draft, rows: NDArray[np.int64]) -> None:
    radius = draft.numbers["radius"][rows]
    for at in np.flatnonzero(~((radius >= 0.0) & np.isfinite(radius))).tolist():
        draft.reasons.setdefault(
            int(rows[at]), f"radius is {radius[at]:g}: a finite number that is not negative is wanted"
        )


def _check_boxes(draft: Draft, rows: NDArray[np.int64], space: Space) -> None:
    if not len(rows):
        return
    boxes = np.stack([draft.numbers[name][rows] for name in BOX_SIDES], axis=1)
    try:
        as_boxes(boxes, space)
    except ValueError:
        for at, row in enumerate(rows.tolist()):
            try:
                as_boxes(boxes[at], space)
            except ValueError as error:
                draft.reasons.setdefault(row, str(error).replace("box 0 is", "box is"))
    flat = boxes[:, 0] == boxes[:, 2]
    if space.geographic:
        flat |= (boxes[:, 0] == HALF_TURN) & (boxes[:, 2] == -HALF_TURN)
    whole = "; -180 to 180 is all longitudes" if space.geographic else ""
    for at in np.flatnonzero(flat).tolist():
        side = f"{boxes[at, 0]:g} and {boxes[at, 2]:g}"
        draft.reasons.setdefault(
            int(rows[at]), f"box has no width: its west and east are {side}, the west has to be another{whole}"
        )


def _polygons(draft: Draft, rows: NDArray[np.int64], space: Space) -> pa.Array:
    found: list[str | None] = [None] * len(draft.kind)
    told = draft.texts["edges"]
    for row in np.flatnonzero(told.is_valid().to_numpy(zero_copy_only=False) & (draft.kind != POLYGON)).tolist():
        draft.reasons.setdefault(row, f"edges is {told[row].as_py()!r}, and there is no polygon: leave it out")
    if draft.shapes is None or not len(rows):
        return pa.array(found, pa.string())
    shapes: dict[int, tuple[list[list[Any]], str]] = {}
    for row in rows.tolist():
        try:
            shapes[row] = _rings(draft.shapes[row], told[row].as_py())
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            draft.reasons.setdefault(row, _why(error))
    for edges in (PLANAR, SPHERICAL, BY_VECTORS):
        mine = [row for row, (_, kind) in shapes.items() if kind == edges]
        for at in _wrong([shapes[row][0] for row in mine], edges, space):
            try:
                if not as_polygons({"type": "MultiPolygon", "coordinates": shapes[mine[at]][0]}, space, edges):
                    raise ValueError("it has no polygons: at least one is wanted")
            except (ValueError, TypeError, OverflowError) as error:
                draft.reasons.setdefault(mine[at], _why(error))
    for row, (polygons, edges) in shapes.items():
        if row not in draft.reasons:
            found[row] = polygon_text(polygons, edges)
    return pa.array(found, pa.string())


def _wrong(shapes: list[list[list[Any]]], edges: str, space: Space) -> list[int]:
    """Return which shapes may be none: all of them, where one is none for sure."""
    try:
        made = polygons_in(replace(rings_together(shapes), edges=edges), space)
    except (ValueError, TypeError, OverflowError):
        return list(range(len(shapes)))
    return [at for at, parts in enumerate(made) if not parts]


def _rings(shape: Any, edges: str | None) -> tuple[list[list[Any]], str]:
    """Return the rings of each polygon of GeoJSON, as text or not, or of well-known binary, and what its edges are."""
    if edges not in (None, PLANAR, SPHERICAL, BY_VECTORS):
        raise ValueError(f"its edges are {said(edges)}: {PLANAR!r} or {SPHERICAL!r} is wanted")
    if isinstance(shape, bytes | bytearray | memoryview):
        return [list(rings) for rings in polygons_of_wkb(bytes(shape))], edges or PLANAR
    if isinstance(shape, str):
        try:
            shape = read_json(shape)
        except ValueError:
            raise ValueError(f"{said(shape)} is not GeoJSON") from None
    if isinstance(shape, dict) or hasattr(shape, "__geo_interface__"):
        kept = edges is None and isinstance(shape, Mapping) and shape.get("edges") == BY_VECTORS
        return rings_of(shape), BY_VECTORS if kept else edges or edges_meant(shape)
    raise ValueError(f"{said(shape)} is not GeoJSON")


def _why(error: Exception) -> str:
    text = " ".join(str(error).split()).replace("corners of a polygon row", "corner")
    return f"polygon: {text}"
