"""The planner's commands: what they print and write, and one line with exit code 2 for whatever is wrong."""

from __future__ import annotations

import csv
import json
import runpy
import sys
import tomllib
import warnings
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

import ceps
import dtoss
import pipelines.calibrate as calibrate_job
from ceps import Patterns
from ceps.model.servers import figures_of, findings_of, load_costs
from ceps.rollout.actions import actions
from pipelines.plan import plan as run_plan
from pipelines.report import densify, region_rings, unroll
from tests.ceps.instances import waves
from tests.ceps.rollout.test_actions import carried_out
from tests.dtoss.snapshots.damaged_stores import stored
from tests.pipelines.command.processes import commands_without

PIVOTS = "0123456789abcdef"
CALIBRATE = ("calibrate", "--seconds", "0.1", "--p99", "60000")
"""However busy this machine is, some rate keeps the limit."""


def written(path, made):
    """A file of patterns, and of a Monday twice as busy."""
    made = replace(made, pivots_hash=PIVOTS)
    ceps.write_patterns(path, [made, replace(made, loads=2 * made.loads, weekday=0)])
    return path


@pytest.fixture
def patterns(tmp_path):
    """60 partitions whose peak needs nine m3.medium."""
    return written(tmp_path / "patterns.parquet", waves(60, 8_700.0, slots=48))


@pytest.fixture
def few(tmp_path):
    """Twelve partitions, for what plans many times."""
    return written(tmp_path / "few.parquet", waves(12, 2_000.0))


@pytest.fixture
def servers(tmp_path):
    path = tmp_path / "servers.toml"
    path.write_text(
        'source = "a list"\ndate = "2026-01-02"\n'
        + "".join(
            f'[[server]]\nname = "s{n}"\nrequests_per_second = {n * 1000}\nbytes = inf\ndollars_per_hour = {n * 0.1}\n'
            for n in (1, 2, 4)
        )
    )
    return path


def test_plan_is_that_of_the_library(patterns, servers, tmp_path, works):
    """The file holds what ceps.plan makes of the same; the table names each server."""
    out = tmp_path / "plan.json"
    table = works("plan", patterns, "--servers", servers, "--out", out, "--weekday", "mean").out
    made, given = ceps.load_plan(out), ceps.read_patterns(patterns, week=False)
    wanted = ceps.plan(given, None, ceps.load_servers(servers))
    assert made.server_of.tolist() == wanted.server_of.tolist()
    assert made.cost_per_day == wanted.cost_per_day
    assert (made.utilisation, made.pivots_hash, made.weekday) == (0.9, PIVOTS, None)
    for name in ("$24.000 a day", "list prices of 2026-01-02", "the plan costs no more", "late on Mondays, the worst"):
        assert name in table
    lines = table.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(made)]] == [str(number) for number in made.server_ids]
    columns = [lines[1 + k].split() for k in range(len(made) + 1)]
    assert columns[-1] == ["all", str(len(made)), "servers", "60", "24.000"]
    assert sum(float(row[-1]) for row in columns[:-1]) == pytest.approx(24.0)
    assert sum(int(row[2]) for row in columns[:-1]) == 60
    assert f"dtoss report {out} --out {tmp_path / 'report'}" in " ".join(table.split())


