"""What a history costs those who ask it, and how its leaves lay in some versions: what its page and map are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.space import Space
from dtoss.history.adaptive.layout_reads import layout_reads, leaf_rows, order_of
from dtoss.history.adaptive.rivals import Sample, StorePrices, rival_layouts
from dtoss.history.maintenance.history_facts_of import orders_of
from dtoss.history.query.read_plan import read_over, request_bytes
from dtoss.history.query.scan_blocks import QUESTIONS
from dtoss.history.questions import Questions
from dtoss.history.row_blocks import BY_PLACE, ORDER_NAMES
from dtoss.history.versions import Home, Version

LABELS = {
    "ours": "This history",
    "hours": "Files by hour",
    "days": "Files by day, Hilbert inside",
    "z_order": "Z-order of x, y, t",
}
"""What the page calls those who are compared."""
EDGES = (0, 1_000_000, 8_000_000, 32_000_000, 128_000_000)
"""Bytes at which the classes of files by size begin."""
BY_OBJECT_ONLY = "trajectory"
"""The kind of question that is not compared: for it the others would need a copy by object as well."""


def compared(questions: Questions) -> Questions:
    """Return the questions without those of the kind :data:`BY_OBJECT_ONLY`."""
    return questions.take(np.flatnonzero(questions.kind != QUESTIONS.index(BY_OBJECT_ONLY)))


def own_reads(version: Version, questions: Questions) -> tuple[NDArray[np.int64], dict[int, NDArray[np.bool_]]]:
    """Return ranges and bytes that each question reads of a version, and which order of which period it reads.

    Of each period that order is read whose ranges and bytes cost least, as questions are planned.

    int64 (m, 2), and bool (m, periods) by the codes of orders.
    """
    g = request_bytes(version)
    shape = (len(questions), len(version.periods))
    best, reads = np.full(shape, np.inf), np.zeros((*shape, 2), np.int64)
    winner = np.full(shape, -1, np.int8)
    for code in range(len(ORDER_NAMES)):
        has = (version.periods.orders >> np.uint8(code)) & np.uint8(1) == 1
        if not has.any():
            continue
        found = layout_reads(order_of(version, code), questions, read_over(version))
        cost = np.where(has, found[:, :, 0] * g + found[:, :, 1], np.inf)
        better = cost < best
        best[better], winner[better], reads[better] = cost[better], code, found[better]
    return reads.sum(axis=1), {code: winner == code for code in range(len(ORDER_NAMES))}


def rival_reads(sample: Sample, questions: Questions, gap: int) -> dict[str, NDArray[np.int64]]:
    """Return ranges and bytes that each question would read of each rival's files, int64 (m, 2) by their names.

    ``gap``: bytes between two ranges up to which they are read as one, as ours are.
    """
    if not len(sample):
        return {name: np.zeros((len(questions), 2), np.int64) for name in LABELS if name != "ours"}
    return {name: layout_reads(layout, questions, gap).sum(axis=1) for name, layout in rival_layouts(sample).items()}


def contestants(
    reads: Mapping[str, NDArray[np.int64]], kept: Mapping[str, int], a_day: float, g: int, prices: StorePrices
) -> list[dict[str, Any]]:
    """Return what each layout costs a day, ours first.

    ``reads``: int64 (m, 2) by their names, of the same questions; ``kept``: bytes that each keeps; ``a_day``: questions
    a day; ``g``: bytes that cost as much as a request.
    """
    found = []
    for name, both in reads.items():
        requests, size = both.mean(axis=0).tolist() if len(both) else (0.0, 0.0)
        reading, keeping = prices.for_reading(requests, size) * a_day, prices.for_keeping(kept[name])
        found.append(
            {
                "name": name,
                "label": LABELS[name],
                "modelled": name != "ours",
                "requestsAQuestion": requests,
                "bytesAQuestion": size,
                "costAQuestion": requests * g + size,
                "requestsADay": requests * a_day,
                "bytesADay": size * a_day,
                "readingDollarsADay": reading,
                "bytesKept": kept[name],
                "keepingDollarsADay": keeping,
                "dollarsADay": reading + keeping,
            }
        )
    return found


def by_kind(questions: Questions, reads: Mapping[str, NDArray[np.int64]], g: int) -> list[dict[str, Any]]:
    """Return how many questions of each kind there are, and what one of them costs in each layout, in bytes."""
    found: list[dict[str, Any]] = []
    for code in np.unique(questions.kind).tolist():
        mine = questions.kind == code
        costs = {name: float((both[mine, 0] * g + both[mine, 1]).mean()) for name, both in reads.items()}
        found.append({"kind": QUESTIONS[code].replace("_", " "), "questions": int(mine.sum()), "costAQuestion": costs})
    return found


def orders_in(version: Version) -> list[dict[str, Any]]:
    """Return rows, bytes, files, leaves and periods of each order that a version has."""
    names = ("rows", "bytes", "files", "leaves", "blocks", "periods")
    return [{"order": order, **{name: one[name] for name in names}} for order, one in orders_of(version).items()]


def files_by_size(version: Version) -> list[dict[str, Any]]:
    """Return how many files are in each class of :data:`EDGES`, with their bytes and what of those is not live."""
    leaves, size = version.leaves, version.files.bytes
    live = np.bincount(leaves.file, weights=leaves.bytes, minlength=len(size))
    place = np.searchsorted(EDGES, size, side="right") - 1
    found = []
    for number, edge in enumerate(EDGES):
        mine = place == number
        found.append(
            {
                "from": edge,
                "to": EDGES[number + 1] if number + 1 < len(EDGES) else None,
                "files": int(mine.sum()),
                "bytes": int(size[mine].sum()),
                "liveBytes": int(live[mine].sum()),
            }
        )
    return found


def facts_of(
    version: Version,
    questions: Questions,
    sample: Sample,
    frames: Sequence[Mapping[str, Any]],
    adapting: Sequence[Mapping[str, Any]],
    *,
    shown: str,
    a_day: float,
    prices: StorePrices,
) -> dict[str, Any]:
    """Return all that the page tells of a history. ``a_day``: questions a day."""
    asked = compared(questions)
    g = request_bytes(version)
    reads = {"ours": own_reads(version, asked)[0], **rival_reads(sample, asked, read_over(version))}
    kept = dict.fromkeys(reads, round(sample.row_bytes * version.rows))
    kept["ours"] = int(version.files.bytes.sum())
    return {
        "history": shown,
        "version": version.number,
        "time": version.time,
        "rows": version.rows,
        "periods": len(version.periods),
        "requestBytes": g,
        "onEarth": version.schema.space.geographic,
        "questions": {
            "asked": int(questions.number[-1]) if len(questions) else 0,
            "remembered": len(questions),
            "compared": len(asked),
            "aDay": a_day,
        },
        "prices": asdict(prices),
        "sample": {"rows": len(sample), "standsFor": sample.stands_for},
        "contestants": contestants(reads, kept, a_day, g, prices) if len(asked) else [],
        "kinds": by_kind(asked, reads, g),
        "orders": orders_in(version),
        "files": files_by_size(version),
        "adapting": list(adapting),
        "frames": list(frames),
    }


ADAPTED = "adapt"
"""What a version that cut or merged leaves says that it is."""
MOST_FRAMES = 8
"""Versions that are drawn."""
_LOOKED_BACK = 512
"""Versions whose documents are looked at."""
_MOST_SHAPES = 200
"""Questions of a frame that are drawn, the newest."""
_WIDEST = 0.5
"""Of the map's width and height: what asks about more is not drawn."""
_CORNERS = 20
"""Of a circle as it is drawn."""
_OUTER = 0.002
"""The share of rows on each side that may lie outside the map: fixes of broken receivers."""
_OUTER_ASKED = 0.05
"""The share of questions on each side that may lie outside the map of where most is asked."""
_NEAR = 0.25
"""Of the map's width and height: what is asked has to lie within so much for a map of its own."""


