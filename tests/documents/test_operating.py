"""What docs/operating.md runs: the image line by line, services as processes; and that every alert can be acted on."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import promql_parser
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.loop.exposition import Metrics

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "docs" / "operating"
TEXT = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
RULES = yaml.safe_load((PLACE / "alerts.yml").read_text())["groups"][0]["rules"]
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
OURS = ("run", "server", "watch")
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Names of all numbers: those of serve.md and fresh.md, which tests compare with servers, and those of a loop."""
    file = tmp_path_factory.mktemp("numbers") / "loop.prom"
    Metrics(file=str(file))
    texts = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("serve.md", "fresh.md")]
    rows = re.findall(r"^\| (`dtoss_[^|]*) \|", "\n".join(texts), re.MULTILINE)
    told = re.findall(r"^# TYPE (dtoss_\w+)", file.read_text(), re.MULTILINE)
    return {*re.findall(r"dtoss_\w+", " ".join(rows)), *told}


def names_in(expression):
    """Names of ours in an expression, which has to be one; a histogram's and a summary's parts are its own."""
    promql_parser.parse(expression)
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"dtoss_[a-z_]+", expression)}


def test_each_alert_is_of_numbers_that_there_are_and_says_what_to_do(known):
    headings = set(re.findall(r"^### (\w+)$", TEXT, re.MULTILINE))
    assert headings == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert names_in(rule["expr"]) <= known, rule["alert"]
        assert rule["annotations"]["runbook"] == f"docs/operating.md#{rule['alert'].lower()}"
        said = TEXT.split(f"### {rule['alert']}\n")[1].split("###")[0]
        assert f"`{rule['labels']['severity']}`: {rule['annotations']['summary']}." in said
        assert len(said.split()) > 25, "what to do"