def test_servers_a_request_are_printed_and_traded(servers, tmp_path, works):
    """Beside those of a plain grid, in the table, the JSON and the plan; what calls cost reaches the planner."""
    few = written(tmp_path / "some.parquet", waves(24, 8_700.0))
    whole = ceps.read_patterns(few)
    order = np.argsort(whole.positions[:, 0])
    sets = np.stack([order[:-1], order[1:]], axis=1)
    reads = ceps.Reads(np.arange(0, 47, 2), np.sort(sets, axis=1).ravel(), np.full(23, 1e6), total=1e8)
    known, out = tmp_path / "known.parquet", tmp_path / "plan.json"
    ceps.write_patterns(known, replace(whole, reads=reads))
    said = works("plan", known, "--servers", servers, "--out", out).out
    made, types = ceps.load_plan(out), ceps.load_servers(servers)
    grid = ceps.plan(whole, None, types, method="gp")
    asked, plain = (ceps.servers_a_request(plan.replicas, reads) for plan in (made, grid))
    assert 1 < asked < ceps.servers_a_request(ceps.plan(whole, None, types).replicas, reads)
    assert f"{asked:.2f} servers a request; a plain grid {plain:.2f}" in said
    assert made.servers_a_request == asked
    facts = works("plan", known, "--servers", servers, "--out", out, "--call-cost", 500, "--json").json
    assert facts["cost_per_day"] > made.cost_per_day
    assert facts["servers_a_request"] < asked
    assert facts["grid_servers_a_request"] == plain
    without = ("plan", few, "--servers", servers, "--out", out)
    assert works(*without, "--json").json["servers_a_request"] is None
    assert "servers a request" not in works(*without).out


def test_options_reach_the_planner(few, servers, tmp_path, works):
    """Weekday, utilisation, growth, copies, a spare, pins, seed, time limit and method, and JSON for programs."""
    out = tmp_path / "plan.json"
    options = [
        "--weekday",
        "monday",
        "--utilisation",
        "0.8",
        "--growth",
        "1.1",
        "--copies",
        "2",
        "--spare",
        "--seed",
        7,
    ]
    facts = works("plan", few, "--servers", servers, "--out", out, *options, "--pin", "3=40", "--json").json
    made = ceps.load_plan(out)
    assert (made.weekday, made.utilisation, made.growth, made.copies, made.spare, made.seed) == (0, 0.8, 1.1, 2, 1, 7)
    assert made.server_ids[made.replicas[3]].tolist()[0] == 40
    assert facts["cost_per_day"] == made.cost_per_day
    assert facts["servers"] == len(made)
    works("plan", few, "--servers", "m3-2015", "--out", out, "--method", "hourly")
    assert ceps.load_plan(out).types_by_hour is not None
    fewest = written(tmp_path / "fewest.parquet", waves(5, 900.0))
    for method in ("gain", "tv", "tabu", "gp", "gp-r"):
        works("plan", fewest, "--servers", "m3-2015", "--out", out, "--method", method, "--time-limit", 20)
        assert ceps.load_plan(out).method == method


def test_previous_plan_and_its_diff(few, servers, tmp_path, works):
    """Servers keep their numbers, and what changes is printed and written; copies are those of the plan before."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    common = ["plan", few, "--servers", servers]
    works(*common, "--out", first, "--copies", 2)
    said = works(*common, "--out", second, "--previous", first, "--move-budget", "0").out
    assert "0 bytes move, 0 % of what is stored" in said
    grown = ["--growth", "1.5", "--previous", first, "--move-budget", "5%"]
    facts = works(*common, "--out", second, *grown, "--json").json
    changes = ceps.diff(ceps.load_plan(second), ceps.load_plan(first))
    assert facts["diff"]["bytes_moved"] == changes.bytes_moved == json.loads(second.read_text())["diff"]["bytes_moved"]
    assert facts["diff"]["share_moved"] == changes.share_moved
    assert ceps.load_plan(second).copies == 2
    assert facts["diff"]["servers_added"]


def test_actions_lead_from_the_plan_in_force_to_the_new_one(patterns, servers, tmp_path, works, command):
    """They stand in the file and in the table, within the budgets, and carried out they give the plan."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    common = ["plan", patterns, "--servers", servers]
    works(*common, "--out", first)
    assert "actions" not in json.loads(first.read_text())
    grown = ["--out", second, "--growth", "40%", "--previous", first, "--bytes-per-hour", "5e9", "--at-a-time", 1]
    said = works(*common, *grown).out
    before, plan = ceps.load_plan(first), ceps.load_plan(second)
    listed = actions(plan, before, bytes_per_hour=5e9, at_a_time=1)
    assert json.loads(second.read_text())["actions"] == [action.to_dict() for action in listed]
    assert carried_out(listed, plan, before, 5e9, 1) >= ceps.diff(plan, before).bytes_moved > 0
    assert "rent server" in said
    assert "wait until loaded" in said
    assert len(works(*common, *grown, "--json").json["actions"]) == len(listed)
    for option, text in (("--bytes-per-hour", "bytes_per_hour = 0.0"), ("--at-a-time", "at_a_time = 0")):
        assert text in command.fails(*common, "--out", second, "--previous", first, option, 0)
        assert "name it (--previous PLAN)" in command.fails(*common, "--out", second, option, 3)
    small = json.loads(first.read_text())
    for kind in small["server_types"]:
        kind["bytes"] = 1000.0
    (tmp_path / "full.json").write_text(json.dumps(small))
    assert "none: server 0" in works(*common, "--out", second, "--previous", tmp_path / "full.json").out
    assert json.loads(second.read_text())["actions"] is None


