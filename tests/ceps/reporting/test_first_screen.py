"""The first screen in twelve situations: savings, late requests and servers on the page, against sums made here anew.

Nothing of the planner's sums is used: what counts is where the plan puts each partition, which types it rents, and the
patterns. From them come the load of each server, its dollars, and the share above its capacity.
"""

from __future__ import annotations

import csv
import html as markup
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import gamma

import ceps
from ceps import Patterns, ServerType
from tests.ceps.reporting.reading import Reading

MONTH = 730 / 24
KINDS = tuple(ServerType(f"m{n}", 1000.0 * n, 4e10 * n, 0.067 * n, date="2026-01-02") for n in (1, 2, 4, 8))
FREE = tuple(replace(kind, dollars_per_hour=0.0) for kind in KINDS[:1])
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def day(count: int, peak: float, slots: int = 96, *, seed: int = 0, alike: bool = False) -> Patterns:
    """Partitions with places whose busy hours differ, or are the same, scaled to a peak of all together."""
    rng = np.random.default_rng(seed)
    hours = np.arange(slots) * 24 / slots
    noon = np.full(count, 12.0) if alike else rng.uniform(0, 24, count)
    shape = 1.2 + np.cos((hours[None, :] - noon[:, None]) * np.pi / 12)
    loads = rng.uniform(0.5, 2.0, count)[:, None] * shape
    places = np.column_stack([rng.uniform(-120, 120, count), rng.uniform(-50, 60, count)])
    return Patterns(
        loads=loads * (peak / loads.sum(axis=0).max()), sizes=rng.uniform(1e8, 5e8, count), positions=places, days=20.0
    )


def week(count: int, peak: float, slots: int, factors: list[float]) -> Patterns:
    """Seven such days in a row, each times its factor."""
    one = day(count, peak, slots)
    return replace(one, loads=np.concatenate([one.loads * factor for factor in factors], axis=1), slot_seconds=0)


def giant() -> Patterns:
    """One partition as large as all the others together."""
    small = day(30, 3_000.0)
    return replace(small, loads=np.concatenate([small.loads[:-1], np.full((1, 96), 3_100.0)]))


def zoned(patterns: Patterns) -> ceps.Plan:
    """A plan of two copies over two zones."""
    return ceps.rent(patterns, None, KINDS, offer="fixed", copies=2, zones=2)


@dataclass(frozen=True)
class Situation:
    """Patterns, how they are planned, and whether the plan in force is given."""

    patterns: Patterns
    plan: Callable[[Patterns], ceps.Plan] = lambda patterns: ceps.plan(patterns, None, KINDS)
    now: Callable[[Patterns], ceps.Plan] | None = None


def with_now(patterns: Patterns) -> ceps.Plan:
    """A plan in force: placed at random on many servers."""
    return ceps.plan(patterns, None, KINDS, method="gp-r", cells=12)


FLAT = Patterns(loads=np.full((40, 24), 100.0), sizes=np.full(40, 1e9), positions=day(40, 1.0).positions, days=20.0)
SITUATIONS = {
    "one server enough": Situation(day(30, 700.0)),
    "flat load": Situation(FLAT, now=with_now),
    "one weekday's peak": Situation(week(60, 5_000.0, 24, [1.4, 1, 1, 1, 1, 0.7, 0.7])),
    "u below 1": Situation(day(60, 5_000.0), lambda patterns: ceps.plan(patterns, None, KINDS, utilisation=0.6)),
    "no positions": Situation(replace(day(60, 5_000.0), positions=None)),
    "no current plan": Situation(day(60, 9_000.0)),
    "price 0": Situation(day(40, 5_000.0), lambda patterns: ceps.plan(patterns, None, FREE)),
    "all peaks at once": Situation(day(60, 9_000.0, alike=True), now=with_now),
    "one giant": Situation(giant()),
    "storage-bound": Situation(replace(day(60, 900.0), sizes=np.full(60, 3e9)), now=with_now),
    "week of 2,016 slots": Situation(week(40, 6_000.0, 288, [1.0, 1.1, 1.0, 1.2, 1.3, 0.8, 0.6])),
    "two zones": Situation(day(60, 5_000.0), zoned),
}


