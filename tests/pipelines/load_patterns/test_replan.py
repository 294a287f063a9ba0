"""``dtoss replan`` and ``dtoss route``: live patterns of a store, a plan in force, and what a look does to it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import ceps
from ceps.plan.replan import Replanning
from pipelines.command.app import run
from pipelines.command.plans.replanner import Replanner, line_of, past_path
from pipelines.load_patterns.live_patterns import LivePatterns
from pipelines.load_patterns.patterns_folder import Home
from tests.pipelines.command.processes import commands_without
from tests.pipelines.load_patterns.logs import ASKS, DAYS, FIRST, flushes, following, requests_of, world_in, write

TYPES = """
[[server]]
name = "small"
requests_per_second = {rate}
bytes = 1e12
dollars_per_hour = 0.1

[[server]]
name = "large"
requests_per_second = {large}
bytes = 1e12
dollars_per_hour = 1.0
"""
NOON = datetime.fromtimestamp(FIRST + DAYS * 86_400 + 43_200, UTC)


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A store with five days of a log and half a sixth, three times as busy; types of servers, and a plan."""
    path = tmp_path_factory.mktemp("replan")
    world = world_in(path / "store", count=12_000)
    rng = np.random.default_rng(1)
    write(world.log, flushes(world.rows, rng))
    following(world, path / "usual.parquet").once()
    loads = ceps.read_patterns(path / "usual.parquet").loads
    rate = float(loads.sum(axis=0).max()) / 3
    (path / "servers.toml").write_text(TYPES.format(rate=rate, large=12 * rate))
    plan = ["plan", path / "usual.parquet", "--servers", path / "servers.toml", "--out", path / "plan.json"]
    assert run([*map(str, plan), "--store", world.store]) == 0
    places = np.column_stack([world.table["lon"], world.table["lat"]])
    today = requests_of(places, 3 * 12_000 // DAYS, seed=9, days=1)
    shifted = pa.compute.add(today["t"], pa.scalar(timedelta(days=DAYS)))
    today = today.set_column(0, "t", shifted)
    morning = today.filter(pa.compute.less(today["t"], pa.scalar(NOON)))
    write(world.log, {f"later/{name}": rows for name, rows in flushes(morning, rng, files=3).items()})
    return world, path


def replanner(planned, plan, said, **rules):
    """What the command makes."""
    world, path = planned
    live = LivePatterns(Home(world.store, "live"), ASKS)
    types = ceps.load_servers(path / "servers.toml")
    return Replanner(live, world.store, str(plan), Replanning(types, **rules), False, lambda *told: said.append(told))


def test_a_busy_morning_changes_the_plan_and_a_line_says_why(planned, tmp_path):
    """Within the bytes that may move; the next look keeps the dwell time."""
    world, path = planned
    following(world, tmp_path / "now.parquet").once()
    plan = tmp_path / "plan.json"
    plan.write_bytes((path / "plan.json").read_bytes())
    before, said = ceps.load_plan(plan), []
    one = replanner(planned, plan, said, move_share=1.0)
    found = one.once(NOON)
    assert found.made is not None
    after = ceps.load_plan(plan)
    assert after.cost_per_day > before.cost_per_day
    assert after.pivots_hash == before.pivots_hash
    line = line_of(*said[0])
    assert "the plan changes (level" in line
    assert "dollars a day" in line
    assert said[0][1]["level"] > 1.5
    again = one.once(NOON + timedelta(minutes=10))
    assert again.made is None or again.moved == 0
    assert json.loads(Path(past_path(str(plan))).read_text())["changes"][0][1] == found.moved


def test_a_dry_run_writes_nothing(planned, tmp_path):
    """It says what would be done; neither is Spark needed."""
    world, path = planned
    plan = tmp_path / "plan.json"
    plan.write_bytes((path / "plan.json").read_bytes())
    asked = (
        "replan",
        "--store",
        world.store,
        "--servers",
        path / "servers.toml",
        "--plan",
        plan,
        "--dry-run",
        "--json",
    )
    (ran,) = commands_without(("pyspark", "py4j", "pandas"), asked)
    assert (ran.code, ran.err) == (0, "")
    said = ran.json
    assert {"why", "bytes_moved", "level", "would_change", "changed"} <= said.keys()
    assert said["changed"] is False
    assert plan.read_bytes() == (path / "plan.json").read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == ["plan.json"]


def test_what_is_missing_is_said(planned, command):
    """In one line, with exit code 2."""
    world, path = planned
    servers, plan = str(path / "servers.toml"), str(path / "plan.json")
    for more, said in (
        (["--name", "none"], "nothing is counted in live patterns 'none'"),
        (["--move-budget", "much"], "--move-budget is 'much'"),
        (["--dwell", "long"], "long"),
    ):
        assert said in command.fails("replan", "--store", world.store, "--servers", servers, "--plan", plan, *more)


def test_route_says_who_has_a_place(planned, tmp_path, command):
    """By the plan, with URLs where peers are named, and further partitions for a radius."""
    world, path = planned
    plan = ceps.load_plan(path / "plan.json")
    lon, lat = world.table["lon"][0].as_py(), world.table["lat"][0].as_py()
    peers = tmp_path / "peers.toml"
    peers.write_text("\n".join(f'{one} = "http://server-{one}:8080"' for one in plan.server_ids.tolist()))
    arguments = ["--store", world.store, "--at", str(lon), str(lat), "--plan", str(path / "plan.json")]
    said = command("route", *arguments, "--peers", peers, "--json").json
    row = plan.partitions.tolist().index(said["home"])
    server = int(plan.server_ids[plan.server_of[row]])
    assert said["partitions"] == [
        {"partition": said["home"], "servers": [{"server": server, "url": f"http://server-{server}:8080"}]}
    ]
    code, out, _ = command("route", *arguments, "--radius", "20000000")
    assert (code, len(out.splitlines())) == (0, len(plan.partitions))
    peers.write_text('99 = "http://x"')
    assert f"--peers does not name server {server}" in command.fails("route", *arguments, "--peers", peers)
