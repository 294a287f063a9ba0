"""One warm session that runs cycles and full rebuilds of the same rows in turns, and what each has used."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.measuring.machine import processor_kinds, processor_seconds
from bench.measuring.updates import merged

MASTER = "local[2]"
LOG_SETTINGS = Path(__file__).parents[2] / "pipelines" / "spark" / "log4j2.properties"


@dataclass(frozen=True)
class Spent:
    """What a run used: processor seconds of all processes, wall seconds, both by stage, and the manifest it made."""

    processor: float
    wall: float
    kinds: dict[str, float]
    stages: dict[str, float]
    manifest: dict[str, Any]


@dataclass
class Costs:
    """Stands in for `pipelines.engines.progress.Stages`: processor seconds of all processes by stage, besides."""

    session: Any
    seconds: dict[str, float] = field(default_factory=dict)
    processor: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        wall, began = time.perf_counter(), processor_seconds()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - wall
            self.processor[name] += processor_seconds() - began


@dataclass
class Cycling:
    """A store that is updated in cycles, another that is rebuilt from the same rows, and the rows that both hold.

    Parameters
    ----------
    session
        Of Spark.
    folder
        Of the two stores, and of the rows on their way.
    partitions
        Of each store.
    rows
        What stands: row i is of id i.
    """

    session: Any
    folder: Path
    partitions: int
    rows: pa.Table
    commits: int = 0

    @property
    def store(self) -> str:
        return str(self.folder / "cycles")

    def cycle(self, newer: pa.Table, history: str | None = None, **options: Any) -> Spent:
        """Merge newer rows into the store by a cycle, and append them to a history before where there is one."""
        from pipelines.cycle import cycle

        self.rows = merged(self.rows, newer)
        read = self._read(newer)

        def work(stages: Costs) -> dict[str, Any]:
            positions = read()
            if history is not None:
                with stages.stage("history"):
                    self._append(history, positions)
            return cycle(positions, self.store, keep_for=0.0, stages=stages, **options)

        return self._spent(work)

    def full(self) -> Spent:
        """Rebuild all rows as they stand."""
        from pipelines.rebuild import rebuild

        read, store = self._read(self.rows), str(self.folder / "rebuilds")
        return self._spent(lambda stages: rebuild(read(), store, partitions=self.partitions, stages=stages))

    def floor(self, newer: pa.Table, turns: int = 3) -> Counter[str]:
        """Return processor seconds by stage of a cycle's work in this process; the store stays as it is."""
        from bench.measuring.floor import floor

        return min((floor(self.store, newer) for _ in range(turns)), key=lambda seconds: sum(seconds.values()))

    def _append(self, history: str, positions: Any) -> None:
        from pipelines.history import append_files
        from pipelines.rows.inputs import look

        inputs = look([str(self.folder / f"rows-{self.commits}.parquet")])
        append_files(lambda: self.session, inputs, history, _columns(), warn=print, read=positions)

    def _read(self, rows: pa.Table) -> Callable[[], Any]:
        from pipelines.rows.read_files import read_positions

        self.commits += 1
        path = self.folder / f"rows-{self.commits}.parquet"
        pq.write_table(rows, path)
        return lambda: read_positions(self.session, [str(path)], _columns())

    def _spent(self, work: Callable[[Costs], dict[str, Any]]) -> Spent:
        costs = Costs(self.session)
        before, began, wall = processor_kinds(), processor_seconds(), time.perf_counter()
        manifest = work(costs)
        wall, spent, after = time.perf_counter() - wall, processor_seconds() - began, processor_kinds()
        kinds = {kind: after[kind] - before[kind] for kind in after}
        for path in self.folder.glob("rows-*.parquet"):
            path.unlink()
        return Spent(spent, wall, kinds, dict(costs.processor), manifest)


@contextmanager
def cycling(rows: pa.Table, partitions: int, heap: str = "2g") -> Iterator[Cycling]:
    """Start a session, build the store that cycles will update, and warm both ways up with a run each."""
    from dtoss.warm import warm
    from pipelines.rebuild import rebuild
    from pipelines.spark.session import spark_session

    warm()
    # all of the heap at once: what grows afterwards is ours
    options = f"-Xms{heap} -XX:+AlwaysPreTouch -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-java-options "{options}" pyspark-shell'
    with tempfile.TemporaryDirectory() as folder:
        session = spark_session(MASTER, driver_memory=heap, name="cycles")
        running = Cycling(session, Path(folder), partitions, rows)
        rebuild(running._read(rows)(), running.store, partitions=partitions)
        yield running
        session.stop()


def _columns() -> Any:
    from dtoss.rows.input_columns import Columns

    return Columns(time="t", attributes=("uid", "occupied"))
