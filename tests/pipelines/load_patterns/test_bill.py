"""``dtoss bill``: what a time that has passed came to, recomputed in ten lines; zones, days, doors."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ceps
from dtoss.errors import InputError
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from pipelines.bill import bill
from tests.pipelines.load_patterns.logs import (
    ASKS,
    FIRST,
    flushes,
    other_pivots,
    patterns_bytes,
    requests_of,
    world_in,
    write,
)

BERLIN = ZoneInfo("Europe/Berlin")
SERVERS = "".join(
    f'[[server]]\nname = "s{n}"\nrequests_per_second = {0.02 * n}\nbytes = inf\ndollars_per_hour = {price}\n'
    f"reserved_dollars_per_hour = {0.7 * price:.4f}\n"
    for n, price in ((1, 0.1), (2, 0.19), (16, 1.45))
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A store whose servers have logged requests, half with a k, a third with a radius, over five days."""
    world = world_in(tmp_path_factory.mktemp("bill") / "store", count=3_000)
    write(world.log, flushes(world.rows, np.random.default_rng(2)))
    return world


@pytest.fixture(scope="module")
def planned(world, tmp_path_factory):
    """Plans in slots of an hour: a fixed one, one by the hour, and a mixed one of weekdays in Berlin."""
    folder = tmp_path_factory.mktemp("plans")
    (folder / "servers.toml").write_text(SERVERS)
    found = {}
    for name, zone in (("fixed", "UTC"), ("hourly", "UTC"), ("mixed", "Europe/Berlin")):
        asks = replace(ASKS, slot_seconds=3600, time_zone=zone, by_weekday=name == "mixed")
        patterns_bytes(world, folder / f"{name}.parquet", asks, name)
        given = ceps.read_patterns(folder / f"{name}.parquet")
        found[name] = folder / f"{name}.json"
        servers = ceps.load_servers(folder / "servers.toml")
        ceps.rent(given, None, servers, offer=name, utilisation=0.8).save(found[name])
    return found


def by_hand(path, begin, end):
    """What plan.json says, and dollars of each of its servers by the hour, changes of type aside."""
    said = json.loads(path.read_text())
    zone, kinds = ZoneInfo(said["time_zone"]), {kind["name"]: kind for kind in said["server_types"]}
    dollars = [0.0] * len(said["servers"])
    for second in range(begin, end, 3600):
        there = datetime.fromtimestamp(second, zone)
        for k, server in enumerate(said["servers"]):
            hours = server.get("types_by_hour", [server["type"]] * 24)
            at = there.weekday() * 24 + there.hour if len(hours) == 168 else there.hour
            way = server.get("rented", "list")
            dollars[k] += kinds[hours[at]]["dollars_per_hour" if way == "list" else f"{way}_dollars_per_hour"]
    return said, dollars


@pytest.mark.parametrize("name", ["fixed", "hourly", "mixed"])
def test_the_bill_is_what_ten_lines_make_of_the_plan_and_the_log(world, planned, command, name):
    """To the cent, over the day on which Berlin's clocks go forward, and to the request; changes of type aside."""
    zone = BERLIN if name == "mixed" else UTC
    begin, end = (int(datetime(2026, 3, day, tzinfo=zone).timestamp()) for day in (28, 30))
    hours = (end - begin) // 3600
    assert hours == (47 if name == "mixed" else 48)
    said, dollars = by_hand(planned[name], begin, end)
    options = ["bill", "--plan", planned[name], "--accesses", world.log, "--from", "2026-03-28", "--to", "2026-03-30"]
    told = command.works(*options, "--json").json
    changes = [server["rate"] - dollars[k] for k, server in enumerate(told["servers"])]
    resized = [len(set(server.get("types_by_hour", "1"))) > 1 for server in said["servers"]]
    assert [change > 1e-9 for change in changes] == resized
    assert any(resized) == (name == "hourly")
    assert told["hours"] == hours
    assert sum(one["hours"] for one in told["rented"]) == pytest.approx(hours * len(resized))
    assert sum(one["rate"] for one in told["rented"]) == pytest.approx(sum(dollars))
    assert told["changesRate"] == pytest.approx(told["rate"] - sum(dollars), abs=1e-9)
    assert {one["prices"] for one in told["rented"]} == {server.get("rented", "list") for server in said["servers"]}
    wanted = 2 * said["cost_per_day"] if any(resized) else sum(dollars)
    assert round(told["rate"], 2) == round(wanted, 2)
    t = world.rows["t"].cast(pa.int64()).to_numpy() // 1_000_000
    inside = (t >= begin) & (t < end)
    weight = world.rows["weight"].to_numpy()
    assert told["requests"] == weight[inside].sum()
    assert told["outside"] == int((~inside).sum())
    assert told["ratePerMillion"] == pytest.approx(1e6 * told["rate"] / weight[inside].sum())
    text = command.works(*options, "--no-hindsight").out
    column = [line.split()[-1] for line in text.split("\n\n")[0].splitlines()[1:]]
    cents = [round(100 * float(word.replace(",", ""))) for word in column]
    assert sum(cents[:-1]) == cents[-1] == round(100 * told["rate"])
    parts = [line.rpartition("$")[2] for line in text.splitlines() if re.match("rented|changes|paid", line)]
    parts = [round(100 * float(word.replace(",", ""))) for word in parts]
    assert sum(parts[:-1]) == parts[-1] == cents[-1]
    assert "hindsight" not in text