def known_versions(home: Home, version: Version) -> list[Version]:
    """Return the versions up to one that can still be asked, oldest first; of many the newest 512."""
    oldest = max(int(version.document.get("oldest", 1)), version.number - _LOOKED_BACK + 1)
    return [*map(home.version, range(oldest, version.number)), version]


def drawn_versions(versions: Sequence[Version], questions: Questions) -> list[Version]:
    """Return those of some versions, oldest first, that changed leaves of the place order, and the last one.

    At most 8.
    """
    asked = np.sort(questions.version)
    found: list[Version] = []
    for one in versions:
        if found and one.document["leaves"] == found[-1].document["leaves"]:
            continue
        if not (one.leaves.order == BY_PLACE).any():
            continue
        if found and _places(one) == _places(found[-1]):
            continue
        if found and len(asked) and found[-1].number >= asked[0]:
            begin, end = np.searchsorted(asked, [found[-1].number, one.number])
            if begin == end:
                found.pop()  # one adapting makes several versions
        found.append(one)
    if len(found) > MOST_FRAMES:
        found = [found[place] for place in np.linspace(0, len(found) - 1, MOST_FRAMES).round().astype(int).tolist()]
    return [*found[:-1], versions[-1]] if found else []


def adapting_of(versions: Sequence[Version]) -> list[dict[str, Any]]:
    """Return of each version that cut or merged leaves what that rewrote, and what had been read in vain there.

    ``versions``: oldest first.
    """
    found = []
    for one in versions:
        if one.what == ADAPTED:
            said = one.detail
            told = {name: int(said.get(name, 0)) for name in ("cut", "merged", "made", "bytes", "regret", "waste")}
            found.append({"version": one.number, "time": one.time} | told)
    return found


