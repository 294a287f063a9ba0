"""A rebuild by spark-submit on a standalone master and two workers, processes of their own on loopback."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from bench.measuring.machine import family
from dtoss.compiled.kept_code import writable
from dtoss.geometry.space import space_of
from pipelines.rebuild import rebuild
from tests.oracles import apply
from tests.pipelines.cycles.without_spark import assert_clean, assert_holds, begin, rows_of
from tests.pipelines.stores import assert_answers, brute, snapshot_bytes

ROOT = Path(__file__).parents[3]
PATIENCE = 600.0
"""Seconds that a master or a worker may take to be there."""
LIFETIME = 1800
"""Seconds after which a master or a worker ends by itself, should nobody be there to end it."""
BOUNDED = "import subprocess, sys; subprocess.run(sys.argv[2:], timeout=float(sys.argv[1]))"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """What spark-submit needs; ours is not on the path of any of the processes."""
    pyspark = pytest.importorskip("pyspark")
    from pipelines.spark.java import java_home

    names = ("PATH", "HOME", "LANG", "TMPDIR", "SPARK_CONF_DIR")
    keep = {name: os.environ[name] for name in names if name in os.environ}
    # what is compiled here is the same there; that a zip's code is compiled is tested in test_kernel_bridge
    compiled = tmp_path_factory.mktemp("compiled")
    (compiled / "dtoss").symlink_to(writable(Path(dtoss.__file__).parent / "__pycache__"))
    return keep | {
        "SPARK_HOME": pyspark.__path__[0],
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "NUMBA_CACHE_DIR": str(compiled),
        "SPARK_WORKER_DIR": str(tmp_path_factory.mktemp("work")),
    }


@contextmanager
def started(environment, log, role, *arguments):
    """A master or worker in a session of its own, which is ended with all its children."""
    spark_class = f"{environment['SPARK_HOME']}/bin/spark-class"
    command = [sys.executable, "-c", BOUNDED, str(LIFETIME)]
    command += [spark_class, f"org.apache.spark.deploy.{role.lower()}.{role}"]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            env=environment, stdout=out, stderr=out, cwd=log.parent, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=60)


def wait_for(log, words, process):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if re.search(words, log.read_text()):
            return
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    pytest.fail(f"no {words!r} after {PATIENCE:g} s: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def cluster(environment, tmp_path_factory):
    """The URL of a master that has two workers of one core each, and the process that started the second one."""
    logs = tmp_path_factory.mktemp("cluster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    size = ("--cores", "1", "--memory", "1g", url)
    with (
        started(environment, logs / "master", "Master", "--port", str(port)) as master,
        started(environment, logs / "one", "Worker", *size) as one,
        started(environment, logs / "two", "Worker", *size) as two,
    ):
        wait_for(logs / "master", "I have been elected leader", master)
        for log, process in ((logs / "one", one), (logs / "two", two)):
            wait_for(log, "Successfully registered with master", process)
        yield url, two.pid


@pytest.mark.deep("processes of a cluster; what Spark builds is what is built in process in test_in_process.py")
@pytest.mark.timeout(LIFETIME)
def test_a_rebuild_on_a_cluster_of_processes(spark, environment, cluster, tmp_path):
    """As docs/cluster.md says, ours in a zip: the same bytes as here, on both workers, and true answers.

    Paths are relative, although the workers run in other directories.
    """
    rng = np.random.default_rng(15)
    n = 2000
    positions = np.stack([rng.uniform(-180, 180, n), rng.uniform(-90, 90, n)], axis=1)
    table = pa.table({"id": rng.permutation(n), "lon": positions[:, 0], "lat": positions[:, 1]})
    (tmp_path / "in").mkdir()
    for i in range(4):
        pq.write_table(table.slice(500 * i, 500), tmp_path / "in" / f"{i}.parquet")
    source = tmp_path / "source"
    for name in ("dtoss", "ceps", "pipelines"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    # what is shipped says where it runs from; the environment of these tests has the checkout on its path too
    marks = tmp_path / "marks"
    marks.mkdir()
    with (source / "pipelines" / "cycles" / "build_tasks.py").open("a") as stream:
        stream.write(f"\n\nimport os\nopen(f'{marks}/{{os.getpid()}}', 'w').write(__file__)\n")
    shutil.make_archive(str(tmp_path / "dtoss"), "zip", source)
    shutil.copy(ROOT / "pipelines" / "rebuild.py", tmp_path / "rebuild.py")
    store = tmp_path / "store"
    done = subprocess.run(
        [
            f"{environment['SPARK_HOME']}/bin/spark-submit", "--master", cluster[0], "--driver-memory", "1g",
            "--executor-memory", "512m", "--py-files", str(tmp_path / "dtoss.zip"), str(tmp_path / "rebuild.py"),
            "in", "--store", "store", "--partitions", "5",
        ],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=700, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "2,000 on 2,000 sites" in done.stdout
    applications = list(Path(environment["SPARK_WORKER_DIR"]).glob("app-*/*/stderr"))
    assert len(applications) == 2
    used = [mark.read_text() for mark in marks.iterdir()]
    assert len(used) >= 3
    assert all("dtoss.zip/pipelines/cycles/build_tasks.py" in file for file in used), used
    index = dtoss.open(str(store))
    queries = np.concatenate([positions[:10], [[0.0, 90.0], [180.0, 3.0]]])
    assert_answers(index, brute(space_of(), table["id"].to_numpy(), positions, queries, [1, 9], [3e5]), queries)
    rebuild(spark.createDataFrame(table), str(tmp_path / "here"), partitions=5)
    assert snapshot_bytes(store) == snapshot_bytes(tmp_path / "here")


@pytest.mark.deep("processes of a cluster; tasks of a cycle that fail are tried again in test_cycle.py")
@pytest.mark.timeout(LIFETIME)
def test_a_cycle_of_which_a_worker_is_killed_is_whole(environment, cluster, tmp_path):
    """Its executor and Python workers go while partitions are built; the others do its tasks once more."""
    master, second = cluster
    store = begin(str(tmp_path / "store"), partitions=7)
    rows = rows_of(1, count=60)
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.pipelines.cycles.with_spark", "cluster", store.path, master, str(tmp_path)],
        env=environment | {"PYTHONPATH": str(ROOT)}, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for_file(tmp_path / "build", driver)
        killed = [process for process in family(second) if "CoarseGrainedExecutorBackend" in command_of(process)]
        for process in killed:
            os.kill(process, signal.SIGKILL)
        (tmp_path / "killed").touch()
        _, err = driver.communicate(timeout=600)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.communicate()
    assert killed, "the worker had no executor"
    assert driver.returncode == 0, err[-3000:]
    state, _ = apply({}, rows, now=100, expire=90)
    assert_holds(store, state)
    assert_clean(store)


def command_of(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def wait_for_file(path, process):
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, process.communicate()[1][-3000:]
        assert time.monotonic() < end, path
        time.sleep(0.05)


@pytest.mark.deep("spark-submit is a process; each job as a script is run in process in test_scripts.py")
@pytest.mark.timeout(LIFETIME)
def test_a_join_and_a_file_without_a_command_by_spark_submit(environment, cluster, tmp_path):
    """Nothing but spark-submit names the master of the join; the other ends with exit code 2."""
    places = np.stack([np.linspace(-170, 170, 90), np.linspace(-80, 80, 90)], axis=1)
    rows = pa.table({"id": np.arange(90), "lon": places[:, 0], "lat": places[:, 1]})
    rebuild(rows, str(tmp_path / "store"), partitions=3)
    index = dtoss.open(str(tmp_path / "store"))
    pq.write_table(pa.table({"id": [1, 2], "lon": [8.5, -70.0], "lat": [47.4, 10.0]}), tmp_path / "places.parquet")

    def submit(job, *arguments):
        return subprocess.run(
            [
                f"{environment['SPARK_HOME']}/bin/spark-submit", "--master", cluster[0], "--driver-memory", "1g",
                "--executor-memory", "512m", str(ROOT / "pipelines" / job), *arguments,
            ],
            env=environment | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, timeout=400,
            check=False,
        )  # fmt: skip

    done = submit(
        "join.py", "knn", "--queries", "places.parquet", "--store", "store", "-k", "3", "--out", "near.parquet"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "6 rows in near.parquet" in done.stdout + done.stderr
    assert "app-" in " ".join(str(path) for path in Path(environment["SPARK_WORKER_DIR"]).iterdir())
    near = pq.read_table(tmp_path / "near.parquet").sort_by([("query_id", "ascending"), ("rank", "ascending")])
    assert near["id"].to_pylist() == index.knn([[8.5, 47.4], [-70.0, 10.0]], 3).id.tolist()
    assert submit("stream.py").returncode == 2
