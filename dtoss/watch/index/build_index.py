"""Builds an index of subscriptions: a grid of those with a place, one of place and word, and lists of the rest.

The arrays of a grid: which cells there are, where each begins, and what stands there.

Which levels a grid has, and which places stand in which: by a cost, on a sample.

A row looks for a cell in each level, and at all that stands there: ``rows x (levels x A + candidates x B) + C x cells``
in nanoseconds. How many rows there are near a place is told by the sample, in cells of every level around it. The
best single level is taken first, and others as long as they pay (watch, section 6a).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.conditions.parse import parse_condition
from dtoss.errors import InputError
from dtoss.geometry.polygon_tables import areas_of
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.space import Space
from dtoss.watch.index.cell_frame import FINEST_LEVEL, Frame, frame_of
from dtoss.watch.index.covers import (
    CIRCULAR,
    RECTANGULAR,
    Covers,
    box_rects,
    circle_rects,
    polygon_rects,
    squared_chords,
)
from dtoss.watch.index.grid_kernel import (
    EMPTY,
    PLACE_FACTS,
    count_cells,
    fill_cells,
    list_cells,
    number_cells,
    write_slots,
)
from dtoss.watch.index.subscription_index import NO_TEXT, SubscriptionIndex, Unanswered
from dtoss.watch.subscription import (
    AROUND,
    BOX,
    CIRCLE,
    DWELL,
    ENTER,
    EVERYWHERE,
    LEAVE,
    PAIR_EVENTS,
    PAIRS,
    POLYGON,
    STAYS,
    Near,
)
from dtoss.watch.subscriptions.subscription_text import polygons_kept

_WORLD = (-180.0, -90.0, 180.0, 90.0)
_FAR = 1e300


def build(
    table: pa.Table,
    space: Space,
    schema: Mapping[str, pa.DataType],
    text: bool,
    time: bool = True,
    sample: NDArray[np.float64] | None = None,
    only_level: int | None = None,
) -> SubscriptionIndex:
    """Return the index of a table of subscriptions. Cost O(n) for n of them with a few cells each.

    ``time``: whether rows have a time: without one there is no enter, leave or cross; ``sample``: float64 (m, 2). Where
    rows are, about; None takes the subscriptions' own places.
    """
    if len(table) >= 1 << 31:
        raise InputError(f"{len(table)} subscriptions are more than an index can hold: 2147483647")
    table = table.combine_chunks()
    kind = _numpy(table, "kind")
    where, texts, unanswered = _conditions(table, schema)
    unanswered += _others(table, schema)
    unanswered += _without(table, text, time)
    answered = np.ones(len(table), np.bool_)
    answered[[one.row for one in unanswered]] = False
    worded = table.column("words").is_valid().to_numpy(zero_copy_only=False).astype(np.bool_)
    arrays = _places(table, kind, space) | polygon_arrays(table, kind, space)
    events = _numpy(table, "events").astype(np.uint8)
    stays = table.column("stay")
    there, pairs = stays.is_valid(), pc.fill_null(pc.starts_with(stays, '{"near":'), False)
    for rows, bit in ((there, STAYS), (pairs, PAIRS)):
        flags = np.asarray(rows.to_numpy(zero_copy_only=False), np.bool_)
        events = np.where(flags, events & ~np.uint8(ENTER | LEAVE | DWELL | STAYS) | np.uint8(bit), events)
    arrays["events"] = np.where(answered, events, 0).astype(np.uint8)
    arrays["where"] = where
    covers = _covers_in(arrays, kind, space)
    centred = ~np.isnan(arrays["radius"]) & ~np.isnan(arrays["vectors"][:, 0])
    known = np.where((kind == CIRCLE) | (kind == AROUND), centred, True) & answered
    placed = known & ~worded & (kind != EVERYWHERE)
    arrays |= grid_arrays(_some(covers, placed), frame_of(space, covers.rects), sample, only_level)
    arrays["everywhere"] = np.flatnonzero(known & ~worded & (kind == EVERYWHERE)).astype(np.int32)
    spoken = np.flatnonzero(known & worded)
    if len(spoken):
        said = table.column("words").take(pa.array(spoken))
        from dtoss.watch.index.word_index import build_worded

        made = build_worded(said.to_pylist(), _rects_of(covers, kind, spoken, space), space.metric, sample)
        arrays |= {f"words/{name}": array for name, array in made._asdict().items()}
        arrays["spoken"] = spoken.astype(np.int32)
    return SubscriptionIndex(table, space, dict(schema), arrays, texts, tuple(unanswered))


def _numpy(table: pa.Table, name: str) -> NDArray[Any]:
    return np.asarray(table.column(name).to_numpy())


def _conditions(
    table: pa.Table, schema: Mapping[str, pa.DataType]
) -> tuple[NDArray[np.int32], tuple[str, ...], list[Unanswered]]:
    """Return the number of each subscription's condition, the texts, and those that cannot be asked here."""
    coded = table.column("where").combine_chunks()
    coded = (coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded).dictionary_encode()
    number = coded.indices.fill_null(NO_TEXT).to_numpy().astype(np.int32)
    texts = coded.dictionary.to_pylist()
    reasons: dict[int, str] = {}
    for at, text in enumerate(texts):
        try:
            parse_condition(text, schema)
        except ValueError as error:
            reasons[at] = str(error)
    unanswered = []
    if reasons:
        ids = table.column("id")
        rows = np.flatnonzero(np.isin(number, list(reasons)))
        unanswered = [Unanswered(row, ids[row].as_py(), reasons[int(number[row])]) for row in rows.tolist()]
        good = [text for at, text in enumerate(texts) if at not in reasons]
        back = {text: at for at, text in enumerate(good)}
        new = np.array([back.get(text, NO_TEXT) for text in texts] + [NO_TEXT], np.int32)
        number, texts = new[number], good
    return number, tuple(texts), unanswered


