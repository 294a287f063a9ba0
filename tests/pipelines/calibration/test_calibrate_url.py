"""A server is measured over HTTP, and what is printed can be planned with."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ceps
import dtoss
from ceps.costs import load_costs
from dtoss.errors import InputError
from dtoss.serve.limits import Limits
from pipelines.calibration import over_http, search
from pipelines.calibration.over_http import places_of_log
from pipelines.command.main import main
from tests.dtoss.answering import answering
from tests.dtoss.snapshots.damaged_stores import stored


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A store, and a worker of it that answers up to 100 nearest."""
    rng = np.random.default_rng(0)
    index = dtoss.build(np.arange(900), rng.normal([10.0, 50.0], 0.2, (900, 2)), partitions=3)
    path = str(tmp_path_factory.mktemp("calibrate") / "store")
    stored(index, path)
    opened = dtoss.open(path)
    with answering(opened, opened.snapshot, limits=Limits(k=100)) as served:
        served.store, served.opened = path, opened
        yield served


@pytest.fixture
def short(monkeypatch):
    """Short windows, few questions, and senders that may be late: other tests run on this machine."""
    monkeypatch.setattr(over_http, "SPANS", (0.05, 0.05))
    monkeypatch.setattr(over_http, "RADII", 3)
    monkeypatch.setattr(search, "LATE", 1e9)
    monkeypatch.setattr(search, "SPARE", 0.0)


PATIENCE = 5
"""Tries of a measurement that refuses its figures where the machine is busy."""


def said(capsys, *arguments):
    """(exit code, stdout, stderr) of a command in this process."""
    with pytest.raises(SystemExit) as done:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return done.value.code, printed.out, printed.err


def test_a_block_says_that_it_is_over_http(town, capsys, tmp_path, short):
    """With the server's snapshot and version, connections and p99; costs that rise; it can be planned with."""
    for _ in range(PATIENCE):
        town.heard.accesses.clear()
        code, out, err = said(
            capsys, "calibrate", "--url", town.url, "--store", town.store, "--seconds", "0.2", "--connections", "8",
            "--processes", "1", "--p99", "200", "--dollars-per-hour", "0.25", "--name", 'a "b"',
        )  # fmt: skip
        if code == 0:
            break
        # other tests began meanwhile, which it notices
        assert "is something else busy on these machines?" in err
    assert code == 0, err
    file = tmp_path / "servers.toml"
    file.write_text(out)
    (kind,) = ceps.load_servers(file)
    assert (kind.name, kind.dollars_per_hour) == ('a "b"', 0.25)
    for part in (
        "k = 8 nearest of 900 objects, over HTTP, 8 connections, places of objects, dtoss", dtoss.__version__,
        f"snapshot {town.opened.snapshot}", "held for 0.2 s, p99 ",
    ):  # fmt: skip
        assert part in kind.source
    (block,) = tomllib.loads(out)["server"]
    assert [k for k, _ in block["cost_by_k"]] == [1, 8, 64]  # 512 is over the server's limit
    assert dict(map(tuple, block["cost_by_k"]))[8] == 1.0
    for curve in load_costs(file).by_k, load_costs(file).by_radius:
        assert (np.diff(np.array(curve), axis=0) >= 0).all()
    lines = err.splitlines()
    assert lines[0].startswith("250 requests/s for 0.2 s: p50 ")
    assert f"\nrequests_per_second = {kind.requests_per_second:.10g} # over HTTP\n" in out
    assert any(line.startswith(f"{kind.requests_per_second:,.0f} requests/s for 0.2 s") for line in lines)
    asked = np.array(town.heard.accesses)
    assert len(asked) > 500
    objects = {tuple(town.opened.parts[part].positions[at].tolist()) for part in range(3) for at in range(100)}
    assert objects & {tuple(row) for row in asked[:, :2].tolist()}