def test_manifests_are_written_beside_the_plan(patterns, servers, tmp_path, works, command):
    """The folder is made, the image named; a file in its place is one line, before anything is planned."""
    out, folder = tmp_path / "plan.json", tmp_path / "manifests"
    common = ["plan", patterns, "--servers", servers, "--out", out]
    said = works(*common, "--kubernetes", folder, "--image", "registry/dtoss:7").out
    assert f"{folder}" in said.replace("\n", "")
    sets = json.loads((folder / "servers.json").read_text())["items"]
    assert len(sets) == len(ceps.load_plan(out))
    assert {item["spec"]["template"]["spec"]["containers"][0]["image"] for item in sets} == {"registry/dtoss:7"}
    hourly = command.fails(*common, "--offer", "hourly", "--kubernetes", tmp_path / "hourly")
    assert "changes its type by the hour" in hourly
    assert "plan with --offer fixed" in hourly
    assert not (tmp_path / "hourly").exists()
    out.unlink()
    assert "--kubernetes" in command.fails(*common, "--kubernetes", patterns)
    assert "image '' names no image" in command.fails(*common, "--kubernetes", folder, "--image", "")
    assert "store '/srv' is nothing" in command.fails(*common, "--kubernetes", folder, "--pod-store", "/srv")
    assert not out.exists()


def test_advice_to_split_is_printed_and_written(tmp_path, works):
    """In the table, in the file and for programs; not where the plan is at the bound, nor past the time limit."""
    path, out, kinds = tmp_path / "p.parquet", tmp_path / "plan.json", tmp_path / "two.toml"
    ceps.write_patterns(path, Patterns(np.repeat([[50.0], [900.0], [60.0]], 24, axis=1), partitions=[10, 11, 12]))
    block = '[[server]]\nname = "{}"\nrequests_per_second = {}\nbytes = inf\ndollars_per_hour = {}\n'
    kinds.write_text(block.format("small", 500, 1) + block.format("large", 1000, 3))
    common = ["plan", path, "--servers", kinds, "--out", out]
    facts = works(*common, "--utilisation", 1, "--json").json
    assert (facts["advice"]["partitions"], facts["advice"]["cost_per_day"]) == ([11], 72.0)
    assert facts["advice"]["rebuild_with"] == 6
    assert json.loads(out.read_text())["advice"] == facts["advice"] == ceps.load_plan(out).options["advice"]
    assert facts["advice"]["text"] in " ".join(works(*common, "--utilisation", 1).out.split())
    for more in (["--growth", "0.1"], ["--time-limit", 1e-6], ["--spare"]):
        assert works(*common, *more, "--json").json["advice"] is None
        assert "advice" not in json.loads(out.read_text())


def test_a_proof_for_few_partitions(tmp_path):
    """Three partitions that cannot share: the fleet bound says two servers, the proof three, the plan is the same."""
    path = tmp_path / "p.parquet"
    ceps.write_patterns(path, Patterns(loads=np.full((3, 24), 600.0)))
    (tmp_path / "one.toml").write_text(
        '[[server]]\nname = "a"\nrequests_per_second = 1000\nbytes = inf\ndollars_per_hour = 1.0\n'
    )
    plain, _ = run_plan(str(path), str(tmp_path / "one.toml"), utilisation=1.0)
    proven, _ = run_plan(str(path), str(tmp_path / "one.toml"), utilisation=1.0, prove=5.0)
    assert (plain.lower_bound, proven.lower_bound, proven.cost_per_day) == (48.0, 72.0, 72.0)
    assert plain.server_of.tolist() == proven.server_of.tolist()


