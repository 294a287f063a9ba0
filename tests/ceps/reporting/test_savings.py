"""What the page says is saved, computed anew from servers.toml and report.json alone, to the cent."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest

import ceps
from ceps.reporting.report_page import page
from tests.ceps.instances import waves
from tests.ceps.reporting.reading import Reading

FIELDS = {
    "list": "dollars_per_hour", "reserved": "reserved_dollars_per_hour",
    "reserved-3y": "reserved_3_years_dollars_per_hour",
}  # fmt: skip


@pytest.fixture
def catalogue(tmp_path):
    """Types whose other prices are not in proportion to the list's, and one that cannot be reserved for 3 years."""
    block = '[[server]]\nname = "s{0}"\nrequests_per_second = {1}\nbytes = inf\ndollars_per_hour = {2}\n'
    text = "".join(
        block.format(n, 1000 * n, round(0.05 * n**0.97, 4)) + f"reserved_dollars_per_hour = {round(0.031 * n, 4)}\n"
        for n in (1, 2, 4)
    )
    text += "reserved_3_years_dollars_per_hour = 0.0799\nreserved_3_years_upfront_share = 0.5\n"
    path = tmp_path / "servers.toml"
    path.write_text('date = "2026-06-17"\n' + text)
    return path


def money(prices, pools, way):
    """Dollars a month of pools of servers, each at the lowest price of a way and those before it."""
    ways = list(FIELDS)[: list(FIELDS).index(way) + 1]
    each = {name: min(block[FIELDS[one]] for one in ways if FIELDS[one] in block) for name, block in prices.items()}
    return sum(pool["nodeCount"] * each[pool["type"]] * 730 for pool in pools)


@pytest.mark.parametrize("now", ["a plain grid", "now by the list", "now reserved"])
@pytest.mark.parametrize("years", [0, 1, 3])
def test_savings_follow_from_the_catalogue(catalogue, tmp_path, years, now):
    """Rates, pools, what placing saves and what paying otherwise saves: in JSON, and in the page's sentences."""
    types, patterns = ceps.load_servers(catalogue), waves(50, 9_300.0)
    terms = ceps.Terms(years=years)
    plan = ceps.rent(patterns, None, types, terms=terms, offer="fixed")
    assert plan.types_by_hour is None
    current = None
    if now != "a plain grid":
        current = ceps.plan(patterns, None, types, method="gp-r", cells=12)
        if now == "now reserved":
            current = ceps.rent(
                patterns, None, types, terms=ceps.Terms(years=1), offer="fixed", method="gp-r", cells=12
            )
    file = ceps.write_report(tmp_path / "made", [plan], patterns=patterns, current=current)

    prices = {block["name"]: block for block in tomllib.loads(catalogue.read_text())["server"]}
    told = json.loads(file.with_suffix(".json").read_text())
    way = told["payment"]
    cost = money(prices, told["recommendedNodePools"], way)
    before = money(prices, told["currentNodePools"], way)
    paid = money(prices, told["currentNodePools"], "reserved" if now == "now reserved" else "list")
    assert way == {0: "list", 1: "reserved", 3: "reserved-3y"}[years]
    for name, wanted in (
        ("recommendedMonthlyRate", cost), ("currentMonthlyRate", before), ("currentPaidMonthlyRate", paid),
        ("monthlySavings", before - cost), ("discountMonthlySavings", paid - before),
        ("totalMonthlySavings", paid - cost),
    ):  # fmt: skip
        assert told[name] == pytest.approx(wanted, abs=1e-6), name
    for name in ("recommended", "current"):
        pools = told[f"{name}NodePools"]
        total = sum(pool["nodeCount"] * pool["hourlyRatePerNode"] for pool in pools) * told["monthHours"]
        assert total == pytest.approx(told[f"{name}MonthlyRate"], abs=1e-6)

    seen = Reading.of(file.read_text()).text
    assert f": ${cost:,.2f} a month, " in seen["saving"]
    assert f"Placing saves ${before - cost:,.2f} a month" in seen["discount"]
    if abs(paid - before) > 0.005:
        word = "saves" if paid > before else "costs"
        assert re.search(rf"; \w[\w ]* {word} \${abs(paid - before):,.2f} a month", seen["discount"])
    else:
        assert ";" not in seen["discount"]
    percent = 100 * (before - cost) / before
    assert f"{percent:.0f} % {'under a plain grid' if current is None else 'less than now'}" in seen["saving"]


