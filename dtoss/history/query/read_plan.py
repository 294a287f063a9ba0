"""Which blocks are read for questions: of each period from the order in which that costs least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import join_rows, take_rows
from dtoss.commits.folder import LocalFolder
from dtoss.history.data_file import READ_OVER
from dtoss.history.query.block_queries import BlockQueries, near_blocks
from dtoss.history.row_blocks import BY_TIME, ORDER_NAMES, Blocks
from dtoss.history.versions import Version

LOCAL_REQUEST, REMOTE_REQUEST = 50_000, 1_000_000
"""Bytes that could be read in the time of a request: on a local disk (1 ms at 50 MB/s), on an object store (20 ms)."""


@dataclass(frozen=True)
class ChosenBlocks:
    """Blocks of a version, by file and offset; arrays (n,)."""

    file: NDArray[np.int32]  # int32
    leaf: NDArray[np.int32]  # int32
    segment: NDArray[np.int32]  # int32
    block: NDArray[np.int64]  # int64. Their numbers in their segments

    def __len__(self) -> int:
        return len(self.block)

    take = take_rows


@dataclass(frozen=True)
class Plan:
    """What is read for questions."""

    chosen: ChosenBlocks
    # For ``explain``: of each order how many leaves, blocks, ranges and bytes it would be, and how many periods are
    # read in it
    facts: Mapping[str, Any] = field(default_factory=dict)


def request_bytes(version: Version) -> int:
    """Return what a request costs, in bytes that could be read instead: as measured or given, else by file system."""
    given = version.options.get("request_bytes")
    if given is not None:
        return int(given)
    return LOCAL_REQUEST if isinstance(version.folder, LocalFolder) else REMOTE_REQUEST


def read_over(version: Version) -> int:
    """Return up to how many bytes between two ranges are read as well: at most what another request costs."""
    return min(READ_OVER, request_bytes(version))


def plan(version: Version, asked: BlockQueries, orders: tuple[int, ...] | None = None) -> Plan:
    """Return which blocks are read.

    ``orders``: the orders that may be used; all when None. Where a period has none of them its time order is read.

    Cost O(leaves + blocks of leaves that are met). Whatever is chosen, answers are the same.
    """
    g = request_bytes(version)
    numbers = version.periods.number
    best = np.full(len(numbers), np.inf)
    winner = np.full(len(numbers), BY_TIME, np.int8)
    found: dict[int, tuple[ChosenBlocks, NDArray[np.int64]]] = {}
    facts: dict[str, Any] = {"request_bytes": g, "orders": {}}
    for code, name in enumerate(ORDER_NAMES):
        if orders is not None and code not in orders and code != BY_TIME:
            continue
        has = (version.periods.orders >> np.uint8(code)) & np.uint8(1) == 1
        if orders is not None and code == BY_TIME and BY_TIME not in orders:
            usable = np.zeros(len(numbers), np.uint8)
            for other in orders:
                usable |= (version.periods.orders >> np.uint8(other)) & np.uint8(1)
            has &= usable == 0
        if not has.any():
            continue
        chosen = blocks_met(version, asked, code)
        period = np.searchsorted(numbers, version.leaves.period[chosen.leaf])
        ranges, size = costs(version, chosen, period, len(numbers))
        cost = np.where(has, g * ranges + size, np.inf)
        better = cost < best
        best[better], winner[better] = cost[better], code
        found[code] = (chosen, period)
        facts["orders"][name] = {
            "periods": int(has.sum()), "blocks": len(chosen), "ranges": int(ranges.sum()), "bytes": int(size.sum()),
        }  # fmt: skip
    parts = [chosen.take(winner[period] == code) for code, (chosen, period) in found.items()]
    for code in found:
        facts["orders"][ORDER_NAMES[code]]["used"] = int(((winner == code) & np.isfinite(best)).sum())
    return Plan(joined_chosen(parts), facts)


def blocks_met(version: Version, asked: BlockQueries, order: int) -> ChosenBlocks:
    """Return the blocks of an order that can hold an answer."""
    leaves = version.leaves
    first, last = asked.spans.widest
    met = (leaves.order == order) & (leaves.t_from <= last) & (leaves.t_to >= first)
    met[met] = near_blocks(leaves.low[met], leaves.high[met], asked)
    if asked.words is not None:
        met[met] = _holds_word(leaves.id_from[met], leaves.id_to[met], asked.words)
    rows = np.flatnonzero(met)
    rows = rows[np.lexsort((leaves.offset[rows], leaves.file[rows]))]
    found = every_block(version, rows)
    inside = (leaves.t_from[rows] >= first) & (leaves.t_to[rows] <= last)
    if not inside.all():
        t_from, t_to = gather_column(version, found, "t_from"), gather_column(version, found, "t_to")
        found = found.take((t_from <= last) & (t_to >= first))
    if asked.words is not None:
        id_from, id_to = gather_column(version, found, "id_from"), gather_column(version, found, "id_to")
        found = found.take(_holds_word(id_from, id_to, asked.words))
    if asked.centres is not None and len(found):
        found = found.take(
            np.concatenate([near_blocks(b.low[at], b.high[at], asked) for b, at in _runs(version, found)])
        )
    return found


def every_block(version: Version, rows: NDArray[np.int64]) -> ChosenBlocks:
    """Return all blocks of leaves, by their numbers, which are in the order of their files and offsets."""
    leaves = version.leaves
    count = leaves.count[rows].astype(np.int64)
    total = int(count.sum())
    start = np.cumsum(count) - count
    within = np.arange(total) - np.repeat(start, count)
    return ChosenBlocks(
        np.repeat(leaves.file[rows], count),
        np.repeat(rows.astype(np.int32), count),
        np.repeat(leaves.segment[rows], count),
        np.repeat(leaves.first[rows], count) + within,
    )


def gather_column(version: Version, chosen: ChosenBlocks, name: str) -> NDArray[Any]:
    """Return a column of :class:`dtoss.history.row_blocks.Blocks` for chosen blocks."""
    if not len(chosen):
        return _no_values(version, name)
    parts = [getattr(blocks, name)[at] for blocks, at in _runs(version, chosen)]
    return np.asarray(parts[0]) if len(parts) == 1 else np.concatenate(parts)


def _runs(version: Version, chosen: ChosenBlocks) -> Iterator[tuple[Blocks, slice | NDArray[np.int64]]]:
    """Yield chosen blocks, at least one, as segments and which of theirs: those of a file are in one, side by side."""
    cuts = np.flatnonzero(chosen.segment[1:] != chosen.segment[:-1]) + 1
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(chosen)], strict=True):
        mine = chosen.block[begin:end]
        blocks = version.segment_blocks(int(chosen.segment[begin]))
        if int(mine[-1]) - int(mine[0]) == len(mine) - 1 and bool((mine[1:] > mine[:-1]).all()):
            yield blocks, slice(int(mine[0]), int(mine[-1]) + 1)
        else:
            yield blocks, mine


def blocks_of(version: Version, chosen: ChosenBlocks) -> Blocks:
    """Return chosen blocks with all that is known of them."""
    return Blocks(*(gather_column(version, chosen, name) for name in Blocks.__dataclass_fields__))


def costs(
    version: Version, chosen: ChosenBlocks, group: NDArray[np.int64], groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many ranges and bytes are read of each group of chosen blocks, int64 (groups,) each.

    Gaps of up to :func:`read_over` bytes are read over, and count.
    """
    begin = gather_column(version, chosen, "offset")
    end = begin + gather_column(version, chosen, "bytes")
    if not len(chosen):
        return np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    fresh = np.ones(len(chosen), np.bool_)
    fresh[1:] = (chosen.file[1:] != chosen.file[:-1]) | (group[1:] != group[:-1])
    gap = np.zeros(len(chosen), np.int64)
    gap[1:] = begin[1:] - end[:-1]
    fresh |= gap > read_over(version)
    read = end - begin + np.where(fresh, 0, gap)
    # whole numbers below 2^53 are exact
    ranges, size = (np.bincount(group, weights=values, minlength=groups) for values in (fresh, read))
    return ranges.astype(np.int64), size.astype(np.int64)


def joined_chosen(parts: list[ChosenBlocks]) -> ChosenBlocks:
    """Return several choices as one, by file and offset."""
    none = np.zeros(0, np.int32)
    return join_rows([part for part in parts if len(part)] or [ChosenBlocks(none, none, none, np.zeros(0, np.int64))])


def _holds_word(low: NDArray[np.int64], high: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.searchsorted(words, low, side="left") < np.searchsorted(words, high, side="right")


def _no_values(version: Version, name: str) -> NDArray[Any]:
    kinds = {"row_group": np.int32, "rows": np.int32, "marks": np.int32, "bytes": np.int32, "sum": np.uint64}
    if name in ("low", "high"):
        return np.zeros((0, version.schema.space.dimension))
    if name in ("t_from", "t_to"):
        return np.zeros(0, version.leaves.t_from.dtype)
    return np.zeros(0, kinds.get(name, np.int64))
