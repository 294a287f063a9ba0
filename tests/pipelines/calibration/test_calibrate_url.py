"""A server is measured over HTTP, and what is printed can be planned with."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ceps
import dtoss
from ceps.model.servers import load_costs
from dtoss.errors import InputError
from dtoss.serve.core.server_settings import Limits
from pipelines.calibration import over_http
from pipelines.calibration.over_http import places_of_log
from pipelines.calibration.sender import Senders, Window
from tests.dtoss.answering import answering
from tests.dtoss.serve.served import until
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


RATE = 1234.0
"""Requests/s of a server that is a formula, for the nearest of k = 0."""


class Formula:
    """Senders to a server that keeps a limit up to a rate, and answers fewer questions that ask for more."""

    def __init__(self, where, processes):
        self.where, self.processes, self.loaded = where, processes, []  # loaded: requests, and what they ask for
        MADE.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def load(self, requests):
        self.asked = next((asked for before, asked in self.loaded if before is requests), None)
        if self.asked is None:
            (self.asked,) = set(re.findall(rb"[?&](k|radius)=([0-9.e+]+)", b"".join(requests)))
            self.loaded.append((requests, self.asked))

    def rate(self):
        return RATE / (1.0 + float(self.asked[1]) / (100 if self.asked[0] == b"k" else 1000))

    def at_rate(self, rate, seconds, patience, rng):
        p99 = 0.01 if rate <= self.rate() else 1.0
        return Window(rate, seconds, 0.002, p99, 0.0, 0.9, Counter({200: max(int(rate * seconds), 1)}))

    def at_most(self, seconds):
        return self.rate(), Counter({200: 100})


MADE = []
"""The senders of this kind that were asked for."""


@pytest.fixture
def formula(monkeypatch):
    """Who sends requests is a formula; what the server says of itself is its own. The senders that are made."""
    monkeypatch.setattr(over_http, "Senders", Formula)
    MADE.clear()
    return MADE


@pytest.fixture
def patient(monkeypatch):
    """Senders may be late: other tests run on this machine."""
    monkeypatch.setattr(over_http, "late", lambda window, limit: False)


PATIENCE = 5
"""Tries of a measurement that refuses its figures where the machine is busy."""
BLOCK = ("--connections", "8", "--processes", "1", "--p99", "200", "--dollars-per-hour", "0.25", "--name", 'a "b"')


def check_block(town, file, out, err, held):
    """Compare a block with what the server is, and return its (k, cost) and (radius, cost)."""
    file.write_text(out)
    (kind,) = ceps.load_servers(file)
    assert (kind.name, kind.dollars_per_hour) == ('a "b"', 0.25)
    for part in (
        "k = 8 nearest of 900 objects, over HTTP, 8 connections, places of objects, dtoss", dtoss.__version__,
        f"snapshot {town.opened.snapshot}", f"held for {held} s, p99 ",
    ):  # fmt: skip
        assert part in kind.source
    (block,) = tomllib.loads(out)["server"]
    assert [k for k, _ in block["cost_by_k"]] == [1, 8, 64]  # 512 is over the server's limit
    costs = load_costs(file)
    assert dict(costs.by_k)[8] == 1.0
    for curve in costs.by_k, costs.by_radius:
        assert (np.diff(np.array(curve), axis=0) >= 0).all()
    lines = err.splitlines()
    assert re.match(r"250 requests/s for [\d.]+ s: p50 ", lines[0])
    assert f"\nrequests_per_second = {kind.requests_per_second:.10g} # over HTTP\n" in out
    assert any(line.startswith(f"{kind.requests_per_second:,.0f} requests/s for {held} s") for line in lines)
    return kind, costs


def places_in(requests):
    """Where requests ask, float64 (n, 2)."""
    found = [re.search(rb"lon=([-0-9.e]+)&lat=([-0-9.e]+)", request).groups() for request in requests]
    return np.array(found).astype(np.float64)


def test_a_block_says_that_it_is_over_http(town, command, tmp_path, formula):
    """With the server's snapshot and version, connections and p99; costs that rise; it can be planned with."""
    code, out, err = command("calibrate", "--url", town.url, "--store", town.store, "--seconds", "30", *BLOCK)
    assert code == 0, err
    kind, costs = check_block(town, tmp_path / "servers.toml", out, err, 30)
    assert 0.95 * RATE / 1.08 < kind.requests_per_second <= RATE / 1.08
    assert dict(costs.by_k)[64] == pytest.approx(1.64 / 1.08, rel=0.01)
    assert costs.by_k[0] == (1.0, pytest.approx(1.01 / 1.08, rel=0.01))
    assert len(costs.by_radius) == over_http.RADII
    for radius, cost in costs.by_radius:
        assert cost == pytest.approx(max((1 + radius / 1000) / 1.08, costs.by_radius[0][1]), rel=0.01)
    (senders,) = formula
    assert (senders.where.connections, senders.processes) == (8, 1)
    assert (f"http://127.0.0.1:{senders.where.port}", senders.where.tls) == (town.url, False)
    objects = {tuple(place) for part in town.opened.parts.all() for place in part.positions.tolist()}
    for requests, _ in senders.loaded:
        assert {tuple(place) for place in places_in(requests).tolist()} <= objects