def test_the_dashboard_shows_numbers_that_there_are(known):
    panels = json.loads((PLACE / "grafana" / "dtoss.json").read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(shown) > len(panels) > 10
    for expression in shown:
        assert names_in(expression) <= known
    source = yaml.safe_load((PLACE / "grafana" / "datasources.yml").read_text())["datasources"][0]["uid"]
    assert {panel["datasource"]["uid"] for panel in panels} == {source}


def test_what_is_mounted_and_scraped_is_there():
    """Files of the repository, secrets of the page, and ports that services serve."""
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (ROOT / source).exists(), name
    jobs = yaml.safe_load((PLACE / "prometheus.yml").read_text())["scrape_configs"]
    targets = [target for job in jobs for config in job["static_configs"] for target in config["targets"]]
    assert targets == ["server:8080", "run:9108"]
    assert "--port 8080" in SERVICES["server"]["command"]
    assert "--metrics 0.0.0.0:9108" in SERVICES["run"]["command"]
    assert {rule["expr"].split('"')[1] for rule in RULES if rule["expr"].startswith("up{")} == {
        job["job_name"] for job in jobs
    }


@pytest.mark.parametrize("name", OURS)
def test_the_commands_of_services_have_their_options(name, command):
    words = SERVICES[name]["command"].split()
    said = command.works(words[0], "--help").out
    for word in words:
        assert not word.startswith("--") or word in said


def instructions():
    """The Containerfile's instructions, a pair each, in order; stages follow each other in one folder."""
    lines = [line for line in (ROOT / "Containerfile").read_text().splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]


def carry_out(folder):
    """Carry out what the Containerfile says in a folder that stands for /, with the packages that are here already."""
    bin_folder = folder / "venv" / "bin"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    packages = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    (packages / "here.pth").write_text(f"{Path(np.__file__).parents[1]}\n")
    for name in ("useradd", "install"):  # a machine's users are not ours to change
        (bin_folder / name).write_text("#!/bin/sh\n")
        (bin_folder / name).chmod(0o755)
    (bin_folder / "dtoss").unlink(missing_ok=True)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env |= {"PATH": f"{bin_folder}:{env['PATH']}", "COMPILED": "0", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    at, entry = folder, None
    for word, rest in instructions():
        rest = re.sub(r"(?<![\w./])/(source|dist|data)\b", rf"{folder}/\1", rest)
        if word == "COPY" and "--from" not in rest:
            listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
            for name in listed.splitlines():
                if (ROOT / name).exists() and name.split("/")[0] not in ("tests", "bench"):
                    (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / name, folder / "source" / name)
        elif word == "WORKDIR":
            at = Path(rest)
            at.mkdir(exist_ok=True)
        elif word == "RUN":
            done = subprocess.run(["sh", "-ec", rest], cwd=at, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (rest, done.stderr)
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
    for file in (ROOT / "dtoss" / "__pycache__").glob("*.nbc"):  # named by their content: compiled once is enough
        shutil.copy(file, packages / "dtoss" / "__pycache__")
    return [str(bin_folder / entry[0]), *entry[1:]], env


def asked(url, token=None, body=None):
    """The status of an answer and its body; 0 where nobody answers."""
    request = urllib.request.Request(url, body, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with OPENER.open(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.deep("an installation and three services with a Spark; options, files and numbers are looked at quickly")
@pytest.mark.timeout(1500)
def test_the_image_is_made_and_its_services_work_together(tmp_path):
    """Positions that arrive are served a cycle later, and who enters a fence is told of, by what compose.yaml runs."""
    entry, env = carry_out(tmp_path)
    made = subprocess.run([*entry, "--version"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.stdout.startswith("dtoss "), made.stderr
    arriving, secrets, ports = tmp_path / "arriving", tmp_path / "secrets", {"8080": free_port(), "9108": free_port()}
    shell = TEXT.split("```\nmkdir")[1].split("docker compose up")[0]
    run = ["sh", "-ec", f"mkdir{shell}echo $TOKEN"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    token, running = done.stdout.split()[-1], []

    def words(name):
        text = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", SERVICES[name]["command"]).replace("60s", "2s")
        text = text.replace("/run/secrets", str(secrets)).replace("/arriving", str(arriving))
        for port, ours in ports.items():
            text = text.replace(port, str(ours))
        return [*entry, *shlex.split(text.replace("/data", str(tmp_path / "data")))]

    def start(name):
        with (tmp_path / f"{name}.log").open("ab") as log:
            running.append((name, subprocess.Popen(words(name), env=env, cwd=tmp_path, stdout=log, stderr=log)))

    def put(number, lon):
        rows = {"id": [1, 2], "lon": [lon, 1.0], "lat": [0.5, 2.0], "t": pa.array([number, number], pa.timestamp("s"))}
        pq.write_table(pa.table(rows), arriving / f"_{number}.parquet")
        (arriving / f"_{number}.parquet").rename(arriving / f"{number}.parquet")

    def until(true):
        """Wait, and start again what has ended, as the restart policy does."""
        end = time.monotonic() + 600
        while not (found := true()):
            assert time.monotonic() < end, [(n, (tmp_path / f"{n}.log").read_text()[-2000:]) for n in OURS]
            for one in [one for one in running if one[1].poll() is not None]:
                running.remove(one)
                start(one[0])
            time.sleep(0.5)
        return found

    at = f"http://127.0.0.1:{ports['8080']}"
    try:
        for name in OURS:
            start(name)
        put(1, 5.0)
        until(lambda: asked(f"{at}/knn?lon=5&lat=0.5&k=1", token)[0] == 200)
        assert asked(f"{at}/knn?lon=5&lat=0.5&k=1")[0] == 401
        fence = b'{"id": "fence", "circle": [0.5, 0.5, 50000]}'
        until(lambda: asked(f"{at}/subscriptions", token, fence)[0] in (200, 201))
        until(lambda: json.loads(asked(f"{at}/subscriptions", token)[1]).get("adopted") == 1)
        put(2, 0.5)
        until(lambda: b'"subscription":"fence"' in asked(f"{at}/events?after=beginning&limit=10", token)[1])
        until(lambda: b'"id":1,"distance":0.0' in asked(f"{at}/knn?lon=0.5&lat=0.5&k=1", token)[1])
        secret = (secrets / "prometheus_token").read_text().strip()
        assert b"dtoss_objects 2.0" in asked(f"{at}/metrics", secret)[1]
        assert b"dtoss_cycles_total" in asked(f"http://127.0.0.1:{ports['9108']}/metrics")[1]
    finally:
        for _, process in running:
            process.send_signal(signal.SIGTERM)
        for _, process in running:
            process.wait(60)