def test_each_offer_is_the_sum_of_its_pools(catalogue, tmp_path):
    """Also those that are resized by the hour, and those of a grid."""
    plan = ceps.rent(waves(50, 9_300.0), None, ceps.load_servers(catalogue))
    file = ceps.write_report(tmp_path, [plan], patterns=waves(50, 9_300.0))
    rows = json.loads(file.with_suffix(".json").read_text())["offers"]
    assert {row["offer"] for row in rows} >= {"fixed", "hourly", "mixed", "grid", "autoscaling"}
    for row in rows:
        if row["offer"] != "autoscaling":
            total = sum(pool["nodeCount"] * pool["hourlyRatePerNode"] * 730 for pool in row["nodePools"])
            assert total == pytest.approx(row["monthlyRate"], abs=1e-6)
            assert sum(pool["nodeCount"] for pool in row["nodePools"]) == row["nodeCount"]


def test_what_runs_is_kept_where_it_is_cheaper_and_no_riskier(catalogue):
    """A plan that was made for more room than is needed is not recommended beside a fleet that does."""
    types, patterns = ceps.load_servers(catalogue), waves(50, 9_300.0)
    roomy = ceps.rent(patterns, None, types, offer="fixed", utilisation=0.45)
    tight = ceps.plan(patterns, None, types, utilisation=0.95)
    report = ceps.build_report([roomy], patterns=patterns, current=tight)
    calm = report.numbers["offers"][0]
    assert (calm["offer"], calm["pay"]) == ("now", "reserved-3y")
    assert Reading.of(page(report)).text["saving"].startswith(f"Keep {len(tight)} server")
    assert "What runs now costs less than this plan at no more risk" in page(report)
    wild = replace(patterns, days=2.0, requests_per_event=2e6)
    plans = [ceps.rent(wild, None, types, offer="fixed", utilisation=u) for u in (0.45, 1.0)]
    report = ceps.build_report([plans[0]], patterns=wild, current=replace(plans[1], method="gp-r"))
    assert report.numbers["offers"][0]["offer"] == "fixed"


def test_no_dot_is_below_its_bound(catalogue):
    """The curve of bounds is of plans like this one, paid as it is, and passes below it, whatever it was planned to."""
    types, patterns = ceps.load_servers(catalogue), waves(50, 9_300.0)
    for utilisation in (0.62, 0.93):
        for offer in ("fixed", "hourly", "mixed"):
            plan = ceps.rent(patterns, None, types, offer=offer, utilisation=utilisation)
            points = ceps.build_report([plan], patterns=patterns).numbers["costByTargetUtilization"]
            bounds = [point["lowerBoundDailyRate"] for point in points]
            assert bounds == sorted(bounds, reverse=True)
            assert bool(points) == (offer != "mixed")
            at = np.interp(utilisation, [point["targetUtilization"] for point in points], bounds) if points else 0.0
            assert at <= plan.cost_per_day * (1 + 1e-9)


def test_one_thing_has_one_price(catalogue):
    """Autoscaling, the grid and the plan cost in the table of methods what their offers by the list cost."""
    types, patterns = ceps.load_servers(catalogue), waves(50, 9_300.0)
    plan = ceps.rent(patterns, None, types)
    told = ceps.build_report([plan], patterns=patterns, methods=True).numbers
    listed = {row["offer"]: row["monthlyRate"] for row in told["offers"] if row["pay"] == "list"}
    rows = {row["method"]: row["monthlyRate"] for row in told["methods"]}
    for method, offer in (("gp", "grid"), ("gp-aas", "autoscaling"), ("hourly", "hourly"), ("mixed", "mixed")):
        assert rows[method] == pytest.approx(listed[offer], rel=1e-12)
    labels = [row["label"] for row in told["methods"]]
    assert len(set(labels)) == len(labels)
    assert {label for label in labels if "CEPS" in label} == {"AHR as written (CEPS-)", "AHR + tabu as written (CEPS+)"}
