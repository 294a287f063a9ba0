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
from ceps.model.number_text import per_cent
from ceps.offers.comparison import Comparison, MethodCost
from ceps.reporting.charts import busy_hours, loads_on
from ceps.reporting.report import over_bound
from ceps.reporting.report_page import page
from ceps.rollout.actions import actions
from tests.ceps.instances import servers, waves
from tests.ceps.reporting.reading import Reading

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
def week(patterns):
    """A pattern for each weekday; on Mondays everything is asked for 1.3 times as often."""
    return [replace(patterns.scaled(1.3 if day == 0 else 0.95), weekday=day) for day in range(7)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, plan, patterns, week):
    """A report with everything in it."""
    corners = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
    regions = {int(p): [corners + place] for p, place in zip(patterns.partitions, patterns.positions, strict=True)}
    target = tmp_path_factory.mktemp("report") / "made" / "here"
    options = {"patterns": patterns, "regions": regions, "weekdays": week, "methods": True}
    assert ceps.write_report(target, [plan], **options) == target / "report.html"
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
    assert numbers["savingsAgainst"] == "a plain grid"
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
    assert {"fleet", "gain", "gp", "gp-r", "gp-aas", "tv", "tabu", "hourly"} <= {row["method"] for row in rows}


def test_the_page_has_the_numbers_of_the_json(folder):
    """Each method's dollars a month, servers and share above capacity stand in the table; so does the first screen."""
    numbers = json.loads((folder / "report.json").read_text())
    seen = Reading.of((folder / "report.html").read_text())
    (table,) = seen.tables
    assert len(table.rows) == len(numbers["methods"])
    for row, method in zip(table.rows, numbers["methods"], strict=True):
        assert row[0] == method["label"]
        assert row[1] == f"{method['monthlyRate']:,.2f}"
        ratio = method["costOverLowerBound"]
        proved = ratio is not None and ratio < 1 + 1e-8
        assert row[2] == ("" if ratio is None else "0 %, proved" if proved else per_cent(ratio - 1))
        assert row[3] == f"{method['nodeCount']:,}"
    percent = numbers["monthlySavingsPercent"]
    dollars = f"${numbers['recommendedMonthlyRate']:,.2f} a month"
    assert seen.text["saving"].endswith(f"{dollars}, {percent:.0f} % under a plain grid;")
    assert f"Rent {numbers['recommendedNodeCount']} servers" in seen.text["saving"]
    assert seen.text["next"] == "Next: " + numbers["actions"][0]


def test_page_is_self_contained_and_says_that_it_is_a_model(folder):
    """No script, link, image or style from elsewhere; prices are dated and called modelled; it prints; it is small."""
    html = (folder / "report.html").read_text()
    assert not re.search(r"<(script|link|img|iframe|object)|src=|@import|url\(|https?:", html)
    assert "default-src 'none'" in html
    assert "Modelled at list prices of 2026-01-02" in html
    assert "@media print" in html
    assert "lower bound" in html
    assert len(html.encode()) < 150_000


def test_every_chart_has_its_sentence_and_every_table_its_heads(folder):
    """Drawings are images with a label, or hidden parts of one; tables have a caption, a head and scopes."""
    seen = Reading.of((folder / "report.html").read_text())
    assert len(seen.labels) >= 8
    assert all(label.endswith(".") and len(label.split()) >= 5 for label in seen.labels)
    for table in seen.tables:
        assert table.caption
        assert table.scopes == ["col"] * len(table.head) + ["row"] * len(table.rows)
    shown = " ".join(seen.labels)
    for word in (
        "fullest server by weekday", "How busy", "All requests", "Share of its capacity", "Map of 80 partitions",
        "Dollars a month of", "against target utilisation", "Data moved over",
    ):  # fmt: skip
        assert word in shown


def test_the_worst_weekday_is_seen(plan, week):
    """Hours of the week are those of each weekday's own loads, in order, whatever the order they are given in."""
    busy, of_week = busy_hours(plan, week[::-1])
    assert of_week
    assert busy.shape == (len(plan), 168)
    for day in range(7):
        loads = np.zeros_like(plan.loads)
        np.add.at(loads, plan.server_of, week[day].loads)
        wanted = (loads / plan.capacity[:, None]).reshape(len(plan), 24, 12).max(axis=2)
        np.testing.assert_allclose(busy[:, 24 * day : 24 * day + 24], wanted)
    report = ceps.build_report([plan], weekdays=week)
    assert any("Monday is the fullest" in label for label in Reading.of(page(report)).labels)
    assert not busy_hours(plan, week[1:])[1]