def test_weekdays_are_planned_as_they_are(patterns, servers, tmp_path, works):
    """A Monday twice as busy decides: by default it fits, and by the mean it is what the table warns of."""
    out, old = tmp_path / "plan.json", tmp_path / "mean.json"
    facts = works("plan", patterns, "--servers", servers, "--out", out, "--json").json
    assert facts["overload_risk"]["worst_day"] == "Monday"
    assert facts["overload_risk"]["worst"] < 1e-6
    mean = works("plan", patterns, "--servers", servers, "--out", old, "--weekday", "mean", "--json").json
    made, monday = ceps.load_plan(old), ceps.read_patterns(patterns, weekday=0)
    assert mean["cost_per_day"] < 0.6 * facts["cost_per_day"]
    loads = made.under(monday).loads
    late = np.maximum(loads - made.capacity[:, None], 0).sum() / loads.sum()
    assert mean["overload_risk"]["worst"] == pytest.approx(late, rel=1e-3)
    assert made.risk.worst_name == "Monday"


def test_the_best_offer_is_named_with_the_others(patterns, servers, tmp_path, works, command):
    """Auto takes the cheapest that is as safe; the plan's file, its facts and its table agree."""
    out = tmp_path / "plan.json"
    facts = works("plan", patterns, "--servers", servers, "--out", out, "--offer", "auto", "--json").json
    made = ceps.load_plan(out)
    best = [one for one in made.offers if one.recommended]
    assert [one["name"] for one in facts["offers"]] == [one.name for one in made.offers]
    assert len(best) == 1
    assert best[0].cost_per_day == made.cost_per_day == facts["cost_per_day"]
    assert {"fixed", "hourly", "grid", "autoscaling"} <= {one.name for one in made.offers}
    for one in made.offers:
        assert one.lower_bound is None or one.lower_bound <= one.cost_per_day * (1 + 1e-9)
        if one.plannable and one.meets:
            assert made.cost_per_day <= one.cost_per_day * (1 + 1e-9)
    assert "no share" in command.fails("plan", patterns, "--servers", servers, "--out", out, "--risk", "high")