def test_loads_of_servers_are_those_of_nearest_pivots(world, planned, tmp_path, command):
    """Requests without a k and a radius read the partition of their place; each server's slots, summed by hand."""
    places = np.random.default_rng(7).uniform([-180, -80], [180, 80], (400, 2))
    rows = requests_of(places, 2_000, seed=11)
    nothing = pa.nulls(len(rows), pa.int32()), pa.nulls(len(rows), pa.float64())
    rows = rows.set_column(3, "k", nothing[0]).set_column(4, "radius", nothing[1])
    rows = rows.set_column(5, "weight", pc.multiply(rows["weight"], 4))
    write(tmp_path / "log", flushes(rows, np.random.default_rng(3)))
    told = command.works(
        "bill", "--plan", planned["fixed"], "--accesses", tmp_path / "log", "--store", world.store,
        "--from", "2026-03-27", "--to", "2026-03-29T12:00", "--json",
    ).json  # fmt: skip
    said = json.loads(planned["fixed"].read_text())
    capacity = {kind["name"]: kind["requests_per_second"] for kind in said["server_types"]}
    begin, slots = FIRST + 86_400, 60
    space, pivots = space_of_manifest(world.manifest), regions_of_manifest(world.manifest).pivots
    at = np.stack([rows["lon"].to_numpy(), rows["lat"].to_numpy()], axis=1)
    home = np.argmax(space.vectors(at) @ np.asarray(pivots).T, axis=1)
    t = rows["t"].cast(pa.int64()).to_numpy() // 1_000_000
    holder = {p: one["server"] for one in said["servers"] for p in one["partitions"]}
    sums = {one["server"]: np.zeros(slots) for one in said["servers"]}
    for partition, second, weight in zip(home.tolist(), t.tolist(), rows["weight"].to_pylist(), strict=True):
        if begin <= second < begin + slots * 3600:
            sums[holder[partition]][(second - begin) // 3600] += weight
    late = 0.0
    for one, server in zip(said["servers"], told["servers"], strict=True):
        most = capacity[one["type"]] * 3600
        assert server["busyAtMost"] == pytest.approx(sums[one["server"]].max() / most)
        assert server["busyMean"] == pytest.approx(sums[one["server"]].mean() / most)
        assert server["overload"] == pytest.approx(np.maximum(sums[one["server"]] - most, 0).sum())
        late += server["overload"]
    total = sum(one.sum() for one in sums.values())
    assert told["overloadShare"] == pytest.approx(late / total)
    assert late > 0
    assert told["reads"] == told["requests"] == total
    assert told["hindsightLowerBound"] <= told["hindsightRate"] * (1 + 1e-9)
    assert {one["rented"] for one in said["servers"]} == {"reserved"}
    price = {kind["name"]: kind["reserved_dollars_per_hour"] for kind in said["server_types"]}
    assert told["hindsightRate"] == pytest.approx(slots * sum(price[name] for name in told["hindsightServers"]))


def test_the_report_shows_the_bill_where_a_log_is_given(world, planned, tmp_path, command):
    """The same numbers as the command's, on the page and in report.json; without a log nothing is said of it."""
    options = ["--accesses", world.log, "--from", "2026-03-27", "--to", "2026-03-30"]
    command.works("report", planned["hourly"], "--out", tmp_path, *options)
    told = command.works("bill", "--plan", planned["hourly"], *options, "--json").json
    said = json.loads((tmp_path / "report.json").read_text())["realised"]
    figures = set(said) - {"columns", "servers"}
    assert {"rate", "requests", "overloadShare", "ratePerMillion", "hours", "hindsightRate"} <= figures
    assert {name: said[name] for name in figures} == {name: told[name] for name in figures}
    page = (tmp_path / "report.html").read_text()
    assert "What it came to" in page
    assert f"${told['rate']:,.2f} for {told['requests']:,.0f} requests" in page
    cents = [round(100 * float(row[-1].replace(",", ""))) for row in said["servers"]]
    assert sum(cents[:-1]) == cents[-1] == round(100 * told["rate"])
    assert "go together: one of them is missing" in command.fails(
        "report", planned["hourly"], "--out", tmp_path, "--accesses", world.log
    )
    command.works("report", planned["hourly"], "--out", tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["realised"] is None
    assert "What it came to" not in (tmp_path / "report.html").read_text()


def test_requests_count_as_what_they_cost(world, planned, tmp_path, command):
    """With a catalogue that was calibrated, twice as much of everything is twice as busy; requests stay requests."""
    (tmp_path / "costs.toml").write_text(SERVERS + "cost_by_k = [[1, 2.0]]\ncost_by_radius = [[1, 2.0]]\n")
    options = ["--plan", planned["fixed"], "--accesses", world.log, "--from", "2026-03-27", "--to", "2026-03-30"]
    once = command.works("bill", *options, "--json", "--no-hindsight").json
    told = command.works("bill", *options, "--costs", tmp_path / "costs.toml", "--json", "--no-hindsight").json
    assert told["requests"] == once["requests"]
    assert once["reads"] < told["reads"] < 2 * once["reads"]
    rest = ["--out", tmp_path, *options[2:], "--costs", tmp_path / "costs.toml"]
    command.works("report", planned["fixed"], *rest)
    said = json.loads((tmp_path / "report.json").read_text())["realised"]
    assert said["overloadShare"] == told["overloadShare"]


def test_the_plan_of_the_same_days_said_what_came(world, planned):
    """Patterns of the days of the bill are their mean, so over all of them requests and busy hours are as planned."""
    billed = bill(str(planned["fixed"]), None, "2026-03-26", "2026-03-31", store=world.store, hindsight=False)
    found = billed.bill
    assert found.planned_requests == pytest.approx(found.requests)
    np.testing.assert_allclose(found.planned @ found.seconds, found.loads @ found.seconds, rtol=1e-9)
    assert billed.first == int(world.rows["t"][0].as_py().timestamp())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"begin": "soon"}, "--from 'soon' is no time: write a day such as 2026-03-01"),
        ({"end": "2026-03-28T00:30"}, "--to '2026-03-28T00:30' is within a slot; the plan's are of 60 min"),
        ({"end": "2026-03-27"}, "--from '2026-03-27' is not before --to '2026-03-27'"),
        ({"now": datetime(2026, 3, 28, 12, tzinfo=UTC)}, "--to '2026-03-29' are not over: a time that has passed"),
        ({"store": None, "accesses": "somewhere"}, "somewhere is in no store: name the one that has the plan's pivots"),
        ({"store": None, "accesses": None}, "no log is named: --accesses LOG, or --store STORE"),
        ({"accesses": "/nowhere/log"}, "nothing is at /nowhere/log"),
        ({"plan": "/nowhere/plan.json"}, "there is no plan at /nowhere/plan.json"),
    ],
)
def test_what_cannot_be_billed_is_one_line(world, planned, given, why):
    """It names the option, the value and the way out."""
    told = {"plan": planned["fixed"], "accesses": None, "begin": "2026-03-27", "end": "2026-03-29"}
    told |= {"store": world.store} | given
    plan, accesses, begin, end = (told.pop(name) for name in ("plan", "accesses", "begin", "end"))
    with pytest.raises(InputError, match=re.escape(why)):
        bill(str(plan), accesses, begin, end, **told)


def test_a_log_that_is_bad_or_of_other_pivots_is_refused(world, planned, tmp_path):
    """Bad rows are counted, and above --max-bad nothing is told; other pivots mean other partitions."""
    rows = world.rows.set_column(5, "weight", pa.array(np.full(len(world.rows), -1)))
    write(tmp_path / "log", {"2026-03-28/000-a-0-0.parquet": rows, "2026-03-28/000-b-0-0.parquet": world.rows})
    days = ("2026-03-27", "2026-03-29")
    with pytest.raises(InputError, match=r"3,000 of 6,000 accesses are bad \(3,000 weight is not a number"):
        bill(str(planned["fixed"]), str(tmp_path / "log"), *days, store=world.store)
    told = bill(str(planned["fixed"]), str(tmp_path / "log"), *days, store=world.store, max_bad=0.5, hindsight=False)
    assert sum(told.bad.values()) == 3_000
    other = world_in(tmp_path / "other", count=10)
    other_pivots(other.store)
    with pytest.raises(InputError, match="the plan are for pivots"):
        bill(str(planned["fixed"]), str(tmp_path / "log"), *days, store=other.store)