def _others(table: pa.Table, schema: Mapping[str, pa.DataType]) -> list[Unanswered]:
    """Return those that want to know of others by a condition that cannot be asked here."""
    found = []
    for row in np.flatnonzero(table.column("stay").is_valid().to_numpy(zero_copy_only=False)).tolist():
        near = Near.of(table.column("stay")[row].as_py())
        try:
            parse_condition("true" if near is None or near.where is None else near.where, schema)
        except ValueError as error:
            found.append(Unanswered(row, table.column("id")[row].as_py(), str(error)))
    return found


def _without(table: pa.Table, text: bool, time: bool) -> list[Unanswered]:
    """Return those that want what rows do not have: a text, or a time."""
    found = []
    ids = table.column("id")
    if not text:
        rows = np.flatnonzero(table.column("words").is_valid().to_numpy(zero_copy_only=False))
        found += [Unanswered(row, ids[row].as_py(), "it has words, and the rows have no text") for row in rows.tolist()]
    if not time:
        rows = np.flatnonzero(_numpy(table, "events") & PAIR_EVENTS)
        found += [
            Unanswered(
                row, ids[row].as_py(), "enter, leave, dwell and cross need a column of times, and the rows have none"
            )
            for row in rows.tolist()
        ]
    return found


def _polygons(table: pa.Table, kind: NDArray[Any], space: Space) -> tuple[list[Polygon], NDArray[np.int64]]:
    """Return all polygons, and where those of each subscription begin; nothing where there are none."""
    rows = np.flatnonzero(kind == POLYGON)
    shapes = polygons_kept(table.column("polygon").take(pa.array(rows)).to_pylist(), space)
    begin = np.zeros(len(table) + 1 if len(rows) else 0, np.int64)
    begin[rows + 1] = [len(shape) for shape in shapes]
    return [polygon for shape in shapes for polygon in shape], np.cumsum(begin)


def polygon_arrays(table: pa.Table, kind: NDArray[Any], space: Space) -> dict[str, NDArray[Any]]:
    """Return what tells of the polygons of subscriptions whether they hold a row. Cost O(v) for v corners."""
    polygons, parts = _polygons(table, kind, space)
    made = {
        "parts": parts,
        "polygon/rects": polygon_rects(polygons, space),
        "polygon/corners": np.array([len(polygon.corners) for polygon in polygons], np.int64),
    }
    if polygons:
        made |= {f"areas/{name}": array for name, array in areas_of(polygons)._asdict().items()}
    return made