def test_what_is_wrong_with_a_plan_is_one_line(patterns, servers, tmp_path, works, command):
    """Bad files, values and days, other pivots, and partitions that fit nothing, by number."""
    out, missing = tmp_path / "plan.json", tmp_path / "missing"
    good = ["plan", patterns, "--servers", servers, "--out", out]
    assert "there are no patterns at" in command.fails("plan", missing, "--servers", servers, "--out", out)
    assert "no such file" in command.fails("plan", patterns, "--servers", missing, "--out", out)
    assert "not a Parquet file" in command.fails("plan", servers, "--servers", servers, "--out", out)
    assert "there is no plan at" in command.fails(*good, "--previous", missing)
    assert "utilisation = 1.5" in command.fails(*good, "--utilisation", "1.5")
    assert "holds no weekday 1" in command.fails(*good, "--weekday", "tue")
    assert "weekday 'someday' is not known" in command.fails(*good, "--weekday", "someday")
    assert "write PARTITION=SERVER" in command.fails(*good, "--pin", "3:4")
    assert "there is no partition 99" in command.fails(*good, "--pin", "99=0")
    assert "needs a previous plan" in command.fails(*good, "--move-budget", "5%")
    assert "an hourly offer knows no --call-cost" in command.fails(*good, "--method", "hourly", "--call-cost", "1")
    assert "dtoss patterns -k or --radius writes them" in command.fails(*good, "--call-cost", "1")
    assert "an hourly offer knows no --spare" in command.fails(*good, "--method", "hourly", "--spare")
    assert "there is no folder" in command.fails("plan", patterns, "--servers", servers, "--out", missing / "p.json")
    assert "--method" in command.fails(*good, "--method", "best")
    assert "60 partitions fit no server type: 0, 1, 2" in command.fails(*good, "--growth", "9900%")
    for text in ("a factor such as 1.2, or a percentage such as 20%", "growth = 'much'"):
        assert text in command.fails(*good, "--growth", "much")
    assert "For 20 % more write 20% or 1.2; for 20 times as many write 1900%" in command.fails(*good, "--growth", "20")
    assert "growth = 1e+308; it must be from 1e-9 to 1e9" in command.fails(*good, "--growth", "1e308")
    assert "partition 3 is pinned to server 0 already" in command.fails(*good, "--pin", "3=0", "--pin", "3=1")
    assert "the number of a server is at most" in command.fails(*good, "--pin", f"3={10**20}")
    assert "is a folder: name a plan" in command.fails(*good, "--previous", tmp_path)
    assert "is a folder: name a TOML file" in command.fails("plan", patterns, "--servers", tmp_path, "--out", out)
    for option in ("--growth", "--utilisation", "--time-limit", "--prove", "--call-cost"):
        for value in ("nan", "inf", "-1"):
            assert f"{option.removeprefix('--').replace('-', '_')} = " in command.fails(*good, option, value)
    assert not out.exists()
    works(*good)
    works(*good, "--growth", "1e-9", "--pin", "3=0", "--pin", "3=0")
    assert "neither bytes" in command.fails(*good, "--previous", out, "--move-budget", "much")
    other = replace(ceps.read_patterns(patterns), pivots_hash="f" * 16)
    ceps.write_patterns(tmp_path / "other.parquet", other)
    line = command.fails("plan", tmp_path / "other.parquet", "--servers", servers, "--out", out, "--previous", out)
    assert "partition numbers mean other regions" in line