def test_loads_on_servers_count_copies_and_growth(patterns):
    """A plan's own loads come back from its patterns."""
    made = ceps.plan(patterns, None, TYPES, copies=2, growth=1.4)
    np.testing.assert_allclose(loads_on(made, patterns), made.loads)


def test_capacity_follows_the_types_of_the_hour(patterns):
    """A server that is resized is as full as the type that is rented in that hour."""
    made = ceps.schedule(patterns, None, TYPES)
    rates = np.array([kind.requests_per_second for kind in TYPES])
    wanted = np.repeat(rates[made.types_by_hour], 12, axis=1)
    np.testing.assert_array_equal(made.capacity_by_slot, wanted)
    assert busy_hours(made, ())[0].max() <= 0.9 + 1e-9


def test_only_what_is_quick_is_priced_unless_asked(plan, patterns):
    """Without `methods` there are the plan, the grid and the bounds; with them, all."""
    numbers = ceps.build_report([plan], patterns=patterns).numbers
    assert {row["method"] for row in numbers["methods"]} == {"fleet", "gp"}
    points = numbers["costByTargetUtilization"]
    assert all(point["dailyRate"] is None for point in points)
    bounds = [point["lowerBoundDailyRate"] for point in points]
    assert bounds == sorted(bounds, reverse=True)
    mine = next(point for point in points if point["targetUtilization"] == plan.utilisation)
    assert mine["lowerBoundDailyRate"] == plan.lower_bound


def test_several_plans_without_patterns(plan, patterns, tmp_path):
    """Plans alone are compared with one another: the cheapest is recommended, against the dearest."""
    dear = ceps.plan(patterns, None, TYPES, method="tv", cap="medium")
    report = ceps.build_report([dear, plan])
    assert report.recommended is plan
    assert report.current is dear
    assert report.numbers["monthlySavings"] == pytest.approx(dear.cost_per_month - plan.cost_per_month)
    assert report.numbers["savingsAgainst"] == "the dearest plan given"
    assert report.numbers["bytesMovedFromCurrent"] is None
    assert report.numbers["costByTargetUtilization"] == []
    ceps.write_report(tmp_path, [dear, plan])
    assert "Map of" not in (tmp_path / "report.html").read_text()


def test_one_plan_alone_claims_no_savings(plan):
    """Nothing to compare with, nothing claimed."""
    report = ceps.build_report([plan])
    assert report.numbers["monthlySavings"] is None
    assert report.numbers["currentMonthlyRate"] is None
    seen = Reading.of(page(report))
    assert "%" not in seen.text["saving"]
    assert "Now" not in seen.headings


def test_now_stands_only_where_it_was_given(plan, patterns):
    """What runs is called now, with its moves; a grid is grey and called what it is."""
    now = ceps.plan(patterns, None, TYPES, method="gp-r", cells=30)
    report = ceps.build_report([plan], patterns=patterns, current=now)
    assert report.numbers["currentNodeCount"] == len(now)
    assert report.numbers["currentMethod"] == "gp-r"
    assert report.numbers["savingsAgainst"] == "now"
    assert report.numbers["bytesMovedFromCurrent"] == ceps.diff(plan, now).bytes_moved
    steps = [f"{action}." for action in actions(plan, now)]
    assert report.numbers["actions"] == steps
    html = page(report)
    assert Reading.of(html).text["next"] == f"Next: {steps[0]}"
    assert "Now" in Reading.of(html).headings
    assert "less than now" in html
    assert "not your bill" not in html
    html = page(ceps.build_report([plan], patterns=patterns))
    assert "Now" not in Reading.of(html).headings
    assert "This is against a plain grid, not your bill." in html
    assert re.search(r'<div class="card dim"><h2>Plain grid', html)


def test_what_does_not_move_is_not_drawn_as_a_little(plan):
    """The plan in force itself: nothing to do, nothing to move."""
    report = ceps.build_report([plan], current=plan)
    assert report.numbers["bytesMovedFromCurrent"] == 0
    assert report.numbers["moved"] == []
    html = page(report)
    assert "Moved data" not in Reading.of(html).headings
    assert Reading.of(html).text["next"] == "Next: nothing: the plan in force is this plan."


