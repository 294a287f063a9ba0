"""A plan and a server's log in, a bill out: what a time that has passed came to, beside the plan. Needs no Spark.

Also a script: ``python -m pipelines.bill --plan FILE --accesses LOG --from TIME --to TIME``, or by spark-submit, with
the options of ``dtoss bill``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceps.model.number_text import how_many, per_cent
from ceps.model.patterns import WEEK
from ceps.model.servers import RequestCosts
from ceps.plan.plans import Plan
from ceps.reporting.realised import Bill, bill_numbers, change_dollars, rentals, slot_of, to_cents, with_hindsight
from dtoss.commits.chain import path_in
from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError
from dtoss.snapshots.manifest import space_of_manifest
from pipelines.load_patterns.live_patterns import ACCESSES, ROWS_AT_ONCE
from pipelines.load_patterns.log_files import LogFolder
from pipelines.load_patterns.patterns_of_sums import Reader
from pipelines.plan_files import load_plan, manifest_of
from pipelines.rows.access_rows import MILLIONTHS, local_seconds

MOST_NUMBERS = 200_000_000
"""Partitions times slots that are held at a time."""


@dataclass(frozen=True, eq=False)
class Billed:
    """A bill, and what became of the log."""

    bill: Bill
    read: int  # Rows of the log
    bad: dict[str, int]  # How many were set aside, by reason
    outside: int  # Good rows of other times
    # first, last: seconds since 1970 of the first and the last request within the time; None where there is none
    first: int | None
    last: int | None


def bill(
    plan: str,
    accesses: str | None,
    begin: str,
    end: str,
    *,
    store: str | None = None,
    costs: RequestCosts | None = None,
    max_bad: float = 0.10,
    hindsight: bool = True,
    now: datetime | None = None,
) -> Billed:
    """Return what a plan came to in a time that has passed, by what its servers logged.

    Parameters
    ----------
    plan
        The file of the plan, taken to have been in force all the time.
    accesses
        Path or URI of the servers' log; that of the store when None.
    begin, end
        The time: days or moments (ISO 8601), of the plan's zone unless they name one; the end is not included. Both
        are at the beginning of a slot of the plan.
    store
        Its current snapshot must have the plan's pivots; the one that holds the log when None.
    costs
        As the plan's patterns were made with: how many base requests each request counts as.
    max_bad
        Share of bad rows above which this fails.
    hindsight
        Whether a plan of what was asked is made as well.
    now
        The clock's time when None.

    Raises
    ------
    InputError
        A file is missing or damaged, the store has other pivots, no store or no log is named, the time is none or has
        not passed, or too many rows are bad.
    """
    made = load_plan(plan)
    log, home = _places(accesses, store)
    first, last = (_moment(option, text, made) for option, text in (("--from", begin), ("--to", end)))
    passed = int((now or datetime.now(UTC)).timestamp())
    if not first < last <= passed:
        why = (
            "is not before --to"
            if first >= last
            else f"and --to {end!r} are not over: a time that has passed is wanted"
        )
        raise InputError(f"--from {begin!r} {why}" + (f" {end!r}" if first >= last else ""))
    manifest = manifest_of(home, made.pivots_hash, "plan")
    entries = manifest["partitions"]
    starts = np.arange(first, last, made.slot_seconds)
    if len(starts) * len(entries) > MOST_NUMBERS or len(starts) > WEEK:
        raise InputError(
            f"{how_many(len(starts), 'slot')} of {how_many(len(entries), 'partition')} are more than are held at a "
            "time: ask for a shorter time"
        )
    whole = np.zeros((len(entries), len(starts)), np.int64)
    reader = Reader.of(home, manifest, True, costs)
    read = outside = requests = 0
    bad: Counter[str] = Counter()
    seen: list[int] = []
    for group in LogFolder(log, needed=True).groups(Ledger({}), space_of_manifest(manifest)):
        inside = group.rows.filter(_within(group.rows, first, last))
        read += len(group.rows) + sum(group.bad.values())
        outside += len(group.rows) - len(inside)
        bad.update(group.bad)
        for at in range(0, len(inside), ROWS_AT_ONCE):
            requests += _add(whole, inside.slice(at, ROWS_AT_ONCE), reader, first, made.slot_seconds)
        if len(inside):
            ends = pc.min_max(inside.column("t").cast(pa.int64())).as_py()
            seen += [ends["min"] // 1_000_000, ends["max"] // 1_000_000]
    if sum(bad.values()) > max_bad * read:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in bad.items())
        raise InputError(
            f"{sum(bad.values()):,} of {read:,} accesses are bad ({reasons}), more than --max-bad "
            f"{100 * max_bad:g}% allows"
        )
    place = {entry["number"]: row for row, entry in enumerate(entries)}
    asked = whole[[place[number] for number in made.partitions.tolist()]] / MILLIONTHS
    local = local_seconds(starts, made.time_zone)
    seconds = np.minimum(made.slot_seconds, last - starts).astype(np.float64)
    found = Bill(made, slot_of(local, made), seconds, asked, requests / MILLIONTHS, first)
    if hindsight:
        found = with_hindsight(found)
    return Billed(found, read, dict(bad), outside, min(seen, default=None), max(seen, default=None))


def _places(accesses: str | None, store: str | None) -> tuple[str, str]:
    """Return where the log and the store are: each is where the other one says, if only one is named."""
    if accesses is None and store is None:
        raise InputError("no log is named: --accesses LOG, or --store STORE for that of its servers")
    if accesses is None:
        assert store is not None
        return path_in(store, ACCESSES), store
    if store is None:
        path, mark, rest = accesses.partition("?")
        above, _, name = path.rstrip("/").rpartition("/")
        if name != ACCESSES or not above:
            raise InputError(f"{accesses} is in no store: name the one that has the plan's pivots (--store STORE)")
        store = f"{above}{mark}{rest}"
    return accesses, store


def _moment(option: str, text: str, made: Plan) -> int:
    """Return seconds since 1970 of a time of a plan's zone, at the beginning of one of its slots."""
    zone = ZoneInfo(made.time_zone)
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"{option} {text!r} is no time: write a day such as 2026-03-01, or 2026-03-01T12:00, of {made.time_zone}"
        ) from None
    when = when if when.tzinfo is not None else when.replace(tzinfo=zone)
    there = when.astimezone(zone)
    second = there.hour * 3600 + there.minute * 60 + there.second
    if second % made.slot_seconds or there.microsecond:
        raise InputError(
            f"{option} {text!r} is within a slot; the plan's are of {made.slot_seconds / 60:g} min from midnight on "
            f"in {made.time_zone}: write the beginning of one"
        )
    return int(when.timestamp())