@dataclass(frozen=True)
class Sums:
    """What a placement costs and leaves late, summed here."""

    servers: int
    dollars_a_month: float
    late: float
    late_by_day: list[float]
    observed_late: float


def sums(plan: ceps.Plan, patterns: Patterns) -> Sums:
    """Loop over servers: the load of its partitions, its type's price, and what comes above its capacity.

    Requests are gamma-distributed with the mean of the pattern, and a variance of counting: the day to come, and the
    days that made the pattern.
    """
    row = {number: place for place, number in enumerate(patterns.partitions.tolist())}
    slots, days = patterns.slots, max(patterns.slots * patterns.slot_seconds // 86_400, 1)
    dollars = 0.0
    above, asked, seen = np.zeros(slots), np.zeros(slots), 0.0
    for k in range(len(plan.server_ids)):
        load = np.zeros(slots)
        for place, number in enumerate(plan.partitions.tolist()):
            load += patterns.loads[row[number]] * (plan.replicas[place] == k).sum() / plan.replicas.shape[1]
        kind = plan.servers[plan.type_of[k]]
        assert load.max() <= plan.utilisation * kind.requests_per_second * (1 + 1e-9)
        dollars += 24 * kind.dollars_per_hour * MONTH
        mean = np.maximum(load * patterns.slot_seconds, 1e-12)
        limit = kind.requests_per_second * patterns.slot_seconds
        scale = 1 + patterns.requests_per_event / patterns.days
        excess = mean * gamma.sf(limit, mean / scale + 1, scale=scale) - limit * gamma.sf(
            limit, mean / scale, scale=scale
        )
        above += np.maximum(excess, 0)
        asked += load * patterns.slot_seconds
        seen += np.maximum(load - kind.requests_per_second, 0).sum() * patterns.slot_seconds
    by_day = above.reshape(days, -1).sum(axis=1) / asked.reshape(days, -1).sum(axis=1)
    return Sums(len(plan.server_ids), dollars, above.sum() / asked.sum(), by_day.tolist(), seen / asked.sum())


def card(html: str, kind: str) -> dict[str, str]:
    """Title, figure and facts of a card of the first screen."""
    text = re.search(rf'<div class="card{kind}">(.*?)</div>', html, re.DOTALL)[1]
    found = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    found["title"] = re.search(r"<h2>(.*?)</h2>", text)[1]
    found["figure"] = re.search(r'<p class="figure[^"]*">(.*?) <small>', text)[1]
    return {name: markup.unescape(value) for name, value in found.items()}


def number(text: str) -> float:
    """The number in a text such as $1,234 or 0.012 %."""
    return float(re.search(r"-?[\d.,]+", text)[0].replace(",", "").rstrip("."))


def same_share(text: str, share: float) -> None:
    """A share in per cent, to the digits that the page shows."""
    shown = number(text) / 100
    if text.startswith("under"):
        assert 0 < share < 1e-8
    elif share < 1e-15:
        assert shown == 0 or shown < 1e-8
    else:
        assert shown == pytest.approx(share, rel=0.06)


@pytest.mark.parametrize("name", SITUATIONS)
def test_page_json_and_csv_say_what_the_sums_say(name, tmp_path):
    """Dollars, savings, late requests and servers of the plan and of what it is compared with."""
    situation = SITUATIONS[name]
    given = situation.patterns
    plan = situation.plan(given)
    now = None if situation.now is None else situation.now(given)
    page = ceps.write_report(tmp_path, [plan], patterns=given, current=now).read_text()
    numbers = json.loads((tmp_path / "report.json").read_text())
    with (tmp_path / "report.csv").open() as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    wanted, seen = sums(plan, given), Reading.of(page)
    against = now
    if now is None and given.positions is not None:
        shared = {"copies": plan.copies, "utilisation": plan.utilisation}
        against = ceps.plan(given, None, plan.servers, method="gp", **shared)
    before = None if against is None else sums(against, given)

    assert numbers["recommendedNodeCount"] == wanted.servers == int(rows[plan.method]["nodeCount"])
    assert numbers["recommendedMonthlyRate"] == pytest.approx(wanted.dollars_a_month)
    assert float(rows[plan.method]["monthlyRate"]) == pytest.approx(wanted.dollars_a_month)
    assert numbers["expectedOverloadShare"] == pytest.approx(wanted.late, rel=1e-6, abs=1e-12)
    assert numbers["worstDayOverloadShare"] == pytest.approx(max(wanted.late_by_day), rel=1e-6, abs=1e-12)
    assert float(rows[plan.method]["overloadShare"]) == pytest.approx(wanted.observed_late, abs=1e-15)

    shown = card(page, " chosen")
    assert int(shown["servers"].replace(",", "")) == wanted.servers
    assert number(shown["figure"]) == pytest.approx(wanted.dollars_a_month, abs=0.00501)
    rent = f"Rent {wanted.servers} server{'' if wanted.servers == 1 else 's'}"
    told = re.match(rf"{rent} \(([\d\w, ]+)\): \$([\d,.]+) a month", seen.text["saving"])
    assert f"${told[2]}" == shown["figure"]
    kinds = [plan.servers[kind].name for kind in plan.type_of]
    assert sorted(told[1].split(", ")) == sorted(f"{kinds.count(kind)} {kind}" for kind in set(kinds))
    weekday = WEEKDAYS[int(np.argmax(wanted.late_by_day))] if len(wanted.late_by_day) == 7 else None
    assert numbers["worstWeekday"] == weekday
    late = shown["requests late" if weekday is None else f"late on {weekday}s"]
    same_share(late, max(wanted.late_by_day))
    assert late in seen.text["risk"]
    assert "requests expected late" in seen.text["risk"]
    assert weekday is None or f"late on {weekday}s, the worst weekday" in seen.text["risk"]

    if before is None:
        assert numbers["monthlySavings"] is None
        assert rows[plan.method]["monthlySavings"] == ""
        assert "%" not in seen.text["saving"]
        return
    saved = before.dollars_a_month - wanted.dollars_a_month
    assert numbers["monthlySavings"] == pytest.approx(saved, abs=1e-9)
    assert float(rows[plan.method]["monthlySavings"]) == pytest.approx(saved, abs=1e-9)
    assert numbers["currentNodeCount"] == before.servers
    beside = card(page, "" if now is not None else " dim")
    assert beside["title"] == ("Now" if now is not None else "Plain grid")
    assert int(beside["servers"].replace(",", "")) == before.servers
    assert number(beside["figure"]) == pytest.approx(before.dollars_a_month, abs=0.00501)
    share = 100 * saved / before.dollars_a_month if before.dollars_a_month else 0.0
    if abs(share) < 0.5:
        assert "about as much as" in seen.text["saving"]
    else:
        told = re.search(r", (\d+) % (less|more|under|above) (than now|a plain grid)", seen.text["saving"])
        assert float(told[1]) == pytest.approx(abs(share), abs=0.51)
        assert told[2] == (("less", "more") if now is not None else ("under", "above"))[saved < 0]
    if abs(saved) > 0.005:
        size = f"${abs(saved):,.2f}"
        assert (f"The plan saves {size} a month" if saved > 0 else f"The plan costs {size} more a month") in page
    assert ("keeps nothing free for the loss of a zone" in page) == (name == "two zones")


def test_situations_differ():
    """They are what their names say: one server, no saving on one, a worst Monday, storage that decides, and so on."""
    plans = {name: one.plan(one.patterns) for name, one in SITUATIONS.items()}
    assert len(plans) == 12
    assert len(plans["one server enough"]) == 1
    assert plans["one weekday's peak"].risk.worst_name == "Monday"
    assert plans["price 0"].cost_per_day == 0
    assert plans["storage-bound"].peaks.sum() < 0.5 * plans["storage-bound"].capacity.sum()
    assert plans["week of 2,016 slots"].loads.shape[1] == 2_016
    assert plans["two zones"].zones is not None
    assert plans["one giant"].peaks.max() > 3_000