def test_json_has_all_windows_and_places_of_an_access_log(town, command, tmp_path, formula):
    """A folder with days; the weights say how often each place is asked."""
    asked = ("calibrate", "--url", town.url, "--accesses", log_of(tmp_path), "--seconds", "30", "-k", "3", "--json")
    ran = command(*asked, "--connections", "4", "--processes", "2", "--p99", "200")
    assert ran.code == 0, ran.err
    facts = ran.json
    check_facts(facts, ran.err)
    assert 0.95 * RATE / 1.03 < facts["requests_per_second"] <= RATE / 1.03
    assert facts["p99_seconds"] == 0.01
    (senders,) = formula
    places = places_in(senders.loaded[0][0])
    assert {tuple(row) for row in places.tolist()} == {(10.0, 50.0), (10.1, 50.1)}
    assert (places[:, 0] == 10.0).mean() == pytest.approx(0.9, abs=0.05)


def test_what_is_measured_is_answered(town, formula):
    """Requests that were given to the formula are sent by a process: the server answers all of them."""
    over_http.measure_server(town.url, town.opened.parts[0].positions[:64], source="some", processes=1)
    (senders,) = formula
    rng = np.random.default_rng(0)
    with Senders(replace(senders.where, connections=4), 1) as real:
        # the nearest, and all within the largest radius
        for requests, asked in (senders.loaded[0], senders.loaded[-1]):
            kind = [float(asked[1]), 0.0] if asked[0] == b"k" else [0.0, float(asked[1])]
            town.heard.accesses.clear()
            real.load(requests)
            window = real.at_rate(100.0, 0.3, 60.0, rng)
            rate, statuses = real.at_most(0.1)
            assert set(window.statuses) == set(statuses) == {200}
            assert rate == statuses[200] / 0.1
            assert 0 < window.p50 <= window.p99 < np.inf
            sent = window.statuses[200] + statuses[200]
            until(lambda kind=kind, sent=sent: heard_of(town, kind) >= sent)


def heard_of(town, kind):
    """How many questions for that k and radius the server has noted; 0 stands for none of both."""
    asked = np.nan_to_num(np.array(town.heard.accesses)).reshape(-1, 4)[:, 2:]
    return int((asked == kind).all(axis=1).sum())


def log_of(folder):
    """The path of an access log: a folder with days."""
    day = folder / "log" / "2026-01-01"
    day.mkdir(parents=True)
    rows = {"lon": [10.0, 10.1, 10.2, None], "lat": [50.0, 50.1, 50.2, 50.3], "weight": [90, 10, 0, 5]}
    pq.write_table(pa.table(rows), day / "1-a-0-1.parquet")
    return folder / "log"


def check_facts(facts, err):
    """Compare what is told to programs with what was asked for and with the lines on stderr."""
    assert (facts["rate"], facts["k"], facts["connections"], facts["processes"]) == ("over HTTP", 3, 4, 2)
    assert facts["places"] == "places of the access log"
    assert len(facts["tried"]) == len(err.splitlines())
    assert facts["tried"][-1]["requests_per_second"] == facts["requests_per_second"]


@pytest.mark.deep("rates of a real server take seconds; with senders that are a formula they are found above")
def test_the_rate_of_a_real_server(town, command, tmp_path, patient):
    """Is found, held and said; the questions are about objects."""
    for _ in range(PATIENCE):
        town.heard.accesses.clear()
        code, out, err = command("calibrate", "--url", town.url, "--store", town.store, "--seconds", "0.2", *BLOCK)
        if code == 0:
            break
        # other tests began meanwhile, which it notices
        assert "is something else busy on these machines?" in err
    assert code == 0, err
    check_block(town, tmp_path / "servers.toml", out, err, 0.2)
    asked = np.array(town.heard.accesses)
    assert len(asked) > 500
    objects = {tuple(town.opened.parts[part].positions[at].tolist()) for part in range(3) for at in range(100)}
    assert objects & {tuple(row) for row in asked[:, :2].tolist()}


@pytest.mark.deep("rates of a real server take seconds; with senders that are a formula they are found above")
def test_the_rate_of_a_real_server_for_an_access_log(town, command, tmp_path, patient):
    """By two processes; places are asked as often as the log says."""
    log = log_of(tmp_path)
    for _ in range(PATIENCE):
        town.heard.accesses.clear()
        ran = command(
            "calibrate", "--url", town.url, "--accesses", log, "--seconds", "0.2", "--connections", "4",
            "--processes", "2", "--p99", "200", "-k", "3", "--json",
        )  # fmt: skip
        if ran.code == 0:
            break
        assert "is something else busy on these machines?" in ran.err
    assert ran.code == 0, ran.err
    check_facts(ran.json, ran.err)
    assert 0 < ran.json["p99_seconds"] <= 0.2
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
def test_what_cannot_be_measured_is_one_line(town, command, formula, arguments, why):
    """With exit code 2; windows may stand before it."""
    given = [{"U": town.url, "S": town.store}.get(argument, argument) for argument in arguments]
    code, out, err = command("calibrate", *given)
    assert (code, out) == (2, "")
    assert why in err.splitlines()[-1]


def test_a_server_elsewhere_has_memory_that_is_not_known():
    """Its block asks for it; a server on this machine has this machine's."""
    assert over_http.is_here("127.0.0.1")
    assert over_http.is_here("localhost")
    assert over_http.is_here("::1")
    assert not over_http.is_here("10.0.0.7")
    assert not over_http.is_here("server.example")
