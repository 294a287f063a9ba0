"""Settling: small periods become larger ones, and full ones get the orders that questions want.

Tiers of eight: which periods become one, so that few and large ones hold nearly everything.

An append makes a period of tier 0. Eight of a tier become one of the next. So after n appends there are at most 7 small
periods a tier, and a row was written once a tier: log8 n times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.commits.folder import LocalFolder
from dtoss.errors import InputError
from dtoss.history.data_file import NewFile
from dtoss.history.history_commit import Change, NewPeriod, Stale, commit, undone
from dtoss.history.layouts.write_layout import MAKERS, Sizes, source_of
from dtoss.history.row_blocks import BY_TIME, ORDER_NAMES
from dtoss.history.versions import Home, Periods, Version

LOCAL_LEAF, REMOTE_LEAF = 500_000, 10_000_000
"""Bytes of a leaf on a local disk, and on an object store: what ten requests cost."""
PERIOD_LEAVES = 8
"""Leaves that a period is to have by place: with bytes by time for so many it is full, and gets derived orders."""
SETTLE_TRIES = 8
"""How often a change is made where others rewrite the same meanwhile."""


@dataclass(frozen=True)
class Settled:
    """What settling did."""

    version: Version
    merged: tuple[tuple[tuple[int, ...], int], ...]  # Periods that went, and those that they became
    orders: tuple[tuple[str, int], ...]  # Derived orders that were made, as (order, period)
    rows: int  # Rows that were written, in all orders


def settle(
    home: Home,
    *,
    orders: Sequence[str] | None = None,
    leaf_bytes: float | None = None,
    period_bytes: float | None = None,
    most: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Settled:
    """Merge the periods of full tiers, and make the orders of full periods, until nothing is left to do.

    ``orders``: names of the orders that full periods have; kept for the history. "time" and "place" where nobody said;
    ``leaf_bytes``: of a leaf by place; kept for the history. By file system where nobody said; ``period_bytes``: bytes
    by time from which on a period is full; kept for the history. Eight leaves where nobody said; ``most``: changes
    after which it ends, so that one may settle between other work; None for all.

    Each change is a version of its own, with the rows and sums of what it rewrites compared. Memory is bounded by some
    million rows, whatever the period. Cost O(n log n) a tier.
    """
    options = _options(orders, leaf_bytes, period_bytes)
    merged: list[tuple[tuple[int, ...], int]] = []
    made: list[tuple[str, int]] = []
    rows = stale = 0
    version = home.version()
    while most is None or len(merged) + len(made) < most:
        step = _next(version, options)
        if step is None:
            break
        try:
            with undone(home, version):
                change = _change(home, version, step, options)
                version = commit(home, change, version)
        except Stale:
            stale += 1
            if stale >= SETTLE_TRIES:
                raise
            version = home.version()
            continue
        rows += sum(file.rows for file, _ in change.files)
        if step.periods is not None:
            number = int(version.periods.number.max())
            merged.append((tuple(step.periods.tolist()), number))
            made += [(ORDER_NAMES[code], number) for code in _orders_of_files(change) if code != BY_TIME]
        else:
            made.append((ORDER_NAMES[step.order], step.period))
        if say is not None:
            say(_told(change))
    if any(version.options.get(name) != value for name, value in options.items()):
        version = commit(home, Change("options", options=options), version)
    return Settled(version, tuple(merged), tuple(made), rows)


def make_order(home: Home, period: int, order: str, *, leaf_bytes: float | None = None) -> Version:
    """Make a derived order of a period, in place of one that it has, and return the version."""
    if order not in ORDER_NAMES[1:]:
        raise InputError(f"order is {order!r}: one of {', '.join(ORDER_NAMES[1:])} is wanted")
    version = home.version()
    step = _Step(None, period, ORDER_NAMES.index(order))
    with undone(home, version):
        return commit(home, _change(home, version, step, _options(None, leaf_bytes, None)), version)


def keys_of(version: Version, leaves: NDArray[np.int64]) -> tuple[tuple[str, int], ...]:
    """Return leaves as :class:`dtoss.history.history_commit.Change` names those that go."""
    return tuple(
        (version.files.name[version.leaves.file[leaf]], int(version.blocks(int(leaf)).row_group[0]))
        for leaf in leaves.tolist()
    )


def wanted_orders(version: Version, options: dict[str, Any]) -> list[str]:
    """Return the names of the orders that full periods are to have."""
    return list(options.get("orders", version.options.get("orders", ["time", "place"])))


def sizes_of(version: Version, options: dict[str, Any]) -> Sizes:
    """Return how large leaves become."""
    given = options.get("leaf_bytes", version.options.get("leaf_bytes"))
    if given is None:
        given = LOCAL_LEAF if isinstance(version.folder, LocalFolder) else REMOTE_LEAF
    return Sizes(float(given))


def _full_bytes(version: Version, options: dict[str, Any]) -> float:
    given = options.get("period_bytes", version.options.get("period_bytes"))
    return PERIOD_LEAVES * sizes_of(version, options).leaf_bytes if given is None else float(given)


@dataclass(frozen=True)
class _Step:
    periods: NDArray[np.int32] | None
    period: int = -1
    order: int = BY_TIME


def _next(version: Version, options: dict[str, Any]) -> _Step | None:
    runs = due(version.periods)
    if runs:
        return _Step(runs[0])
    full = _full_bytes(version, options)
    periods = version.periods
    for name in wanted_orders(version, options):
        code = ORDER_NAMES.index(name)
        lacks = (periods.bytes >= full) & ((periods.orders >> np.uint8(code)) & np.uint8(1) == 0)
        if lacks.any():
            return _Step(None, int(periods.number[lacks][0]), code)
    return None


def _change(home: Home, version: Version, step: _Step, options: dict[str, Any]) -> Change:
    sizes = sizes_of(version, options)
    if step.periods is None:
        files = MAKERS[step.order](source_of(home, version, np.array([step.period], np.int32)), sizes)
        old = np.flatnonzero((version.leaves.order == step.order) & (version.leaves.period == step.period))
        detail = {"period": step.period, "order": ORDER_NAMES[step.order]}
        placed = tuple((file, step.period) for file in files)
        return Change("settle", placed, gone=keys_of(version, old), detail=detail, options=options)
    source = source_of(home, version, step.periods)
    files = MAKERS[BY_TIME](source, sizes)
    full = _full_bytes(version, options)
    made: list[NewFile] = list(files)
    if sum(file.bytes for file in files) >= full:
        for name in wanted_orders(version, options):
            if name != ORDER_NAMES[BY_TIME]:
                made += MAKERS[ORDER_NAMES.index(name)](source, sizes)
    numbers = version.periods.tier[np.isin(version.periods.number, step.periods)]
    detail = {"periods": step.periods.tolist(), "rows": source.rows}
    return Change(
        "settle",
        tuple((file, -1) for file in made),
        gone_periods=tuple(step.periods.tolist()),
        periods=(NewPeriod(int(numbers.max()) + 1),),
        detail=detail,
        options=options,
    )


def _orders_of_files(change: Change) -> list[int]:
    return sorted({file.order for file, _ in change.files})


def _told(change: Change) -> str:
    rows = sum(file.rows for file, _ in change.files)
    orders = ", ".join(ORDER_NAMES[code] for code in _orders_of_files(change))
    if change.gone_periods:
        return f"{len(change.gone_periods)} periods became one: {rows:,} rows written by {orders}"
    return f"period {change.detail['period']} got the order by {orders}: {rows:,} rows written"


def _options(orders: Sequence[str] | None, leaf_bytes: float | None, period_bytes: float | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if orders is not None:
        for name in orders:
            if name not in ORDER_NAMES:
                raise InputError(f"orders name {name!r}: {', '.join(ORDER_NAMES)} are known")
        options["orders"] = [name for name in ORDER_NAMES if name in orders or name == ORDER_NAMES[BY_TIME]]
    for key, value in (("leaf_bytes", leaf_bytes), ("period_bytes", period_bytes)):
        if value is not None:
            if not value > 0:
                raise InputError(f"{key} is {value!r}: a positive number of bytes is wanted")
            options[key] = value
    return options


TIER = 8
"""Periods of a tier that become one of the next."""


def due(periods: Periods) -> list[NDArray[np.int32]]:
    """Return the numbers of periods that are to become one each, the oldest of the lowest tier that is full first.

    Examples
    --------
    >>> def of(*tiers):
    ...     zeros = np.zeros(len(tiers), np.int64)
    ...     return Periods(np.arange(len(tiers), dtype=np.int32), np.array(tiers, np.int16), zeros, zeros, zeros, zeros)
    >>> [run.tolist() for run in due(of(*[0] * 8, 1))], due(of(*[0] * 7))
    ([[0, 1, 2, 3, 4, 5, 6, 7]], [])
    """
    found = []
    for tier in np.unique(periods.tier):
        numbers = np.sort(periods.number[periods.tier == tier])
        found += [numbers[first : first + TIER] for first in range(0, len(numbers) // TIER * TIER, TIER)]
    return found