def test_json_has_all_windows_and_places_of_an_access_log(town, capsys, tmp_path, short):
    """A folder with days; the weights say how often each place is asked."""
    day = tmp_path / "log" / "2026-01-01"
    day.mkdir(parents=True)
    rows = {"lon": [10.0, 10.1, 10.2, None], "lat": [50.0, 50.1, 50.2, 50.3], "weight": [90, 10, 0, 5]}
    pq.write_table(pa.table(rows), day / "1-a-0-1.parquet")
    town.heard.accesses.clear()
    code, out, err = said(
        capsys, "calibrate", "--url", town.url, "--accesses", tmp_path / "log", "--seconds", "0.2", "--connections",
        "4", "--processes", "2", "--p99", "200", "-k", "3", "--json",
    )  # fmt: skip
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["rate"], facts["k"], facts["connections"], facts["processes"]) == ("over HTTP", 3, 4, 2)
    assert facts["places"] == "places of the access log"
    assert len(facts["tried"]) == len(err.splitlines())
    assert facts["tried"][-1]["requests_per_second"] == facts["requests_per_second"]
    assert 0 < facts["p99_seconds"] <= 0.2
    places = np.array([row[:2] for row in town.heard.accesses])
    assert {tuple(row) for row in places.tolist()} == {(10.0, 50.0), (10.1, 50.1)}
    assert (places[:, 0] == 10.0).mean() == pytest.approx(0.9, abs=0.05)


def test_places_of_a_log_are_drawn_by_weight(tmp_path):
    """Without weights each row counts once; what holds no place is one line."""
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [3.0, 4.0]}), file)
    drawn = places_of_log(str(file), ("x", "y"), count=2000)
    assert drawn.shape == (2000, 2)
    assert (drawn[:, 0] == 1.0).mean() == pytest.approx(0.5, abs=0.06)
    assert (places_of_log(str(file), ("x", "y"), count=2000) == drawn).all()
    for table, why in (({"lon": [1.0]}, "columns x and y with rows"), ({"x": [None], "y": [1.0]}, "all of its 1 rows")):
        pq.write_table(pa.table(table), file)
        with pytest.raises(InputError, match=why):
            places_of_log(str(file), ("x", "y"))
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        places_of_log(str(tmp_path / "none"), ("x", "y"))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "--store STORE is wanted, to measure this machine in process, or --url URL"),
        (("--url", "U"), "one of --accesses LOG and --store STORE"),
        (("--url", "U", "--store", "S", "--accesses", "a"), "one of --accesses LOG and --store STORE"),
        (("--url", "U", "--store", "S", "--rate", "singly"), "--rate is for what is measured in process"),
        (("--store", "S", "--accesses", "a"), "--accesses, --processes and --token-file are for a server"),
        (("--url", "U", "--store", "S", "-k", "0"), "k is 0"),
        (("--url", "U", "--store", "S", "-k", "101"), "101"),
        (("--url", "U", "--store", "S", "--processes", "65"), "processes is 65: 1 to 64, the number of connections"),
        (("--url", "U", "--store", "S", "--p99", "1e-4", "--seconds", "0.1"), "raise it (--p99)"),
        (("--url", "http://127.0.0.1:1", "--store", "S"), "no server answers at http://127.0.0.1:1"),
    ],
)
def test_what_cannot_be_measured_is_one_line(town, capsys, arguments, why):
    """With exit code 2; windows may stand before it."""
    given = [{"U": town.url, "S": town.store}.get(argument, argument) for argument in arguments]
    code, out, err = said(capsys, "calibrate", *given)
    assert (code, out) == (2, "")
    assert why in err.splitlines()[-1]


def test_a_server_elsewhere_has_memory_that_is_not_known():
    """Its block asks for it; a server on this machine has this machine's."""
    assert over_http._is_here("127.0.0.1")
    assert over_http._is_here("localhost")
    assert over_http._is_here("::1")
    assert not over_http._is_here("10.0.0.7")
    assert not over_http._is_here("server.example")