def _places(table: pa.Table, kind: NDArray[Any], space: Space) -> dict[str, NDArray[Any]]:
    """Return what tells exactly whether a subscription's place holds a row."""
    x, y, radius = (_numpy(table, name).astype(np.float64) for name in ("x", "y", "radius"))
    round_ = ((kind == CIRCLE) | (kind == AROUND)) & ~np.isnan(x)
    vectors = np.full((len(table), space.dimension), np.nan)
    centres = np.stack([x, y], axis=1)
    if round_.any():
        vectors[round_] = space.vectors(np.ascontiguousarray(centres[round_]))
    boxes = np.stack([_numpy(table, name).astype(np.float64) for name in ("west", "south", "east", "north")], axis=1)
    return {
        "kind": kind.astype(np.uint8),
        "vectors": vectors,
        "radius": np.where(round_, radius, np.nan),
        "boxes": box_rects(boxes, space) if (kind == BOX).any() else boxes[:0],
    }


def covers_of(built: SubscriptionIndex) -> Covers:
    """Return the parts of the places of an index, by the rows of its table; none of what is everywhere. Cost O(n)."""
    return _covers_in(built.arrays, built.arrays["kind"], built.space)


def _covers_in(arrays: Mapping[str, NDArray[Any]], kind: NDArray[Any], space: Space) -> Covers:
    """Return the parts of the places of all subscriptions that have one, by their rows."""
    circles = np.flatnonzero(~np.isnan(arrays["radius"])).astype(np.int32)
    vectors, radius = arrays["vectors"][circles], arrays["radius"][circles]
    rects = circle_rects(vectors[:, :2], vectors, radius, space)
    facts = np.zeros((len(circles), 4))
    facts[:, : space.dimension] = vectors
    facts[:, 3] = squared_chords(radius, space)
    boxes = np.flatnonzero(kind == BOX).astype(np.int32)
    held = arrays["boxes"][boxes] if len(boxes) else np.zeros((0, 4))
    zones = arrays["polygon/rects"]
    parts = np.diff(arrays["parts"]) if len(zones) else 0
    owner = np.repeat(np.arange(len(kind)), parts).astype(np.int32)
    owners = np.concatenate([circles, boxes, owner])
    order = np.argsort(owners, kind="stable")
    shape = np.concatenate(
        [np.full(len(circles), CIRCULAR), np.full(len(boxes), RECTANGULAR), np.arange(len(zones))]
    ).astype(np.int32)
    covers = Covers(owners, np.concatenate([rects, held, zones]), np.concatenate([facts, held, zones]), shape)
    return take_rows(covers, order)


def _some(covers: Covers, rows: NDArray[np.bool_]) -> Covers:
    if rows[covers.owner].all():
        return covers
    return take_rows(covers, rows[covers.owner])


def _rects_of(covers: Covers, kind: NDArray[Any], rows: NDArray[np.int64], space: Space) -> NDArray[np.float64]:
    """Return a rectangle that holds the whole place of each subscription, float64 (k, 4)."""
    sphere = space.metric == "sphere"
    rects = np.empty((len(rows), 4))
    rects[:] = _WORLD if sphere else (-_FAR, -_FAR, _FAR, _FAR)
    begin, end = np.searchsorted(covers.owner, rows), np.searchsorted(covers.owner, rows, "right")
    one = end - begin == 1
    rects[one] = covers.rects[begin[one]]
    for i in np.flatnonzero(end - begin > 1).tolist():
        mine = covers.rects[begin[i] : end[i]]
        rects[i, [1, 3]] = mine[:, 1].min(), mine[:, 3].max()
        if not sphere:
            rects[i, [0, 2]] = mine[:, 0].min(), mine[:, 2].max()
    rects[kind[rows] == EVERYWHERE] = _WORLD if sphere else (-_FAR, -_FAR, _FAR, _FAR)
    return rects


_LEAST_ROOM = 16


