"""The report: one page without network, and the same numbers as JSON and CSV."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import ceps
from ceps import Patterns
from tests.ceps.instances import servers, waves

TYPES = tuple(replace(kind, source="a list", date="2026-01-02") for kind in servers(3e10))


@pytest.fixture(scope="module")
def patterns() -> Patterns:
    """80 partitions with places, a day of 5-minute slots."""
    return replace(waves(80, 9_300.0, slots=288, noise=0.2), pivots_hash="abc")


@pytest.fixture(scope="module")
def plan(patterns):
    """Our plan for them."""
    return ceps.plan(patterns, None, TYPES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, plan, patterns):
    """A report with everything in it."""
    corners = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
    regions = {int(p): [corners + place] for p, place in zip(patterns.partitions, patterns.positions, strict=True)}
    target = tmp_path_factory.mktemp("report") / "made" / "here"
    assert ceps.write_report(target, [plan], patterns=patterns, regions=regions) == target / "report.html"
    return target


def test_field_names_are_those_of_cost_tools(folder, plan):
    """Savings, rates and node counts under the names that cost tools use, and consistent with the plan."""
    numbers = json.loads((folder / "report.json").read_text())
    assert numbers["modelled"] is True
    assert numbers["priceDate"] == "2026-01-02"
    assert numbers["recommendedMonthlyRate"] == pytest.approx(plan.cost_per_day * 730 / 24)
    assert numbers["recommendedNodeCount"] == len(plan)
    assert numbers["monthlySavings"] == pytest.approx(numbers["currentMonthlyRate"] - numbers["recommendedMonthlyRate"])
    assert numbers["monthlySavingsPercent"] == pytest.approx(
        100 * numbers["monthlySavings"] / numbers["currentMonthlyRate"]
    )
    assert sum(pool["nodeCount"] for pool in numbers["recommendedNodePools"]) == len(plan)
    assert numbers["currentMethod"] == "gp"
    assert 0 <= numbers["performanceRisk"] <= 4
    assert numbers["lowerBoundDailyRate"] <= numbers["recommendedDailyRate"]
    assert [row["targetUtilization"] for row in numbers["costByTargetUtilization"]][-1] == 1.0


def test_csv_and_json_agree(folder):
    """The table of methods is the same in both, cheapest first, one of them recommended."""
    numbers = json.loads((folder / "report.json").read_text())
    with (folder / "report.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == [row["method"] for row in numbers["methods"]]
    assert [float(row["dailyRate"]) for row in rows] == [row["dailyRate"] for row in numbers["methods"]]
    assert [row["method"] for row in rows if row["recommended"] == "True"] == ["fleet"]
    costs = [row["dailyRate"] for row in numbers["methods"]]
    assert costs == sorted(costs)


def test_page_is_self_contained_and_says_that_it_is_a_model(folder):
    """No link, image, style or script from elsewhere; prices are dated and called modelled; it prints."""
    html = (folder / "report.html").read_text()
    mine = re.sub(r"<script>.*?</script>", "", html.replace("<script type", "<data type"), count=1, flags=re.S)
    assert not re.search(r"<(link|img|iframe)|src=|@import|url\(", mine)
    assert "modelled at list prices of 2026-01-02" in html
    assert "@media print" in html
    assert "lower bound" in html
    for place in ("costs", "before", "after", "map", "curve0", "utilisation", "moved"):
        assert f'id="{place}"' in html


def figures_of(folder):
    html = (folder / "report.html").read_text()
    return json.loads(re.search(r'id="figures">(.*?)</script>', html, flags=re.S).group(1))


def test_charts_show_the_plan(folder, plan, patterns):
    """Heat maps have a row a server, the map an area a partition, stacked bands add up to a server's load."""
    figures = figures_of(folder)
    heat = figures["after"]["data"][0]
    assert np.array(heat["z"]).shape == plan.loads.shape
    np.testing.assert_allclose(np.sort(np.max(heat["z"], axis=1)), np.sort(plan.peaks / plan.capacity), atol=1e-3)
    areas = sum(trace["x"].count(None) for trace in figures["map"]["data"])
    assert areas == len(patterns)
    busiest = int(np.argmax(plan.peaks / plan.capacity))
    bands = np.sum([trace["y"] for trace in figures["curve0"]["data"]], axis=0)
    np.testing.assert_allclose(bands, plan.loads[busiest], atol=0.05)