def test_a_legend_that_names_only_the_fullest_says_so(patterns):
    """Above twelve servers, colours come again."""
    many = ceps.plan(patterns, None, TYPES, method="gp-r", cells=14)
    assert len(many) > 12
    assert "the other servers, by turns in the same colours" in page(ceps.build_report([many]))
    few = ceps.plan(patterns, None, TYPES)
    assert "by turns in the same colours" not in page(ceps.build_report([few]))


def test_dearer_than_now_is_said(plan, patterns):
    """A plan that costs more than what runs shows what it costs more, not a saving."""
    tight = ceps.plan(patterns, None, TYPES, utilisation=1.0)
    roomy = ceps.plan(patterns, None, TYPES, utilisation=0.5)
    report = ceps.build_report([roomy], current=tight)
    assert report.numbers["monthlySavings"] < 0
    html = page(report)
    assert f"The plan costs ${-report.numbers['monthlySavings']:,.2f} more a month." in html
    assert re.search(r"\d+ % more than now", Reading.of(html).text["saving"])


def test_autoscaling_is_named_when_it_is_cheaper(tmp_path):
    """The first screen says so, with its price."""
    night = np.zeros((40, 288))
    night[:, :72] = 100.0
    places = np.column_stack([np.arange(40) * 4.0 - 80, np.zeros(40)])
    sleepy = Patterns(loads=night, sizes=np.full(40, 1.0), positions=places)
    options = {"patterns": sleepy, "methods": True}
    report = ceps.build_report([ceps.plan(sleepy, None, TYPES)], **options)
    assert "Autoscaling would be cheaper" in report.numbers["autoscalingNote"]
    ceps.write_report(tmp_path, [ceps.plan(sleepy, None, TYPES)], **options)
    assert "Autoscaling would be cheaper" in (tmp_path / "report.html").read_text()


def test_no_ratio_to_a_bound_is_below_1(patterns, monkeypatch):
    """Fixed fleets stand over the fixed bound, what changes hourly over the hourly one, billing by slot over none."""
    night = Patterns(
        loads=np.where(np.arange(288) < 72, 90.0, 2.0) * np.ones((40, 1)), positions=patterns.positions[:40]
    )
    made = ceps.plan(night, None, TYPES)
    report = ceps.build_report([made], patterns=night, methods=True)
    rows = {row["method"]: row for row in report.numbers["methods"]}
    assert rows["hourly"]["dailyRate"] < made.lower_bound
    assert rows["hourly"]["costOverLowerBound"] == pytest.approx(
        rows["hourly"]["dailyRate"] / report.comparison.hourly_bound
    )
    assert rows["gp"]["costOverLowerBound"] == pytest.approx(rows["gp"]["dailyRate"] / report.comparison.lower_bound)
    assert rows["gp-aas-slot"]["costOverLowerBound"] is None
    ratios = [row["costOverLowerBound"] for row in rows.values()]
    assert all(ratio is None or ratio >= 1 for ratio in ratios)
    # What leaves requests unanswered may fall below its bound: then there is no ratio to show.
    cheap = Comparison((MethodCost("gp-aas", 0.1, 1),), made.lower_bound, report.comparison.hourly_bound)
    monkeypatch.setattr("ceps.reporting.report.compare", lambda *_, **__: cheap)
    row = ceps.build_report([made], patterns=night, methods=True).numbers["methods"][0]
    assert (row["method"], row["costOverLowerBound"], row["lowerBoundMonthlyRate"]) == ("gp-aas", None, None)


def test_a_ratio_of_free_servers():
    """Nothing over nothing is at the bound; something over nothing is no number."""
    assert over_bound(0.0, 0.0) == 1.0
    assert over_bound(1.0, 0.0) is None
    assert over_bound(1.0, None) is None
    assert over_bound(float("inf"), 1.0) is None
    assert over_bound(1 - 1e-12, 1.0) == 1.0


def test_reports_of_odd_plans(tmp_path):
    """Nothing at all, an idle store, a week, copies and a spare: each makes a page, whose charts have their places."""
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
        html = ceps.write_report(tmp_path / str(number), [plan], patterns=given).read_text()
        assert ("How busy" in html) == (len(plan) > 0)
        assert "nan" not in html.lower().replace("finance", "")
    assert (
        "Rent 1 server (1 medium):"
        in (ceps.write_report(tmp_path, [ceps.plan(np.ones((2, 24)), None, TYPES)])).read_text()
    )


