"""``dtoss serve`` as users run it: one line when it is ready, one line when it cannot be, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.serve.core.server_settings import Limits, limits_of
from pipelines.command.serve import accesses_of, rate_of
from tests.dtoss.serve.processes.started import answer, asked, dialled, get, started
from tests.dtoss.serve.watched import commit
from tests.pipelines.command.processes import commands_without

ROOT = Path(__file__).parents[3]
START = "from pipelines.command.main import main; main()"
READY = r"^serving \S+ \(400 objects\) of \S+ on https?://127\.0\.0\.1:(\d+)$"
KNN = "/knn?lon=10&lat=50&k=3"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Path(commit(tmp_path_factory.mktemp("serve") / "store"))


@pytest.fixture
def own_store(tmp_path):
    return Path(commit(tmp_path / "store"))


def serving(store, *options):
    return started("-c", START, "serve", "--store", store, "--port", 0, *options, ready=READY)


def events(server, what):
    return [told for line in server.lines if line.startswith("{") and (told := json.loads(line))["event"] == what]


def wait_for(true, seconds=120):
    """Wait until something is true."""
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def logged(folder):
    """Requests that an access log stands for."""
    return sum(ds.dataset(folder, format="parquet").to_table()["weight"].to_pylist())


def test_a_server_answers_until_it_is_told_to_end(own_store):
    """Two workers under load by both ways: every request is answered, none is lost, and the access log has them all."""
    index = dtoss.open(str(own_store))
    hits = index.knn([10.0, 50.0], 3)
    wanted = list(zip(hits.id.tolist(), hits.distance.tolist(), strict=True))
    with serving(own_store, "--workers", 2) as server:
        counts, wrong, answered = [], [], [0] * 8

        def ask_all_the_time(me, path):
            count = 0
            with dialled(server.port) as sock:
                while True:
                    sock.sendall(get(path))
                    got = answer(sock)
                    if got is None:
                        wrong.append("a request was lost")
                        return
                    found = [(hit["id"], hit["distance"]) for hit in json.loads(got[2])["hits"]]
                    if got[0] != 200 or found != wanted:
                        wrong.append(got)
                        return
                    count += 1
                    answered[me] = count
                    if got[1].get("connection") == "close":
                        counts.append(count)
                        return

        paths = [KNN] * 6 + [f"{KNN}&where=speed%20is%20not%20null", f"{KNN}&columns="]
        threads = [threading.Thread(target=ask_all_the_time, args=one) for one in enumerate(paths)]
        for thread in threads:
            thread.start()
        wait_for(lambda: wrong or min(answered) >= 20)
        processes = [server.process.pid, *children(server.process.pid)]
        assert not [pid for pid in processes if "/pandas/" in Path(f"/proc/{pid}/maps").read_text()]
        code, _ = server.stop()
        for thread in threads:
            thread.join(120)
        assert wrong == []
        assert code == 0
        assert len(counts) == 8
        assert logged(own_store / "accesses") == sum(counts)
        assert [told["cut_off"] for told in events(server, "worker ended")] == [0, 0]
        assert not [
            file for file in (own_store / "accesses").rglob("*") if file.is_file() and file.suffix != ".parquet"
        ]


@pytest.mark.deep("test_processes.py kills a worker among others; test_nobody_keeps_what_is_served_no_more, one alone")
def test_a_killed_worker_loses_only_what_it_had_in_hand(own_store):
    """Another serves what is current by then, not what the parent has opened; the others go on."""
    with serving(own_store, "--workers", 2) as server:
        (parent,) = [told["pid"] for told in until(server, "started")]
        workers = children(parent)
        assert len(workers) == 2
        first = asked(server.port, KNN)[1]["x-dtoss-snapshot"]
        commit(own_store, seed=1)
        until(server, "swapped", 2)
        second = asked(server.port, KNN)[1]["x-dtoss-snapshot"]
        assert first < second
        os.kill(workers[0], signal.SIGKILL)
        (died,) = until(server, "worker died")
        assert (died["pid"], died["fate"]) == (workers[0], "SIGKILL")
        assert {asked(server.port, KNN)[1]["x-dtoss-snapshot"] for _ in range(50)} == {second}
        wait_for(lambda: len(sockets(server.port)) >= 2)
        assert {asked(server.port, KNN)[1]["x-dtoss-snapshot"] for _ in range(50)} == {second}
        assert set(children(parent)) != set(workers)
        text = asked(server.port, "/metrics")[2].decode()
        assert re.search(
            r"^dtoss_worker_restarts\w* 1(\.0)?$|^dtoss_worker_restarts\w*\{[^}]*\} 1(\.0)?$", text, re.M
        ), text
        assert server.stop()[0] == 0


def until(server, what, times=1):
    server.until(rf'^{{"time":"[^"]*","event":"{what}"', times)
    return events(server, what)


def children(pid):
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False).stdout
    return sorted(map(int, text.split()))


def sockets(port):
    """Sockets that listen on a port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return [line for line in lines if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"]


def test_both_ways_give_the_same_bytes_and_json_tells_programs_where(store):
    """--no-hot answers by the framework alone. Opening and loading are shown; nothing of it once it serves."""
    options = ["serve", "--store", str(store), "--port", "0", "--access-log", "off"]
    told = (
        r'^\{"snapshot": "[^"]+", "objects": 400, "store": "[^"]+", "url": "http://127\.0\.0\.1:(\d+)", "workers": 1\}$'
    )
    slow = {"DTOSS_PROGRESS_AFTER": "0.01", "DTOSS_QUIET": "compiling"}
    found = []
    for by, way, ready, env in (("short", ("--hot",), READY, slow), ("framework", ("--no-hot", "--json"), told, {})):
        with started("-c", START, *options, *way, ready=ready, **env) as server:
            status, headers, body = asked(server.port, KNN, "x-request-id: one")
            found.append((status, headers.keys() - {"date"}, headers["etag"], body))
            metrics = asked(server.port, "/metrics")[2].decode()
            assert re.findall(
                r'^dtoss_requests_total\{route="/knn",status="200",way="(\w+)"\} 1\.0$', metrics, re.M
            ) == [by]
            shown = [line.partition(" ")[0] for line in server.lines if line.startswith("serv")]
        if env:
            assert shown[-1] == "serving"
            assert {*shown[:-1]} == {"serve:"}
    assert found[0] == found[1]
    assert not (Path(store) / "accesses").exists()


def test_who_may_ask_and_how_much(store, tmp_path):
    """Tokens are read anew at SIGHUP; limits come from their file; all over TLS."""
    from tests.dtoss.serve.processes.test_connections import certificate

    tokens, limits, log = tmp_path / "tokens", tmp_path / "limits.toml", tmp_path / "log"
    tokens.write_text("one secret-of-one-1234567890\n")
    limits.write_text("k = 5\nline_bytes = 200\n")
    cert, key = certificate(tmp_path, "here.example")
    trust = ssl.create_default_context(cafile=cert)
    options = ["--token-file", tokens, "--limits", limits, "--tls-cert", cert, "--tls-key", key, "--log", log]
    with serving(store, *options, "--access-log", tmp_path / "accesses", "--slow", "0ms") as server:

        def said(path, token="secret-of-one-1234567890"):
            with trust.wrap_socket(dialled(server.port), server_hostname="here.example") as sock:
                sock.sendall(get(path, f"authorization: Bearer {token}"))
                return answer(sock)

        assert [said(KNN)[0], said(KNN, "another")[0]] == [200, 401]
        status, _, body = said("/knn?lon=10&lat=50&k=6")
        assert (status, json.loads(body)["bound"]) == (400, 5)
        assert said(f"/knn?lon=10&lat=50&columns={'x' * 200}")[0] == 414
        tokens.write_text("two secret-of-two-1234567890\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: said(KNN, "secret-of-two-1234567890")[0] == 200)
        assert said(KNN)[0] == 401
        assert server.stop()[0] == 0
        assert len(server.lines) == 1
    assert logged(tmp_path / "accesses") == 2
    text = log.read_text()
    assert "secret" not in text
    assert {json.loads(line)["event"] for line in text.splitlines()} >= {"started", "request", "worker ended", "ended"}


def damaged(store):
    """The name of the largest file of a store, of which a bit is turned."""
    file = max((one for one in store.rglob("*") if one.is_file()), key=lambda one: one.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(data)
    return file.name


def test_what_cannot_be_and_a_damaged_store_are_one_line(store, own_store, tmp_path):
    """With the way out, or the file, and exit code 2; all in one process, which is then no server."""
    (tmp_path / "limits").write_text("kk = 3")
    readers, typo = tmp_path / "readers", tmp_path / "typo"
    readers.write_text("one read-me\n")
    typo.write_text("one write-me wirte\n")
    some = tmp_path / "some"
    some.write_text('some see-me where="nothing = 1"\n')
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        cert, key, nowhere = tmp_path / "cert", tmp_path / "key", tmp_path / "nowhere"
        cases = {
            f"port {port} of 127.0.0.1 cannot be had": ("--port", port),
            "name those who may by --token-file, or say --no-auth": ("--host", "0.0.0.0"),
            "go together": ("--tls-cert", cert),
            f"{cert}, --tls-key {key}: No such file": ("--tls-cert", cert, "--tls-key", key),
            "nobody": ("--token-file", tmp_path / "nobody"),
            "--allow-subscribe needs --token-file with a token that subscribes, and there is none": (
                "--allow-subscribe",
            ),
            f"{readers} has none: give the line of one the word subscribe": (
                "--allow-subscribe",
                "--token-file",
                readers,
            ),
            "--allow-positions needs --updates": ("--allow-positions",),
            "--expire needs --allow-positions": ("--expire", "1h"),
            "--snapshot serves one snapshot": ("--updates", tmp_path, "--snapshot", "20200101T000000.000000Z"),
            "has no times, by which of two rows of an id one counts": ("--updates", tmp_path, "--allow-positions"),
            f"--updates {nowhere}: there is no such folder": ("--updates", nowhere),
            "word behind the token that is no right, or stands twice: read, subscribe, write, positions, ": (
                "--token-file",
                typo,
            ),
            "--token-file: token some: where 'nothing = 1': column 'nothing' is not carried": ("--token-file", some),
            "watch 'a/b' cannot be a name": ("--watch", "a/b"),
            "1000/s or 600/min": ("--rate", "many"),
            "no duration": ("--slow", "100"),
            "a whole number of requests is wanted, or all": ("--access-sample", "1.5"),
            "there is no limit 'kk'; there are answer_bytes, ": ("--limits", tmp_path / "limits"),
            "cannot be written": ("--log", tmp_path / "none" / "log"),
            "--audit: the log": ("--audit", tmp_path / "none" / "audit"),
            f"--plan {tmp_path / 'limits'}: it is not JSON": ("--plan", tmp_path / "limits"),
            f"--patterns {tmp_path / 'limits'}: it holds no patterns": ("--patterns", tmp_path / "limits"),
            f"--report {nowhere}: there is no report.html": ("--report", nowhere),
            f"--basemap {nowhere}: No such file or directory": ("--basemap", nowhere),
            "--basemap https://example.org: {z}, {x} and {y} are wanted": ("--basemap", "https://example.org"),
            "--basemap-attribution needs --basemap": ("--basemap-attribution", "us"),
            str(nowhere): ("--store", nowhere),
            damaged(own_store): ("--store", own_store),
            "has no snapshot '20200101T000000.000000Z'; it has": ("--snapshot", "20200101T000000.000000Z"),
        }
        ran = commands_without((), *(("serve", "--store", store, "--port", 0, *more) for more in cases.values()))
    for why, (code, out, err) in zip(cases, ran, strict=True):
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("error: ")
        assert why in err


def test_help_loads_no_library():
    """Nor does finding out that the extra is missing, which is one line."""
    code = """
import sys
BLOCKED = {blocked!r}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
from pipelines.command.main import main
try:
    main(sys.argv[1:])
finally:
    heavy = {{"numpy", "numba", "pyarrow", "uvicorn", "litestar", "uvloop", "orjson"}} & {{*sys.modules}}
    assert not heavy, heavy
"""
    run = [sys.executable, "-c", code.format(blocked=()), "serve", "--help"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert "--access-sample NUMBER" in done.stdout
    run = [sys.executable, "-c", code.format(blocked=("uvicorn", "msgspec")), "serve", "--store", "x"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (
        2, "error: the server needs uvicorn, msgspec: pip install 'dtoss[serve]'\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("k = 0", "k is 0: a whole number above 0 is wanted"),
        ("k = 1.5", "k is 1.5: a whole number"),
        ("k = true", "k is True: a whole number"),
        ("idle_seconds = inf", "idle_seconds is inf: a number above 0"),
        ("idle_seconds = nan", "idle_seconds is nan: a number above 0"),
        ('k = "1"', "k is '1': a whole number"),
        ("k", "Expected '='"),
        ("[k]\na = 1", "k is {'a': 1}: a whole number"),
    ],
)
def test_wrong_limits_are_refused(tmp_path, text, why):
    """With the name, the value, and what is wanted."""
    file = tmp_path / "limits.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(why)):
        limits_of(str(file))


def test_limits_that_are_not_named_stay(tmp_path):
    """A whole number will do for seconds."""
    file = tmp_path / "limits.toml"
    file.write_text("# few\nk = 7\nidle_seconds = 3\n")
    assert limits_of(str(file)) == Limits(k=7, idle_seconds=3.0)
    with pytest.raises(InputError, match="nothing: No such file"):
        limits_of(str(tmp_path / "nothing"))


def test_rates_and_places_of_logs():
    """As people write them; options of an object store's URI stay where they are."""
    assert np.allclose([rate_of(text) for text in ("1000/s", "600/min", "5/2s", "0.5/ms")], [1000, 10, 2.5, 500])
    for text in ("1000", "/s", "x/s", "-1/s", "1/", "nan/s", "inf/s", "1/0s"):
        with pytest.raises(ValueError, match="600/min"):
            rate_of(text)
    assert accesses_of("a/b/") == "a/b/accesses"
    assert accesses_of("s3://bucket/store?scheme=http") == "s3://bucket/store/accesses?scheme=http"


def mapped(pid):
    """Snapshots of which a process has mapped files."""
    return set(re.findall(r"snapshots/(\d{8}T[\d.]+Z)/", Path(f"/proc/{pid}/maps").read_text()))


def test_nobody_keeps_what_is_served_no_more(own_store):
    """The parent holds what its workers serve, which have the last two open; a worker that dies begins with it."""
    with serving(own_store) as server:
        (parent,) = [told["pid"] for told in until(server, "started")]
        (worker,) = children(parent)
        for seed in (1, 2):
            commit(own_store, seed=seed)
            until(server, "swapped", seed)
        first, before, now = sorted(Path(own_store / "snapshots").iterdir())
        wait_for(lambda: mapped(parent) == {now.name})
        assert mapped(worker) == {before.name, now.name}
        os.kill(worker, signal.SIGKILL)
        until(server, "worker died")
        wait_for(lambda: children(parent) and sockets(server.port))
        assert asked(server.port, KNN)[1]["x-dtoss-snapshot"] == now.name.lower()
        assert mapped(children(parent)[0]) == {now.name}
        assert len(events(server, "swapped")) == 2
        assert server.stop()[0] == 0
        assert first.name < before.name