def _places(version: Version) -> list[tuple[str, int]]:
    leaves = version.leaves
    rows = np.flatnonzero(leaves.order == BY_PLACE).tolist()
    return [(version.files.name[int(leaves.file[row])], int(leaves.offset[row])) for row in rows]


def frames_of(versions: Sequence[Version], questions: Questions, sample: Sample) -> list[dict[str, Any]]:
    """Return of each version its leaves by place with the rows that questions read of them, and what was asked there.

    A frame shows the period with the most rows. Its questions are those that led to it: asked since the frame before
    was made, and before it was itself; to the last frame belong all since.

    ``versions``: oldest first.
    """
    if not len(sample) or not versions:
        return []
    view = view_of(sample)
    ends = [*(version.number for version in versions[:-1]), np.iinfo(np.int64).max]
    begin = 0
    found = []
    for version, end in zip(versions, ends, strict=True):
        some = np.flatnonzero((questions.version >= begin) & (questions.version < end))
        found.append(_frame(version, questions.take(some), view))
        begin = end
    return found


def view_of(sample: Sample) -> tuple[float, float, float, float]:
    """Return west, south, east and north of nearly all rows, with a margin."""
    low, high = np.quantile(sample.positions, [_OUTER, 1 - _OUTER], axis=0)
    margin = np.maximum(0.04 * (high - low), 1e-9)
    return _box(low - margin, high + margin)


def asked_view(
    shapes: Sequence[Sequence[Sequence[float]]], view: tuple[float, float, float, float]
) -> tuple[float, float, float, float] | None:
    """Return the part of a view where most questions are, twice as wide as they are; None where that is most of it."""
    if not shapes:
        return None
    low = np.quantile([np.min(ring, axis=0) for ring in shapes], _OUTER_ASKED, axis=0)
    high = np.quantile([np.max(ring, axis=0) for ring in shapes], 1 - _OUTER_ASKED, axis=0)
    whole = np.array([view[2] - view[0], view[3] - view[1]])
    middle, half = (low + high) / 2, float(((high - low) / whole).max()) * whole
    if not 0 < half[0] <= _NEAR * whole[0]:
        return None
    low, high = np.array(view[:2]), np.array(view[2:])
    middle = np.clip(middle, low + half, high - half)
    return _box(middle - half, middle + half)


