"""Spark sessions for our jobs: what each setting is for, and what is raised in them, in one line.

When a loop lets go of its Spark and starts another one: where it has gone, or fails for no reason that is known.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dtoss import errors
from dtoss.errors import DtossError, InputError
from dtoss.locks import processors
from pipelines.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ROWS_PER_BATCH = 100_000
BYTES_PER_BATCH = 64 << 20
"""Of rows on their way to Python: a batch whose texts and binaries have 2 GB is more than its offsets can say."""
SECONDS_TO_END = 10.0
"""That an interrupted Spark may take to remove its files."""
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def spark_session(
    master: str | None = None,
    *,
    driver_memory: str | None = None,
    name: str = "dtoss",
    ui: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the running Spark session, or a new one.

    Parameters
    ----------
    master
        Such as ``local[*]`` or ``spark://host:7077``; under spark-submit None leaves it to its options, elsewhere None
        is ``local[*]``.
    driver_memory
        Heap of a local master, whose driver does the work; a sixth of the machine's memory, 16 GB at the most, when
        None. Under spark-submit give ``--driver-memory`` there.
    name
        Of the application, as Spark shows it.
    ui
        Whether Spark serves its pages.
    settings
        Of Spark's, besides ours.

    Raises
    ------
    JavaNotFound
        If there is no Java of version 17 or newer.
    """
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return configure_session(running)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(name)
    if not submitted:
        master = master or "local[*]"
        builder = builder.master(master).config("spark.driver.memory", driver_memory or _local_memory())
        os.environ["JAVA_HOME"] = str(java_home(quiet=not _debugging()))
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"{_log_options()} pyspark-shell")
        # Spark makes this directory, in the working directory if not told where, and puts nothing into it
        builder = builder.config("spark.sql.warehouse.dir", f"{tempfile.gettempdir()}/spark-warehouse-{os.getuid()}")
        if master.startswith("local"):
            # workers would start the PATH's python3, which may be another one
            os.environ["PYSPARK_PYTHON"] = sys.executable
            os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
            builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
            if sys.platform == "linux":  # elsewhere libraries of the system may not have been used before a fork
                builder = builder.config("spark.python.daemon.module", "pipelines.spark.worker_daemon")
    elif master:
        builder = builder.master(master)
    # PySpark asks Java where in our code each expression was made: half of what a small job costs here
    builder = builder.config("spark.python.sql.dataFrameDebugging.enabled", str(_debugging()).lower())
    builder = builder.config("spark.ui.enabled", str(ui).lower()).config("spark.ui.showConsoleProgress", "false")
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return configure_session(builder.getOrCreate())


def running_session() -> SparkSession | None:
    """Return the Spark that this process has, if it has one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    return None if running is None else configure_session(running)


def _debugging() -> bool:
    return bool(os.environ.get("DTOSS_DEBUG"))


def _log_options() -> str:
    """Return the options that keep Spark's log off stderr, where people read; DTOSS_DEBUG=1 leaves it there."""
    if _debugging():
        return ""
    return f"--driver-java-options -Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"


def configure_session(session: SparkSession) -> SparkSession:
    """Set what our jobs need on a session and return it."""
    # pyspark logs every failed query as a page of JSON; errors reach the user as one line
    logging.getLogger("SQLQueryContextLogger").disabled = True
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", ROWS_PER_BATCH)
    session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", BYTES_PER_BATCH)
    return session


def _local_memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        total = 6 << 30
    return f"{max(min(total // 6, 16 << 30) >> 20, 1024)}m"


def stop_java(seconds: float = SECONDS_TO_END) -> None:
    """Tell the Spark that this process has started to end, if it has one, whatever it is doing; returns at once.

    Calls of Spark's that wait for an answer fail when Java has ended, which is after ``seconds`` at the latest.
    """
    java = _java()
    if java is not None and java.poll() is None:
        # it would print a page when Java closes its connection
        accumulators = sys.modules["pyspark.accumulators"]
        for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
            server.handle_error = lambda *_: None
        java.terminate()
        late = threading.Timer(seconds, java.kill)
        late.daemon = True
        late.start()


def end_spark() -> None:
    """End the Spark that this process has started, if it has one, as :func:`stop_java`, and wait for it."""
    java = _java()
    if java is not None:
        stop_java()
        java.wait()


def alive(session: SparkSession) -> bool:
    """Return whether a session still has its Spark: Java runs, and the application has not ended."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False


def forget_spark() -> None:
    """Let go of this process's Spark, which may have ended or not, so that :func:`spark_session` starts another one."""
    import warnings

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context, java = SparkContext._active_spark_context, _java()
    if context is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not ended cleanly
            try:
                context.stop()
            except Exception:
                # the connection has gone too
                SparkContext._active_spark_context = None
    if java is not None:
        java.terminate()
        try:
            java.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()
        if java.stdin is not None:
            java.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _java() -> subprocess.Popen[bytes] | None:
    core = sys.modules.get("pyspark.core.context")
    return None if core is None else getattr(core.SparkContext._gateway, "proc", None)


def cores(session: SparkSession | None) -> int:
    """Return how many tasks run at a time; in this process without a session."""
    if session is None:
        return processors()
    return max(int(session.sparkContext.defaultParallelism), 1)


def renew_session(
    renew: Callable[[], None] | None, error: Exception, in_a_row: int, warn: Callable[[str], None]
) -> None:
    """Let go of a session that has ended, or with which two rounds have failed for no reason that we know.

    ``renew``: lets go of it; None where somebody else has started it, or there is none.
    """
    if renew is None:
        return
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.getActiveSession()
        gone = session is not None and not alive(session)
    except Exception:
        gone = True  # Java does not answer
    if gone or (in_a_row > 1 and cause_of(error) is None):
        warn("Spark is started anew")
        renew()


_OURS = re.compile(r"^\s*dtoss\.errors\.(\w+): (.*)", re.MULTILINE)
MOST_TOLD = "spark.driver.maxResultSize"
"""The option of Spark's that bounds what tasks send to the driver."""


def cause_of(error: BaseException) -> str | None:
    """Return what an error of ours says, raised here or in a task of Spark's; None of an error of others."""
    if isinstance(error, DtossError):
        return str(error)
    ours = raised_in_task(error)
    return None if ours is None else str(ours)


def raised_in_task(error: BaseException) -> DtossError | None:
    """Return the error of ours that a task of Spark's has raised, or of too much for the driver; None of any other."""
    if MOST_TOLD in str(error):
        return InputError(
            f"tasks send more to the driver than {MOST_TOLD} allows: give spark-submit --conf {MOST_TOLD}=4g and "
            "--driver-memory to match, or fewer partitions (--partitions)"
        )
    found = None if isinstance(error, DtossError) else _OURS.search(str(error))
    kind = getattr(errors, found[1], None) if found else None
    return kind(found[2]) if found and isinstance(kind, type) and issubclass(kind, DtossError) else None


def cause_text(error: BaseException) -> str:
    """Return the line of any error that says most."""
    return cause_of(error) or first_cause(type(error).__name__, str(error).strip())


def first_cause(kind: str, text: str) -> str:
    """Return the line of an error's text that says most: of Spark's, what was raised in a task or in Java."""
    raised = re.findall(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Interrupt)): (.+)", text, re.MULTILINE)
    if raised and kind in ("PythonException", "Py4JJavaError", "SparkException"):
        return ": ".join(raised[-1] if kind == "PythonException" else raised[0])
    if java := re.search(r"^: (.+)", text, re.MULTILINE):
        return java[1]
    return f"{kind}: {(text.splitlines() or [''])[0]}"
