"""The access log: places that were asked about, a sample of each minute, as ``dtoss patterns`` reads it.

Places and not partitions, so patterns can be made for any pivots, also after others were chosen.

Files of the access log: a day's folder, a fresh name for each, and never a part of one under its name.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.commits.process import is_left, passing_name
from dtoss.errors import StoreError
from dtoss.geometry.space import Space
from dtoss.names import position_names
from dtoss.serve.observability.partition_counts import Homes, Kept, Sample, Values, rounding_of
from dtoss.snapshots.store_location import OBJECT_STORES, filesystem_of

SECONDS_TO_WRITE = 2.0
"""How long :meth:`Accesses.close` waits for the last file."""


class Amounts(NamedTuple):
    """How much goes into files."""

    minute: float = 60.0  # Seconds of a file; files begin at whole minutes of the clock
    rows: int = 1_000_000  # Of a file, where all requests are kept
    # Rows that are kept while nothing can be written; beyond, the oldest files are lost, and their requests counted
    waiting: int = 2_000_000


AMOUNTS = Amounts()


class Told(Protocol):
    """Who is told what became of files: :class:`.metrics.Metrics` is one."""

    def logged(self, rows: int, requests: int) -> None:
        """Count what was written."""

    def not_logged(self, lost: int = 0) -> None:
        """Count a file that could not be written."""


class Lines(Protocol):
    """Where a failure is logged: :class:`.log_lines.Log` is one."""

    def event(self, what: str, /, **facts: Any) -> None:
        """Log what has happened."""


class Accesses:
    """The access log of one worker: of each minute a sample, written by a thread of its own.

    To be made after the fork. All methods may be called by any thread.

    ``folder``: path or URI of any file system that pyarrow reaches; None keeps no log; ``space``: of the places: on the
    sphere they are lon and lat, else x and y; ``sample``: requests that are kept of each minute; None keeps all;
    ``digits``: behind the point of degrees or CRS units, that places keep; None keeps all; ``grid``: metres, or units
    of a CRS that is not in degrees, between the places that are kept; None keeps all; ``metrics``: is told what was
    written, and what could not be; ``seed``: of the random choices; the system's when None.
    """

    def __init__(
        self,
        folder: str | None,
        space: Space,
        *,
        sample: int | None = 1_000,
        digits: int | None = None,
        grid: float | None = None,
        server: str = "server",
        worker: int = 0,
        metrics: Told | None = None,
        log: Lines | None = None,
        homes: Homes | None = None,
        seed: int | None = None,
        amounts: Amounts = AMOUNTS,
    ) -> None:
        if sample is not None and sample < 1:
            raise ValueError(f"the sample of accesses is {sample}: at least 1 is wanted, or none of the log at all")
        self._names = position_names(space.geographic)
        self._amounts = amounts
        self._size = sample or amounts.rows
        self._all = sample is None
        self._rounding = rounding_of(space, digits, grid)
        self._seed = seed
        self._metrics = metrics
        self._log = log
        self._homes = homes
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._ending = False
        self._done: list[Sample] = []
        self._waiting: list[Waiting] = []
        self._sample: Sample | None = None
        self._thread: threading.Thread | None = None
        if folder is not None:
            self._sample = self._fresh()
            files = AccessFiles(folder, server, worker)
            self._thread = threading.Thread(target=self._run, args=(files,), name="dtoss-accesses", daemon=True)
            self._thread.start()

    def many(self, x: Values, y: Values, k: Values | None, radius: Values | None) -> None:
        """Count requests, and keep some of them.

        ``x``, ``y``: places, arrays (m,), or numbers for one request; ``k``: how many nearest each asks for: an array
        (m,) or one for all; None, NaN or 0 where it asks for none; ``radius``: how far each looks: an array (m,) or one
        for all; None, NaN or infinity where it is not bounded.
        """
        count = 1 if isinstance(x, (float, int)) else len(x)
        if self._homes is not None:
            self._homes.add(x, y, count)
        if self._sample is None:
            return
        with self._lock:
            sample = self._sample
            if sample is None:
                return
            if self._all:
                sample = self._with_room(sample, count)
            sample.add(x, y, k, radius, count)

    def close(self) -> None:
        """Write what there is, and end; what was not written in time is lost."""
        self._ending = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(SECONDS_TO_WRITE)

    def _with_room(self, sample: Sample, count: int) -> Sample:
        """Return a sample that can keep all, and let the one that cannot be written."""
        if sample.requests + count <= self._size:
            return sample
        if sample.requests:
            self._done.append(sample)
            self._woken.set()
        self._sample = self._fresh(max(self._size, count))
        return self._sample

    def _fresh(self, size: int | None = None) -> Sample:
        if self._seed is not None:
            self._seed += 1
        return Sample(size or self._size, self._seed)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self, files: AccessFiles) -> None:
        minute = self._amounts.minute
        while True:
            woken = self._woken.wait(minute - time.time() % minute)
            self._woken.clear()
            ending = self._ending
            if ending or not woken:
                self._take()
            self._write(files)
            if ending:
                return

    def _take(self) -> None:
        """Begin a new minute."""
        with self._lock:
            sample = self._sample
            if sample is not None and sample.requests:
                self._done.append(sample)
                self._sample = self._fresh()
            if self._ending:
                self._sample = None

    def _write(self, files: AccessFiles) -> None:
        """Write what waits, oldest first; at a failure all that is left waits for the next minute."""
        with self._lock:
            done, self._done = self._done, []
        self._waiting += [Waiting(sample.kept(self._names, self._rounding)) for sample in done]
        while self._waiting:
            first = self._waiting[0]
            try:
                files.write(first)
            except FAILURES as error:
                self._failed(error)
                return
            del self._waiting[0]
            if self._metrics is not None:
                self._metrics.logged(first.kept.table.num_rows, first.kept.requests)

    def _failed(self, error: Exception) -> None:
        lost = 0
        most = 0 if self._ending else self._amounts.waiting  # nothing comes after the end
        while sum(one.kept.table.num_rows for one in self._waiting) > most:
            lost += self._waiting.pop(0).kept.requests
        files = len(self._waiting)
        if self._metrics is not None:
            self._metrics.not_logged(lost)
        if self._log is not None:
            self._log.event("access log not written", detail=str(error), files_waiting=files, requests_lost=lost)


SLOT_SECONDS = 300
"""Length of the slots by which files are named, as in patterns of requests."""
FAILURES = (OSError, pa.ArrowException, StoreError)
"""What a file system says that does not take a file."""


@dataclass
class Waiting:
    """What has to be written."""

    kept: Kept
    # Of its file below the folder, once it was tried: a second try writes the same file, and nothing twice
    name: str | None = None


class AccessFiles:
    """The files that one process writes below a folder."""

    def __init__(self, folder: str, server: str, worker: int) -> None:
        self._folder = folder
        self._whose = f"{server}-{worker}"
        self._number = 0
        self._place: tuple[fs.FileSystem, str] | None = None
        self._cleaned: str | None = None

    def write(self, waiting: Waiting) -> None:
        """Write a file and rename it into place; on object stores it appears when its upload ends."""
        if self._place is None:
            self._place = filesystem_of(self._folder)
        filesystem, root = self._place
        sink = pa.BufferOutputStream()
        pq.write_table(waiting.kept.table, sink, compression="zstd")
        data = sink.getvalue()
        day = f"{datetime.fromtimestamp(waiting.kept.since, UTC):%Y-%m-%d}"
        if isinstance(filesystem, fs.LocalFileSystem):
            folder = Path(root) / day
            folder.mkdir(parents=True, exist_ok=True)
            self._clean(folder)
            name = self._named(waiting, day, lambda name: (Path(root) / name).exists())
            _write_local(data, Path(root) / name)
            return
        there = filesystem.get_file_info
        name = self._named(waiting, day, lambda name: there(f"{root}/{name}").type != fs.FileType.NotFound)
        _write_remote(filesystem, data, f"{root}/{name}", self._folder.partition("://")[0].lower() in OBJECT_STORES)

    def _named(self, waiting: Waiting, day: str, taken: Callable[[str], bool]) -> str:
        """Return the name of a file, fresh at the first try: there may have been another worker of this number."""
        if waiting.name is None:
            slot = int(waiting.kept.since % 86_400) // SLOT_SECONDS
            name = f"{day}/{slot:03d}-{self._whose}-{self._number}.parquet"
            while taken(name):
                self._number += 1
                name = f"{day}/{slot:03d}-{self._whose}-{self._number}.parquet"
            self._number += 1
            waiting.name = name
        return waiting.name

    def _clean(self, folder: Path) -> None:
        """Remove what processes left half written that are gone."""
        if self._cleaned == folder.name:
            return
        for file in folder.glob(".*"):
            if is_left(file.name):
                file.unlink(missing_ok=True)
        self._cleaned = folder.name


def _write_local(data: pa.Buffer, file: Path) -> None:
    # readers leave out what is hidden
    fresh = file.with_name(f".{file.name}.{passing_name()}")
    try:
        with fresh.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(file)
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def _write_remote(filesystem: Any, data: pa.Buffer, file: str, at_once: bool) -> None:
    if at_once:
        with filesystem.open_output_stream(file) as stream:
            stream.write(data)
        return
    folder, _, name = file.rpartition("/")
    filesystem.create_dir(folder, recursive=True)
    fresh = f"{folder}/.{name}.{passing_name()}"
    with filesystem.open_output_stream(fresh) as stream:
        stream.write(data)
    filesystem.move(fresh, file)