def test_report_finds_the_patterns_that_the_plan_remembers(patterns, servers, tmp_path, works, command):
    """Methods are priced on them; once they have changed, that is said, and the page is written without."""
    plan, out = tmp_path / "plan.json", tmp_path / "made" / "report"
    works("plan", patterns, "--servers", servers, "--out", plan, "--weekday", "mon")
    said = works("report", plan, "--out", out, "--methods")
    assert said.err == ""
    assert "lower bound" in said.out
    assert {file.name for file in out.iterdir()} == {"report.html", "report.json", "report.csv"}
    numbers = json.loads((out / "report.json").read_text())
    assert numbers["weekday"] == 0
    assert numbers["recommendedDailyRate"] == ceps.load_plan(plan).cost_per_day
    methods = {row["method"]: row["dailyRate"] for row in numbers["methods"]}
    assert {"fleet", "gain", "gp", "gp-r", "gp-aas", "tv", "tabu", "hourly"} <= set(methods)
    with (out / "report.csv").open() as file:
        assert {row["method"]: float(row["dailyRate"]) for row in csv.DictReader(file)} == methods
    ceps.write_patterns(patterns, ceps.read_patterns(patterns))
    said = works("report", plan, "--out", out, "--json")
    assert "is gone or has changed: methods are not compared; --patterns FILE does" in said.err
    assert [row["method"] for row in json.loads(said.out)["methods"]] == ["fleet"]
    assert "there is no plan at" in command.fails("report", tmp_path / "none.json", "--out", out)
    assert "not a plan" in command.fails("report", out / "report.json", "--out", out)
    ceps.write_patterns(tmp_path / "five.parquet", replace(waves(5, 100.0, slots=48), pivots_hash=PIVOTS))
    line = command.fails("report", plan, "--out", out, "--patterns", tmp_path / "five.parquet", "--current", plan)
    assert "holds no weekday 0" in line


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of 600 objects over the antimeridian and the pole in eight partitions."""
    rng = np.random.default_rng(1)
    lon, lat = (rng.uniform(150, 210, 600) + 180) % 360 - 180, rng.uniform(50, 89.9, 600)
    index = dtoss.build(np.arange(600), np.stack([lon, lat], axis=1), partitions=8)
    return stored(index, tmp_path_factory.mktemp("ceps") / "store")


def test_from_accesses_to_the_report(no_spark, store, tmp_path, works, command):
    """patterns, plan and report by command on one store; plans for other pivots are refused, with the reason."""
    log, out, plan = tmp_path / "log.jsonl", tmp_path / "p.parquet", tmp_path / "plan.json"
    hours = [f"2020-03-0{d}T{h:02d}:10:00Z" for d in (2, 3) for h in range(24)]
    log.write_text(
        "".join(f'{{"lon": {170 + h % 10}, "lat": {60 + h % 9}, "t": "{t}"}}\n' for h, t in enumerate(hours))
    )
    options = ["--slot-minutes", 60, "--by-weekday", "--requests-per-access", 1e5, "-k", 3]
    facts = works("patterns", log, "--store", store, "--out", out, *options, "--json").json
    assert (facts["read"], facts["days"], facts["partitions"], facts["bad"]) == (48, 2, 8, {})
    assert facts["reads"] >= 48
    assert facts["sets"] == len(ceps.read_patterns(out).reads)
    assert "no column 'soon'" in command.fails(
        "patterns", log, "--store", store, "--out", out, *options, "--json", "-k", "soon"
    )
    made = ceps.read_patterns(out, weekday=0)
    assert made.days == 1
    works("plan", out, "--servers", "m3-2015", "--out", plan, "--store", store)
    works("report", plan, "--out", tmp_path / "report", "--store", store)
    other = replace(ceps.load_plan(plan), pivots_hash="f" * 16)
    other.save(tmp_path / "other.json")
    line = command.fails("report", tmp_path / "other.json", "--out", tmp_path / "report", "--store", store)
    assert "the plans are for pivots ffffffffffffffff, snapshot" in line
    ceps.write_patterns(tmp_path / "other.parquet", replace(made, pivots_hash="f" * 16))
    line = command.fails("plan", tmp_path / "other.parquet", "--servers", "m3-2015", "--out", plan, "--store", store)
    assert "run dtoss patterns again, or rebuild with --pivots keep" in line
    assert "--since 'soon' is no day" in command.fails(
        "patterns", log, "--store", store, "--out", out, "--since", "soon"
    )
    assert "nothing is at" in command.fails("patterns", tmp_path / "no.csv", "--store", store, "--out", out)


def test_bytes_come_from_the_store(store, tmp_path):
    """A plan with --store holds the bytes that partitions have now, whatever the patterns say."""
    from dtoss.snapshots.store import Store

    manifest = Store(store).manifest()
    path = tmp_path / "p.parquet"
    ceps.write_patterns(path, Patterns(loads=np.ones((8, 24)), pivots_hash=manifest["pivots_hash"]))
    made, _ = run_plan(str(path), "m3-2015", store=store)
    assert made.sizes.tolist() == [entry["bytes"] for entry in manifest["partitions"]]


def test_regions_for_the_map(store):
    """Rings in lon and lat without jumps; one round the pole is closed along it; halves over the antimeridian."""
    from dtoss.snapshots.store import Store

    rings = region_rings(Store(store).manifest())
    assert sorted(rings) == list(range(8))
    corners = np.concatenate([ring for pieces in rings.values() for ring in pieces])
    assert (np.abs(corners[:, 1]) <= 90).all()
    for ring in (ring for pieces in rings.values() for ring in pieces):
        jump = np.abs(np.diff(ring, axis=0))
        assert ((jump[:, 0] < 180) | (np.abs(ring[1:, 1]) == 90)).all()
    assert corners[:, 0].max() > 180
    assert corners[:, 0].min() < -180


def test_rings_are_dense_and_unrolled():
    """An edge of 90 degrees gets corners on its great circle; a ring round the pole ends at both edges of the map."""
    square = np.array([(1.0, 0, 0), (0, 1.0, 0), (-1.0, 0, 0), (0, -1.0, 0), (1.0, 0, 0)])
    dense = densify(square)
    assert len(dense) == 4 * 45 + 1
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1.0)
    assert np.degrees(2 * np.arcsin(np.linalg.norm(np.diff(dense, axis=0), axis=1) / 2)).max() < 2.0 + 1e-9
    cap = np.column_stack([[0.0, 90.0, 180.0, -90.0, 0.0], [70.0] * 5])
    first = unroll(cap)[0]
    assert first[:, 0].max() - first[:, 0].min() == 360.0
    assert first[:, 1].max() == 90.0


def test_calibrate_prints_a_block_that_can_be_planned_with(store, tmp_path, works, command):
    """What was measured stands in a [[server]] block; a limit that no run has kept is an error."""
    said = works(*CALIBRATE, "--store", store, "--dollars-per-hour", "0.25", "--name", 'a "b"')
    file = tmp_path / "servers.toml"
    file.write_text(said.out)
    (kind,) = ceps.load_servers(file)
    assert (kind.name, kind.dollars_per_hour) == ('a "b"', 0.25)
    assert kind.requests_per_second > 0
    assert "k = 8 nearest of 600 objects" in kind.source
    assert kind.source.endswith(", in process")
    figures = figures_of(file)
    how = {one.field: one.origin.how for one in figures if one.field != "dollars_per_hour"}
    assert set(how.values()) == {"measured"}
    missing = [(one.kind, one.field) for one in findings_of(figures, datetime.now(UTC).date(), 1.0)]
    assert missing == [("missing", "dollars_per_hour")]
    assert "# in process, without HTTP, which no server reaches: dtoss calibrate --url measures one\n" in said.out
    facts = works(*CALIBRATE, "--store", store, "--json", "-k", "3").json
    assert 0 < facts["p99_seconds"] <= 60
    assert facts["k"] == 3
    assert "raise it (--p99)" in command.fails("calibrate", "--store", store, "--seconds", "0.1", "--p99", "1e-9")
    assert "k is 0" in command.fails("calibrate", "--store", store, "-k", "0")
    assert tomllib.loads(said.out)["server"][0]["bytes"] > 1e8
    unpriced = works(*CALIBRATE, "--store", store).out
    assert "# dollars_per_hour is missing: write dollars_per_hour = its price here, 0 for a machine of" in unpriced
    file.write_text(unpriced)
    ceps.write_patterns(tmp_path / "p.parquet", Patterns(np.full((3, 24), 600.0)))
    plan = ["plan", tmp_path / "p.parquet", "--servers", file, "--out", tmp_path / "plan.json"]
    assert "lacks dollars_per_hour; write dollars_per_hour = 0.25" in command.fails(*plan)
    file.write_text(unpriced.replace("# dollars_per_hour is", "dollars_per_hour = 0 #"))
    assert "fewest servers: bound 1, the plan has no more" in works(*plan).out


def test_calibrate_states_three_rates_and_what_questions_cost(no_spark, store, tmp_path, works, command):
    """The block's rate is that of --rate, singly by default; the others stand beside it; costs rise."""
    for way in ("singly", "batches"):
        options = [] if way == "singly" else ["--rate", way]
        facts = works(*CALIBRATE, "--store", store, *options, "--json").json
        assert set(facts["rates"]) == {"singly", "gathered", "batches"}
        assert (facts["rate"], facts["requests_per_second"]) == (way, facts["rates"][way]["requests_per_second"])
        assert (facts["batch"] == 1) == (way == "singly")
        assert [k for k, _ in facts["cost_by_k"]] == [1, 8, 64, 512]
        assert dict(facts["cost_by_k"])[8] == 1.0
        for key in ("cost_by_k", "cost_by_radius"):
            at, weight = np.array(facts[key]).T
            assert (np.diff(at) > 0).all()
            assert (np.diff(weight) >= 0).all()
            assert weight[-1] > 2 * weight[0] > 0
    said = works(*CALIBRATE, "--store", store, "--dollars-per-hour", "1")
    (tmp_path / "s.toml").write_text(said.out)
    assert ceps.load_servers(tmp_path / "s.toml")[0].source.count("singly, ") == 1
    assert load_costs(tmp_path / "s.toml").by_k[1] == (8.0, 1.0)
    for way in ("singly", "gathered", "batches"):
        assert f"\n# {way}: " in said.out
        assert f"\n{way}: 1 thread, pieces of" in "\n" + said.err
    log, out = tmp_path / "log.csv", tmp_path / "p.parquet"
    log.write_text("lon,lat,t,k\n" + "".join(f"{170 + h % 9},60,2020-03-02T{h:02d}:00:00Z,400\n" for h in range(24)))
    loads = []
    for options in ([], ["--costs", tmp_path / "s.toml"]):
        works("patterns", log, "--store", store, "--out", out, "-k", "k", *options)
        loads.append(ceps.read_patterns(out).loads.sum())
    assert loads[1] > 1.2 * loads[0]
    assert "no server has cost_by_k" in command.fails(
        "patterns", log, "--store", store, "--out", out, "--costs", servers_only(tmp_path)
    )
    assert "no such file" in command.fails("patterns", log, "--store", store, "--out", out, "--costs", tmp_path / "no")