def test_several_plans_without_patterns(plan, patterns, tmp_path):
    """Plans alone are compared with one another: the cheapest is recommended, the dearest is what it replaces."""
    dear = ceps.plan(patterns, None, TYPES, method="tv", cap="medium")
    report = ceps.build_report([dear, plan])
    assert report.recommended is plan
    assert report.current is dear
    assert report.numbers["monthlySavings"] == pytest.approx(dear.cost_per_month - plan.cost_per_month)
    assert report.numbers["bytesMovedFromCurrent"] == ceps.diff(plan, dear).bytes_moved
    assert report.numbers["costByTargetUtilization"] == []
    ceps.write_report(tmp_path, [dear, plan])
    assert 'id="curve0"' not in (tmp_path / "report.html").read_text()


def test_one_plan_alone_claims_no_savings(plan):
    """Nothing to compare with, nothing claimed."""
    numbers = ceps.build_report([plan]).numbers
    assert numbers["monthlySavings"] is None
    assert numbers["currentMonthlyRate"] is None


def test_a_given_current_plan_is_what_counts(plan, patterns):
    """Savings are against what runs."""
    now = ceps.plan(patterns, None, TYPES, method="gp-r", cells=30)
    numbers = ceps.build_report([plan], patterns=patterns, current=now).numbers
    assert numbers["currentNodeCount"] == len(now)
    assert numbers["currentMethod"] == "gp-r"


def test_dearer_than_now_is_said(plan, patterns):
    """A plan that costs more than what runs shows what it costs more, not a saving."""
    tight = ceps.plan(patterns, None, TYPES, utilisation=1.0)
    roomy = ceps.plan(patterns, None, TYPES, utilisation=0.5)
    report = ceps.build_report([roomy], current=tight)
    assert report.numbers["monthlySavings"] < 0
    from ceps.reporting.page import page

    assert "more a month" in page(report)


def test_autoscaling_is_named_when_it_is_cheaper(tmp_path):
    """The first screen says so, with its price."""
    night = np.zeros((40, 288))
    night[:, :72] = 100.0
    places = np.column_stack([np.arange(40) * 4.0 - 80, np.zeros(40)])
    sleepy = Patterns(loads=night, sizes=np.full(40, 1.0), positions=places)
    report = ceps.build_report([ceps.plan(sleepy, None, TYPES)], patterns=sleepy)
    assert "Autoscaling would be cheaper" in report.numbers["autoscalingNote"]
    ceps.write_report(tmp_path, [ceps.plan(sleepy, None, TYPES)], patterns=sleepy)
    assert "Autoscaling would be cheaper" in (tmp_path / "report.html").read_text()


def test_reports_of_odd_plans(tmp_path):
    """Nothing at all, an idle store, a week, copies and a spare: each makes a page."""
    week = Patterns(loads=np.random.default_rng(0).uniform(0, 90, (12, 168)))
    for number, (given, options) in enumerate(
        [
            (Patterns(loads=np.empty((0, 24))), {}),
            (Patterns(loads=np.zeros((3, 24))), {}),
            (week, {"copies": 2}),
            (waves(20, 2_000.0), {"spare": True}),
        ]
    ):
        plan = ceps.plan(given, None, TYPES, **options)
        page = ceps.write_report(tmp_path / str(number), [plan], patterns=given)
        assert page.stat().st_size > 1e6


def test_what_does_not_belong_together_is_refused(plan, patterns):
    """No plan, other pivots, or other partitions."""
    with pytest.raises(ValueError, match="at least one"):
        ceps.build_report([])
    with pytest.raises(ValueError, match="pivots"):
        ceps.build_report([plan], patterns=replace(patterns, pivots_hash="other"))
    with pytest.raises(ValueError, match="other partitions"):
        ceps.build_report([plan], patterns=replace(patterns, partitions=np.arange(80) + 1))


def test_names_cannot_break_the_page(tmp_path):
    """A server name with markup is text, in tiles as in charts."""
    odd = replace(TYPES[0], name="</script><b>x", requests_per_second=1e5)
    plan = ceps.plan(waves(5, 900.0), None, [odd])
    ceps.write_report(tmp_path, [plan])
    assert "</script><b>x" not in (tmp_path / "report.html").read_text()