def _box(low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[float, float, float, float]:
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _frame(version: Version, questions: Questions, view: tuple[float, ...]) -> dict[str, Any]:
    leaves = version.leaves
    placed = leaves.order == BY_PLACE
    held = np.bincount(leaves.period[placed], weights=leaves.rows[placed])
    period = int(held.argmax())
    asked = compared(questions)
    reads, used = own_reads(version, asked)
    rows = leaf_rows(order_of(version, BY_PLACE), asked, len(leaves), used[BY_PLACE])
    mine = np.flatnonzero(placed & (leaves.period == period))
    cells = np.clip(leaves.cell[mine], *_bounds(view))
    widest = _WIDEST * np.array([view[2] - view[0], view[3] - view[1]])
    mean = rows[mine] / max(len(asked), 1)
    rings = shapes_of(asked, version.schema.space)
    # of wide ones the outlines would hide what is below them
    shapes = [ring.round(6).tolist() for ring in rings if (np.ptp(ring, axis=0) <= widest).all()]
    return {
        "version": version.number,
        "time": version.time,
        "what": version.what,
        "questions": len(asked),
        "wide": int((np.diff(asked.begin) == 0).sum()) + len(rings) - len(shapes),
        "requestsAQuestion": float(reads[:, 0].mean()) if len(asked) else 0.0,
        "bytesAQuestion": float(reads[:, 1].mean()) if len(asked) else 0.0,
        "period": period,
        "periods": len(np.unique(leaves.period[placed])),
        "view": list(view),
        "leaves": [
            {"cell": cell, "rows": int(leaves.rows[row]), "rowsAQuestion": round(value, 1)}
            for cell, row, value in zip(cells.tolist(), mine.tolist(), mean.tolist(), strict=True)
        ],
        "shapes": shapes,
    }


def _bounds(view: tuple[float, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the greatest corners that are drawn: a little outside the view, so that no border shows."""
    west, south, east, north = view
    far = 0.02 * np.array([east - west, north - south])
    return np.tile(np.array([west, south]) - far, 2), np.tile(np.array([east, north]) + far, 2)


def shapes_of(questions: Questions, space: Space) -> list[NDArray[np.float64]]:
    """Return rings (v, 2) around what the newest questions ask about, in the coordinates of positions.

    Those that ask about everywhere have none; one of several pieces has the box around them.
    """
    count = np.diff(questions.begin)
    rows = np.flatnonzero(count > 0)[-_MOST_SHAPES:]
    rings = []
    for row in rows.tolist():
        pieces = range(int(questions.begin[row]), int(questions.begin[row + 1]))
        rings.append(np.concatenate([_ring(questions, piece, space) for piece in pieces]))
        if len(pieces) > 1:
            (west, south), (east, north) = rings[-1].min(axis=0), rings[-1].max(axis=0)
            rings[-1] = np.array([(west, south), (east, south), (east, north), (west, north)])
    # what crosses the antimeridian would be drawn right across the map
    half = 180.0 if space.geographic else np.inf
    return [ring for ring in rings if np.isfinite(ring).all() and float(np.ptp(ring[:, 0])) <= half]


def _ring(questions: Questions, piece: int, space: Space) -> NDArray[np.float64]:
    low, high, reach = questions.low[piece], questions.high[piece], float(questions.reach[piece])
    turn = np.linspace(0.0, 2 * np.pi, _CORNERS, endpoint=False)
    if space.metric != "sphere":
        if reach <= 0:
            return np.array([(low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1])])
        round_ = (low + high) / 2 + reach * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        return np.asarray(round_ + (high - low) / 2 * np.sign(np.stack([np.cos(turn), np.sin(turn)], axis=1)))
    # a circle around the middle, on the plane that touches the sphere there
    middle = (low + high) / 2
    middle = middle / max(float(np.linalg.norm(middle)), 1e-12)
    radius = max(reach, float(np.linalg.norm(high - low)) / 2)
    aside = np.cross(middle, (0.0, 0.0, 1.0) if abs(middle[2]) < 0.9 else (1.0, 0.0, 0.0))
    aside /= np.linalg.norm(aside)
    above = np.cross(aside, middle)
    points = middle + radius * (np.cos(turn)[:, None] * aside + np.sin(turn)[:, None] * above)
    points /= np.linalg.norm(points, axis=1)[:, None]
    return np.asarray(space.positions(points))
