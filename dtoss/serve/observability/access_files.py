"""Files of the access log: a day's folder, a fresh name for each, and never a part of one under its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.commits.process import is_left, passing_name
from dtoss.errors import StoreError
from dtoss.serve.observability.request_sample import Kept
from dtoss.snapshots.store_location import OBJECT_STORES, filesystem_of

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