def _within(rows: pa.Table, first: int, last: int) -> Any:
    """Return which rows are of a time."""
    t = rows.column("t").cast(pa.int64())
    return pc.and_(pc.greater_equal(t, first * 1_000_000), pc.less(t, last * 1_000_000))


def _add(whole: Any, rows: pa.Table, reader: Reader, first: int, slot_seconds: int) -> int:
    """Add the millionths of rows to what was asked of partitions by slot, and return those of requests."""
    slot = (rows.column("t").cast(pa.int64()).to_numpy() // 1_000_000 - first) // slot_seconds
    places = np.stack([rows.column("x").to_numpy(), rows.column("y").to_numpy()], axis=1)
    weight = rows.column("weight").to_numpy()
    k = rows.column("k").fill_null(0).to_numpy().astype(np.int64)
    read = reader.read(places, k, rows.column("radius").fill_null(np.inf).to_numpy(), weight)
    np.add.at(whole, (read.partition, slot[read.request]), read.counted[read.request])
    return int(weight.sum())


def summary(billed: Billed) -> list[tuple[str, str]]:
    """Return what a user wants to know of a bill, as rows of two texts."""
    found = billed.bill
    made, zone = found.plan, ZoneInfo(found.plan.time_zone)

    def clock(second: int) -> str:
        return f"{datetime.fromtimestamp(second, zone):%Y-%m-%d %H:%M}"

    dollars = float(found.dollars.sum())
    seen = (
        "none; is it the log of these days?"
        if billed.first is None
        else f"the first at {clock(billed.first)}, the last at {clock(billed.last or 0)}"
    )
    counted = billed.read - sum(billed.bad.values()) - billed.outside
    rows = [
        ("time", f"{clock(found.since)} to {clock(found.until)}, {made.time_zone}: {how_many(found.hours, 'hour')}"),
        ("log", f"{billed.read:,} rows, {counted:,} of this time: {seen}"),
        *(("bad", f"{count:,} {reason}") for reason, count in billed.bad.items()),
        *_paid_rows(found),
        ("requests", f"{found.requests:,.0f}, planned {found.planned_requests:,.0f}"),
        ("late", f"{per_cent(found.late_share)} of them above capacity, planned {per_cent(found.planned_late_share)}"),
        ("a million", f"{_a_million(dollars, found.requests)}, planned "
                      f"{_a_million(dollars, found.planned_requests)}"),
    ]  # fmt: skip
    if found.hindsight is not None or found.no_hindsight:
        rows.append(("hindsight", _hindsight(found)))
    return rows


def _paid_rows(found: Bill) -> list[tuple[str, str]]:
    """Return a row for each type and way to pay, one for changes, and their sum; cents add up."""
    rented, changes = rentals(found), change_dollars(found)
    cents = to_cents(np.array([*(one.dollars for one in rented), changes]))
    rows = [
        ("rented", f"{one.type}, {how_many(one.hours, 'hour')} at ${one.price:g} ({one.way}): ${part:,.2f}")
        for one, part in zip(rented, cents[:-1].tolist(), strict=True)
    ]
    if changes:
        rows.append(("changes", f"servers rented until others have loaded: ${cents[-1]:,.2f}"))
    return [*rows, ("paid", f"${cents.sum():,.2f}")]


def _hindsight(found: Bill) -> str:
    if found.hindsight is None or found.hindsight_dollars is None:
        return f"none: {found.no_hindsight}"
    best = found.hindsight
    counts = np.bincount(best.type_of, minlength=len(best.servers))
    pools = ", ".join(
        f"{count} {kind.name}" for kind, count in zip(best.servers, counts.tolist(), strict=True) if count
    )
    less = found.beside_hindsight - found.hindsight_dollars
    beside = f"${abs(less):,.2f} {'less' if less >= 0 else 'more'} than the plan at the same prices"
    beside = beside if abs(less) >= 0.005 else "as much as the plan"
    return (
        f"${found.hindsight_dollars:,.2f} at {found.hindsight_way} prices, {beside}: {pools or 'nothing'} all the "
        "time, no request above capacity"
    )


def _a_million(dollars: float, requests: float) -> str:
    return f"${dollars / requests * 1e6:,.2f}" if requests else "no requests"


def facts(billed: Billed) -> dict[str, Any]:
    """Return what a program wants to know of a bill: the figures of report.json, how it was read, and each server."""
    found = billed.bill
    made, late, best = found.plan, found.late(found.loads), found.hindsight
    return {
        **bill_numbers(found),
        "timeZone": made.time_zone,
        "read": billed.read,
        "bad": billed.bad,
        "outside": billed.outside,
        "reads": found.reads,
        "hindsightLowerBound": None if best is None else best.lower_bound * found.hours / 24,
        "hindsightServers": None if best is None else [kind.name for kind in best.types],
        "noHindsightBecause": found.no_hindsight or None,
        "servers": [
            {
                "server": number, "type": made.types[k].name, "rate": float(found.dollars[k]),
                "busyAtMost": float(found.busy[k].max(initial=0.0)),
                "plannedBusyAtMost": float(found.planned_busy[k].max(initial=0.0)),
                "busyMean": found.mean(found.busy[k]),
                "plannedBusyMean": found.mean(found.planned_busy[k]),
                "overload": float(late[k]),
            }
            for k, number in enumerate(made.server_ids.tolist())
        ],
    }  # fmt: skip


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("bill")