def grid_arrays(
    covers: Covers, frame: Frame, sample: NDArray[np.float64] | None, only: int | None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of the grid of places. Cost O(cells).

    They are ``grid/world`` float64 (4,), the frame; ``grid/levels`` int64 (levels,); ``grid/slots`` int64 (room, 2), a
    table by key; ``grid/places`` float64 (k, 4) and ``grid/marks`` int32 (k, 2), what stands in each cell: the facts of
    :class:`Covers`, the subscription and its shape, in the order of subscriptions.
    """
    world = np.array(frame, np.float64)
    chosen = chosen_levels(covers.rects, frame, sample, only)
    begin = np.zeros(len(covers.owner) + 1, np.int64)
    total = count_cells(covers.rects, chosen.index, chosen.levels, world, begin)
    keys = np.empty(total, np.int64)
    list_cells(covers.rects, chosen.index, chosen.levels, world, begin, keys)
    room = _room(total)
    cell, distinct = np.empty(total, np.int32), np.empty(total, np.int64)
    found = number_cells(keys, cell, np.full(room, EMPTY, np.int64), np.zeros(room, np.int32), distinct)
    count = np.bincount(cell, minlength=found).astype(np.int64)
    first = np.cumsum(count) - count
    places, marks = np.empty((total, PLACE_FACTS)), np.empty((total, 2), np.int32)
    tags = np.ascontiguousarray(np.stack([covers.owner, covers.shape], axis=1))
    fill_cells(begin, cell, covers.facts, tags, first.copy(), places, marks)
    slots = np.full((_room(found), 2), EMPTY, np.int64)
    write_slots(np.ascontiguousarray(distinct[:found]), first, count, slots)
    return {
        "grid/world": world,
        "grid/levels": chosen.levels,
        "grid/slots": slots,
        "grid/places": places,
        "grid/marks": marks,
    }


def _room(cells: int) -> int:
    """Return a power of two, so that at most seven of ten slots are taken."""
    return 1 << max(int(np.ceil(np.log2(max(cells / 0.7, _LEAST_ROOM)))), 4)


LEVEL_NS, CANDIDATE_NS, CELL_NS = 60.0, 6.0, 150.0
"""What a level costs a row, a candidate, and a cell of a place once; measured."""
MOST_GRID_LEVELS = 4
MOST_GRID_CELLS = 4096.0
"""Cells that one place may take, unless even the coarsest level needs more."""
MEAN_CELLS = 4.3
"""Cells of a place in the mean, about, for the sake of memory."""
_SAMPLE = 8192
_LEAST_ROWS = 1 << 20
_ROWS_A_PLACE = 8
"""Rows that will be asked, for each place, at least a million: what building is weighed against."""
_ELSEWHERE = 0.2
"""Rows, as a share, that are near a place and not at it: where all places are one, cells are small because of them."""
_QUARTER_TURN = 90.0


@dataclass(frozen=True)
class Levels:
    """The levels of a grid, coarsest first, and the place in them of each rectangle's level, int64 (p,)."""

    levels: NDArray[np.int64]
    index: NDArray[np.int64]


def chosen_levels(
    rects: NDArray[np.float64], frame: Frame, sample: NDArray[np.float64] | None = None, only: int | None = None
) -> Levels:
    """Return the levels for rectangles (p, 4).

    ``sample``: float64 (m, 2). Where rows are; None takes the middles of the rectangles.
    """
    high, wide, middle = _sizes(rects, frame)
    size = np.maximum(high, wide)
    with np.errstate(divide="ignore"):
        kind = np.clip(np.floor(np.log2(frame.side / np.maximum(size, 1e-300))), 0, FINEST_LEVEL).astype(np.int64)
    if only is not None:
        return Levels(np.array([only]), np.zeros(len(rects), np.int64))
    if len(rects) == 0:
        return Levels(np.zeros(1, np.int64), np.zeros(0, np.int64))
    most = min(_SAMPLE, max(len(rects) // 8, 512))
    some = np.arange(0, len(rects), -(-len(rects) // most))
    scale = len(rects) / len(some)
    candidates, cells = _expected_candidates(high[some], wide[some], middle[some], frame, sample)
    classes = FINEST_LEVEL + 1
    by_class = np.zeros((2, classes, classes))
    np.add.at(by_class[0], kind[some], candidates * scale)
    np.add.at(by_class[1], kind[some], cells * scale)
    rows = float(max(_LEAST_ROWS, _ROWS_A_PLACE * len(rects)))
    # a class of which the sample has none goes where its size says
    level = _assign_levels(by_class, rows, len(rects))
    levels = np.unique(level[np.unique(kind)])
    return Levels(levels, np.searchsorted(levels, level[kind]))


def _sizes(
    rects: NDArray[np.float64], frame: Frame
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return height and width, in units in which cells are square, and the middles."""
    high = rects[:, 3] - rects[:, 1]
    wide = rects[:, 2] - rects[:, 0]
    middle = np.stack([(rects[:, 0] + rects[:, 2]) / 2, (rects[:, 1] + rects[:, 3]) / 2], axis=1)
    if frame.sphere:
        wide = np.where(wide < 0.0, wide + 4 * _QUARTER_TURN, wide)
        wide = wide * _narrow(middle[:, 1])
    return high, wide, middle


def _narrow(lat: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1.0 - np.minimum((lat / _QUARTER_TURN) ** 2, 0.9999))


def _expected_candidates(
    high: NDArray[np.float64],
    wide: NDArray[np.float64],
    middle: NDArray[np.float64],
    frame: Frame,
    sample: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each place and level the share of rows for which it is a candidate, and its cells, (n, levels)."""
    rows = middle if sample is None or len(sample) == 0 else sample
    rows = rows[np.arange(0, len(rows), -(-len(rows) // _SAMPLE))]
    own = 1.0 if sample is None or len(sample) == 0 else 0.0
    count = FINEST_LEVEL + 1
    near = np.empty((len(middle), count))
    for level in range(count):
        there = np.sort(_keys(rows, frame, level))
        here = _keys(middle, frame, level)
        near[:, level] = np.searchsorted(there, here, "right") - np.searchsorted(there, here, "left")
    near = np.maximum(near - own, 0.5) / len(rows)
    cell = frame.side / np.exp2(np.arange(count))
    tall, broad = high[:, None] + cell, wide[:, None] + cell
    with np.errstate(over="ignore", invalid="ignore"):
        around = np.clip(np.floor(np.log2(frame.side / np.maximum(tall, broad))), 0, FINEST_LEVEL).astype(np.int64)
        share = near[np.arange(len(middle))[:, None], around] * np.minimum(tall * broad / cell[around] ** 2, 1.0)
        share *= 1.0 + _ELSEWHERE * (1.0 - np.arange(count) / FINEST_LEVEL)
        return share, (1.0 + high[:, None] / cell) * (1.0 + wide[:, None] / cell)


def _keys(places: NDArray[np.float64], frame: Frame, level: int) -> NDArray[np.int64]:
    """Return about the cells of places, as numbers."""
    rows = 1 << level
    row = np.clip((places[:, 1] - frame.y) / frame.side * rows, 0, rows - 1).astype(np.int64)
    columns = np.full(len(places), rows, np.float64)
    if frame.sphere:
        at = 2.0 * (row + 0.5) / rows - 1.0
        columns = np.maximum(np.floor(2.0 * rows * (1.0 - at * at)), 1.0)
    share = (places[:, 0] - frame.x) / (frame.side * (1 + frame.sphere))
    return np.asarray((row << 32) + np.clip(share * columns, 0, columns - 1).astype(np.int64))


def _assign_levels(by_class: NDArray[np.float64], rows: float, places: int) -> NDArray[np.int64]:
    """Return the level of each class of sizes, of four levels at most."""
    candidates, cells = by_class
    count = len(cells)
    known = cells.sum(axis=1) > 0.0
    # a place of class c is about side / 2^c wide
    each = np.exp2(np.arange(count)[None, :] - np.arange(count)[:, None])
    forbidden = (1.0 + each) ** 2 > MOST_GRID_CELLS
    forbidden[:, 0] = False
    price = CELL_NS
    for _ in range(6):
        cost = np.where(forbidden, np.inf, rows * CANDIDATE_NS * candidates + price * cells)
        cost[~known] = np.where(forbidden[~known], np.inf, each[~known])
        taken: list[int] = []
        spent = np.inf
        while len(taken) < MOST_GRID_LEVELS:
            totals = [
                cost[known][:, [*taken, level]].min(axis=1).sum() + rows * LEVEL_NS * (len(taken) + 1)
                for level in range(count)
            ]
            best = int(np.argmin(totals))
            if not totals[best] < spent:
                break
            spent, taken = totals[best], [*taken, best]
        taken = sorted(taken) or [0]
        level = np.array(taken)[cost[:, taken].argmin(axis=1)]
        held = cells[np.arange(count), level][known].sum()
        if held <= MEAN_CELLS * places:
            break
        price *= 4.0
    stuck = ~np.isfinite(cost[np.arange(count), level])
    level[stuck] = 0
    return np.asarray(level, np.int64)
