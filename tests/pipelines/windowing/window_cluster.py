"""Windows on a standalone master with two workers, one killed in mid-batch.

``python -m tests.pipelines.windowing.window_cluster [--s3]`` starts a master and two workers on loopback, and the
command there. While a batch runs, the executor of the second worker is killed with its Python. The commits are those of
a run in one process. With --s3 the store of the run on the cluster lies on an object store. A part of make check-data.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bench.measuring.machine import family
from datasets.tables.command import run, say
from dtoss.windows.storage.window_document import Home, head_of
from tests.object_store import object_store
from tests.pipelines.jobs.test_cluster import command_of, started, wait_for
from tests.pipelines.windowing.window_kills import made, results
from tests.pipelines.windowing.window_kills import started as command_started

ROOT = Path(__file__).parents[3]
SECONDS = 900.0


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Give the URL of a master with two workers of one core, the second worker's process, and the environment."""
    import pyspark

    from pipelines.spark.java import java_home

    environment = dict(os.environ) | {
        "SPARK_HOME": pyspark.__path__[0],
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    size = ("--cores", "1", "--memory", "1g", url)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(started(environment, folder / name, role, *arguments))
            for name, role, arguments in (
                ("master", "Master", ("--port", str(port))),
                ("one", "Worker", size),
                ("two", "Worker", size),
            )
        ]
        wait_for(folder / "master", "I have been elected leader", processes[0])
        for name, process in zip(("one", "two"), processes[1:], strict=True):
            wait_for(folder / name, "Successfully registered with master", process)
        yield url, processes[2].pid, environment


def executors(worker: int) -> list[int]:
    """Return the executors of a worker."""
    return [one for one in family(worker) if "CoarseGrainedExecutorBackend" in command_of(one)]


def killed_in_a_batch(process: subprocess.Popen[bytes], store: str, worker: int) -> list[int]:
    """Kill the executors of a worker, with their Python, once a batch has begun after the first; return them."""
    home, ends = Home(store, "w"), time.monotonic() + SECONDS
    while time.monotonic() < ends:
        assert process.poll() is None, f"the run has ended with code {process.returncode}"
        there = executors(worker)
        busy = [one for top in there for one in family(top) if "pyspark" in command_of(one)]
        if busy and head_of(home) is not None:
            killed = sorted({*there, *busy})
            for one in killed:
                os.kill(one, signal.SIGKILL)
            return killed
        time.sleep(0.1)
    raise AssertionError("no executor of the second worker had any task")


def main(s3: Annotated[bool, typer.Option("--s3", help="Keep the store on an object store.")] = False) -> None:
    """Run on a cluster of which a worker's executor is killed, and compare with a run that was left alone."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        made(folder)
        assert command_started(folder, str(folder / "calm")).wait(SECONDS) == 0
        wanted = results(str(folder / "calm"))
        store = stack.enter_context(object_store()).uri(keys=True) if s3 else str(folder / "torn")
        url, second, environment = stack.enter_context(cluster(folder))
        process = command_started(folder, store, master=url, environment=environment)
        try:
            killed = killed_in_a_batch(process, store, second)
            say(f"windows on a cluster: {len(killed)} processes of the second worker killed")
            assert process.wait(SECONDS) == 0, process.returncode
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert results(store) == wanted
        where = "a cluster and an object store" if s3 else "a cluster"
        say(f"windows on {where}: {len(wanted)} commits as of the run left alone")


if __name__ == "__main__":
    run(main)
