"""What a history costs those who ask it, and what others' files would have: plain values, as the page and JSON say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.history.adaptive.layout_reads import layout_reads, order_of
from dtoss.history.adaptive.rivals import Sample, StorePrices, rival_layouts
from dtoss.history.maintenance.history_facts_of import orders_of
from dtoss.history.query.read_plan import read_over, request_bytes
from dtoss.history.query.scan_blocks import QUESTIONS
from dtoss.history.questions import Questions
from dtoss.history.row_blocks import ORDER_NAMES
from dtoss.history.versions import Version

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
