"""Twelve situations in which a report could lie: page, JSON and CSV hold what this file computes from plan.json."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import ceps
from ceps import Patterns, ServerType
from tests.ceps.instances import servers, waves
from tests.ceps.oracles import cheapest_grid

TYPES = servers(4e10)
HOURS = 730


def flat(partitions=30, load=200.0):
    """Every hour alike."""
    made = waves(partitions, 1.0)
    return replace(made, loads=np.full_like(made.loads, load))


def week(busy=1.0, slots=24):
    """Seven days of waves, the Monday `busy` times as busy."""
    day = waves(40, 6_000.0, slots=slots)
    loads = np.tile(day.loads, 7)
    loads[:, :slots] *= busy
    return replace(day, loads=loads, slot_seconds=86_400 // slots)


def giant():
    """One partition asked as much as the largest type answers, and small ones."""
    loads = np.concatenate([np.full((1, 24), 7_000.0), waves(20, 900.0).loads])
    return Patterns(loads=loads, sizes=np.full(21, 1e9), positions=waves(21, 1.0).positions)


def together():
    """All are busy in the same hour."""
    loads = np.full((30, 24), 20.0)
    loads[:, 12] = 300.0
    return Patterns(loads=loads, sizes=np.full(30, 1e9), positions=waves(30, 1.0).positions)


SITUATIONS = {
    "one server is enough": (waves(30, 700.0), TYPES, {}),
    "flat load": (flat(), TYPES, {}),
    "one weekday's peak": (week(1.6), TYPES, {}),
    "u below 1": (waves(60, 9_000.0, slots=96), TYPES, {"utilisation": 0.6}),
    "no positions": (replace(waves(60, 9_000.0), positions=None), TYPES, {}),
    "a current plan": (waves(60, 9_000.0), TYPES, {"current": True}),
    "price 0": (waves(60, 9_000.0), tuple(replace(kind, dollars_per_hour=0.0) for kind in TYPES), {}),
    "all peaks at once": (together(), TYPES, {}),
    "one giant": (giant(), TYPES, {}),
    "storage-bound": (replace(waves(60, 900.0), sizes=np.full(60, 9e9)), TYPES, {}),
    "week of 2,016 slots": (week(1.1, slots=288), TYPES, {}),
    "two zones": (waves(60, 5_000.0), TYPES, {"copies": 2, "zones": 2}),
}


def recomputed(content, patterns):
    """Dollars a month, servers, and share above full capacity of plan.json's own placement."""
    kinds = {kind["name"]: kind for kind in content["server_types"]}
    row = {number: place for place, number in enumerate(patterns.partitions.tolist())}
    slots, copies = patterns.slots, content["copies"]
    hours = slots * patterns.slot_seconds // 3600
    dollars = above = asked = 0.0
    for server in content["servers"]:
        load = sum((patterns.loads[row[p]] * (1 / copies) for p in server["partitions"]), np.zeros(slots))
        names = server.get("types_by_hour", [server["type"]] * hours)
        for t in range(slots):
            most = kinds[names[t * patterns.slot_seconds // 3600 % len(names)]]["requests_per_second"]
            above += max(0.0, load[t] - most)
            asked += load[t]
        price = sum(kinds[name]["dollars_per_hour"] for name in names) / len(names)
        size = sum(patterns.sizes[row[p]] for p in server["partitions"])
        lead = (120 + size / 2e8) / 3600
        for before, now in zip([names[-1], *names], names, strict=False):
            if now != before:
                price += lead * kinds[now]["dollars_per_hour"] / len(names)
        dollars += price * HOURS
    return dollars, len(content["servers"]), above / asked if asked else 0.0


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_report_tells_what_the_plan_holds(name, tmp_path):
    """Savings, overload and servers on the page, in JSON and in CSV equal what plan.json comes to."""
    patterns, types, asked = SITUATIONS[name]
    asked = dict(asked)
    wanted = asked.pop("current", False)
    plan = ceps.rent(patterns, None, types, **asked)
    current = ceps.plan(patterns, None, types, method="gp-r", cells=14) if wanted else None
    plan.save(tmp_path / "plan.json")
    dollars, count, late = recomputed(json.loads((tmp_path / "plan.json").read_text()), patterns)
    ceps.write_report(tmp_path, [ceps.load_plan(tmp_path / "plan.json")], patterns=patterns, current=current)
    numbers = json.loads((tmp_path / "report.json").read_text())
    with (tmp_path / "report.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["recommended"] == "True")
    page = (tmp_path / "report.html").read_text()
    first = re.sub(r"\s+", " ", re.sub(r"<[^>]+>|&nbsp;|\u00a0", " ", page.split("<main", 1)[-1]))[:1_500]

    assert numbers["recommendedMonthlyRate"] == pytest.approx(dollars, abs=1e-6)
    assert float(row["monthlyRate"]) == pytest.approx(dollars, abs=1e-6)
    assert numbers["recommendedNodeCount"] == int(row["nodeCount"]) == count
    offer = next(one for one in numbers["offers"] if one["recommended"])
    assert offer["overloadShare"] == pytest.approx(late, abs=1e-12)
    assert float(row["overloadShare"]) == pytest.approx(late, abs=1e-12)
    written = f"${dollars:,.2f}" if dollars else "$0"
    assert f"Rent {count} server{'' if count == 1 else 's'}" in first
    assert "1 servers" not in page
    assert f"{written} a month" in first

    before = None
    if current is not None:
        before = sum(kind.dollars_per_hour for kind in current.types) * HOURS
    elif patterns.positions is not None and not asked.get("zones"):
        before = cheapest_grid(patterns, types, asked.get("utilisation", 0.9)) * HOURS
    if before is None:
        return
    assert numbers["currentMonthlyRate"] == pytest.approx(before, abs=1e-6)
    assert numbers["monthlySavings"] == pytest.approx(before - dollars, abs=1e-6)
    assert float(row["monthlySavings"]) == pytest.approx(before - dollars, abs=1e-6)
    assert numbers["savingsAgainst"] == ("now" if current is not None else "a plain grid")
    assert ("not your bill" in page) == (current is None)
    if before and abs(before - dollars) / before > 0.01:
        said = re.search(r"a month, ([0-9]+) % (?:under|above|less|more)", first)
        assert abs(int(said.group(1)) - 100 * abs(before - dollars) / before) <= 0.5 + 1e-9


def test_one_server_saves_nothing():
    """A load that one server answers is answered by one cell of a grid as well: no false dollar."""
    patterns = waves(30, 700.0)
    numbers = ceps.build_report([ceps.plan(patterns, None, TYPES)], patterns=patterns).numbers
    assert numbers["recommendedNodeCount"] == numbers["currentNodeCount"] == 1
    assert numbers["monthlySavings"] == 0.0


def test_no_ratio_is_below_its_bound():
    """Of all methods, each is over the bound that holds for it, or has no ratio."""
    patterns = together()
    plan = ceps.plan(patterns, None, TYPES)
    rows = ceps.build_report([plan], patterns=patterns, methods=True).numbers["methods"]
    assert {"hourly", "gp-aas", "gp", "gp-typical"} <= {row["method"] for row in rows}
    for row in rows:
        assert row["costOverLowerBound"] is None or row["costOverLowerBound"] >= 1.0
        if row["costOverLowerBound"] is not None:
            assert row["monthlyRate"] / row["lowerBoundMonthlyRate"] == pytest.approx(row["costOverLowerBound"])


def test_a_typical_grid_shows_its_own_servers():
    """It has more cells than the best grid; autoscaling's overload is what is above full capacity."""
    patterns = waves(80, 9_300.0, slots=288, noise=0.2)
    compared = {row.method: row for row in ceps.compare(patterns, None, TYPES, methods=["gp", "gp-typical"]).rows}
    assert compared["gp-typical"].servers >= compared["gp"].servers
    assert compared["gp-typical"].servers == round(
        ceps.plan(patterns, None, TYPES, method="gp").extras["typical_servers"]
    )


def test_autoscaling_is_late_above_full_capacity_only():
    """Of a type that answers 1,000, planned to 600: loads of 900 are answered, so nothing is late."""
    kind = ServerType("one", 1_000.0, np.inf, 1.0)
    loads = np.full((1, 24), 900.0)
    loads[0, :12] = 500.0
    patterns = Patterns(loads=loads, sizes=np.ones(1), positions=np.zeros((1, 2)))
    large = replace(kind, name="two", requests_per_second=2_000.0, dollars_per_hour=2.0)
    row = ceps.compare(patterns, None, [kind, large], 0, 0.6, methods=["gp-aas"]).rows[0]
    assert row.overload == 0.0