def test_the_best_rate_is_one_that_keeps_the_limit():
    """Above it none counts, however high."""
    rates = [calibrate_job.Rate("singly", 1, 1, rate, p99) for rate, p99 in ((10.0, 0.01), (30.0, 0.05), (90.0, 0.06))]
    for limit, wanted in ((1.0, 90.0), (0.06, 90.0), (0.059, 30.0), (0.05, 30.0), (0.049, 10.0)):
        assert calibrate_job.best_within(limit, rates).per_second == wanted
    assert calibrate_job.best_within(0.009, rates) is None


def test_radii_begin_at_the_nearest_other_place():
    """Whatever shares a place: five objects on each of forty corners of a grid one apart, and all on one place."""
    corners = np.repeat(np.stack(np.meshgrid(np.arange(8.0), np.arange(5.0)), axis=-1).reshape(-1, 2), 5, axis=0)
    index = dtoss.build(np.arange(200), corners, crs=None, metric="plane")
    radii = calibrate_job.radii_from(index, corners[:64])
    assert len(radii) == calibrate_job.RADII
    assert radii[0] == 1.0
    assert radii[-1] == pytest.approx(np.hypot(7, 4), rel=1e-2)
    assert np.diff(np.log(radii)) == pytest.approx(np.full(7, np.log(np.hypot(7, 4)) / 7), rel=0.05)
    alone = dtoss.build(np.arange(9), np.zeros((9, 2)), crs=None, metric="plane")
    assert calibrate_job.radii_from(alone, np.zeros((9, 2))) == []


def servers_only(folder):
    """A catalogue without costs."""
    file = folder / "plain.toml"
    file.write_text('[[server]]\nname = "a"\nrequests_per_second = 10\nbytes = inf\ndollars_per_hour = 1.0\n')
    return file


def test_planning_needs_no_spark(few, servers, tmp_path):
    """`dtoss plan` and `dtoss report` run where pyspark cannot be imported; as modules they are the same commands."""
    out = tmp_path / "plan.json"
    common = [str(few), "--servers", str(servers), "--out", str(out)]
    report = ["report", str(out), "--out", str(tmp_path / "report")]
    for ended in commands_without(["pyspark"], ["plan", *common], report):
        assert (ended.code, ended.err) == (0, "")
    first = out.read_bytes()
    assert (tmp_path / "report" / "report.html").is_file()
    warnings.simplefilter("ignore", RuntimeWarning)  # what has been imported here is run once more
    argv, sys.argv = sys.argv, ["pipelines.plan", *common]
    try:
        with pytest.raises(SystemExit) as done:
            runpy.run_module("pipelines.plan", run_name="__main__")
    finally:
        sys.argv = argv
    assert done.value.code in (0, None)
    assert out.read_bytes() == first
