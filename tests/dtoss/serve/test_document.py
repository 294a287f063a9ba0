"""What docs/serve.md shows works against a real server: each curl, the tables of limits and metrics, the unit."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.serve.core.server_settings import Limits
from tests.dtoss.snapshots.damaged_stores import stored

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
FIRST = "dtoss serve --store demo/store --workers 2"
RUN = [sys.executable, "-c", "from pipelines.command.main import main; main()"]
PLAIN, SAFE = "http://127.0.0.1:8080", "https://127.0.0.1:8443"
FAILING = ("/nothing", "/knn?lon=10")

if shutil.which("curl") is None:
    pytest.skip("there is no curl", allow_module_level=True)


def commands(heading=None):
    """Lines of shell below a heading, or of the whole document; continued ones as one."""
    below = DOCUMENT if heading is None else DOCUMENT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", below, re.DOTALL | re.MULTILINE)
    return [line for kind, block in blocks if not kind for line in re.sub(r"\\\n\s*", "", block).splitlines()]


def table(heading):
    """The cells of the rows of a table below a heading."""
    below = DOCUMENT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in below.splitlines() if line[:2] == "| "][
        1:
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder as the document has it: a store, a certificate and a token."""
    folder = tmp_path_factory.mktemp("serve")
    rng = np.random.default_rng(0)
    there = re.search(r"lon=([\d.]+)&lat=([\d.]+)", DOCUMENT)
    places = rng.normal([float(there[1]), float(there[2])], 0.02, (3_000, 2))
    index = dtoss.build(np.arange(3_000), places, partitions=3, columns={"occupied": rng.integers(0, 2, 3_000)})
    (folder / "demo").mkdir()
    stored(index, str(folder / "demo" / "store"), kinds={"occupied": "bigint"})
    making = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    )
    subprocess.run(shlex.split(making), cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


@contextmanager
def serving(place, line):
    """A server as a line of the document starts it, on a free port of loopback; yields its URL."""
    name, *arguments = shlex.split(line.replace("0.0.0.0", "127.0.0.1"))
    assert name == "dtoss"
    if "--port" in arguments:
        at = arguments.index("--port")
        del arguments[at : at + 2]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "DTOSS_QUIET": "1"}
    run = [*RUN, *arguments, "--port", "0", "--json"]
    with subprocess.Popen(run, cwd=place, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            process.wait(timeout=90)
    assert process.returncode == 0


def ran(line, place, url, **environment):
    """Run a line in a shell, as one would, but with the server's port; return what it printed."""
    assert "127.0.0.1:80" in line or "127.0.0.1:8443" in line or "curl" not in line
    line = line.replace(PLAIN, url).replace(SAFE, url).replace("curl", "curl -sS --fail-with-body --max-time 60", 1)
    done = subprocess.run(
        ["bash", "-c", line], cwd=place, env=os.environ | environment, capture_output=True, text=True, check=False,
        timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def url(place):
    """The first server of the document."""
    with serving(place, FIRST) as found:
        yield found


def curls(heading=None):
    return [line for line in commands(heading) if line.startswith("curl")]


def test_each_curl_but_those_of_tokens_and_metrics_answers(place, url):
    """With objects: an example that finds nothing shows nothing."""
    assert FIRST in commands()
    asked_for = (*curls("Who may ask"), *curls("Metrics"), *curls("Events of a watch"), *curls("Positions"))
    others = [line for line in curls() if line not in asked_for]
    assert [line for line in commands() if "curl" in line] == curls()
    assert len(others) >= len(curls("Routes")) >= 8
    names = set()
    for line in others:
        found = json.loads(ran(line, place, url))
        assert len(found["snapshot"]) > 10, line
        assert found.get("hits") != [] or "reverse_nearest" in line, line
        assert found.get("count") != 0, line
        names.add(re.search(r"8080(/\w+)", line)[1])
    asked = {name for row in table("Routes") for name in re.findall(r"(?<![\w}])(/\w+)", row[0])}
    others = {"/snapshot", "/healthz", "/readyz", "/metrics", "/events", "/subscriptions", "/windows", "/positions"}
    others |= {"/ogc"}  # docs/features.md asks
    assert asked - names == {*others, *OF_PAGES}


OF_PAGES = {"/basemap", "/tiles", "/docs", "/static", "/map", "/live"}
"""Routes that the page of the map asks, which tests in a browser do."""


def test_routes_are_those_of_the_server(place, url):
    paths = set(json.loads(ran(f"curl {PLAIN}/openapi.json", place, url))["paths"])
    rows = " ".join(row[0] for row in table("Routes"))
    named = set(re.findall(r"(?<![\w}])/(?:[\w.]+(?:/[\w.]+|/\{\w+\})*)?", rows))
    there = {re.sub(r"\{\w+_id\}", "{id}", path) for path in paths - {"/openapi.json"}}
    assert named == there | {"/basemap/{z}/{x}/{y}"}  # which is there where --basemap names a file
    assert "`GET /openapi.json`" in DOCUMENT


def test_each_metric_is_explained_and_each_that_is_explained_is_there(place, url):
    for path in (*FAILING, "/box?west=9.9&south=49.9&east=10.1&north=50.1"):
        subprocess.run(["curl", "-sS", "--max-time", "60", url + path], check=True, capture_output=True)
    (line,) = curls("Metrics")
    there = set(re.findall(r"^# HELP (\S+) ", ran(line, place, url), re.MULTILINE))
    explained = {name for row in table("Metrics") for name in re.findall(r"`(dtoss_\w+)`", row[0])}
    assert explained == there


def test_events_and_subscriptions_by_requests(place):
    """As the document says: a token that may write subscribes, the watch uses it, its events are told."""
    from tests.dtoss.serve.events.listening import Watch

    reading, (make, write, start, *asking) = curls("Events of a watch")[:3], commands("Events of a watch")[3:]
    (token,) = ran(f"{make}; echo $TOKEN", place, "").split()
    ran(write, place, "", TOKEN=token)
    watch = Watch(place / "demo" / "store")
    with serving(place, start) as url:
        answers = [json.loads(ran(line, place, url, TOKEN=token)) for line in asking]
        assert (answers[0]["added"], answers[1]["id"], answers[2]["removed"]) == (1, "station", 1)
        watch.begin()
        for _ in range(2):
            watch.batch()
        with_token = [line.replace("curl ", f"curl -H 'Authorization: Bearer {token}' ", 1) for line in reading]
        first, some, asked = (json.loads(ran(line, place, url)) for line in with_token)
        assert len(first["events"]) == 3
        assert {event["kind"] for event in some["events"]} == {"enter", "leave"}
        assert [row["counts"] != {} for row in asked["subscriptions"]] == [True, True]
        stream = ["curl", "-sSN", "-H", f"Authorization: Bearer {token}", f"{url}/events?after=beginning"]
        with subprocess.Popen([*stream, "--max-time", "60"], stdout=subprocess.PIPE, text=True) as told:
            said = ""
            for line in told.stdout:
                said += line
                if line.startswith("data:"):
                    break
            told.kill()
        assert re.search(r'^id: (1-\d+)\ndata: \{"id":"\1","subscription":"', said, re.MULTILINE)


def test_limits_are_those_of_the_program():
    told = {row[0].strip("`"): float(row[1].replace(",", "")) for row in table("Limits")}
    assert told == asdict(Limits())


def test_with_tokens_over_tls_and_a_log_of_places(place):
    """As the document says: the token opens, no token does not, health needs none; the log has all that was asked."""
    import pyarrow.parquet as pq

    make, write, start, *asking = commands("Who may ask")
    (token,) = ran(f"{make}; echo $TOKEN", place, "").split()
    ran(write, place, "", TOKEN=token)
    assert token not in (place / "tokens").read_text()
    with serving(place, f"{start} --workers 2 --access-log places") as url:
        answers = [json.loads(ran(line, place, url, TOKEN=token)) for line in asking]
        assert len(answers[0]["hits"]) == 8
        assert answers[1] == {"alive": True}
        for header in ("", "-H 'Authorization: Bearer another'"):
            with pytest.raises(AssertionError, match="Authorization: Bearer TOKEN"):
                ran(f"curl --cacert cert.pem {header} '{SAFE}/knn?lon=10.0&lat=50.0'", place, url)
            with pytest.raises(AssertionError, match="Authorization: Bearer TOKEN"):
                ran(f"curl --cacert cert.pem {header} '{SAFE}/metrics'", place, url)
        page = f"curl -i --cacert cert.pem -H 'Origin: https://map.example.org' -H 'Authorization: Bearer {token}'"
        assert "access-control-allow-origin: https://map.example.org" in ran(f"{page} {SAFE}/snapshot", place, url)
        with_token = f"curl --cacert cert.pem -H 'Authorization: Bearer {token}'"
        for _ in range(4):
            ran(f"{with_token} '{SAFE}/knn?lon=10.0&lat=50.0&k=3'", place, url)
        (bulk,) = (line for line in curls() if '"positions"' in line)
        ran(bulk.replace("curl", with_token).replace(PLAIN, SAFE), place, url)
    files = [str(file.relative_to(place / "places")) for file in (place / "places").rglob("*") if file.is_file()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d/\d{3}-\w+-[01]-\d+\.parquet", file) for file in files)
    tables = [pq.read_table(place / "places" / file) for file in files]
    assert sum(sum(table["weight"].to_pylist()) for table in tables) == 1 + 4 + 2
    told = re.findall(r"`(\w+)`", " ".join(row[0] for row in table("The access log")))
    assert [name for name in told if name not in ("x", "y")] == tables[0].column_names


def test_positions_that_are_told(tmp_path):
    """The server, the request and the answer are those of the document, of two good rows and a bad one."""
    rows = {"id": [1, 2], "lon": [139.0, 139.1], "lat": [35.0, 35.1], "t": [10, 10]}
    dtoss.build(rows).save(tmp_path / "demo" / "store", time="t")
    lines = [{"id": 1, "lon": 139.5, "lat": 35.5, "t": 20}, {"id": 3, "lon": 139, "lat": 35, "t": 20}]
    text = "".join(json.dumps(row) + "\n" for row in [*lines, {**lines[0], "lon": 190}])
    (tmp_path / "rows.jsonl").write_text(text)
    (tmp_path / "demo" / "updates").mkdir()
    start, told = commands("Positions")
    with serving(tmp_path, start) as url:
        assert json.loads(ran(told, tmp_path, url)) == json.loads(
            re.search(r"^```text\n(\{\"taken.*)$", DOCUMENT, re.MULTILINE)[1]
        )
        found = json.loads(ran(f"curl '{PLAIN}/objects/1?min_seq=2'", tmp_path, url))
        assert (found["lon"], found["lat"]) == (139.5, 35.5)


@pytest.mark.deep("a server of its own; rows that are told and then asked for are in test_positions_that_are_told")
def test_a_row_that_is_told_is_found_as_the_first_page_of_fresh_has_it(tmp_path):
    """The row is the nearest to where it was told to be; ``dtoss run`` is another one's."""
    page = (ROOT / "docs" / "fresh.md").read_text(encoding="utf-8").partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (start, _), (told,), (shown,), (asked,) = (re.sub(r"\\\n\s*", "", block).splitlines() for _, block in blocks)
    then = pa.array([0, 0], pa.timestamp("us", "UTC"))
    rows = {"id": [17, 18], "lon": [0.0, 139.0], "lat": [0.0, 35.0], "t": then}
    dtoss.build(rows).save(tmp_path / "demo" / "store", time="t")
    (tmp_path / "demo" / "updates").mkdir()
    with serving(tmp_path, start) as url:
        assert json.loads(ran(told, tmp_path, url)) == json.loads(shown)
        (hit,) = json.loads(ran(asked, tmp_path, url))["hits"]
        assert (hit["id"], hit["distance"]) == (17, 0.0)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_the_unit_is_one(tmp_path):
    (unit,) = re.findall(r"^```ini\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
    assert "/opt/dtoss/bin/dtoss serve --store" in unit
    file = tmp_path / "dtoss.service"
    file.write_text(unit.replace("/opt/dtoss/bin/dtoss", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