def test_what_does_not_belong_together_is_refused(plan, patterns):
    """No plan, other pivots, or other partitions."""
    with pytest.raises(ValueError, match="at least one"):
        ceps.build_report([])
    with pytest.raises(ValueError, match="pivots"):
        ceps.build_report([plan], patterns=replace(patterns, pivots_hash="other"))
    with pytest.raises(ValueError, match="other partitions"):
        ceps.build_report([plan], patterns=replace(patterns, partitions=np.arange(80) + 1))
    with pytest.raises(ValueError, match="other partitions"):
        ceps.build_report([plan], weekdays=[replace(patterns, partitions=np.arange(80) + 1)])


def test_names_cannot_break_the_page(tmp_path):
    """A server name with markup is text, in cards as in charts and their labels."""
    odd = replace(TYPES[0], name='</svg><b>"x', requests_per_second=1e5)
    given = waves(5, 900.0)
    ceps.write_report(tmp_path, [ceps.plan(given, None, [odd])], patterns=given)
    html = (tmp_path / "report.html").read_text()
    assert "</svg><b>" not in html
    assert "&lt;/svg&gt;&lt;b&gt;&quot;x" in html
    Reading.of(html)


def test_one_thing_is_never_plural(tmp_path):
    """1 server, 1 partition, 1 day."""
    given = Patterns(loads=np.ones((1, 24)), positions=np.zeros((1, 2)))
    html = ceps.write_report(tmp_path, [ceps.plan(given, None, TYPES)], patterns=given).read_text()
    assert not re.search(r"\b1 (servers|partitions|days|steps)\b", html)
    assert "1 server" in html
    assert "1 partition" in html


@pytest.mark.parametrize(
    "count", [1_000, pytest.param(4_000, marks=pytest.mark.deep("1,000 partitions are in make test"))]
)
def test_a_page_of_many_partitions_stays_small(count):
    """With regions of many corners and shores: below 150 kB, however the partitions are spread over the servers."""
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-170, 170, count), rng.uniform(-60, 70, count)])
    turn = np.linspace(0, 2 * np.pi, 25)
    regions = {k: [place + 3 * np.column_stack([np.cos(turn), np.sin(turn)])] for k, place in enumerate(places)}
    shore = np.cumsum(rng.normal(0, 1, (5_000, 2)), axis=0)
    loads = rng.uniform(0, 40.0, (count, 24))
    given = Patterns(loads=loads, positions=places)
    made = ceps.plan(given, None, TYPES, method="gp-r", cells=60)
    options = {"patterns": given, "regions": regions, "shores": [shore], "current": made}
    options["weekdays"] = [replace(given, weekday=day) for day in range(7)]
    html = page(ceps.build_report([made], **options))
    assert len(html.encode()) <= 150_000
    assert count > 1_000 or html == page(ceps.build_report([made], **options))


@pytest.fixture(scope="module")
def rented():
    """The best of all offers for a load that sleeps at night, in a catalogue with reserved prices, and its patterns."""
    kinds = [replace(kind, reserved_dollars_per_hour=0.6 * kind.dollars_per_hour) for kind in TYPES]
    night = waves(80, 9_300.0, slots=96, noise=0.1)
    night = replace(night, loads=night.loads * np.where(np.arange(96) < 40, 0.05, 1.0), sizes=np.full(80, 1e9))
    return ceps.rent(night, None, kinds, offer="auto"), night


def test_offers_stand_beside_one_another(rented, tmp_path):
    """The recommended one first, with its own price, bound, risk and moves; the grid is what they are compared with."""
    plan, night = rented
    html = ceps.write_report(tmp_path, [plan], patterns=night).read_text()
    numbers = json.loads((tmp_path / "report.json").read_text())
    offers = {(offer.name, offer.pay): offer for offer in plan.offers}
    (taken,) = (offer for offer in plan.offers if offer.recommended)
    assert len(offers) == len(plan.offers)
    assert numbers["recommendedOffer"] == numbers["planOffer"] == taken.name
    assert (numbers["offers"][0]["offer"], numbers["payment"]) == (taken.name, taken.pay) == (taken.name, "reserved")
    assert {(row["offer"], row["pay"]) for row in numbers["offers"]} == set(offers)
    for row in numbers["offers"]:
        offer = offers[row["offer"], row["pay"]]
        assert row["monthlyRate"] == pytest.approx(offer.cost_per_day * 730 / 24)
        assert row["monthlyRateLow"] <= row["monthlyRate"] <= row["monthlyRateHigh"]
        assert row["bytesMovedPerDay"] == offer.bytes_moved_per_day
        if row["costOverLowerBound"] is not None:
            assert row["costOverLowerBound"] == pytest.approx(offer.cost_per_day / offer.lower_bound)
            assert row["costOverLowerBound"] >= 1
    grid, listed = offers["grid", "reserved"], offers["grid", "list"]
    assert numbers["currentMonthlyRate"] == pytest.approx(grid.cost_per_day * 730 / 24)
    assert numbers["monthlySavings"] == pytest.approx((grid.cost_per_day - plan.cost_per_day) * 730 / 24)
    assert numbers["discountMonthlySavings"] == pytest.approx((listed.cost_per_day - grid.cost_per_day) * 730 / 24)
    seen = Reading.of(html)
    assert seen.headings.index("Plain grid") > seen.headings.index("Fixed servers")
    assert html.count('class="card chosen"') == 1
    assert len(re.findall(r'class="card( \w+)?"', html)) <= 4
    assert len(seen.tables[0].rows) == len(offers)
    assert [row[0] for row in seen.tables[0].rows][-1] == "Plain grid"


def test_advice_that_the_plan_remembers_is_a_remark(plan):
    """As dtoss plan wrote it; nothing where there is none."""
    told = replace(plan, options={"advice": {"text": "split 11: then $20 a month < $30"}})
    report = ceps.build_report([told])
    assert report.numbers["advice"] == "split 11: then $20 a month < $30"
    assert "<li>split 11: then $20 a month &lt; $30</li>" in page(report)
    assert "<li>" not in page(ceps.build_report([plan])).split("<section>")[0]


def test_autoscaling_that_is_cheaper_is_a_remark(rented):
    """It cannot be planned, so it is not recommended; its price, what it leaves late and what it moves are said."""
    plan, night = rented
    offers = [replace(offer, cost_per_day=0.5) if offer.name == "autoscaling" else offer for offer in plan.offers]
    html = page(ceps.build_report([replace(plan, offers=tuple(offers))], patterns=night))
    assert re.search(r"Autoscaling would be cheaper here: \$15\.\d\d( to \$15\.\d\d)? a month, \d+ % less", html)
    assert "Autoscaling would be cheaper" not in page(ceps.build_report([plan], patterns=night))


def test_a_plan_that_is_not_the_recommended_offer_says_so(rented):
    """The headline is the best offer; the page names what it shows below, and the command that makes the other."""
    plan, night = rented
    other = "fixed" if plan.method != "fleet" else "hourly"
    offers = tuple(replace(one, recommended=(one.name, one.pay) == (other, "list")) for one in plan.offers)
    report = ceps.build_report([replace(plan, offers=offers)], patterns=night)
    html = page(report)
    wanted = next(offer for offer in offers if offer.recommended)
    assert report.numbers["recommendedDailyRate"] == wanted.cost_per_day
    assert report.numbers["planMonthlyRate"] == plan.cost_per_month
    assert f"dtoss plan --offer {other} makes the one that is recommended." in html


def test_noisy_patterns_give_a_range(patterns):
    """Two standard errors of the peak, where they are more than a half per cent; one number where they are less."""
    noisy = replace(patterns, days=4.0, requests_per_event=500.0)
    made = ceps.plan(noisy, None, TYPES)
    (row,) = ceps.build_report([made]).numbers["offers"]
    error = 2 / np.sqrt(noisy.peak * 300 * 4 / 500)
    assert row["monthlyRateLow"] == pytest.approx(made.cost_per_month * (1 - error))
    assert row["monthlyRateHigh"] == pytest.approx(made.cost_per_month * (1 + error))
    low, high = (f"${made.cost_per_month * factor:,.2f}" for factor in (1 - error, 1 + error))
    seen = Reading.of(page(ceps.build_report([made]))).text
    assert seen["saving"].endswith(f"): ${made.cost_per_month:,.2f} a month;")
    assert seen["range"] == f"Had other days been observed, it would be {low} to {high}."
    sure = ceps.plan(replace(patterns, days=4_000.0), None, TYPES)
    (row,) = ceps.build_report([sure]).numbers["offers"]
    assert row["monthlyRateLow"] == row["monthlyRateHigh"] == row["monthlyRate"]
